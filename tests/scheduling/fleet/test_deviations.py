"""The deviation of readings from their mean: what all samples weighted by time say, and only where a profile asks."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.readings import MEAN_S
from dispatcher.scheduling.framework.derived import Derived
from tests.builders import fleet, reading

KEPT = Derived(deviations=True)
HALF_S = MEAN_S * math.log(2)  # after which earlier samples weigh half
samples = st.lists(st.tuples(st.floats(0.1, 900), st.floats(0, 1, width=32)), min_size=1, max_size=20)


def told(*shares: float, every: float = HALF_S) -> FleetState:
    state = fleet(a=["n1"])
    state.derive(KEPT)
    for share in shares:
        state.now += every
        state.put_reading("a", reading("n1", cpu=share))
    return state


@pytest.mark.parametrize(
    ("shares", "want"),
    [((0.2,), 0.0), ((0.2, 0.6), 0.2), ((0.04, 0.76), 0.36), ((0.5, 0.5, 0.5), 0.0), ((0.0, 0.0, 1.0), 0.5)],
)
def test_the_deviation_of_samples_of_which_earlier_ones_weigh_half(shares: tuple[float, ...], want: float) -> None:
    assert told(*shares).signals.deviation("cpu")[0] == pytest.approx(want, abs=1e-6)


@given(samples)
def test_the_deviation_is_that_of_all_samples_weighted_by_time(made: list[tuple[float, float]]) -> None:
    state, shares = told(), []
    for seconds, share in made:
        state.now += seconds
        state.put_reading("a", reading("n1", cpu=share))
        shares.append((state.now, share))
    weights = [math.exp((time - state.now) / MEAN_S) for time, _ in shares]
    weights = [weights[0], *(weight - before for before, weight in pairwise(weights))]
    mean = sum(weight * share for weight, (_, share) in zip(weights, shares, strict=True))
    variance = sum(weight * (share - mean) ** 2 for weight, (_, share) in zip(weights, shares, strict=True))
    assert state.signals.deviation("cpu")[0] ** 2 == pytest.approx(variance, abs=1e-5)


def test_readings_of_a_report_make_the_same_deviations_as_one_by_one() -> None:
    names = [f"n{at}" for at in range(12)]
    states = fleet(a=names), fleet(a=names)
    for at, state in enumerate(states):
        state.derive(KEPT)
        for turn in range(4):
            state.now += 20.0
            batch = [reading(name, cpu=(turn * index % 7) / 7, memory=0.5) for index, name in enumerate(names)]
            if at:
                state.put_readings("a", batch)
            else:
                for one in batch:
                    state.put_reading("a", one)
    assert states[0].used_variance.tobytes() == states[1].used_variance.tobytes()
    assert states[0].signals.deviation("cpu").max() > 0.0


def test_what_was_never_read_has_no_deviation() -> None:
    state = told(0.2, 0.6)
    assert np.isnan([state.signals.deviation(name)[0] for name in ("memory", "rumour")]).all()


def test_an_older_sample_does_not_move_it() -> None:
    state = told(0.2, 0.6)
    state.put_reading("a", reading("n1", cpu=0.0, age=30))
    assert state.signals.deviation("cpu")[0] == pytest.approx(0.2)


def test_nothing_is_kept_that_no_profile_asks_for() -> None:
    state = fleet(a=["n1"])
    state.put_reading("a", reading("n1", cpu=0.2))
    assert (state.used_variance.size, np.isnan(state.signals.deviation("cpu")[0])) == (0, True)
    state.derive(KEPT)
    state.now += HALF_S
    state.put_reading("a", reading("n1", cpu=0.6, more={"disk": (0.3, 0.0)}))  # a signal that comes up later, too
    assert state.signals.deviation("cpu")[0] == pytest.approx(0.2)
    assert state.signals.deviation("disk")[0] == 0.0
    state.derive(Derived(), only=True)
    assert state.used_variance.size == 0


def test_a_node_that_comes_back_begins_anew() -> None:
    state = told(0.2, 0.6)
    built = state.node(0)
    assert built is not None
    state.remove_node("a", "n1")
    state.put_node("a", built)
    assert np.isnan(state.signals.deviation("cpu")[0])
