from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from tests.builders import fleet, node, pod, put, reading
from tests.plugins.asking import make, raw_scores, scores, state_of

PLAIN = {"hot_above": 1, "hot_steepness": 1}  # score = 100 * headroom
POD = pod().cpu(1).memory("1Gi")  # a tenth of the node
LIVE = pytest.mark.parametrize("name", ["LiveCPU", "LiveMemory", "LiveNetwork"])


def one_node(**shares: float) -> FleetState:
    """Half of its CPU and memory requested; read as given."""
    state = fleet(a=[node("n").cpu(10).memory("10Gi")])
    put(state, pod("t").cpu(5).memory("5Gi"), "a", "n")
    state.put_reading("a", reading("n", **shares))
    return state


@pytest.mark.parametrize(
    ("name", "shares", "want"),
    [
        ("LiveCPU", {"cpu": 0.2}, 100 - 20 - 10),
        ("LiveCPU", {"cpu": 0.95}, 0),
        ("LiveCPU", {"memory": 0.2}, 100 - 50 - 10),
        ("LiveMemory", {"memory": 0.2}, 100 - 20 - 10),
        ("LiveNetwork", {"net": 0.2}, 100 - 20),
        ("LiveNetwork", {"cpu": 0.2}, 100 - 50 - 10),
    ],
    ids=["CPU", "CPU full with the pod", "CPU unknown", "memory", "network", "network unknown"],
)
def test_live_headroom_is_what_is_left_with_the_pod(name: str, shares: dict[str, float], want: float) -> None:
    state = one_node(**shares)
    assert scores(make(name, **PLAIN), POD, state) == {"n": pytest.approx(want, abs=1e-3)}


@pytest.mark.parametrize(
    ("age", "want", "words"),
    [
        (0, 70, "fresh"),
        (45, 70, "fresh"),
        (83, 54.8, "fading, 49% by readings, rest by requests"),
        (120, 40, "stale, by requests"),
        (100_000, 40, "stale, by requests"),
    ],
)
def test_live_headroom_fades_from_the_reading_to_the_requests(age: float, want: float, words: str) -> None:
    state, plugin = one_node(cpu=0.2), make("LiveCPU", **PLAIN)
    state.now += age
    assert scores(plugin, POD, state) == {"n": pytest.approx(want, abs=1e-3)}
    told = plugin.explain(state_of(plugin, POD, state), POD.placed(), view_of(state), 0)
    shown = {"mean": 0.2, "reading": 0.2, "age_s": age, "judged": words}
    assert told == {"utilisation": pytest.approx(1 - want / 100), **shown}


@LIVE
def test_live_headroom_judges_by_requests_where_nothing_was_ever_read(name: str) -> None:
    state, plugin = one_node(), make(name, **PLAIN)
    assert scores(plugin, POD, state) == {"n": pytest.approx(40)}
    told = plugin.explain(state_of(plugin, POD, state), POD.placed(), view_of(state), 0)
    assert (told["judged"], told["reading"], told["age_s"]) == ("unknown, by requests", None, None)


def test_live_headroom_counts_what_was_placed_since_the_reading() -> None:
    state = one_node(cpu=0.2)
    state.now += 1
    state.place(("a", "new"), pod("new").cpu(3).placed(), "a", "n", assumed=True)
    assert scores(make("LiveCPU", **PLAIN), POD, state) == {"n": pytest.approx(40)}
    state.now += 1
    state.put_reading("a", reading("n", cpu=0.3))
    assert scores(make("LiveCPU", **PLAIN), POD, state) == {"n": pytest.approx(60)}


def test_live_headroom_falls_off_steeply_above_the_threshold() -> None:
    loads = {"idle": 0.0, "warm": 0.4, "knee": 0.8, "hot": 0.9, "full": 1.0}
    state = fleet(a=[*loads])
    for name, load in loads.items():
        state.put_reading("a", reading(name, net=load))
    found = scores(make("LiveNetwork"), pod(), state)
    assert found == {"idle": 100, "warm": 75, "knee": 50, "hot": 25, "full": 0}


@LIVE
def test_live_headroom_of_a_node_without_capacity_is_none(name: str) -> None:
    state = fleet(a=[node("n").cpu(0).memory(0)])
    assert scores(make(name), pod(), state) == {"n": 0}


share = st.one_of(st.just(float("nan")), st.floats(0, 1, width=32))
age = st.floats(0, 300)


@LIVE
@given(used=share, age=age, requested=st.integers(0, 4000))
def test_live_headroom_never_takes_the_unknown_for_idle(name: str, used: float, age: float, requested: int) -> None:
    def judged(**shares: float) -> float:
        state = fleet(a=["n"])
        put(state, pod("t").cpu(f"{requested}m"), "a", "n")
        state.put_reading("a", reading("n", **shares))
        state.now += age
        return raw_scores(make(name), pod(), state)["n"]

    by_requests = judged()
    found = judged(cpu=used, memory=used, net=used)
    assert 0 <= found <= 100
    if np.isnan(used) or age >= 120:
        assert found == by_requests
    if age <= 45 and used == 1.0:
        assert found == pytest.approx(0, abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_live_headroom_prefers_the_less_loaded(loads: list[float]) -> None:
    state = fleet(a=[f"n{at}" for at in range(len(loads))])
    for at, load in enumerate(loads):
        state.put_reading("a", reading(f"n{at}", net=load))
    found = list(raw_scores(make("LiveNetwork"), pod(), state).values())
    best = int(np.argmax(found))
    assert loads[best] == pytest.approx(min(loads), abs=1e-6)


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ({"fresh_s": 60, "stale_s": 60}, "stale_s (60) must be greater than fresh_s (60)"),
        ({"hot_above": 2}, "hot_above"),
    ],
)
def test_live_headroom_refuses_bad_arguments(args: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make("LiveCPU", **args)
    assert want in str(caught.value)
