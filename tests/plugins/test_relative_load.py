import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from tests.builders import fleet, node, pod, put, reading
from tests.plugins.asking import make, scores, state_of

NOTHING = pod().set(expected=(0, 0))


def loaded(**shares: float | None) -> FleetState:
    """Nodes by name, whose CPU and network are read so; None: not at all."""
    state = fleet(a=[node(name).cpu(10).memory("10Gi") for name in shares])
    for name, share in shares.items():
        if share is not None:
            state.put_reading("a", reading(name, cpu=share, net=share))
    return state


@pytest.mark.parametrize("name", ["RelativeCPU", "RelativeNetwork"])
def test_points_are_relative_to_the_most_loaded_node(name: str) -> None:
    plugin = make(name)
    assert scores(plugin, NOTHING, loaded(a=0.2, b=0.4, c=0.8)) == {"a": 75, "b": 50, "c": 0}
    assert scores(plugin, NOTHING, loaded(a=0.02, b=0.04, c=0.08)) == {"a": 75, "b": 50, "c": 0}
    assert scores(plugin, NOTHING, loaded(a=0.0, b=0.0)) == {"a": 100, "b": 100}


def test_a_node_without_readings_goes_by_its_requests() -> None:
    state, plugin = loaded(a=0.4, b=None), make("RelativeCPU")
    put(state, pod("old").cpu(2), "a", "b")
    assert scores(plugin, NOTHING, state) == {"a": 0, "b": 50}
    told = plugin.explain(state_of(plugin, NOTHING, state), NOTHING.placed(), view_of(state), 1)
    assert told == {"utilisation": 0.2, "mean": None, "reading": None, "age_s": None, "judged": "unknown, by requests"}


def test_what_was_placed_counts_at_once() -> None:
    state = loaded(a=0.2, b=0.4)
    state.place(("a", "new"), pod("new").cpu(2).placed(), "a", "a", assumed=True)
    assert scores(make("RelativeCPU"), NOTHING, state) == {"a": 0, "b": 0}


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8))
def test_points_are_those_of_the_formula(shares: list[float]) -> None:
    most = max(shares)
    want = [100 - 100 * share / most if most else 100.0 for share in shares]
    plugin, raw = make("RelativeNetwork"), -np.asarray(shares)
    assert plugin.normalize(raw).tolist() == pytest.approx(want, abs=1e-9)
