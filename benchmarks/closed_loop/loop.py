"""One day with one policy: pods come and end, readings arrive, and what was placed makes the load
that is read next.
"""

from typing import NamedTuple

from benchmarks.closed_loop.policy import Policy
from benchmarks.closed_loop.readings import Readings
from benchmarks.closed_loop.workload import Workload
from benchmarks.closed_loop.world import World

_TICK, _END, _ARRIVAL = range(
    3
)  # at one time in this order: a place that is free is there for who comes


class Day(NamedTuple):
    """How pods fared: minutes that they waited for a node with room, all together."""

    waited_minutes: float


def run(workload: Workload, world: World, readings: Readings, policy: Policy) -> Day:
    """Let the day pass in `world`."""
    loop = _Loop(workload, world, policy)
    for now, kind, pod in _timeline(workload):
        batch = readings.until(now, world.load)
        if batch is not None:
            policy.read(batch, now)
        if kind == _ARRIVAL:
            loop.arrived(pod, now)
        elif kind == _END:
            loop.ended(pod, now)
        else:
            loop.minute(now)
    return Day(loop.waited_s / 60)


def _timeline(workload: Workload) -> list[tuple[float, int, int]]:
    arrivals = ((float(at), _ARRIVAL, pod) for pod, at in enumerate(workload.arrives))
    ends = ((float(at), _END, pod) for pod, at in enumerate(workload.ends))
    minutes = ((60.0 * at, _TICK, 0) for at in range(workload.use.shape[2]))
    return sorted((*arrivals, *ends, *minutes))


class _Loop:
    """Who runs and who waits. Pods that wait are tried again, oldest first, in a minute after
    others have ended.
    """

    def __init__(self, workload: Workload, world: World, policy: Policy) -> None:
        self._workload, self._world, self._policy = workload, world, policy
        self._running: set[int] = set()
        self._waiting: list[int] = []
        self._room_came = False
        self.waited_s = 0.0

    def arrived(self, pod: int, now: float) -> None:
        if not self._placed(pod, now):
            self._waiting.append(pod)

    def ended(self, pod: int, now: float) -> None:
        if pod in self._running:
            self._running.remove(pod)
            self._policy.ended(pod, now)
            self._room_came = True
        else:
            self._waiting.remove(pod)
            self.waited_s += now - float(self._workload.arrives[pod])

    def minute(self, now: float) -> None:
        if self._room_came:
            self._room_came = False
            self._waiting = [pod for pod in self._waiting if not self._placed(pod, now)]
        for pod, node in self._policy.rebalance(now):
            self._world.move(pod, node, now)

    def _placed(self, pod: int, now: float) -> bool:
        node = self._policy.place(pod, now)
        if node is None:
            return False
        self._running.add(pod)
        self.waited_s += now - float(self._workload.arrives[pod])
        self._world.start(pod, node, now)
        return True
