"""Shards in this process, for laws: everything crosses as bytes, and a dice may lose, delay and restart."""

import random
from collections.abc import Callable, Sequence

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Plugin, Profile
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.shards.coordinator import Shards
from dispatcher.scheduling.shards.frames import Frame
from dispatcher.scheduling.shards.shard import Shard

POLICY = "of the test"


class LocalShard:
    """Satisfies `ShardLink` over a shard that is called at once. `trouble`: how likely each call meets some."""

    def __init__(self, plan: Callable[[], Plan], dice: random.Random | None = None, trouble: float = 0.0) -> None:
        self._plan, self._dice, self.trouble = plan, dice or random.Random(0), trouble
        self.idle, self.life, self.state, self.seconds = True, 0, "up", 0.0
        self._told: Frame | None = None
        self.restart()

    def restart(self) -> None:
        """As after kill -9: nothing is held."""
        self.shard = Shard()
        self.shard.configure(POLICY, [self._plan()])

    @property
    def ready(self) -> bool:
        """Most of the time."""
        return not self._happens()

    def _happens(self) -> bool:
        return self._dice.random() < self.trouble

    def send(self, order: Frame) -> None:
        """Hand it over, as bytes, unless it is lost, or the shard dies."""
        self._told = None
        if self._happens():
            return
        if self._happens():
            self.restart()
        body = np.frombuffer(order.body.tobytes(), dtype=np.uint8)
        self._told = self.shard.take(Frame(bytes(order.head), body))

    def answer(self) -> Frame | None:
        """What was told, unless that is lost."""
        return None if self._told is None or self._happens() else self._told


def shards_of(
    fleet: FleetState,
    profile: Profile,
    plugins: Callable[[], Sequence[Plugin]],
    count: int,
    *,
    seed: int = 0,
    trouble: float = 0.0,
) -> Shards:
    """`count` shards over a fleet of any size, with plugins of their own."""
    dice = random.Random(seed)
    links = [LocalShard(lambda: Plan.of(profile, plugins()), dice, trouble) for _ in range(count)]
    return Shards(fleet, links, policy=POLICY, least_rows=1)
