"""Terms about live load beside ExpectedLoad: what all have in common, and the points of each by hand."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.plugins.load_terms import PLUGINS
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.readings import MEAN_S
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework.derived import Derived
from tests.builders import fleet, node, pod, put, reading
from tests.plugins.asking import make, raw_scores, scores, state_of

NOTHING = pod().set(expected=(0, 0))
TENTH = pod().cpu(1).memory("1Gi")  # of the node
PLAIN = {"hot_above": 1, "hot_steepness": 1}  # score = 100 * headroom
NAMES = [plugin.name for plugin in PLUGINS]
LIVE = pytest.mark.parametrize("name", ["LiveCPU", "LiveMemory", "LiveNetwork"])
RISK = "LoadVariationRiskBalancing"


def one_node(**shares: float) -> FleetState:
    """Ten CPUs and ten GiB, half of both requested; read as given."""
    state = fleet(a=[node("n").cpu(10).memory("10Gi")])
    put(state, pod("t").cpu(5).memory("5Gi").set(phase="Running"), "a", "n")
    state.put_reading("a", reading("n", **shares))
    return state


def told(plugin: Any, state: FleetState, asked: Any = TENTH) -> dict[str, Any]:
    """What is told of the first signal."""
    found: dict[str, Any] = plugin.explain(state_of(plugin, asked, state), asked.placed(), view_of(state), 0)
    return found if "judged" in found else next(iter(found.values()))


# --- all of them


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("age", "utilisation", "words"),
    [
        (0, 0.2, "fresh"),
        (120, 0.2, "fresh"),
        (210, 0.35, "fading, 50% by readings, rest by requests"),
        (300, 0.5, "stale, by requests"),
        (100_000, 0.5, "stale, by requests"),
    ],
)
def test_readings_fade_to_requests(name: str, age: float, utilisation: float, words: str) -> None:
    state = one_node(cpu=0.2, memory=0.2, net=0.2)
    state.now += age
    found = told(make(name, fresh_s=120, stale_s=300), state, NOTHING)
    assert found["utilisation"] == pytest.approx(utilisation, abs=1e-4)
    assert (found["mean"], found["reading"], found["age_s"], found["judged"]) == (0.2, 0.2, age, words)


@pytest.mark.parametrize("name", NAMES)
def test_a_node_without_readings_goes_by_its_requests(name: str) -> None:
    found = told(make(name), one_node(), NOTHING)
    assert found["utilisation"] == pytest.approx(0.5)
    assert [found[key] for key in ("mean", "reading", "age_s", "judged")] == [None, None, None, "unknown, by requests"]


@pytest.mark.parametrize("name", [name for name in NAMES if "CPU" in name or name == RISK])
def test_what_was_placed_counts_at_once(name: str) -> None:
    state = one_node(cpu=0.2)
    state.now += 1
    state.place(("a", "new"), pod("new").cpu(3).placed(), "a", "n", assumed=True)
    assert told(make(name), state)["utilisation"] == pytest.approx(0.2 + 0.3 + 0.1, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_fade_that_ends_before_it_begins_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"stale_s \(60\) must be greater than fresh_s \(60\)"):
        make(name, fresh_s=60, stale_s=60)


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("LiveCPU", {"hot_above": 2}, "hot_above"),
        ("LiveHeadroom", {"signals": []}, "must name at least one signal"),
        ("LiveHeadroom", {"signals": ["CPU"]}, "'CPU' is no signal"),
        ("TargetLoadPacking", {"target": 40}, "target"),
    ],
)
def test_bad_arguments_are_named(name: str, args: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=want):
        make(name, **args)


# --- LiveCPU, LiveMemory, LiveNetwork


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
    assert scores(make(name, **PLAIN), TENTH, one_node(**shares)) == {"n": pytest.approx(want, abs=1e-3)}


def test_live_headroom_goes_by_the_last_reading() -> None:
    state = one_node(cpu=0.2)
    state.now += 2
    state.put_reading("a", reading("n", cpu=0.3))
    assert scores(make("LiveCPU", **PLAIN), TENTH, state) == {"n": pytest.approx(60)}


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


@LIVE
@given(used=share, age=st.floats(0, 300), requested=st.integers(0, 4000))
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


# --- RelativeCPU, RelativeNetwork


def loaded(**shares: float) -> FleetState:
    """Nodes by name, whose CPU and network are read so."""
    state = fleet(a=[node(name).cpu(10).memory("10Gi") for name in shares])
    for name, share in shares.items():
        state.put_reading("a", reading(name, cpu=share, net=share))
    return state


@pytest.mark.parametrize("name", ["RelativeCPU", "RelativeNetwork"])
def test_points_are_relative_to_the_most_loaded_node(name: str) -> None:
    plugin = make(name)
    assert scores(plugin, NOTHING, loaded(a=0.2, b=0.4, c=0.8)) == {"a": 75, "b": 50, "c": 0}
    assert scores(plugin, NOTHING, loaded(a=0.02, b=0.04, c=0.08)) == {"a": 75, "b": 50, "c": 0}
    assert scores(plugin, NOTHING, loaded(a=0.0, b=0.0)) == {"a": 100, "b": 100}


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8))
def test_relative_points_are_those_of_the_formula(shares: list[float]) -> None:
    most = max(shares)
    want = [100 - 100 * share / most if most else 100.0 for share in shares]
    plugin, raw = make("RelativeNetwork"), -np.asarray(shares)
    assert plugin.normalize(raw).tolist() == pytest.approx(want, abs=1e-9)


# --- TargetLoadPacking


def one_core(cpu: float) -> FleetState:
    state = fleet(a=[node("n").cpu(1)])
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
    assert scores(make("TargetLoadPacking"), asked, one_core(cpu)) == {"n": pytest.approx(want, abs=1e-3)}


def test_upstream_gives_no_points_without_metrics_and_we_go_by_requests() -> None:
    state = fleet(a=[node("n").cpu(1)])
    put(state, pod("old").cpu("100m"), "a", "n")
    plugin = make("TargetLoadPacking")
    assert scores(plugin, pod().cpu("100m"), state) == {"n": pytest.approx(60 * 0.25 / 0.4 + 40)}
    assert told(plugin, state, pod())["target"] == 0.4


def test_what_settles_is_multiplied_too() -> None:
    state = fleet(a=[node("n").cpu(10)])
    state.put_reading("a", reading("n", cpu=0.05))
    state.place(("a", "new"), pod("new").cpu(2).placed(), "a", "n", assumed=True)
    assert scores(make("TargetLoadPacking"), NOTHING, state) == {"n": pytest.approx(92.5, abs=1e-3)}


@given(
    cpu=st.floats(0, 1, width=32),
    milli=st.integers(1, 2000),
    target=st.floats(0.01, 0.99),
    multiplier=st.floats(0.01, 10),
)
def test_packing_points_are_those_of_the_formula(cpu: float, milli: int, target: float, multiplier: float) -> None:
    x, used = 100 * target, min(100 * (cpu + multiplier * milli / 1000), 100.0)
    want = (100 - x) * used / x + x if used <= x else x * (100 - used) / (100 - x)
    plugin = make("TargetLoadPacking", target=target, multiplier=multiplier)
    found = raw_scores(plugin, pod().cpu(f"{milli}m"), one_core(cpu))
    assert found == {"n": pytest.approx(want, abs=1e-6)} or abs(used - x) < 1e-9


# --- LoadVariationRiskBalancing

HALF_S = MEAN_S * math.log(2)  # after which earlier samples weigh half
QUIET = (0.0, 0.0)  # mean, deviation


def varied(cpu: tuple[float, float] | None = QUIET, memory: tuple[float, float] | None = QUIET) -> FleetState:
    """Ten CPUs and ten GiB; read so that each has that mean and deviation."""
    # The second reading is taken at a full second: plugins are told no other times.
    state = fleet(now=2000 - 2 * HALF_S, a=[node("n").cpu(10).memory("10Gi")])
    state.derive(Derived(deviations=True))
    for sign in (-1, 1):
        state.now += HALF_S
        shares = {name: one[0] + sign * one[1] for name, one in (("cpu", cpu), ("memory", memory)) if one is not None}
        state.put_reading("a", reading("n", **shares))
    return state


@pytest.mark.parametrize(
    ("args", "cpu", "want"),
    [
        ({}, (0.4, 0.36), 57),
        ({"sensitivity": 2}, (0.4, 0.36), 45),
        ({"sensitivity": 2}, (0.4, 0.0), 75),
        ({"margin": 0}, (0.4, 0.36), 75),
        ({"margin": 2}, (0.4, 0.1), 65),
        ({"margin": 10}, (0.4, 0.36), 25),
        ({}, (1.0, 0.0), 50),
        ({"sensitivity": 0.5}, (0.4, 0.3), 70.5),
    ],
    ids=[
        "upstream: valid data",
        "the root of the deviation",
        "upstream: negative usedStdev, cut to 0",
        "upstream: zero sensitivity, which is margin 0 here",
        "twice the deviation",
        "upstream: large usedStdev, cut to 1",
        "full and steady",
        "the square of the deviation",
    ],
)
def test_risk_is_half_of_mean_and_deviation(args: dict[str, Any], cpu: tuple[float, float], want: float) -> None:
    assert scores(make(RISK, **args), TENTH, varied(cpu)) == {"n": pytest.approx(want, abs=1e-2)}


def test_the_larger_risk_of_cpu_and_memory_counts() -> None:
    found = [scores(make(RISK), TENTH, state)["n"] for state in (varied((0.4, 0.2)), varied(memory=(0.4, 0.2)))]
    assert found == [pytest.approx(65, abs=1e-2)] * 2


def test_what_is_unknown_is_taken_to_vary_as_much_as_is_requested() -> None:
    state = varied(None)
    put(state, pod("old").cpu(3).set(phase="Running"), "a", "n")
    assert scores(make(RISK), TENTH, state) == {"n": pytest.approx(60)}
    found = told(make(RISK), state)
    assert (found["utilisation"], found["deviation"], found["risk"]) == (0.4, 0.4, 0.4)


def test_deviations_fade_with_the_readings() -> None:
    state = varied((0.2, 0.1))
    put(state, pod("old").cpu(5).set(phase="Running"), "a", "n")
    found = []
    for age in (120, 90, 90):
        state.now += age
        found.append(told(make(RISK), state)["deviation"])
    assert found == pytest.approx([0.1, (0.1 + 0.45) / 2, 0.6], abs=1e-4)


def test_without_deviations_a_node_is_taken_to_vary_as_much_as_it_is_used() -> None:
    state = fleet(a=[node("n").cpu(10).memory("10Gi")])
    state.put_reading("a", reading("n", cpu=0.3, memory=0.0))
    assert scores(make(RISK), TENTH, state) == {"n": pytest.approx(60, abs=1e-3)}


@given(
    shares=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=6),
    margin=st.floats(0, 3),
    sensitivity=st.floats(0.1, 5),
)
def test_risk_is_that_of_the_formula(shares: list[float], margin: float, sensitivity: float) -> None:
    state = varied(None, None)
    for share in shares:
        state.now += 60.0
        state.put_reading("a", reading("n", cpu=share, memory=share / 2))
    risks = []
    for name in ("cpu", "memory"):
        mean, deviation = (float(one[0]) for one in (state.signals.mean(name), state.signals.deviation(name)))
        used = min(mean + 0.1, 1.0)
        risks.append((used + min(margin * deviation ** (1 / sensitivity), 1.0)) / 2)
    found = raw_scores(make(RISK, margin=margin, sensitivity=sensitivity), TENTH, state)
    assert found == {"n": pytest.approx(100 * (1 - max(risks)), abs=1e-4)}
    assert np.isfinite(found["n"])
