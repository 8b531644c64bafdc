"""Services that a target has itself under the names of those that pods of another cluster would
call: these pods call the target's, as the event OtherServices tells their owners. And those of other
clusters that are left where its agents make none any more, and may not delete them.
"""

import asyncio
from collections.abc import Mapping

from agents.executor.duties.service_upkeep import BY_HAND
from dispatcher.cli.diagnosis import NOTE, Finding
from dispatcher.cli.joining.agents import ODD, not_known, odd_answer, settings
from dispatcher.cli.joining.needed_rights import features
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.operate.members import Member, MemberError, Members, Object, chosen
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from shared.model import names

ABOUT = "Services"
MOST = 20  # findings of a cluster
MOST_PODS = 10_000  # remote ones that are looked at
_SERVICES = "/api/v1/services"
_SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
_ASKING = "list deployments, pods and services"
_NAMED = 3
Key = tuple[str, str]  # namespace, name


class _Cluster:
    """What is seen of one: its Services by namespace, those of it that nobody joins, and which
    namespaces of which clusters have pods there.
    """

    def __init__(self, services: list[Object], remote: list[Object]) -> None:
        self.all: dict[str, set[str]] = {}
        self.apart: dict[str, set[str]] = {}
        for one in services:
            meta = one["metadata"]
            if names.COPY in (meta.get("labels") or {}) or _key(meta) == ("default", "kubernetes"):
                continue
            self.all.setdefault(meta["namespace"], set()).add(meta["name"])
            if (meta.get("annotations") or {}).get(names.JOIN) != "true":
                self.apart.setdefault(meta["namespace"], set()).add(meta["name"])
        self.guests = {
            (
                (one["metadata"].get("annotations") or {}).get(names.SOURCE_CLUSTER, ""),
                _key(one["metadata"])[0],
            )
            for one in remote
        }


async def all_conflicts(
    config: DispatcherConfig, members: Members, only: str = ""
) -> list[Finding]:
    """Of clusters of one pod network that both let Services follow pods."""
    sections = [one for one in config.clusters if one.network != names.OWN_NETWORK]
    answers = await asyncio.gather(*(_of(one, members[one.name]) for one in sections))
    seen = {
        section.name: found
        for section, found in zip(sections, answers, strict=True)
        if isinstance(found, _Cluster)
    }
    silent = [one for one in answers if isinstance(one, Finding)]
    networks = {one.name: one.network for one in sections}
    found = [*silent]
    for name in sorted(seen):
        found += _conflicts(name, seen, networks)[:MOST]
    return [one for one in found if only in ("", one.cluster)]


def _conflicts(
    target: str, seen: Mapping[str, _Cluster], networks: Mapping[str, str]
) -> list[Finding]:
    found = []
    for home, namespace in sorted(seen[target].guests):
        if home not in seen or networks[home] != networks[target]:
            continue
        both = sorted(
            seen[target].apart.get(namespace, set()) & seen[home].all.get(namespace, set())
        )
        if not both:
            continue
        more = f" and {len(both) - _NAMED} more" if len(both) > _NAMED else ""
        text = (
            f"pods of {home} in namespace {namespace} call its own Services "
            f"{', '.join(both[:_NAMED])}{more} here, not those of {home}"
        )
        fix = (
            f"kubectl -n {namespace} annotate service {both[0]} {names.JOIN}=true adds what "
            f"{home} has to it; deleted there, that of {home} follows; or leave it, if it is meant"
        )
        found.append(Finding(target, ABOUT, NOTE, text, fix))
    return found


async def all_left(config: DispatcherConfig, members: Members, only: str = "") -> list[Finding]:
    """Of each cluster of a configuration, or of one; of those that cannot be asked nothing is known."""
    asked = (_left(section, member) for section, member in chosen(config, members, only))
    return [one for one in await asyncio.gather(*asked) if one is not None]


async def _left(section: ClusterSection, member: Member) -> Finding | None:
    try:
        if await uncertain(section, member):
            return None
        files = await settings(section, member)
        known = bool(files) and all(files)
        if not known or any("services" in features(text) for text in files):
            return None
        for path in (_SERVICES, _SLICES):
            found = await member.metadata(path, 1, labelSelector=names.COPY)
            if found:
                first = "/".join(_key(found[0]["metadata"]))
                text = (
                    f"what was made for Services of other clusters is left there ({first}), whose "
                    "agents have executor.services off: it is kept up by nobody, and leads to pods "
                    "that may be gone"
                )
                return Finding(member.name, ABOUT, NOTE, text, f"{BY_HAND}, or turn it on again")
    except (MemberError, *ODD):
        pass  # that it cannot be asked is told by others
    return None


async def _of(section: ClusterSection, member: Member) -> _Cluster | Finding | None:
    """None: nothing is to be seen there, or Services do not follow."""
    try:
        if await uncertain(section, member):
            return None
        files = await settings(section, member)
        if not any("services" in features(text) for text in files):
            return None
        marked = {"labelSelector": f"{names.DELEGATE_LABEL}=true"}
        remote = await member.metadata("/api/v1/pods", MOST_PODS, **marked)
        return _Cluster(await member.metadata(_SERVICES, MOST_PODS), remote)
    except MemberError as error:
        return not_known(member.name, ABOUT, error, _ASKING) if error.status else None
    except ODD as error:
        return odd_answer(member.name, ABOUT, error)


def _key(meta: Object) -> Key:
    return meta.get("namespace", ""), meta["name"]
