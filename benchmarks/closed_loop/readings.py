"""What an agent would tell of each node and when: sampled every 15 to 60 s, late, noisy, and some
are lost.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.closed_loop.workload import MINUTES, RESOURCES


@dataclass(frozen=True)
class Quality:
    """Seconds between two samples of a node (each node keeps to one interval), and what is wrong
    with readings.

    `late_s`: a reading is on its way for an exponentially distributed time of that mean. `noise`:
    deviation, as a share of the node. `lost`: share of the readings.
    """

    shortest_s: float = 15.0
    longest_s: float = 60.0
    late_s: float = 10.0
    noise: float = 0.02
    lost: float = 0.05


class Batch(NamedTuple):
    """Readings that arrived together, oldest sample first: node, time of the sample, [3, readings]
    shares 0..1.
    """

    node: NDArray[np.int64]
    sampled_at: NDArray[np.float64]
    shares: NDArray[np.float32]


class Readings:
    """All readings of a day, in order of arrival; their values follow from the load at the time of
    the sample.
    """

    def __init__(self, quality: Quality, nodes: int, seed: int) -> None:
        rng = np.random.default_rng((seed, 1))
        sampled, node = _samples(rng, quality, nodes)
        kept = rng.random(len(node)) >= quality.lost
        arrives = (
            sampled + rng.exponential(quality.late_s, len(node))
            if quality.late_s
            else sampled.copy()
        )
        order = np.argsort(arrives, kind="stable")
        order = order[kept[order]]
        self._node, self._sampled, self._arrives = node[order], sampled[order], arrives[order]
        self._noise = rng.normal(0.0, quality.noise, (len(RESOURCES), len(order))).astype(
            np.float32
        )
        self._next = 0

    def until(self, now: float, load: NDArray[np.float32]) -> Batch | None:
        """What arrived since the last call, by `load` [3, nodes, minutes]; None if nothing did."""
        begin, self._next = self._next, int(np.searchsorted(self._arrives, now, side="right"))
        if self._next <= begin:
            return None
        order = begin + np.argsort(self._sampled[begin : self._next], kind="stable")
        node, sampled = self._node[order], self._sampled[order]
        minute = np.minimum((sampled // 60).astype(np.int64), MINUTES - 2)
        part = (sampled / 60 - minute).astype(np.float32)
        true = load[:, node, minute] * (1 - part) + load[:, node, minute + 1] * part
        return Batch(
            node, sampled, np.clip(np.minimum(true, 1.0) + self._noise[:, order], 0.0, 1.0)
        )


def _samples(
    rng: np.random.Generator, quality: Quality, nodes: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    intervals = rng.uniform(quality.shortest_s, quality.longest_s, nodes)
    times = [np.arange(rng.uniform(0.0, every), 60.0 * (MINUTES - 1), every) for every in intervals]
    node = np.repeat(np.arange(nodes), [len(one) for one in times])
    return np.concatenate(times), node
