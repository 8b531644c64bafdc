"""PodGroups: how many of its pods start together, and where. Of scheduling.k8s.io, and of the APIs
of scheduler-plugins, Volcano and KAI.

What of an object is not heeded here and would have its pods placed otherwise than it says holds
them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from msgspec.json import Decoder

from agents.kube.convert import version_of
from agents.kube.groups import LABEL_KEY, MAX_COUNT, MAX_NAME, MAX_SHOWN, bound_further
from agents.kube.wire import BROKEN, BareMeta, Int, Text, Wire, read_bare
from agents.observer.seen import GroupSeen
from shared.model.group_kinds import (
    COSCHEDULING,
    COSCHEDULING_OF_OLD,
    KAI,
    POD_GROUPS,
    VERSIONS,
    VOLCANO,
)
from shared.model.pod import Group
from shared.model.topology import CLUSTER_LEVEL, label_key

_ANEW = "make the pod anew with {}, or with a spec.schedulerName that serves groups"
_WITHOUT = _ANEW.format("a group without it")
_TAKE_OUT = "take it out of the group, or take the pod out of the group"
_SINGLE: tuple[object, ...] = (None, {}, {"single": {}}, "", "Pod")
_WHOLE: tuple[object, ...] = ({"all": {}}, "PodGroup")


class _HeldError(ValueError):
    """Why the pods of a group wait."""


class _Read(NamedTuple):
    """What one object says."""

    group: Group | None
    of_all: str = ""


# --- scheduling.k8s.io
# --------------------------------------------------------------------------------------------------


class _Gang(Wire):
    """GangSchedulingPolicy."""

    min_count: Int | None = None


class _Policy(Wire):
    """PodGroupSchedulingPolicy; one of them is set."""

    basic: Wire | None = None
    gang: _Gang | None = None


class _Topology(Wire):
    """TopologyConstraint."""

    key: str = ""


class _Constraints(Wire):
    """PodGroupSchedulingConstraints."""

    topology: list[_Topology] | None = None


class _Spec(Wire):
    """PodGroupSpec; its mode of disruption is a word up to v1alpha2."""

    scheduling_policy: _Policy = msgspec.field(default_factory=_Policy)
    scheduling_constraints: _Constraints | None = None
    parent_composite_pod_group_name: Text = None
    disruption_mode: dict[str, Any] | str | None = None


class _PodGroup(Wire):
    """scheduling.k8s.io PodGroup."""

    metadata: BareMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _of_kubernetes(raw: bytes | msgspec.Raw) -> _Read:
    found = _read_pod_group(raw)
    spec = found.spec
    policy = spec.scheduling_policy
    if spec.parent_composite_pod_group_name:
        raise _HeldError(
            f"sets spec.parentCompositePodGroupName, which is not heeded here yet; {_WITHOUT}"
        )
    if policy.gang is None and policy.basic is None:
        raise _HeldError(
            "has no spec.schedulingPolicy that is known here; "
            f"{_ANEW.format('a group with the policy basic or gang')}"
        )
    mode = spec.disruption_mode
    whole = mode in _WHOLE
    if not whole and mode not in _SINGLE:
        raise _HeldError(f"sets a spec.disruptionMode that is not known here; {_WITHOUT}")
    within = _within(spec.scheduling_constraints)
    if policy.gang is not None:
        least = _least(policy.gang.min_count, "spec.schedulingPolicy.gang.minCount")
        place = within or CLUSTER_LEVEL
        return _Read(Group(POD_GROUPS, "", found.metadata.uid, least, place, whole))
    if whole:
        raise _HeldError(
            "sets spec.disruptionMode all, which is heeded of gangs alone; "
            f"{_ANEW.format('a group with the policy gang')}"
        )
    return _Read(Group(POD_GROUPS, "", found.metadata.uid, 1, within) if within else None)


def _within(constraints: _Constraints | None) -> str:
    """The topology key that all pods of a group share, "" none."""
    keys = [one.key for one in (constraints.topology if constraints else None) or ()]
    if len(keys) > 1:
        raise _HeldError(
            f"sets {len(keys)} spec.schedulingConstraints.topology, of which one is heeded here; "
            f"{_ANEW.format('a group with one')}"
        )
    return _topology_key(keys[0], "spec.schedulingConstraints.topology[0].key") if keys else ""


def _topology_key(key: str, field: str) -> str:
    if not LABEL_KEY.fullmatch(key):
        raise _HeldError(f"has {key[:MAX_SHOWN]!r} as {field}, which is no label; {_TAKE_OUT}")
    return label_key(key)


def _least(count: int | None, field: str) -> int:
    if count is None or not 1 <= count <= MAX_COUNT:
        raise _HeldError(f"has no {field} from 1 to {MAX_COUNT}; set it, and its pods go on")
    return count


# --- other projects
# --------------------------------------------------------------------------------------------------


class _Coscheduling(Wire):
    """PodGroupSpec of scheduler-plugins: apis/scheduling/v1alpha1/types.go."""

    min_member: Int | None = None


class _Network(Wire):
    """NetworkTopologySpec of Volcano."""

    mode: str = "hard"


class _Volcano(Wire):
    """PodGroupSpec of Volcano: scheduling/v1beta1/types.go."""

    min_member: Int | None = None
    min_task_member: dict[str, Int] | None = None
    network_topology: _Network | None = None
    sub_group_policy: list[Any] | None = None


class _Level(Wire):
    """TopologyConstraint of KAI; a preferred level is a wish."""

    required_topology_level: Text = None


class _Kai(Wire):
    """PodGroupSpec of KAI: pkg/apis/scheduling/v2alpha2/podgroup_types.go."""

    min_member: Int | None = None
    topology_constraint: _Level | None = None
    sub_groups: list[Any] | None = None


class _Meta(BareMeta):
    annotations: dict[str, str] | None = None


class _Foreign(Wire):
    """A PodGroup of any of them: its spec is read by its kind."""

    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def _of_coscheduling(raw: bytes | msgspec.Raw) -> _Read:
    found = _read_foreign(raw)
    meta = found.metadata
    spec = _read_coscheduling(found.spec)
    unheeded = bound_further(meta.annotations or {}, f"{meta.namespace}/{meta.name}")
    if unheeded:
        raise _HeldError(f"has the annotation {unheeded}, which is not heeded here; take it off")
    return _Read(Group(COSCHEDULING, "", found.metadata.uid, _members(spec.min_member)))


def _of_volcano(raw: bytes | msgspec.Raw) -> _Read:
    """The tasks count only if all of them fit into the whole, as in Volcano itself
    (pkg/scheduler/api/job_info.go). While no more pods are there than start together, each
    task has all of its own.
    """
    found = _read_foreign(raw)
    spec = _read_volcano(found.spec)
    if spec.sub_group_policy:
        raise _HeldError(f"sets spec.subGroupPolicy, which is not heeded here; {_TAKE_OUT}")
    if spec.network_topology is not None and spec.network_topology.mode != "soft":
        raise _HeldError(
            f"sets spec.networkTopology of mode hard, which is not heeded here; {_TAKE_OUT}, or "
            "make it soft"
        )
    least = _members(spec.min_member)
    tasks = {task: count for task, count in (spec.min_task_member or {}).items() if count > 0}
    by_task = len(tasks) > 1 and sum(tasks.values()) <= least
    return _Read(Group(VOLCANO, "", found.metadata.uid, least), _BY_TASK if by_task else "")


_BY_TASK = (
    "has more pods than spec.minMember, and spec.minTaskMember, which is not heeded here, says "
    "which of them start first; set minMember to the number of all its pods, or take minTaskMember "
    "out"
)


def _of_kai(raw: bytes | msgspec.Raw) -> _Read:
    found = _read_foreign(raw)
    spec = _read_kai(found.spec)
    if spec.sub_groups:
        raise _HeldError(f"sets spec.subGroups, which is not heeded here; {_TAKE_OUT}")
    level = spec.topology_constraint and spec.topology_constraint.required_topology_level
    field = "spec.topologyConstraint.requiredTopologyLevel"
    within = _topology_key(level, field) if level else CLUSTER_LEVEL
    return _Read(Group(KAI, "", found.metadata.uid, _members(spec.min_member), within))


def _members(count: int | None) -> int:
    """None of them knows a group that needs no pod: 0 is as 1."""
    return _least(max(1, count or 0), "spec.minMember")


# --- reading
# --------------------------------------------------------------------------------------------------

_read_pod_group = Decoder(_PodGroup).decode
_read_foreign = Decoder(_Foreign).decode
_read_coscheduling = Decoder(_Coscheduling).decode
_read_volcano = Decoder(_Volcano).decode
_read_kai = Decoder(_Kai).decode


class Api(NamedTuple):
    """Where the PodGroups of one kind are, the version to be asked for first, and how each is
    read.
    """

    kind: str
    paths: tuple[str, ...]
    read: Callable[[bytes | msgspec.Raw], _Read]

    def seen(self, raw: bytes | msgspec.Raw) -> GroupSeen | None:
        """One PodGroup from its JSON; None if not even its name can be read."""
        try:
            meta = read_bare(raw).metadata
        except BROKEN:
            return None
        if not meta.name or len(meta.name) > MAX_NAME:
            return None
        seen = GroupSeen(self.kind, meta.namespace, meta.name, version_of(meta.resource_version))
        try:
            found = self.read(raw)
        except _HeldError as error:
            return replace(seen, holds=str(error))
        except BROKEN as error:
            return replace(seen, holds=f"cannot be read: {error}")
        group = found.group
        if group is not None:
            group = msgspec.structs.replace(group, kind=self.kind, name=meta.name)
        return replace(seen, group=group, of_all=found.of_all)


KUBERNETES = Api(
    POD_GROUPS,
    tuple(f"/apis/scheduling.k8s.io/{version}/podgroups" for version in VERSIONS),
    _of_kubernetes,
)
FOREIGN = (
    Api(COSCHEDULING, ("/apis/scheduling.x-k8s.io/v1alpha1/podgroups",), _of_coscheduling),
    Api(
        COSCHEDULING_OF_OLD, ("/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",), _of_coscheduling
    ),
    Api(VOLCANO, ("/apis/scheduling.volcano.sh/v1beta1/podgroups",), _of_volcano),
    Api(KAI, ("/apis/scheduling.run.ai/v2alpha2/podgroups",), _of_kai),
)
