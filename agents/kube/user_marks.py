"""What the owner of a pod wrote under our prefix, judged before the pod has a place.

Annotations only narrow. One that would narrow and cannot be followed, for its key or its value, is
a problem: the pod waits and says so, since it would run where its owner forbade it. All else that
means nothing is noted in an event.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from typing import NamedTuple

from agents.kube import groups, marks
from agents.kube.wire import Meta
from agents.kube.wire_pods import PodSpec
from shared.model import names
from shared.model.nearness import read_dataset, read_near
from shared.model.topology import meant_level

NARROWING = (
    names.CLUSTERS,
    names.STAY,
    names.SPREAD,
    names.DOMAIN_SCOPE,
    names.FAILOVER,
    names.REQUIRE_DATA,
    *(names.GROUP, names.GROUP_MIN, names.GROUP_WITHIN),
)
OWN_KEYS = names.PREFIX + "x-"  # begins the keys of an operator's own plugins
MISUNDERSTOOD = "AnnotationNotUnderstood"
NO_GROUP = "PodGroupNotServed"
ADOPTED = "Adopted"
MAX_KEYS = 32
MAX_CLUSTERS = 64
_USERS = (
    *(names.SCHEDULE, *NARROWING, names.NEAR, names.DATA, names.REBALANCE),
    *(names.SERVICES, names.SERVICE_ACCOUNT, names.PRIORITY),
)
# What a claim that was given up may leave behind, and what our admission policy has noted, is no
# one's mistake.
_LEFT_BEHIND = frozenset((names.EPOCH, names.CLAIM, names.PROXY_NODES))
_OF_AGENTS = frozenset(
    (
        names.BUDGET,
        names.CLAIM_CLUSTER,
        names.CLAIM_NODE,
        names.DECISION,
        names.DELEGATE_LABEL,
        names.DELEGATE_PROOF,
        names.CARRIES,
        names.SOURCE_CLUSTER,
        names.SOURCE_CLUSTER_UID,
        names.SOURCE_NAMESPACE,
        names.SOURCE_NAME,
        names.SOURCE_UID,
        names.FOLLOWERS,
    )
)
_OF_NODES = frozenset(
    (names.PROVIDER, names.BANDWIDTH, names.GPU_MILLI, names.PROXY_LABEL, names.PROXY_TAINT)
)
_CLUSTER = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
_TELLING = frozenset(
    ("cluster", "clusters", "stay", "spread", "failover", "group")
)  # words of a key that can only narrow
# of difflib: to be suggested, to hold a pod back, to be our prefix
_ALIKE = 0.6
_HOLDS = 0.7
_PREFIX_ALIKE = 0.85
_READ = 64  # characters of a user's text that are compared


class Note(NamedTuple):
    """What an event tells: `reason` for machines, `text` for people."""

    reason: str
    text: str


class Judged(NamedTuple):
    """`problems` keep the pod waiting, `notes` are events."""

    problems: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


NOTHING = Judged()


def is_settled(meta: Meta, spec: PodSpec) -> bool:
    """Whether the pod is bound, claimed or going: its annotations are agents' by then, and its
    owner has been told.
    """
    claimed = names.FINALIZER in (meta.finalizers or ()) and names.CLAIM in (meta.annotations or {})
    return bool(spec.node_name) or claimed or meta.deletion_timestamp is not None


def of_ours(meta: Meta, spec: PodSpec) -> Judged:
    """What is wrong with the annotations and labels of a pod that is ours to place."""
    if is_settled(meta, spec) or not (meta.annotations or meta.labels):
        return NOTHING
    problems: list[str] = []
    notes = [Note(NO_GROUP, text) for text in groups.beside_the_spec(meta, spec)]
    for where, key, value in _written(meta, problems):
        about = f"metadata.{where}[{key}]"
        wrong, holds = _about_key(where, key)
        if not wrong and where == "annotations":
            wrong, holds = _about_value(key, value)
        if wrong and holds:
            problems.append(f"{about}: {wrong}")
        elif wrong:
            notes.append(Note(MISUNDERSTOOD, f"{about}: {wrong}"))
    return Judged(tuple(problems), tuple(notes)) if problems or notes else NOTHING


def of_foreign(meta: Meta, spec: PodSpec) -> tuple[Note, ...]:
    """What the owner of another scheduler's pod may have meant for us, but for `schedule: "true"`
    itself.
    """
    if is_settled(meta, spec) or not (meta.annotations or meta.labels):
        return ()
    schedule = (meta.annotations or {}).get(names.SCHEDULE)
    if schedule in ("true", "false"):
        return ()
    left = f'so this pod is left to scheduler "{spec.scheduler_name[:_READ]}"'
    found = []
    for where, key, value in _written(meta, []):
        if key in _OF_AGENTS or key in _LEFT_BEHIND or key in _OF_NODES:
            continue
        wrong, _ = _about_key(where, key)
        if key == names.SCHEDULE and where == "annotations":
            wrong = (
                f'{value[:_READ]!r} is not "true", {left}; make the pod anew with "true", or '
                "remove the annotation"
            )
        elif not wrong and schedule is None:
            wrong = (
                f'means nothing without {names.SCHEDULE}: "true", {left}; make the pod anew with '
                "it, or remove this"
            )
        if wrong:
            found.append(Note(MISUNDERSTOOD, f"metadata.{where}[{key}]: {wrong}"))
    return tuple(found)


def adopted(meta: Meta) -> tuple[Note, ...]:
    """A delegate is made without a controller: one that takes it for its own was made since, or
    selects it since.
    """
    return tuple(
        Note(
            ADOPTED,
            f"{one.kind} {one.name[:_READ]} takes this pod of another cluster for its own, counts "
            "it and may delete it:"
            " give it a spec.selector that means other pods",
        )
        for one in meta.owner_references or ()
        if one.controller
    )


def _written(meta: Meta, problems: list[str]) -> Iterator[tuple[str, str, str]]:
    """(annotations or labels, key, value) of what is under our prefix or one like it; more than 32
    are a problem.
    """
    given = (("annotations", meta.annotations or {}), ("labels", meta.labels or {}))
    ours = [(where, key, of[key]) for where, of in given for key in _for_us(of)]
    if len(ours) > MAX_KEYS:
        problems.append(
            f"metadata.annotations and labels: {len(ours)} keys of {names.PREFIX}, more than "
            f"{MAX_KEYS}"
        )
    yield from ours[:MAX_KEYS]


def _for_us(keys: Iterable[str]) -> Iterator[str]:
    """Keys under our prefix, and of those that only look like it the first ones: a pod may have
    50,000 of them.
    """
    compared = 0
    for key in keys:
        if key.startswith(names.PREFIX):
            if len(key) <= 317 and not key.startswith(OWN_KEYS):
                yield key
        elif compared < MAX_KEYS and key[:6].lower() == "global":
            compared += 1
            if _is_near_prefix(key[: 2 * _READ]):
                yield key


@lru_cache(maxsize=1024)
def _is_near_prefix(key: str) -> bool:
    """'global-dispacher.io/clusters': a domain like ours, and a name like one of ours."""
    domain, slash, name = key.partition("/")
    if (
        not slash
        or SequenceMatcher(None, domain.lower(), names.PREFIX[:-1]).ratio() < _PREFIX_ALIKE
    ):
        return False
    return bool(get_close_matches(name.lower(), [_short(one) for one in _USERS], 1, _HOLDS))


def _about_key(where: str, key: str) -> tuple[str, bool]:
    """What is wrong with a key, '' nothing, and whether that holds the pod back."""
    if key in _USERS:
        text = "is a label and means nothing; write it as an annotation"
        return (text, key in NARROWING) if where == "labels" else ("", False)
    if key in _LEFT_BEHIND or (key == names.DELEGATE_LABEL and where == "labels"):
        return "", False
    meant, holds = _meant(key)
    if key in _OF_AGENTS or key.startswith(names.DOWNWARD):
        hint = f"; did you mean {meant}?" if holds else "; remove it"
        return f"{key} is written by the agent alone and means nothing here{hint}", holds
    if key in _OF_NODES:
        return "means nothing on a pod, it belongs to nodes; remove it", False
    if meant:
        return f"is not known; did you mean {meant}? Rename or remove it", holds
    return f"is not known; remove it, or begin the keys of your own plugins with {OWN_KEYS}", False


@lru_cache(maxsize=4096)
def _meant(key: str) -> tuple[str, bool]:
    """The user's key that an unknown one is like, '' none, and whether it is so like one that
    narrows.
    """
    if (key in _OF_AGENTS and key != names.CLAIM_CLUSTER) or key.startswith(names.DOWNWARD):
        return "", False
    name = _short(key)[:_READ].lower().replace("_", "-")
    known = {_short(one): one for one in _USERS}
    close = get_close_matches(name, known, 1, _ALIKE)
    nearest = known[close[0]] if close else ""
    narrowing = [_short(one) for one in NARROWING]
    near = get_close_matches(name, narrowing, 1, _HOLDS)
    if near and nearest in NARROWING:
        return nearest, True
    told = next((word for word in re.split(r"[-.]", name) if word in _TELLING), "")
    if told:
        return names.CLUSTERS if told.startswith("cluster") else names.PREFIX + told, True
    return nearest, False


def _short(key: str) -> str:
    return key.partition("/")[2]


# --- values
# --------------------------------------------------------------------------------------------------


def _about_value(key: str, value: str) -> tuple[str, bool]:
    check = _VALUES.get(key)
    return check(value) if check is not None else ("", False)


def _one_of(*words: str, holds: bool = True) -> Callable[[str], tuple[str, bool]]:
    def check(value: str) -> tuple[str, bool]:
        if value in words:
            return "", False
        close = get_close_matches(value.strip()[:_READ].lower(), words, 1, _ALIKE)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"must be {_either(words)}, not {value[:_READ]!r}{hint}", holds

    return check


def _either(words: tuple[str, ...]) -> str:
    *most, last = map(repr, words)
    return f"{', '.join(most)} or {last}" if most else last


def _about_schedule(value: str) -> tuple[str, bool]:
    if value == "true":
        return "", False
    placed = (
        f'{value[:_READ]!r} is not "true", but spec.schedulerName asks for this scheduler, so the '
        "pod is placed"
    )
    return f'{placed}; write "true" or name another scheduler', False


def _about_clusters(value: str) -> tuple[str, bool]:
    parts = [part.strip() for part in value.split(",")]
    fix = "write names of clusters as 'a,b', or remove it"
    if not value.strip():
        return f"is empty; {fix}", True
    if "" in parts:
        return f"{value[:_READ]!r} has an empty name between its commas; {fix}", True
    if len(parts) > MAX_CLUSTERS:
        return f"names {len(parts)} clusters, more than {MAX_CLUSTERS}", True
    wrong = next((part for part in parts if not _CLUSTER.fullmatch(part)), None)
    if wrong is not None:
        return f"{wrong[:_READ]!r} can be no cluster's name (a-z, 0-9, '-'); {fix}", True
    return "", False


def _about_spread(value: str) -> tuple[str, bool]:
    """What can be read but may not be meant; what cannot be read is told by `marks.spread_of`
    alone.
    """
    problems: list[str] = []
    for rule in marks.spread_of({names.SPREAD: value}, problems):
        if not problems and (meant := meant_level(rule.key)):
            return (
                f"{rule.key[:_READ]!r} is no level and so taken as a node label; did you mean "
                f"{meant!r}?",
                False,
            )
    return "", False


def _readable(read: Callable[[str], object], *, holds: bool) -> Callable[[str], tuple[str, bool]]:
    """What `read` says of a value; `holds`: whether it keeps the pod waiting."""

    def check(value: str) -> tuple[str, bool]:
        try:
            read(value)
        except ValueError as error:
            return str(error), holds
        return "", False

    return check


_VALUES: Mapping[str, Callable[[str], tuple[str, bool]]] = {
    names.SCHEDULE: _about_schedule,
    names.CLUSTERS: _about_clusters,
    names.STAY: _one_of("true", "false"),
    names.SPREAD: _about_spread,
    names.DOMAIN_SCOPE: _one_of("cluster", "fleet"),
    names.FAILOVER: _one_of(*marks.FAILOVER_MODES),
    names.NEAR: _readable(read_near, holds=False),
    names.DATA: _readable(read_dataset, holds=False),
    names.REQUIRE_DATA: _readable(read_dataset, holds=True),
    names.REBALANCE: _one_of("true", "false", holds=False),
    names.SERVICES: _one_of(names.NONE, holds=False),
    names.SERVICE_ACCOUNT: _one_of(names.NONE, holds=False),
    names.PRIORITY: _one_of(names.NONE, holds=False),
}
