"""Whether a node still has room for a pod that was bound to it, in the words of the real kubelet."""

from collections.abc import Mapping
from typing import NamedTuple

from localfleet.embedded.meta import Object
from shared.model.resources import PODS, QuantityError, Resources, add, maximum, parse_resources


class Rejection(NamedTuple):
    """Why a pod may not run: the pod's status.reason and status.message, and the event's message."""

    reason: str
    message: str

    @property
    def event_message(self) -> str:
        """The message without its head, as the kubelet's event carries it."""
        return self.message.removeprefix("Pod was rejected: ")


def effective_requests(spec: Object) -> Resources:
    """What a pod takes of its node, the pod itself included (internal units).

    The larger of all containers together and each init container beside the sidecars before it,
    plus overhead (Kubernetes' PodRequests). Raises QuantityError naming the container.
    """
    running: Resources = {}
    for container in spec.get("containers") or ():
        add(running, _requests(container))
    sidecars: Resources = {}
    peak: Resources = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            add(sidecars, own)
            maximum(peak, sidecars)
        else:
            maximum(peak, add(dict(sidecars), own))
    total = add({PODS: 1}, maximum(add(running, sidecars), peak))
    return add(total, parse_resources(spec.get("overhead") or {}, where="overhead"))


def _requests(container: Object) -> Resources:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return parse_resources(asked, where=f"container {container.get('name', '')} requests")


def admit(
    requests: Resources, used: Mapping[str, int], allocatable: Mapping[str, int]
) -> Rejection | None:
    """None when the pod fits; otherwise the first resource that the node has too little of."""
    for resource, asked in requests.items():
        taken = used.get(resource, 0)
        capacity = allocatable.get(resource, 0)
        if asked and taken + asked > capacity:
            detail = f"{resource}, requested: {asked}, used: {taken}, capacity: {capacity}"
            return Rejection(
                f"OutOf{resource}", f"Pod was rejected: Node didn't have enough resource: {detail}"
            )
    return None


def unreadable(error: QuantityError) -> Rejection:
    """The rejection of a pod whose requests cannot be read."""
    return Rejection("UnexpectedAdmissionError", f"Pod was rejected: Unexpected error: {error}")
