"""Rebalancing comes to rest: without changes from outside every move makes the fleet cheaper, and none is undone."""

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.rebalancing.utilisation import cost
from shared.model.pod import PodId
from tests.laws.examples import examples
from tests.scheduling.rebalancing.world import RULES, World, web

_MINUTES = 150
_SETTLED = 60  # of them, at the end, without a move


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Nodes with up to their full CPU requested, pods of all sizes."""
    nodes = {}
    for at in range(draw(st.integers(2, 5))):
        sizes = draw(st.lists(st.integers(100, 1500), max_size=8))
        kept = [size for end, size in enumerate(sizes) if sum(sizes[: end + 1]) <= 4000]
        nodes[f"n{at}"] = [web(f"{at}-{nth}", size) for nth, size in enumerate(kept)]
    return World(nodes, use=draw(st.floats(0.5, 1.0)))


def potential(world: World) -> float:
    """What all nodes cost, by what they really carry."""
    return sum(cost(np.asarray([world.load(name)]), ("cpu",)) for name in world.fleet.node_names("a"))


@settings(max_examples=examples(20), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(worlds())
def test_every_move_makes_the_fleet_cheaper_and_then_it_rests(world: World) -> None:
    last, moved_at = 0, dict[PodId, float]()
    for minute in range(_MINUTES):
        for move in world.minute().moves:
            before = potential(world)
            world.carry_out(move)
            assert potential(world) < before
            assert world.fleet.now - moved_at.get(move.pod_id, -np.inf) >= RULES.rest_s
            last, moved_at[move.pod_id] = minute, world.fleet.now
    assert last < _MINUTES - _SETTLED
