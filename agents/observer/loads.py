"""The live load of every node, from samples of any source, and the reading that crosses the wire."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.observer.changes import ChangeLog
from agents.observer.rates import Track
from agents.observer.seen import NodeTarget
from agents.observer.signals import BASE, OF_BANDWIDTH, RECEIVE, TRANSMIT, Signal
from dispatcher.model.node import Reading
from dispatcher.model.signals import NETWORK_SIGNAL

READINGS = "readings"
OVER = 4.0  # a share above this many times the capacity is a fault of the source, not a load
MAX_BYTES_S = 1e13


@dataclass(frozen=True, slots=True)
class Measure:
    """One number that a source measured at `time`, seconds of its own clock. None: it did not say.

    `counter`: a growing total, of which the rate counts. `parts` names what a total adds up, since a sum over other
    parts (interfaces, say) is another counter.
    """

    value: float | None
    time: float = 0.0
    counter: bool = False
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """What a source said of one node, by measure. Which signals are made of that is configuration (`signals`)."""

    source: str
    measures: Mapping[str, Measure] = field(default_factory=dict)


class NodeLoad:
    """Load of one node. Shares are of the node's capacity; network of its bandwidth, if that is known."""

    __slots__ = ("_parts", "_signals", "_source", "_target", "_tracks")

    def __init__(self, target: NodeTarget, tau_s: float, signals: Sequence[Signal] = BASE) -> None:
        self._target, self._signals = target, signals
        self._source = ""
        self._parts: dict[str, tuple[str, ...]] = {}
        self._tracks: dict[tuple[str, str], Track] = {
            (signal.name, measure): Track(tau_s=tau_s if signal.smoothed else 0.0, limit=_limit(signal, target))
            for signal in signals
            for measure in signal.of
        }

    def fits(self, target: NodeTarget) -> bool:
        """Whether the node still has the capacity that the load was measured against."""
        mine = self._target
        return (mine.cpu, mine.memory, mine.bandwidth) == (target.cpu, target.memory, target.bandwidth)

    def add(self, sample: Sample, now: float) -> bool:
        """Take a sample; True if any value is new."""
        if sample.source != self._source:
            self._source = sample.source
            for track in self._tracks.values():
                track.rebase()
        news = False
        for (_, name), track in self._tracks.items():
            measure = sample.measures.get(name)
            if measure is None:
                continue
            if measure.counter:
                if measure.parts != self._parts.get(name, measure.parts):
                    track.rebase()
                news |= track.counter(measure.value, measure.time, now)
            else:
                news |= track.gauge(measure.value, measure.time, now)
        self._parts.update((name, measure.parts) for name, measure in sample.measures.items())
        return news

    def cpu_age(self, now: float) -> float | None:
        """Age of the first signal's value (CPU) in seconds, None if there is none."""
        return next((track.age(now) for track in self._tracks_of(self._signals[0])), None)

    def _tracks_of(self, signal: Signal) -> list[Track]:
        found = (self._tracks[signal.name, measure] for measure in signal.of)
        return [track for track in found if track.value is not None]

    def _told(self, signal: Signal, now: float) -> tuple[float | None, float]:
        """(share, age) of a signal."""
        tracks = self._tracks_of(signal)
        busiest = max((track.value for track in tracks if track.value is not None), default=None)
        return _share(busiest, signal.capacity(self._target)), max((track.age(now) for track in tracks), default=0.0)

    def reading(self, now: float) -> Reading:
        """The reading as of `now`."""
        receive, transmit = (self._tracks.get((NETWORK_SIGNAL, measure)) for measure in (RECEIVE, TRANSMIT))
        return Reading.of(
            self._target.name,
            {signal.name: self._told(signal, now) for signal in self._signals},
            self._source,
            receive_bytes_s=receive.value if receive is not None else None,
            transmit_bytes_s=transmit.value if transmit is not None else None,
        )


class Loads:
    """Loads of all nodes; every new value is a numbered change."""

    def __init__(self, log: ChangeLog, *, tau_s: float, signals: Sequence[Signal] = BASE) -> None:
        self._log = log
        self._tau, self._signals = tau_s, signals
        self._loads: dict[str, NodeLoad] = {}

    def add(self, target: NodeTarget, sample: Sample, now: float) -> bool:
        """Take a sample of a node; True if it said something new."""
        load = self._loads.get(target.name)
        if load is None or not load.fits(target):
            load = self._loads[target.name] = NodeLoad(target, self._tau, self._signals)
        if not load.add(sample, now):
            return False
        self._log.touch(READINGS, target.name)
        return True

    def keep(self, names: Iterable[str]) -> None:
        """Forget the loads of nodes that are not in `names`."""
        for name in self._loads.keys() - set(names):
            del self._loads[name]
            self._log.drop(READINGS, name)

    def names(self) -> Iterable[str]:
        """Nodes with a load."""
        return self._loads.keys()

    def age(self, name: str, now: float) -> float | None:
        """Age of the node's CPU value, None if unknown."""
        load = self._loads.get(name)
        return load.cpu_age(now) if load is not None else None

    def reading(self, name: str, now: float) -> Reading | None:
        """The node's reading as of `now`."""
        load = self._loads.get(name)
        return load.reading(now) if load is not None else None


def _share(value: float | None, capacity: float) -> float | None:
    return min(1.0, value / capacity) if value is not None and capacity > 0 else None


def _limit(signal: Signal, target: NodeTarget) -> float:
    """Above this a measure is not believed."""
    if signal.per == OF_BANDWIDTH and not target.bandwidth:
        return MAX_BYTES_S
    return OVER * signal.capacity(target)
