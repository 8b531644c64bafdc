"""What a placement policy is told and asked: the same for ours and for its peers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.closed_loop.readings import Batch
from benchmarks.closed_loop.workload import Workload
from benchmarks.closed_loop.world import World
from dispatcher.scheduling.framework import Profile


@dataclass(frozen=True)
class Setting:
    """One run. `world` is for the oracle alone; `profile`: the product's."""

    workload: Workload
    world: World
    rng: np.random.Generator
    profile: Profile


class Policy(Protocol):
    """Places pods, by number, on nodes, by number. It learns of load by readings alone. Times are
    in seconds.
    """

    def read(self, batch: Batch, now: float) -> None:
        """Readings have arrived."""

    def place(self, pod: int, now: float) -> int | None:
        """The node for a pod, booked; None if its requests fit nowhere."""

    def ended(self, pod: int, now: float) -> None:
        """A placed pod has ended."""

    def rebalance(self, now: float) -> Sequence[tuple[int, int]]:
        """(pod, node) of placed pods to move, booked; asked once a minute."""
