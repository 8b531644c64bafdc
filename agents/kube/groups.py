"""Which group a pod is a member of: pods that start together or not at all.

Either an object defines the group (`agents/kube/pod_groups.py`), and the pod names it in its spec, a
label or an annotation; or the members themselves do, by annotations (ours, Koordinator's) or labels
(the lightweight coscheduling of old). YuniKorn's task groups and KAI's queues mean something to
their schedulers alone, so they are told (`beside_the_spec`) and the pod is placed by itself. Kueue's
are left alone: its gate holds the pods of a group until it admits all of them.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from agents.kube.wire import Meta
from agents.kube.wire_pods import PodSpec
from agents.observer.seen import GroupMark
from shared.model import names
from shared.model.group_kinds import (
    COSCHEDULING,
    COSCHEDULING_OF_OLD,
    KAI,
    KOORDINATOR,
    LIGHTWEIGHT,
    OURS,
    POD_GROUPS,
    VOLCANO,
)
from shared.model.pod import FLEET, Group
from shared.model.topology import CLUSTER_LEVEL, level_of

MAX_SHOWN = 63
MAX_NAME = 253
MAX_COUNT = 100_000  # members that start together
MAX_PROBLEM = 300  # characters, as of other problems
SPEC = "spec.schedulingGroup"
_LABELS = {
    "scheduling.x-k8s.io/pod-group": COSCHEDULING,  # scheduler-plugins
    "pod-group.scheduling.sigs.k8s.io": COSCHEDULING_OF_OLD,
}
_ANNOTATIONS = {
    "scheduling.k8s.io/group-name": VOLCANO,  # set by KubeRay, LeaderWorkerSet, Trainer
    "scheduling.volcano.sh/group-name": VOLCANO,
    "pod-group-name": KAI,
}
_KOORDINATOR_MIN = "gang.scheduling.koordinator.sh/min-available"
_KOORDINATOR_BUNDLE = "gang.scheduling.koordinator.sh/groups"
_KOORDINATOR_NETWORK = "gang.scheduling.koordinator.sh/network-topology-spec"
_LIGHTWEIGHT_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
_NOTED_LABELS = {
    "kai.scheduler/subgroup-name": "subgroup",
    "kai.scheduler/queue": "queue",  # KAI makes a group of all pods of one owner that have it
    "runai/queue": "queue",  # the same, of old
}
_NOTED_ANNOTATIONS = {"yunikorn.apache.org/task-group-name": "pod group"}
_KEYS = frozenset(
    (
        *_LABELS,
        *_ANNOTATIONS,
        *(names.GROUP, names.GROUP_MIN, names.GROUP_WITHIN),
        *(KOORDINATOR, LIGHTWEIGHT),
    )
)
_NONE: Mapping[str, str] = {}
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?")
LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_COUNT = re.compile(r"[1-9][0-9]{0,5}")
_OF_POD = re.compile(r"\$\(([^()]{1,317})\)")
_names_of = msgspec.json.Decoder(list[str]).decode


class _WrongError(ValueError):
    """What is wrong with a mark: the text begins with its field."""


def marks_of(meta: Meta, spec: PodSpec) -> tuple[tuple[GroupMark, ...], tuple[str, ...]]:
    """The groups that a pod says it is a member of, each once, and what is wrong with what it
    says.
    """
    labels = meta.labels or _NONE
    annotations = meta.annotations or _NONE
    if spec.scheduling_group is None and _KEYS.isdisjoint(labels) and _KEYS.isdisjoint(annotations):
        return (), ()
    found: dict[tuple[str, str], GroupMark] = {}
    problems: list[str] = []
    for reader in (_by_objects, _ours, _koordinators, _lightweight):
        try:
            for mark in reader(meta, spec):
                found.setdefault((mark.group.kind, mark.group.name), mark)
        except _WrongError as error:
            problems.append(str(error)[:MAX_PROBLEM])
    return tuple(found.values()), tuple(problems)


def _by_objects(meta: Meta, spec: PodSpec) -> Iterator[GroupMark]:
    """Groups that an object defines: of them a pod knows no more than the name."""
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        yield _named(SPEC, POD_GROUPS, spec.scheduling_group.pod_group_name)
    given = (("labels", meta.labels, _LABELS), ("annotations", meta.annotations, _ANNOTATIONS))
    for where, of, keys in given:
        for key, kind in keys.items():
            if of and of.get(key):
                yield _named(f"metadata.{where}[{key}]", kind, of[key])


def _named(field: str, kind: str, name: str) -> GroupMark:
    if len(name) > MAX_NAME:
        raise _WrongError(f"{field}: no PodGroup has a name of more than {MAX_NAME} characters")
    return GroupMark(field, Group(kind, name))


def _ours(meta: Meta, spec: PodSpec) -> Iterator[GroupMark]:
    of = meta.annotations or {}
    if names.GROUP not in of:
        lone = next((key for key in (names.GROUP_MIN, names.GROUP_WITHIN) if key in of), "")
        if lone:
            raise _WrongError(
                f"{_about(lone)}: means nothing without {names.GROUP}; name the group there, or "
                "remove this"
            )
        return
    name = _filled(names.GROUP, meta)
    if not _NAME.fullmatch(name):
        raise _WrongError(
            f"{_about(names.GROUP)}: {name[:MAX_SHOWN]!r} is no name of a group (letters, digits, "
            f"'-', '_', '.', '/'; at most {MAX_NAME})"
        )
    if names.GROUP_MIN not in of:
        raise _WrongError(
            f"{_about(names.GROUP)}: how many members start together is not said; add "
            f"{names.GROUP_MIN} with a number"
        )
    least = _count(names.GROUP_MIN, _filled(names.GROUP_MIN, meta))
    yield GroupMark(_about(names.GROUP), Group(OURS, name, "", least, _within(of)))


def _within(of: Mapping[str, str]) -> str:
    text = of.get(names.GROUP_WITHIN, CLUSTER_LEVEL)
    if text == FLEET:
        return FLEET
    if not LABEL_KEY.fullmatch(text):
        raise _WrongError(
            f"{_about(names.GROUP_WITHIN)}: {text[:MAX_SHOWN]!r} is no level and no node label; "
            "write rack, zone, cluster, fleet or the key of a node label"
        )
    return level_of(text)


def _koordinators(meta: Meta, spec: PodSpec) -> Iterator[GroupMark]:
    of = meta.annotations or {}
    name = of.get(KOORDINATOR)
    if not name:
        return
    unheeded = bound_further(of, f"{meta.namespace}/{name}")
    if unheeded:
        raise _WrongError(f"{_about(unheeded)}: is not heeded here; take it off")
    mark = _named(_about(KOORDINATOR), KOORDINATOR, name)
    if _KOORDINATOR_MIN not in of:
        raise _WrongError(
            f"{mark.field}: how many members start together is not said; add {_KOORDINATOR_MIN}"
        )
    yield _of_size(mark, _count(_KOORDINATOR_MIN, of[_KOORDINATOR_MIN]))


def bound_further(annotations: Mapping[str, str], own: str) -> str:
    """Which annotation of Koordinator binds a gang, `own` as namespace/name, to other gangs or to a
    part of the network; "" none.
    """
    if annotations.get(_KOORDINATOR_NETWORK):
        return _KOORDINATOR_NETWORK
    text = annotations.get(_KOORDINATOR_BUNDLE)
    try:
        alone = not text or set(_names_of(text)) <= {own}
    except msgspec.MsgspecError:
        alone = False
    return "" if alone else _KOORDINATOR_BUNDLE


def _lightweight(meta: Meta, spec: PodSpec) -> Iterator[GroupMark]:
    of = meta.labels or {}
    name = of.get(LIGHTWEIGHT)
    if not name:
        return
    field = f"metadata.labels[{LIGHTWEIGHT}]"
    if _LIGHTWEIGHT_MIN not in of:
        raise _WrongError(
            f"{field}: how many members start together is not said; add {_LIGHTWEIGHT_MIN}"
        )
    least = _count(_LIGHTWEIGHT_MIN, of[_LIGHTWEIGHT_MIN], "labels")
    yield _of_size(_named(field, LIGHTWEIGHT, name), least)


def _of_size(mark: GroupMark, least: int) -> GroupMark:
    return GroupMark(mark.field, msgspec.structs.replace(mark.group, min_count=least))


def _count(key: str, text: str, where: str = "annotations") -> int:
    text = text.strip()
    if not _COUNT.fullmatch(text) or int(text) > MAX_COUNT:
        raise _WrongError(
            f"metadata.{where}[{key}]: {text[:MAX_SHOWN]!r} is no number of pods from 1 to "
            f"{MAX_COUNT}"
        )
    return int(text)


def _filled(key: str, meta: Meta) -> str:
    """The value of our annotation, in which $(KEY) stands for the label, or the annotation, of that
    key: controllers that make several groups of one template give each a label of its own.
    """
    text = (meta.annotations or {})[key].strip()

    def found(match: re.Match[str]) -> str:
        inner = match.group(1)
        value = (meta.labels or {}).get(inner) or (meta.annotations or {}).get(inner)
        if not value:
            raise _WrongError(
                f"{_about(key)}: the pod has no label and no annotation {inner[:MAX_SHOWN]!r}; "
                "correct the key within $( )"
            )
        return value[: MAX_NAME + 1]

    return _OF_POD.sub(found, text[: 4 * MAX_NAME]) if "$(" in text else text


def _about(key: str) -> str:
    return f"metadata.annotations[{key}]"


def in_the_spec(spec: PodSpec) -> list[str]:
    """What of spec.schedulingGroup (1.36) and spec.workloadRef (1.35) cannot be looked up, as
    problems.
    """
    problems = []
    group = spec.scheduling_group
    if group is not None and not group.pod_group_name:
        problems.append(
            f"{SPEC} names no PodGroup; make the pod anew with one, or without this field"
        )
    if spec.workload_ref is not None:
        problems.append(
            f"spec.workloadRef: Workload {spec.workload_ref.name[:MAX_SHOWN]!r} is not read here, "
            "so whether its pods "
            "are to start together is not known; make the pod anew without this field, or with a "
            "spec.schedulerName "
            "that serves Workloads"
        )
    return problems


def beside_the_spec(meta: Meta, spec: PodSpec) -> list[str]:
    """Which groups and queues a pod that is of no group known here is marked with: only other
    schedulers know these.
    """
    given = (
        ("labels", meta.labels, _NOTED_LABELS),
        ("annotations", meta.annotations, _NOTED_ANNOTATIONS),
    )
    found = [
        (f"metadata.{where}[{key}]", what, of[key])
        for where, of, keys in given
        if of
        for key, what in keys.items()
        if of.get(key)
    ]
    if not found or marks_of(meta, spec)[0]:
        return []
    return [
        f"{field}: {what} {value[:MAX_SHOWN]!r} is not known here, so this pod is placed by itself "
        f"unless a plugin of yours knows better; name the scheduler that serves the {what}, or "
        "remove it"
        for field, what, value in found
    ]
