"""The load of one simulated node: background that moves, and what its pods use, under the node's
capacity.

Rates are smooth functions of time alone (sines with seeded phases), so any moment can be asked for.
Counters are their integral, taken lazily: nothing is computed for a node that nobody asks about.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, pi, sin
from typing import NamedTuple
from zlib import crc32

from localfleet.embedded.kubelet.behaviour import Behaviour

_STEP_S = 5.0
_MOST_STEPS = 24
# Each background share wanders between these, on three waves of minutes.
_CPU_BAND = (0.02, 0.15)
_MEMORY_BAND = (0.04, 0.12)
_NET_BAND = (0.002, 0.03)
_WAVES_S = (71.0, 197.0, 601.0)


class Rates(NamedTuple):
    """CPU in cores, memory in bytes, network in bytes/s."""

    cpu: float
    memory: float
    rx: float
    tx: float

    def times(self, factors: "Rates") -> "Rates":
        """Each entry by its factor."""
        return Rates(*(value * factor for value, factor in zip(self, factors, strict=True)))


@dataclass(slots=True)
class Counters:
    """What has been used since the start: CPU in core-seconds, network in bytes. They never go
    back.
    """

    cpu_s: float = 0.0
    rx: float = 0.0
    tx: float = 0.0

    def add(self, rates: Rates, duration_s: float) -> None:
        """Use `rates` for so long."""
        self.cpu_s += rates.cpu * duration_s
        self.rx += rates.rx * duration_s
        self.tx += rates.tx * duration_s


@dataclass(frozen=True, slots=True)
class Capacity:
    """CPU in cores, memory in bytes, network in bytes/s per direction (0: unknown, no cap)."""

    cpu: float
    memory: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Background:
    """Load that is no pod's: seeded waves, or a fixed share of capacity where one is given."""

    seed: int
    cpu: float | None = None
    memory: float | None = None
    net: float | None = None

    def at(self, now: float, capacity: Capacity) -> Rates:
        """The rates at unix time `now`."""
        net = self._share(self.net, _NET_BAND, now, 2) * capacity.bandwidth
        return Rates(
            self._share(self.cpu, _CPU_BAND, now, 0) * capacity.cpu,
            self._share(self.memory, _MEMORY_BAND, now, 1) * capacity.memory,
            net,
            net * (1.0 if self.net is not None else 0.7),
        )

    def _share(
        self, fixed: float | None, band: tuple[float, float], now: float, salt: int
    ) -> float:
        if fixed is not None:
            return fixed
        low, high = band
        wave = sum(
            sin(2 * pi * (now / period + _phase(self.seed, salt, period))) for period in _WAVES_S
        )
        return low + (high - low) * (wave / len(_WAVES_S) + 1) / 2


def _phase(seed: int, salt: int, period: float) -> float:
    return crc32(f"{seed}/{salt}/{period}".encode()) / 2**32


@dataclass(slots=True)
class PodLoad:
    """One running pod: its mean use, the phase of its wobble and what it has used so far."""

    mean: Rates
    phase: float
    since: float
    used: Counters = field(default_factory=Counters)

    def at(self, now: float) -> Rates:
        """What it asks for at `now`: CPU and network wobble by a tenth, memory by a fiftieth."""
        wave = sin(2 * pi * (now / 47.0 + self.phase))
        busy = 1 + 0.1 * wave
        held = 1 + 0.02 * wave
        return Rates(
            self.mean.cpu * busy, self.mean.memory * held, self.mean.rx * busy, self.mean.tx * busy
        )


def _mean(behaviour: Behaviour) -> Rates:
    return Rates(behaviour.millicpu / 1000, behaviour.memory, behaviour.rx, behaviour.tx)


class NodeLoad:
    """Background and pods of one node, with counters. Times are unix seconds and never run back."""

    def __init__(self, capacity: Capacity, background: Background, now: float) -> None:
        self.capacity = capacity
        self.background = background
        self.since = now
        self.used = Counters()
        self.pods: dict[str, PodLoad] = {}
        self._until = now

    def reshape(self, capacity: Capacity, background: Background, now: float) -> None:
        """Change capacity or background from `now` on."""
        if (capacity, background) != (self.capacity, self.background):
            self.advance(now)
            self.capacity = capacity
            self.background = background

    def start(self, uid: str, behaviour: Behaviour, now: float) -> None:
        """A pod begins to use what it does."""
        self.advance(now)
        self.pods.setdefault(uid, PodLoad(_mean(behaviour), crc32(uid.encode()) / 2**32, now))

    def change(self, uid: str, behaviour: Behaviour, now: float) -> None:
        """A running pod uses something else from `now` on."""
        if uid in self.pods:
            self.advance(now)
            self.pods[uid].mean = _mean(behaviour)

    def stop(self, uid: str, now: float) -> None:
        """A pod uses nothing any more; what it used stays in the node's counters."""
        if uid in self.pods:
            self.advance(now)
            del self.pods[uid]

    def advance(self, now: float) -> None:
        """Bring the counters up to `now`."""
        elapsed = now - self._until
        if elapsed <= 0:
            return
        steps = min(ceil(elapsed / _STEP_S), _MOST_STEPS)
        width = elapsed / steps
        for step in range(steps):
            self._integrate(self._until + (step + 0.5) * width, width)
        self._until = now

    def rates(self, now: float) -> tuple[Rates, dict[str, Rates]]:
        """What the node uses at `now`, and each pod's part of it by uid."""
        factors, wanted = self._contention(now)
        return self._total(wanted).times(factors), {
            uid: rates.times(factors) for uid, rates in wanted if uid
        }

    def _integrate(self, moment: float, width: float) -> None:
        factors, wanted = self._contention(moment)
        self.used.add(self._total(wanted).times(factors), width)
        for uid, rates in wanted:
            if uid:
                self.pods[uid].used.add(rates.times(factors), width)

    def _contention(self, moment: float) -> tuple[Rates, list[tuple[str, Rates]]]:
        # Where more is wanted than the node has, everyone gets the same fraction of what it wants.
        wanted = list(self._wanted(moment))
        bandwidth = self.capacity.bandwidth or float("inf")
        limits = Rates(self.capacity.cpu, self.capacity.memory, bandwidth, bandwidth)
        pairs = zip(limits, self._total(wanted), strict=True)
        return Rates(*(min(1.0, limit / total) if total else 1.0 for limit, total in pairs)), wanted

    def _wanted(self, moment: float) -> Iterator[tuple[str, Rates]]:
        yield "", self.background.at(moment, self.capacity)
        for uid, pod in self.pods.items():
            yield uid, pod.at(moment)

    @staticmethod
    def _total(wanted: list[tuple[str, Rates]]) -> Rates:
        cpu = memory = rx = tx = 0.0
        for _, rates in wanted:
            cpu += rates.cpu
            memory += rates.memory
            rx += rates.rx
            tx += rates.tx
        return Rates(cpu, memory, rx, tx)
