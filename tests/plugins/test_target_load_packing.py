from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from tests.builders import fleet, node, pod, put, reading
from tests.plugins.asking import make, raw_scores, scores, state_of

NOTHING = pod().set(expected=(0, 0))


def one_node(cpu: float | None = None, cores: int = 1) -> FleetState:
    state = fleet(a=[node("n").cpu(cores)])
    if cpu is not None:
        state.put_reading("a", reading("n", cpu=cpu))
    return state


@pytest.mark.parametrize(
    ("cpu", "asked", "want"),
    [
        (0.0, NOTHING, 40),
        (0.5, NOTHING, 100 / 3),
        (0.3, pod().cpu(1), 0),
        (0.38, NOTHING, 97),
        (0.2, NOTHING, 70),
        (1.0, NOTHING, 0),
        (0.05, pod().cpu("200m"), 92.5),
    ],
    ids=[
        "upstream: new node",
        "upstream: hot node",
        "upstream: excess utilization returns min score",
        "below the target",
        "half the target",
        "full",
        "0.05 + 1.5 * 0.2 is 0.35",
    ],
)
def test_nodes_are_filled_to_the_target(cpu: float, asked: Any, want: float) -> None:
    assert scores(make("TargetLoadPacking"), asked, one_node(cpu)) == {"n": pytest.approx(want, abs=1e-3)}


def test_upstream_gives_no_points_without_metrics_and_we_go_by_requests() -> None:
    state = one_node()
    put(state, pod("old").cpu("100m"), "a", "n")
    plugin = make("TargetLoadPacking")
    assert scores(plugin, pod().cpu("100m"), state) == {"n": pytest.approx(60 * 0.25 / 0.4 + 40)}
    told = plugin.explain(state_of(plugin, pod(), state), pod().placed(), view_of(state), 0)
    assert told == {
        "target": 0.4,
        "utilisation": 0.25,
        "mean": None,
        "reading": None,
        "age_s": None,
        "judged": "unknown, by requests",
    }


@pytest.mark.parametrize(
    ("age", "want", "words"),
    [
        (120, 0.2, "fresh"),
        (210, 0.4, "fading, 50% by readings, rest by requests"),
        (300, 0.6, "stale, by requests"),
    ],
)
def test_readings_fade_into_requests(age: float, want: float, words: str) -> None:
    state, plugin = one_node(0.2, 10), make("TargetLoadPacking")
    put(state, pod("old").cpu(6).set(phase="Running"), "a", "n")
    state.now += age
    told = plugin.explain(state_of(plugin, NOTHING, state), NOTHING.placed(), view_of(state), 0)
    assert (told["utilisation"], told["judged"]) == (pytest.approx(want, abs=1e-4), words)


def test_what_was_placed_counts_until_the_mean_holds_it() -> None:
    state = one_node(0.05, 10)
    state.place(("a", "new"), pod("new").cpu(2).placed(), "a", "n", assumed=True)
    assert scores(make("TargetLoadPacking"), NOTHING, state) == {"n": pytest.approx(92.5, abs=1e-3)}


@given(
    cpu=st.floats(0, 1, width=32),
    milli=st.integers(1, 2000),
    target=st.floats(0.01, 0.99),
    multiplier=st.floats(0.01, 10),
)
def test_points_are_those_of_the_formula(cpu: float, milli: int, target: float, multiplier: float) -> None:
    x, used = 100 * target, min(100 * (cpu + multiplier * milli / 1000), 100.0)
    want = (100 - x) * used / x + x if used <= x else x * (100 - used) / (100 - x)
    found = raw_scores(
        make("TargetLoadPacking", target=target, multiplier=multiplier), pod().cpu(f"{milli}m"), one_node(cpu)
    )
    assert found == {"n": pytest.approx(want, abs=1e-6)} or abs(used - x) < 1e-9


@pytest.mark.parametrize(
    ("args", "want"),
    [({"fresh_s": 60, "stale_s": 60}, "stale_s (60) must be greater than fresh_s (60)"), ({"target": 40}, "target")],
)
def test_bad_arguments_are_named(args: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make("TargetLoadPacking", **args)
    assert want in str(caught.value)
