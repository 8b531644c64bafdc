"""A fleet as the oracle sees it: node manifests, and the pod manifests that sit on each."""

from collections.abc import Iterator

from tests.parity.case import Case, Object
from tests.parity.oracle.quantities import fraction, units
from tests.parity.oracle.requests import expected, requests
from tests.parity.oracle.selectors import Labels

ENDED = ("Succeeded", "Failed")


class Seat:
    """A pod on a node, with what it takes there."""

    def __init__(self, pod: Object) -> None:
        self.pod = pod
        self.requests = requests(pod)
        self.expected = expected(pod)
        self.labels: Labels = pod["metadata"].get("labels") or {}
        self.namespace: str = pod["metadata"]["namespace"]
        self.terminating = "deletionTimestamp" in pod["metadata"]


class Place:
    """A node, and who is on it. `domains`: its topology keys; with `own_domains` every node is a host of its own."""

    def __init__(self, node: Object, *, own_domains: bool) -> None:
        self.node = node
        self.name: str = node["metadata"]["name"]
        self.labels: Labels = node["metadata"].get("labels") or {}
        self.domains = {**self.labels, **({"kubernetes.io/hostname": self.name} if own_domains else {})}
        allocatable = node["status"].get("allocatable") or {}
        self.allocatable = {name: units(name, fraction(str(text))) for name, text in allocatable.items()}
        self.seats: list[Seat] = []

    def requested(self, name: str) -> int:
        """What its pods ask for."""
        return sum(seat.requests.get(name, 0) for seat in self.seats)

    def expected(self, name: str) -> int:
        """The same with the defaults."""
        return sum(seat.expected[name] for seat in self.seats)


class World:
    """All nodes in order, and the labels of namespaces. `quirks`: with kube-scheduler's faults (docs/parity.md)."""

    def __init__(self, case: Case, *, quirks: bool = False) -> None:
        self.quirks = quirks
        self.places = {node["metadata"]["name"]: Place(node, own_domains=not quirks) for node in case.nodes}
        self.namespaces: dict[str, Labels] = {
            obj["metadata"]["name"]: obj["metadata"].get("labels") or {}
            for obj in case.objects
            if obj["kind"] == "Namespace"
        }
        for pod in case.bound:
            self.seat(pod, pod["spec"]["nodeName"])

    def seat(self, pod: Object, node: str) -> None:
        """A pod takes its place; one that has ended takes none."""
        if node in self.places and (pod.get("status") or {}).get("phase") not in ENDED:
            self.places[node].seats.append(Seat(pod))

    def seats(self) -> Iterator[tuple[Place, Seat]]:
        """Every pod with its place."""
        return ((place, seat) for place in self.places.values() for seat in place.seats)
