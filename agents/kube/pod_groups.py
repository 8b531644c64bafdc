"""PodGroups of scheduling.k8s.io, of every version of its API: whether their pods are placed as any
other pod.
"""

from typing import Any

import msgspec
from msgspec.json import Decoder

from agents.kube.convert import version_of
from agents.kube.wire import BROKEN, BareMeta, Text, Wire, read_bare
from agents.observer.seen import GroupSeen

_API = "/apis/scheduling.k8s.io/{}/podgroups"
PATH = _API.format("v1")
OLDER = tuple(map(_API.format, ("v1beta1", "v1alpha3", "v1alpha2")))  # 1.37, and 1.36
_OTHERWISE = "make the pod anew with {}, or with a spec.schedulerName that serves groups"
_SINGLY: tuple[object, ...] = (
    None,
    {},
    {"single": {}},
    "",
    "Pod",
)  # modes of disruption that are any pod's


class _Policy(Wire):
    """scheduling.k8s.io PodGroupSchedulingPolicy; one of them is set."""

    basic: Wire | None = None
    gang: Wire | None = None


class _Constraints(Wire):
    """PodGroupSchedulingConstraints."""

    topology: list[Any] | None = None


class _GroupSpec(Wire):
    """PodGroupSpec; its mode of disruption is a word up to v1alpha2."""

    scheduling_policy: _Policy = msgspec.field(default_factory=_Policy)
    scheduling_constraints: _Constraints | None = None
    parent_composite_pod_group_name: Text = None
    disruption_mode: dict[str, Any] | str | None = None


class _Group(Wire):
    """scheduling.k8s.io PodGroup."""

    metadata: BareMeta
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)


_decode = Decoder(_Group).decode


def group_seen(raw: bytes | msgspec.Raw) -> GroupSeen | None:
    """One PodGroup from its JSON; None if not even its name can be read."""
    try:
        found = _decode(raw)
        meta, holds = found.metadata, _holds(found.spec)
    except BROKEN as error:
        try:
            meta = read_bare(raw).metadata
            holds = f"cannot be read: {error}"
        except BROKEN:
            return None
    return (
        GroupSeen(meta.namespace, meta.name, version_of(meta.resource_version), holds)
        if meta.name
        else None
    )


def _holds(spec: _GroupSpec) -> str:
    """Why pods of such a group wait, "" if each is placed as any other pod."""
    policy = spec.scheduling_policy
    constraints = spec.scheduling_constraints
    if policy.gang is not None:
        return (
            "is a gang (its spec.schedulingPolicy.gang), whose pods start together or not at all, "
            "which is not done "
            f"here yet; {_OTHERWISE.format('a group with the policy basic')}"
        )
    if policy.basic is None:
        return (
            "has no spec.schedulingPolicy that is known here; "
            f"{_OTHERWISE.format('a group with the policy basic')}"
        )
    unheeded = (
        ("schedulingConstraints", constraints is not None and bool(constraints.topology)),
        ("parentCompositePodGroupName", bool(spec.parent_composite_pod_group_name)),
        ("disruptionMode", spec.disruption_mode not in _SINGLY),
    )
    for field, is_set in unheeded:
        if is_set:
            return (
                f"sets spec.{field}, which is not heeded here yet; "
                f"{_OTHERWISE.format('a group without it')}"
            )
    return ""
