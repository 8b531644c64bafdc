"""Names of clusters in what says which pods and Secrets may go where, that are those of no cluster:
such a row, or annotation, lets nothing through, and says nothing.
"""

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from dispatcher.cli.diagnosis import NOTE, Finding
from dispatcher.cli.joining.agents import ODD, not_known, odd_answer, settings
from dispatcher.cli.joining.needed_rights import accepted
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.operate.members import Member, MemberError, Members, Object, chosen
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from shared.model import names
from shared.model.crossing import matches

ABOUT = "consent"
MOST = 20  # findings of a cluster
MOST_OBJECTS = 10_000  # of a kind that are looked at
_MOST_SAID = 4_096  # characters of a list of clusters, as agents take it
_MOST_PATTERNS = 32  # of one list of clusters: there may be 10,000 such, of whoever likes
_GLOB = re.compile(r"[*?[]")
_NAMED = 3
_ASKING = "list deployments and namespaces"
_KINDS = (("Secret", "/api/v1/secrets"), ("ConfigMap", "/api/v1/configmaps"))


async def all_unknown(config: DispatcherConfig, members: Members, only: str = "") -> list[Finding]:
    """Of each cluster of a configuration, or of one; of those that cannot be reached nothing is
    known.
    """
    known = [one.name for one in config.clusters]
    asked = (_of(section, member, known) for section, member in chosen(config, members, only))
    return [one for found in await asyncio.gather(*asked) for one in found]


async def _of(cluster: ClusterSection, member: Member, known: Collection[str]) -> list[Finding]:
    try:
        if await uncertain(cluster, member):
            return []
        found = [*await _rows(cluster, member, known), *await _objects(member, known)]
    except MemberError as error:
        return [not_known(member.name, ABOUT, error, _ASKING)] if error.status else []
    except ODD as error:
        return [odd_answer(member.name, ABOUT, error)]
    if len(found) > MOST:
        more = f"{len(found) - MOST} more name clusters that are none"
        return [*found[:MOST], Finding(member.name, ABOUT, NOTE, more, "see to those above first")]
    return found


async def _rows(
    cluster: ClusterSection, member: Member, known: Collection[str]
) -> Iterable[Finding]:
    """Of the policies of its agents."""
    given = [name for text in await settings(cluster, member) for name in accepted(text)]
    wrong = _unknown(given, known)
    if not wrong:
        return ()
    text = f"executor.accept of its agent names {_some(wrong)}, of which there is no cluster"
    return [Finding(member.name, ABOUT, NOTE, text, _fix("clusters of that row", known))]


async def _objects(member: Member, known: Collection[str]) -> list[Finding]:
    """Of what owners of Secrets and ConfigMaps say. Secrets are listed without what they hold."""
    found = await member.metadata("/api/v1/namespaces", MOST_OBJECTS)
    said = [*_said("Namespace", names.SECRETS_CONSENT, found)]
    for kind, path in _KINDS:
        try:
            said += _said(kind, names.CONSENT, await member.metadata(path, MOST_OBJECTS))
        except MemberError as error:
            if error.status not in (401, 403):  # whoever may not list Secrets does without
                raise
    findings = []
    for what, key, given in said:
        wrong = _unknown(_words(given), known)
        if wrong:
            text = f"{what} says {key}: {given[:80]}, and there is no cluster {_some(wrong)}"
            findings.append(Finding(member.name, ABOUT, NOTE, text, _fix(key, known)))
    return findings


def _said(kind: str, key: str, objects: Iterable[Object]) -> Iterator[tuple[str, str, str]]:
    for one in objects:
        meta: Mapping[str, str] = one["metadata"]
        text = (one["metadata"].get("annotations") or {}).get(key)
        if text is not None and names.COPY not in (one["metadata"].get("labels") or {}):
            yield (
                f"{kind} {'/'.join(filter(None, (meta.get('namespace'), meta['name'])))}",
                key,
                text,
            )


def _words(text: str) -> list[str]:
    words = [one.strip() for one in text.split(",")] if len(text) <= _MOST_SAID else []
    return [] if words == [names.NONE] else [one for one in words if one]


def _unknown(given: Iterable[str], known: Collection[str]) -> list[str]:
    """Names and patterns that mean no cluster, each once; of patterns, which take long, some."""
    others = [one for one in dict.fromkeys(given) if one not in known]
    patterns = [one for one in others if _GLOB.search(one)]
    passed = set(patterns[_MOST_PATTERNS:])
    passed |= {one for one in patterns[:_MOST_PATTERNS] if _means_any(one, known)}
    return [one for one in others if one not in passed]


def _means_any(pattern: str, known: Collection[str]) -> bool:
    return any(matches((pattern,), name) for name in known)


def _some(wrong: list[str]) -> str:
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    return f"{', '.join(one[:80] for one in wrong[:_NAMED])}{more}"


def _fix(key: str, known: Collection[str]) -> str:
    return f"correct {key}: the clusters of the configuration are {', '.join(sorted(known)[:20])}"
