"""What counts as a full network on a node whose bandwidth nobody wrote down. All in bytes/s per
direction.

    full = the node's bandwidth (annotation, or the agent's default)              where it is known, else
           its link speed                                                        where a source tells it, else
           max(FLOOR, C)        C: the most that nodes of its kind, itself included, have carried
           max(FLOOR, M)        M: the most that any node carries now, until its kind was watched for WARM_S
    share = max(receive, transmit) / full

*Carried* is the least of three rates in a row: one wrong counter, also smoothed, must not make all
nodes of a kind look idle for a day. C halves in HALF_LIFE_S, so that a link that became slower
shows. What was carried is less than what could be, so such a share errs towards busy; FLOOR keeps
the noise of an idle cluster from being called load. A kind is the instance type, or else nodes of
equal CPU and memory.
"""

from dataclasses import dataclass

from agents.observer.seen import NodeTarget

FLOOR = 12_500_000.0  # 100 Mbit/s
HELD = 3  # samples
WARM_S = 600.0
HALF_LIFE_S = 86_400.0
MAX_LINK = 1.25e12  # 10 Tbit/s: above this a speed is a fault of the source
MAX_CARRIED = 1.25e11  # 1 Tbit/s: the same of a rate
Kind = tuple[str, int, int]


@dataclass(slots=True)
class Carried:
    """The most that a kind has carried, as of a time, and since when it is watched."""

    most: float
    at: float
    since: float

    def now(self, now: float) -> float:
        """Decayed to now."""
        return float(self.most * 0.5 ** (max(0.0, now - self.at) / HALF_LIFE_S))


class Links:
    """Of one cluster."""

    def __init__(self) -> None:
        self._speeds: dict[str, float] = {}
        self._rates: dict[str, tuple[float, ...]] = {}  # the last three
        self._busiest = ""  # the node that carries most now
        self._kinds: dict[Kind, Carried] = {}

    def speed(self, node: str, speed: float) -> None:
        """A source tells the speed of a node's own interfaces."""
        if 0 < speed <= MAX_LINK:
            self._speeds[node] = speed

    def carries(self, target: NodeTarget, rate: float, now: float) -> None:
        """A node's larger direction, now."""
        if not 0 <= rate <= MAX_CARRIED:
            return
        rates = self._rates[target.name] = (*self._rates.get(target.name, ()), rate)[-HELD:]
        if self._busiest == target.name:
            self._busiest = max(self._rates, key=self._now)
        elif rate >= self._now(self._busiest):
            self._busiest = target.name
        held = min(rates) if len(rates) == HELD else 0.0
        carried = self._kinds.setdefault(_kind(target), Carried(0.0, now, now))
        if held >= carried.now(now):
            carried.most = held
            carried.at = now

    def forget(self, node: str) -> None:
        """The node is gone; what its kind carried is not."""
        self._speeds.pop(node, None)
        self._rates.pop(node, None)
        if self._busiest == node:
            self._busiest = max(self._rates, key=self._now, default="")

    def full(self, target: NodeTarget, now: float) -> float:
        """What counts as full on a node; see the module."""
        if target.bandwidth:
            return target.bandwidth
        if speed := self._speeds.get(target.name):
            return speed
        carried = self._kinds.get(_kind(target))
        if carried is not None and now - carried.since >= WARM_S:
            return max(FLOOR, carried.now(now))
        return max(FLOOR, self._now(self._busiest))

    def _now(self, node: str) -> float:
        return self._rates.get(node, (0.0,))[-1]


def _kind(target: NodeTarget) -> Kind:
    return (target.kind, 0, 0) if target.kind else ("", target.cpu, target.memory)
