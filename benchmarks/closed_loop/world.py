"""What the nodes really carry, minute by minute, and the figures that follow from it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.closed_loop.workload import MINUTES, RESOURCES, Workload

HOT = 0.8


class Figures(NamedTuple):
    """Of one resource over one day.

    hot_minutes: node-minutes above 80 % of the node. overload: node-minutes wanted beyond what
    nodes have. p99: 99th percentile of the utilisation of nodes, 1 is full. deviation: of the
    nodes' utilisation, mean over the day. unserved: percent of what pods wanted and did not get,
    throttled or waiting. moves: pods that were moved.
    """

    hot_minutes: float
    overload: float
    p99: float
    deviation: float
    unserved: float
    moves: float


class World:
    """The load that placed pods make. `load` is [3, nodes, minutes], what pods want as a share of
    their node.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.load = np.zeros((len(RESOURCES), workload.size.nodes, MINUTES), dtype=np.float32)
        self.moves = 0
        self._at: dict[int, tuple[int, int]] = {}  # pod -> node, first minute
        self._missed = np.zeros(len(RESOURCES))  # node-minutes that pods wanted before they ran

    def start(self, pod: int, node: int, now: float) -> None:
        """A pod is placed; its use begins when it has started."""
        self._run(pod, node, self.workload.life(pod, float(self.workload.arrives[pod])).start, now)

    def move(self, pod: int, node: int, now: float) -> None:
        """A pod is stopped, and started on another node; between the two it gets nothing."""
        old, begin = self._at[pod]
        stopped = max(begin, int(now // 60) + 1)
        rest = slice(stopped, self.workload.life(pod, now).stop)
        self.load[:, old, rest] -= self.workload.use[:, pod, rest]
        self.moves += 1
        self._run(pod, node, stopped, now)

    def _run(self, pod: int, node: int, wanted: int, now: float) -> None:
        life = self.workload.life(pod, now)
        self._at[pod] = node, life.start
        self.load[:, node, life] += self.workload.use[:, pod, life]
        self._missed += _sum(self.workload.use[:, pod, wanted : min(life.start, life.stop)])

    def figures(self) -> list[Figures]:
        """Of each resource, when the day is over."""
        lives = [
            self.workload.life(pod, float(since)) for pod, since in enumerate(self.workload.arrives)
        ]
        wanted = [_sum(self.workload.use[:, pod, life]) for pod, life in enumerate(lives)]
        total = np.sum(wanted, axis=0)
        missed = self._missed + sum(
            (one for pod, one in enumerate(wanted) if pod not in self._at), np.zeros(len(total))
        )
        return [self._of(at, float(total[at]), float(missed[at])) for at in RESOURCES]

    def _of(self, resource: int, wanted: float, missed: float) -> Figures:
        load = self.load[resource]
        over = float(np.maximum(load - 1.0, 0.0).sum(dtype=np.float64))
        unserved = 100.0 * (over + missed) / wanted if wanted else 0.0
        p99, deviation = float(np.percentile(load, 99)), float(load.std(axis=0).mean())
        return Figures(float((load > HOT).sum()), over, p99, deviation, unserved, float(self.moves))


def _sum(use: NDArray[np.float32]) -> NDArray[np.float64]:
    """[3] node-minutes."""
    found: NDArray[np.float64] = use.sum(axis=1, dtype=np.float64)
    return found
