"""One simulated node: what it has, what its pods hold, and its load."""

from math import isfinite
from zlib import crc32

from localfleet.embedded.kubelet.behaviour import PREFIX
from localfleet.embedded.kubelet.lifecycle import PodRun
from localfleet.embedded.kubelet.load import Background, Capacity, NodeLoad
from localfleet.embedded.meta import Object, annotations_of, labels_of
from shared.model.names import BANDWIDTH
from shared.model.resources import (
    CPU,
    MEMORY,
    QuantityError,
    Resources,
    add,
    parse_quantity,
    parse_resources,
)

BACKGROUND_CPU = PREFIX + "background-cpu"
BACKGROUND_MEMORY = PREFIX + "background-memory"
BACKGROUND_NET = PREFIX + "background-net"
KUBELET = PREFIX + "kubelet"  # "down": this kubelet is silent, as if its node were lost
DOWN = "down"


class SimulatedNode:
    """A node of this cluster. `used` is what admitted pods hold (internal units); `problems` are
    unread annotations.
    """

    def __init__(self, node: Object, address: str, seed: int, now: float) -> None:
        self.name: str = node["metadata"]["name"]
        self.uid: str = node["metadata"]["uid"]
        self.address = address
        self.allocatable: Resources = {}
        self.used: Resources = {}
        self.runs: dict[str, PodRun] = {}
        self.down = False
        self.problems: tuple[str, ...] = ()
        self._seed = crc32(f"{seed}/{self.name}".encode())
        self.load = NodeLoad(Capacity(0, 0, 0), Background(self._seed), now)
        self.observe(node, now)

    def observe(self, node: Object, now: float) -> None:
        """Take over allocatable, bandwidth and background load from the Node object."""
        problems: list[str] = []
        notes = {**labels_of(node), **annotations_of(node)}
        try:
            self.allocatable = parse_resources(
                node["status"].get("allocatable") or {}, where="status.allocatable"
            )
        except QuantityError as error:
            problems.append(f"allocatable is left as it was: {error}")
        capacity = Capacity(
            self.allocatable.get(CPU, 0) / 1000,
            self.allocatable.get(MEMORY, 0),
            _bandwidth(notes, problems),
        )
        shares = (
            _share(notes, key, problems)
            for key in (BACKGROUND_CPU, BACKGROUND_MEMORY, BACKGROUND_NET)
        )
        self.load.reshape(capacity, Background(self._seed, *shares), now)
        self.down = notes.get(KUBELET) == DOWN
        self.problems = tuple(problems)

    def hold(self, run: PodRun) -> None:
        """Give a pod its room."""
        self.runs[run.uid] = run
        if run.holds:
            add(self.used, run.requests)

    def resize(self, run: PodRun, requests: Resources) -> None:
        """Give a pod other room: a simulated kubelet grants every resize."""
        for resource, amount in run.requests.items():
            self.used[resource] = self.used.get(resource, 0) - amount
        run.requests = requests
        add(self.used, requests)

    def release(self, run: PodRun, now: float) -> None:
        """A pod has ended: its room is free and it uses nothing."""
        for resource, amount in run.requests.items():
            self.used[resource] = self.used.get(resource, 0) - amount
        self.load.stop(run.uid, now)


def _bandwidth(notes: dict[str, str], problems: list[str]) -> int:
    try:
        return parse_quantity(notes.get(BANDWIDTH, "0"), round_up=False)
    except QuantityError as error:
        problems.append(f"annotation {BANDWIDTH} is ignored: {error}")
        return 0


def _share(notes: dict[str, str], key: str, problems: list[str]) -> float | None:
    text = notes.get(key)
    if text is None:
        return None
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if isfinite(share) and 0 <= share <= 1:
        return share
    problems.append(
        f"annotation {key} is ignored: {text[:40]!r} is not a share of capacity from 0 to 1, such "
        "as 0.9"
    )
    return None
