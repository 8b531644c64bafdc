"""The filters that look at one node at a time: each answers the reasons why a pod may not go there, none if it may."""

from collections.abc import Iterator

from tests.parity.case import Object
from tests.parity.oracle.requests import requests
from tests.parity.oracle.selectors import node_is_selected, tolerates, untolerated
from tests.parity.oracle.world import Place

_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_ANY = "0.0.0.0"


def node_unschedulable(pod: Object, place: Place) -> list[str]:
    """A cordoned node takes only pods that tolerate its cordon."""
    if not place.node["spec"].get("unschedulable"):
        return []
    tolerated = any(tolerates(one, _CORDON) for one in pod["spec"].get("tolerations") or ())
    return [] if tolerated else ["node(s) were unschedulable"]


def taint_toleration(pod: Object, place: Place) -> list[str]:
    """NoSchedule and NoExecute taints must be tolerated."""
    hard = untolerated(pod["spec"], place.node, ("NoSchedule", "NoExecute"))
    return ["node(s) had untolerated taint(s)"] if hard else []


def node_affinity(pod: Object, place: Place) -> list[str]:
    """nodeSelector and required node affinity must match."""
    selected = node_is_selected(pod["spec"], place.labels, place.name)
    return [] if selected else ["node(s) didn't match Pod's node affinity/selector"]


def node_ports(pod: Object, place: Place) -> list[str]:
    """Host ports must be free."""
    taken = [port for seat in place.seats for port in _ports(seat.pod)]
    clash = any(_clash(mine, other) for mine in _ports(pod) for other in taken)
    return ["node(s) didn't have free ports for the requested pod ports"] if clash else []


def _ports(pod: Object) -> Iterator[tuple[str, int, str]]:
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*sidecars, *pod["spec"]["containers"]):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("protocol", "TCP"), port["hostPort"], port.get("hostIP") or _ANY


def _clash(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    return one[:2] == other[:2] and (one[2] == other[2] or _ANY in (one[2], other[2]))


def lasting(pod: Object, place: Place) -> bool:
    """Whether the node could not take the pod even if it were empty."""
    return any(amount > place.allocatable.get(name, 0) for name, amount in requests(pod).items())


def node_resources_fit(pod: Object, place: Place) -> list[str]:
    """Room for one more pod and for all it asks for; every resource that lacks is named."""
    lacking = ["Too many pods"] if len(place.seats) + 1 > place.allocatable.get("pods", 0) else []
    for name, amount in requests(pod).items():
        if amount > 0 and amount > place.allocatable.get(name, 0) - place.requested(name):
            lacking.append(f"Insufficient {name}")
    return lacking
