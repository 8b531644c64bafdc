"""The live load of every node, from samples of any source, and the reading that crosses the wire."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.observer.changes import ChangeLog
from agents.observer.links import Links
from agents.observer.owner_uses import PodUse
from agents.observer.rates import Track
from agents.observer.seen import NodeTarget
from agents.observer.signals import BASE, LINK_SPEED, OF_BANDWIDTH, RECEIVE, TRANSMIT, Signal
from shared.model.node import Reading
from shared.model.signals import NETWORK_SIGNAL

READINGS = "readings"
OVER = 4.0  # a share above this many times the capacity is a fault of the source, not a load
MAX_BYTES_S = 1e13
DEFAULT_SOURCE = "kubelet"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number that a source measured at `time`, seconds of its own clock. None: it did not say.

    `counter`: a growing total, of which the rate counts. `parts` names what a total adds up, since
    a sum over other parts (interfaces, say) is another counter. `age`: seconds from `time` to the
    source's answer by the source's own clock, 0 where it does not tell.
    """

    value: float | None
    time: float = 0.0
    counter: bool = False
    parts: tuple[str, ...] = ()
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What a source said of one node, by measure. Which signals are made of that is configuration
    (`signals`).

    `source` is who said it. A configured source may have somebody stand in for it, as
    metrics.k8s.io does for a kubelet that does not answer. `pods`: what its pods use, where the
    source tells that.
    """

    source: str
    measures: Mapping[str, Measure] = field(default_factory=dict)
    pods: Sequence[PodUse] = ()


@dataclass(frozen=True, slots=True)
class Preference:
    """Which configured source is asked for a signal first. One whose value is older than `stale_s`
    is passed over for the next that has a fresher one; where none has, the freshest counts.

    `order` by signal; signals that it does not name have `default`.
    """

    default: tuple[str, ...] = (DEFAULT_SOURCE,)
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stale_s: float = 60.0

    def of(self, signal: str) -> tuple[str, ...]:
        """The sources of a signal, best first."""
        return self.order.get(signal, self.default)

    def sources(self) -> set[str]:
        """All that any signal is asked from."""
        return {*self.default, *(name for names in self.order.values() for name in names)}


class SourceLoad:
    """What one configured source tells of one node, smoothed."""

    __slots__ = ("_parts", "_tracks", "source")

    def __init__(self, target: NodeTarget, tau_s: float, signals: Sequence[Signal]) -> None:
        self.source = ""  # who told it last
        self._parts: dict[str, tuple[str, ...]] = {}
        self._tracks: dict[tuple[str, str], Track] = {
            (signal.name, measure): Track(
                tau_s=tau_s if signal.smoothed else 0.0, limit=_limit(signal, target)
            )
            for signal in signals
            for measure in signal.of
        }

    def add(self, sample: Sample, now: float) -> bool:
        """Take a sample; True if any value is new."""
        if sample.source != self.source:
            self.source = sample.source
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
                news |= track.counter(measure.value, measure.time, now, measure.age)
            else:
                news |= track.gauge(measure.value, measure.time, now, measure.age)
        self._parts.update((name, measure.parts) for name, measure in sample.measures.items())
        return news

    def value(self, signal: Signal, now: float) -> tuple[float, float] | None:
        """(the largest of the signal's measures, age of the oldest); None if none is known."""
        known = [
            (track.value, track.age(now))
            for measure in signal.of
            if (track := self._tracks[signal.name, measure]).value is not None
        ]
        return (max(value for value, _ in known), max(age for _, age in known)) if known else None

    def measure(self, signal: str, measure: str) -> float | None:
        """One measure of a signal, None unknown."""
        track = self._tracks.get((signal, measure))
        return track.value if track is not None else None


class NodeLoad:
    """Load of one node from all sources. Shares are of the node's capacity; network of what `links`
    says is full.
    """

    __slots__ = ("_by_source", "_links", "_preference", "_signals", "_target", "_tau")

    def __init__(
        self,
        target: NodeTarget,
        tau_s: float,
        signals: Sequence[Signal] = BASE,
        preference: Preference | None = None,
        links: Links | None = None,
    ) -> None:
        self._target = target
        self._signals = signals
        self._tau = tau_s
        self._preference = preference or Preference()
        self._links = links or Links()
        self._by_source: dict[str, SourceLoad] = {}

    def fits(self, target: NodeTarget) -> bool:
        """Whether the node still has the capacity that the load was measured against."""
        mine = self._target
        return (mine.cpu, mine.memory, mine.bandwidth) == (
            target.cpu,
            target.memory,
            target.bandwidth,
        )

    def add(self, sample: Sample, now: float, via: str = DEFAULT_SOURCE) -> bool:
        """Take a sample that the configured source `via` brought; True if any value is new."""
        load = self._by_source.get(via)
        if load is None:
            load = self._by_source[via] = SourceLoad(self._target, self._tau, self._signals)
        if (speed := sample.measures.get(LINK_SPEED)) is not None and speed.value is not None:
            self._links.speed(self._target.name, speed.value)
        before = self._rates()
        news = load.add(sample, now)
        if (rates := self._rates()) != before:
            self._links.carries(self._target, max(rates.values()), now)
        return news

    def age(self, signal: Signal, now: float) -> float | None:
        """Age of a signal's value in seconds, None if there is none."""
        chosen = self._chosen(signal, now)
        return chosen[2] if chosen is not None else None

    def ages(self, now: float) -> Iterable[tuple[str, str, float]]:
        """(configured source, signal, age in seconds) of all that is known, whether it is preferred
        or not.
        """
        for via, load in self._by_source.items():
            for signal in self._signals:
                if (found := load.value(signal, now)) is not None:
                    yield via, signal.name, found[1]

    def _chosen(self, signal: Signal, now: float) -> tuple[SourceLoad, float, float] | None:
        """(source, value, age) by preference; see `Preference`."""
        best: tuple[SourceLoad, float, float] | None = None
        for via in self._preference.of(signal.name):
            load = self._by_source.get(via)
            found = load.value(signal, now) if load is not None else None
            if load is None or found is None:
                continue
            if found[1] <= self._preference.stale_s:
                return (load, *found)
            if best is None or found[1] < best[2]:
                best = (load, *found)
        return best

    def _capacity(self, signal: Signal, now: float) -> float:
        """What is full, 0 unknown."""
        return (
            self._links.full(self._target, now)
            if signal.per == OF_BANDWIDTH
            else signal.capacity(self._target)
        )

    def _rates(self, chosen: SourceLoad | None = None) -> dict[str, float]:
        """The node's bytes/s by measure, by the source that is chosen for the network, else the
        first that knows.
        """
        ordered = (self._by_source.get(via) for via in self._preference.of(NETWORK_SIGNAL))
        for load in (chosen, *ordered):
            if load is None:
                continue
            told = {
                name: value
                for name in _NETWORK
                if (value := load.measure(NETWORK_SIGNAL, name)) is not None
            }
            if told:
                return told
        return {}

    def reading(self, now: float) -> Reading:
        """The reading as of `now`."""
        told: dict[str, tuple[float | None, float]] = {}
        sources: dict[str, str] = {}
        network: SourceLoad | None = None
        for signal in self._signals:
            chosen = self._chosen(signal, now)
            if chosen is None:
                told[signal.name] = (None, 0.0)
                continue
            load, value, age = chosen
            told[signal.name] = (_share(value, self._capacity(signal, now)), age)
            sources[signal.name] = load.source
            network = load if signal.name == NETWORK_SIGNAL else network
        rates = self._rates(network)
        return Reading.of(
            self._target.name,
            told,
            sources,
            receive_bytes_s=rates.get(RECEIVE),
            transmit_bytes_s=rates.get(TRANSMIT),
        )


class Loads:
    """Loads of all nodes; every new value is a numbered change."""

    def __init__(
        self,
        log: ChangeLog,
        *,
        tau_s: float,
        signals: Sequence[Signal] = BASE,
        preference: Preference | None = None,
    ) -> None:
        self._log = log
        self._tau = tau_s
        self._signals = signals
        self._preference = preference or Preference()
        self._links = Links()
        self._loads: dict[str, NodeLoad] = {}
        # Told of pods, when, and the node that says so ("": the API server, which knows all nodes).
        self.on_pods: Callable[[Sequence[PodUse], float, str], None] = lambda pods, now, node: None

    def add(
        self, target: NodeTarget, sample: Sample, now: float, via: str = DEFAULT_SOURCE
    ) -> bool:
        """Take a sample of a node that the configured source `via` brought; True if it said
        something new.
        """
        if sample.pods:
            self.on_pods(sample.pods, now, target.name)
        load = self._loads.get(target.name)
        if load is None or not load.fits(target):
            load = NodeLoad(target, self._tau, self._signals, self._preference, self._links)
            self._loads[target.name] = load
        if not load.add(sample, now, via):
            return False
        self._log.touch(READINGS, target.name)
        return True

    def keep(self, names: Iterable[str]) -> None:
        """Forget the loads of nodes that are not in `names`."""
        for name in self._loads.keys() - set(names):
            del self._loads[name]
            self._links.forget(name)
            self._log.drop(READINGS, name)

    def names(self) -> Iterable[str]:
        """Nodes with a load."""
        return self._loads.keys()

    def age(self, name: str, now: float) -> float | None:
        """Age of the node's CPU value, None if unknown."""
        load = self._loads.get(name)
        return load.age(self._signals[0], now) if load is not None else None

    def values(self, names: Iterable[str], now: float) -> Iterable[tuple[str, str, str, float]]:
        """(node, configured source, signal, age in seconds) of all that is known of these nodes,
        preferred or not.
        """
        for name in names:
            load = self._loads.get(name)
            for via, signal, age in load.ages(now) if load is not None else ():
                yield name, via, signal, age

    def reading(self, name: str, now: float) -> Reading | None:
        """The node's reading as of `now`."""
        load = self._loads.get(name)
        return load.reading(now) if load is not None else None


_NETWORK = (RECEIVE, TRANSMIT)


def _share(value: float | None, capacity: float) -> float | None:
    return min(1.0, value / capacity) if value is not None and capacity > 0 else None


def _limit(signal: Signal, target: NodeTarget) -> float:
    """Above this a measure is not believed."""
    if signal.per == OF_BANDWIDTH and not target.bandwidth:
        return MAX_BYTES_S
    return OVER * signal.capacity(target)
