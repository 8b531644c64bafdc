"""The live load of every node, from samples of any source, and the reading that crosses the wire."""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.observer.changes import ChangeLog
from agents.observer.rates import Track
from agents.observer.seen import NodeTarget
from dispatcher.model.node import Reading

READINGS = "readings"
OVER = 4.0  # a share above this many times the capacity is a fault of the source, not a load
MAX_BYTES_S = 1e13


@dataclass(frozen=True, slots=True)
class Sample:
    """What a source said of one node. Times are seconds of the source's clock; None is what it did not say.

    `interfaces` names what the byte totals add up, since a sum over other interfaces is another counter.
    """

    source: str
    cpu_cores: float | None = None
    cpu_seconds: float | None = None
    cpu_time: float = 0.0
    memory_bytes: float | None = None
    memory_time: float = 0.0
    receive_bytes: float | None = None
    transmit_bytes: float | None = None
    net_time: float = 0.0
    interfaces: tuple[str, ...] = ()


class NodeLoad:
    """Load of one node. Shares are of the node's capacity; network of its bandwidth, if that is known."""

    __slots__ = ("_cpu", "_interfaces", "_memory", "_receive", "_source", "_target", "_transmit")

    def __init__(self, target: NodeTarget, tau_s: float) -> None:
        self._target = target
        self._source = ""
        self._interfaces: tuple[str, ...] = ()
        self._cpu = Track(tau_s=tau_s, limit=OVER * target.cpu / 1000)
        self._memory = Track(limit=OVER * target.memory)
        net_limit = OVER * target.bandwidth if target.bandwidth else MAX_BYTES_S
        self._receive = Track(tau_s=tau_s, limit=net_limit)
        self._transmit = Track(tau_s=tau_s, limit=net_limit)

    def fits(self, target: NodeTarget) -> bool:
        """Whether the node still has the capacity that the load was measured against."""
        mine = self._target
        return (mine.cpu, mine.memory, mine.bandwidth) == (target.cpu, target.memory, target.bandwidth)

    def add(self, sample: Sample, now: float) -> bool:
        """Take a sample; True if any value is new."""
        if sample.source != self._source:
            self._source = sample.source
            for track in (self._cpu, self._memory, self._receive, self._transmit):
                track.rebase()
        if sample.interfaces != self._interfaces:
            self._interfaces = sample.interfaces
            self._receive.rebase()
            self._transmit.rebase()
        if sample.cpu_cores is not None:
            news = self._cpu.gauge(sample.cpu_cores, sample.cpu_time, now)
        else:
            news = self._cpu.counter(sample.cpu_seconds, sample.cpu_time, now)
        news |= self._memory.gauge(sample.memory_bytes, sample.memory_time, now)
        news |= self._receive.counter(sample.receive_bytes, sample.net_time, now)
        return news | self._transmit.counter(sample.transmit_bytes, sample.net_time, now)

    def cpu_age(self, now: float) -> float | None:
        """Age of the CPU value in seconds, None if there is none."""
        return self._cpu.age(now) if self._cpu.value is not None else None

    def reading(self, now: float) -> Reading:
        """The reading as of `now`."""
        receive, transmit = self._receive.value, self._transmit.value
        busiest = max((rate for rate in (receive, transmit) if rate is not None), default=None)
        return Reading(
            node=self._target.name,
            cpu=_share(self._cpu.value, self._target.cpu / 1000),
            memory=_share(self._memory.value, self._target.memory),
            net=_share(busiest, self._target.bandwidth),
            receive_bytes_s=receive,
            transmit_bytes_s=transmit,
            cpu_age_s=_age(self._cpu, now),
            memory_age_s=_age(self._memory, now),
            net_age_s=max(_age(self._receive, now), _age(self._transmit, now)),
            source=self._source,
        )


class Loads:
    """Loads of all nodes; every new value is a numbered change."""

    def __init__(self, log: ChangeLog, *, tau_s: float) -> None:
        self._log = log
        self._tau = tau_s
        self._loads: dict[str, NodeLoad] = {}

    def add(self, target: NodeTarget, sample: Sample, now: float) -> bool:
        """Take a sample of a node; True if it said something new."""
        load = self._loads.get(target.name)
        if load is None or not load.fits(target):
            load = self._loads[target.name] = NodeLoad(target, self._tau)
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


def _age(track: Track, now: float) -> float:
    return track.age(now) if track.value is not None else 0.0
