"""Nothing lost, nothing twice, with the product's own core and executors.

What tests/laws/test_exactly_once.py says of the promises, this says of those who keep them.
"""

import asyncio
from collections import Counter

import pytest

from shared.messages import BOUND, CLAIMED, DONE, REFUSED, STALE, UNKNOWN
from tests.laws.examples import examples
from tests.simulation.fleet import Fleet

SEEDS = range(examples(60))
TROUBLE_S, CALM_S = 50, 150


async def live(seed: int) -> Fleet:
    fleet = Fleet(seed)
    try:
        for _ in range(TROUBLE_S):
            await fleet.step()
        fleet.heal()
        for _ in range(CALM_S):
            await fleet.step()
    finally:
        for cluster in fleet.clusters.values():
            await cluster.executor.stop()
    return fleet


@pytest.mark.parametrize("seed", SEEDS)
def test_every_pod_runs_exactly_once_whatever_dies(seed: int) -> None:
    fleet = asyncio.run(live(seed))
    assert not [*fleet.astray()]


def test_the_law_is_not_held_by_doing_nothing() -> None:
    heard: Counter[str] = Counter()
    for seed in range(16):
        fleet = asyncio.run(live(seed))
        heard.update(fleet.heard)
        heard["ran"] += len(fleet.bound)
        heard["drained"] += len(fleet.drained)
        if all(heard[what] >= 3 for what in (BOUND, CLAIMED, DONE, REFUSED, STALE, UNKNOWN, "ran", "drained")):
            return
    raise AssertionError(f"16 lives, and no more than this was done: {heard}")
