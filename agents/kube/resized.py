"""What a placed pod takes of its node where that is not what its spec says: after a resize in
place.

The sums over its containers are made three times, by what the spec asks for, by what is allotted
and by what the containers have; the most counts, resource by resource. A status that gives the last
two for the pod as a whole gives them as sums. Where the node has said that it cannot do the resize,
what the spec asks for does not count. Source: k8s.io/component-helpers/resource of Kubernetes 1.37,
AggregateContainerRequests.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from agents.kube.wire_pods import Container, PodSpec, ResourceList
from agents.kube.wire_status import ContainerStatus, PodStatus

_Quantities = Mapping[str, object] | None


def is_resized(spec: PodSpec, status: PodStatus) -> bool:
    """Whether any part of the pod may have, or be allotted, other than what its spec asks for."""
    if (
        is_infeasible(status)
        or status.resources is not None
        or status.allocated_resources is not None
    ):
        return True
    told = _told(status)
    containers = (*(spec.containers or ()), *(spec.init_containers or ())) if told else ()
    return any(_differs(one.resources, told.get(one.name)) for one in containers)


def is_infeasible(status: PodStatus) -> bool:
    """Whether the node has said that it cannot do the resize."""
    pending = (one for one in status.conditions or () if one.type == "PodResizePending")
    return next((one.reason == "Infeasible" for one in pending), False)


def given(spec: PodSpec, status: PodStatus) -> tuple[PodSpec, PodSpec]:
    """The spec as if it asked for what is allotted, and for what the containers have."""
    has, allotted = _sums(status)
    if has is not None and allotted is not None:
        return _of_sum(spec, allotted), _of_sum(spec, has)
    return _of_containers(spec, status, _allotted), _of_containers(spec, status, _has)


def gives_sums(status: PodStatus) -> bool:
    """Whether the status says what the pod as a whole has and is allotted."""
    return None not in _sums(status)


def _sums(status: PodStatus) -> tuple[_Quantities, _Quantities]:
    has = status.resources.requests if status.resources is not None else None
    return has, status.allocated_resources


def _of_sum(spec: PodSpec, told: Mapping[str, object]) -> PodSpec:
    return replace(
        spec, containers=[Container(resources=ResourceList(dict(told)))], init_containers=None
    )


def _of_containers(
    spec: PodSpec, status: PodStatus, which: Callable[[ContainerStatus], _Quantities]
) -> PodSpec:
    told = _told(status)
    infeasible = is_infeasible(status)

    def given_to(container: Container) -> Container:
        about = told.get(container.name)
        found = which(about) if about is not None else None
        if found is None and not infeasible:
            return container
        return replace(container, resources=ResourceList(dict(found or {})))

    running = [given_to(one) for one in spec.containers or ()]
    return replace(
        spec,
        containers=running,
        init_containers=[given_to(one) for one in spec.init_containers or ()],
    )


def _allotted(told: ContainerStatus) -> _Quantities:
    return told.allocated_resources


def _has(told: ContainerStatus) -> _Quantities:
    has = told.resources.requests if told.resources is not None else None
    return told.allocated_resources if has is None else has


def _told(status: PodStatus) -> dict[str, ContainerStatus]:
    every = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return {
        one.name: one
        for one in every
        if one.resources is not None or one.allocated_resources is not None
    }


def _differs(asked: ResourceList | None, told: ContainerStatus | None) -> bool:
    wanted = asked.requests if asked is not None else None
    return told is not None and any(
        one not in (None, wanted) for one in (_allotted(told), _has(told))
    )
