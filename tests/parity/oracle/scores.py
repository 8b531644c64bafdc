"""The scores that look at one node at a time, in whole numbers as kube-scheduler reckons them, 0..100."""

import math
from collections import Counter

from tests.parity.case import Object
from tests.parity.oracle.images import first_sizes, sizes_on
from tests.parity.oracle.requests import expected, expected_of_containers, requests
from tests.parity.oracle.selectors import term_holds, untolerated
from tests.parity.oracle.world import Place, World

_RESOURCES = ("cpu", "memory")
_MI = 2**20
_LEAST_IMAGE, _MOST_IMAGE = 23 * _MI, 1000 * _MI
Raw = dict[str, int]


def normalised(raw: Raw, reverse: bool = False) -> Raw:
    """The largest becomes 100, or 0 when a small number is the better."""
    most = max(raw.values(), default=0)
    if most == 0:
        return dict.fromkeys(raw, 100 if reverse else 0)
    return {name: 100 - 100 * value // most if reverse else 100 * value // most for name, value in raw.items()}


def taint_toleration(world: World, pod: Object, places: list[Place]) -> Raw | None:
    """The fewer PreferNoSchedule taints that are not tolerated, the better."""
    return normalised(
        {place.name: untolerated(pod["spec"], place.node, ("PreferNoSchedule",)) for place in places}, reverse=True
    )


def node_affinity(world: World, pod: Object, places: list[Place]) -> Raw | None:
    """Weights of the preferred terms that match."""
    node = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    preferred = node.get("preferredDuringSchedulingIgnoredDuringExecution")
    if not preferred:
        return None
    raw = {
        place.name: sum(one["weight"] for one in preferred if term_holds(one["preference"], place.labels, place.name))
        for place in places
    }
    return normalised(raw)


def node_resources_fit(world: World, pod: Object, places: list[Place]) -> Raw | None:
    """LeastAllocated: the mean free share of CPU and memory once the pod is there, with defaults for what is unsaid."""
    wanted = expected_of_containers(pod) if world.quirks else expected(pod)
    return {place.name: _least_allocated(place, wanted) for place in places}


def _least_allocated(place: Place, wanted: dict[str, int]) -> int:
    shares = []
    for name in _RESOURCES:
        capacity = place.allocatable.get(name, 0)
        if capacity:
            free = capacity - place.expected(name) - wanted[name]
            shares.append(max(0, free) * 100 // capacity)
    return sum(shares) // len(shares) if shares else 0


def node_resources_balanced_allocation(world: World, pod: Object, places: list[Place]) -> Raw | None:
    """How much evener CPU and memory are used with the pod than without: 75 for no change, 50..100."""
    wanted = requests(pod)
    if not any(wanted.get(name) for name in _RESOURCES):
        return None
    return {place.name: _balance_gained(place, wanted) for place in places}


def _balance_gained(place: Place, wanted: dict[str, int]) -> int:
    used = {name: place.requested(name) for name in _RESOURCES if place.allocatable.get(name)}
    more = {name: amount + wanted.get(name, 0) for name, amount in used.items()}
    return 50 + (50 + _balance(place, more) - _balance(place, used)) // 2


def _balance(place: Place, used: dict[str, int]) -> int:
    shares = [min(1.0, amount / place.allocatable[name]) for name, amount in used.items()]
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return int((1 - deviation) * 100)


def image_locality(world: World, pod: Object, places: list[Place]) -> Raw | None:
    """Bytes of the pod's images that a node has, each counted by the share of all nodes that have it.

    kube-scheduler takes the size that it was told first for that on all nodes.
    """
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    volumes = [one["image"]["reference"] for one in pod["spec"].get("volumes") or () if one.get("image")]
    images = [_normal(image) for image in (*(one["image"] for one in containers), *volumes)]
    on = {name: sizes_on(place.node) for name, place in world.places.items()}
    owners = Counter(image for sizes in on.values() for image in sizes)
    first = first_sizes([place.node for place in world.places.values()])
    raw = {}
    for place in places:
        sizes = first if world.quirks else on[place.name]
        here = [name for name in images if name in on[place.name]]
        total = sum(int(sizes[name] * (owners[name] / len(world.places))) for name in here)
        most = _MOST_IMAGE * len(images)
        raw[place.name] = 100 * (min(max(total, _LEAST_IMAGE), most) - _LEAST_IMAGE) // (most - _LEAST_IMAGE)
    return raw


def _normal(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def rounded(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    below = math.floor(value)
    return below + 1 if value - below >= 0.5 else below
