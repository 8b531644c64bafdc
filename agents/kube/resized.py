"""What containers of a placed pod have been given, where that is not what their spec says: in-place resize.

A container takes of its node the most of what its spec asks for, what was allotted to it and what it has; where the
node has said that it cannot do the resize, what the spec asks for does not count.
Source: k8s.io/component-helpers/resource, determineEffectiveRequests.
"""

from collections.abc import Mapping

from agents.kube.wire_pods import PodSpec, ResourceList
from agents.kube.wire_status import ContainerStatus, PodStatus
from dispatcher.model.resources import Resources, maximum

_Given = tuple[Mapping[str, object] | None, ...]


class Resizes:
    """What a pod's status says of its resources: nothing for most pods."""

    def __init__(self, status: PodStatus) -> None:
        told = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        self._containers: dict[str, ContainerStatus] = {one.name: one for one in told if one.resources is not None}
        self._pod = (status.resources, status.allocated_resources)
        pending = (one for one in status.conditions or () if one.type == "PodResizePending")
        self._infeasible = next((one.reason == "Infeasible" for one in pending), False)

    def of_container(self, name: str, asked: ResourceList | None) -> _Given:
        """What else the container takes, as maps of quantities; empty if that is what it asks for."""
        one = self._containers.get(name)
        return () if one is None else _other(one.resources, one.allocated_resources, asked)

    def of_pod(self, asked: ResourceList | None) -> _Given:
        """The same of the requests for the pod as a whole."""
        return _other(*self._pod, asked) if self._pod[0] is not None else ()

    def most(self, asked: Resources, given: list[Resources]) -> Resources:
        """What counts, resource by resource."""
        most: Resources = {} if self._infeasible else dict(asked)
        for one in given:
            maximum(most, one)
        return most


def is_resized(spec: PodSpec, status: PodStatus) -> bool:
    """Whether any part of the pod has, or is allotted, other than what its spec asks for."""
    if not (status.container_statuses or status.init_container_statuses or status.resources):
        return False
    resizes = Resizes(status)
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    return any(resizes.of_container(one.name, one.resources) for one in containers) or bool(
        spec.resources is not None and resizes.of_pod(spec.resources)
    )


def _other(has: ResourceList | None, allotted: Mapping[str, object] | None, asked: ResourceList | None) -> _Given:
    there = has.requests if has is not None else None
    wanted = asked.requests if asked is not None else None
    if there == wanted and allotted in (None, wanted):
        return ()
    return there, allotted
