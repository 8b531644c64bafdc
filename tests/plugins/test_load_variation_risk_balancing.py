import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.readings import MEAN_S
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework.derived import Derived
from tests.builders import fleet, node, pod, put, reading
from tests.plugins.asking import make, raw_scores, scores, state_of

NAME = "LoadVariationRiskBalancing"
HALF_S = MEAN_S * math.log(2)  # after which earlier samples weigh half
TENTH = pod().cpu(1).memory("1Gi")
QUIET = (0.0, 0.0)  # mean, deviation


def one_node(cpu: tuple[float, float] | None = QUIET, memory: tuple[float, float] | None = QUIET) -> FleetState:
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
    assert scores(make(NAME, **args), TENTH, one_node(cpu)) == {"n": pytest.approx(want, abs=1e-2)}


def test_the_larger_risk_of_cpu_and_memory_counts() -> None:
    found = [scores(make(NAME), TENTH, state)["n"] for state in (one_node((0.4, 0.2)), one_node(memory=(0.4, 0.2)))]
    assert found == [pytest.approx(65, abs=1e-2)] * 2


def test_what_is_unknown_is_taken_to_vary_as_much_as_is_requested() -> None:
    state = one_node(None)
    put(state, pod("old").cpu(3).set(phase="Running"), "a", "n")
    plugin = make(NAME)
    assert scores(plugin, TENTH, state) == {"n": pytest.approx(60)}
    told = plugin.explain(state_of(plugin, TENTH, state), TENTH.placed(), view_of(state), 0)
    assert told["cpu"] == {
        "utilisation": 0.4,
        "mean": None,
        "reading": None,
        "age_s": None,
        "judged": "unknown, by requests",
        "deviation": 0.4,
        "risk": 0.4,
    }
    assert (told["memory"]["risk"], told["memory"]["judged"]) == (pytest.approx(0.05, abs=1e-4), "fresh")


def test_old_readings_fade_into_requests() -> None:
    state = one_node((0.2, 0.1))
    put(state, pod("old").cpu(5).set(phase="Running"), "a", "n")
    plugin, found = make(NAME), []
    for age in (120, 90, 90):
        state.now += age
        found.append(plugin.explain(state_of(plugin, TENTH, state), TENTH.placed(), view_of(state), 0)["cpu"])
    assert [one["utilisation"] for one in found] == pytest.approx([0.3, 0.45, 0.6], abs=1e-4)
    assert [one["deviation"] for one in found] == pytest.approx([0.1, (0.1 + 0.45) / 2, 0.6], abs=1e-4)


def test_without_deviations_a_node_is_taken_to_vary_as_much_as_it_is_used() -> None:
    state = fleet(a=[node("n").cpu(10).memory("10Gi")])
    state.put_reading("a", reading("n", cpu=0.3, memory=0.0))
    assert scores(make(NAME), TENTH, state) == {"n": pytest.approx(60, abs=1e-3)}


@given(
    shares=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=6),
    margin=st.floats(0, 3),
    sensitivity=st.floats(0.1, 5),
)
def test_points_are_those_of_the_formula(shares: list[float], margin: float, sensitivity: float) -> None:
    state = one_node(None, None)
    for share in shares:
        state.now += 60.0
        state.put_reading("a", reading("n", cpu=share, memory=share / 2))
    risks = []
    for name in ("cpu", "memory"):
        mean, deviation = (float(one[0]) for one in (state.signals.mean(name), state.signals.deviation(name)))
        used = min(mean + 0.1, 1.0)
        risks.append((used + min(margin * deviation ** (1 / sensitivity), 1.0)) / 2)
    found = raw_scores(make(NAME, margin=margin, sensitivity=sensitivity), TENTH, state)
    assert found == {"n": pytest.approx(100 * (1 - max(risks)), abs=1e-4)}
    assert np.isfinite(found["n"])
