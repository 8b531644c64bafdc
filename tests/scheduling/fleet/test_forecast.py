"""Forecasts of nodes: equal to a scalar form of the same formulas, right where there is a pattern, off where not."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.forecast import (
    ALPHA,
    DAY,
    DAY_STEPS,
    ERROR_WEIGHT,
    FIRST_DAY,
    GAMMA,
    GAP_STEPS,
    HANDICAP,
    HORIZON,
    LAST,
    MODELS,
    PHI,
    SLOT_STEPS,
    SLOTS,
    STEP_S,
    TREND,
    Forecasts,
    Outlook,
    foreseen,
    unexplained,
)
from dispatcher.scheduling.framework import PodInfo
from shared.model.node import Reading
from tests.builders import fleet, node, pod, put, reading

NAN = math.nan
WHO = np.asarray([7])
Series = Sequence[float]


def rounded(value: float) -> float:
    return float(np.float32(value))


class Naive:
    """One signal of one node, number by number."""

    def __init__(self) -> None:
        self.seen: int | None = None
        self.error = [NAN] * (LAST + 1)

    def begin(self, at: int) -> None:
        self.began = at
        self.level, self.trend = [NAN] * len(MODELS), [0.0] * len(MODELS)
        self.season, self.error = [NAN] * SLOTS, [NAN] * (LAST + 1)
        self.pending: dict[int, list[float]] = {}

    def take(self, value: float, at: int) -> tuple[float, float, float]:
        if math.isnan(value):
            best = self.best()
            return NAN, NAN if best is None else self.error[best], self.error[LAST]
        if self.seen is None or at - self.seen > GAP_STEPS:
            self.begin(at)
        self.seen = at
        for model, wanted in enumerate(self.pending.get(at, ())):
            missed, before = abs(value - wanted), self.error[model]
            moved = missed if math.isnan(before) else before + ERROR_WEIGHT * (missed - before)
            self.error[model] = before if math.isnan(missed) else rounded(moved)
        self.learn(value, at)
        paths = [[self.ahead(model, at, steps) for steps in range(1, HORIZON + 1)] for model in MODELS]
        self.pending[at + HORIZON] = [*(rounded(path[-1]) for path in paths), rounded(value)]
        best = self.best()
        if best is None:
            return NAN, NAN, self.error[LAST]
        on = self.error[best] < self.error[LAST]
        return max(paths[best]) if on else NAN, self.error[best], self.error[LAST]

    def best(self) -> int | None:
        known = [model for model in MODELS if not math.isnan(self.error[model])]
        return min(known, key=lambda model: self.error[model] * HANDICAP.item(model), default=None)

    def learn(self, value: float, at: int) -> None:
        slot = at // SLOT_STEPS % SLOTS
        if math.isnan(self.level[DAY]) and at - self.began >= DAY_STEPS:
            known = [one for one in self.season if not math.isnan(one)]
            mean = sum(known) / len(known)
            self.season = [0.0 if math.isnan(one) else rounded(one - mean) for one in self.season]
            self.level[DAY], self.trend[DAY] = rounded(value - self.season[slot]), 0.0
        season = self.season[slot]
        for model in MODELS:
            if math.isnan(self.level[model]):
                if model != DAY:
                    self.level[model] = rounded(value)
                else:
                    gathered = value if math.isnan(season) else season + FIRST_DAY * (value - season)
                    self.season[slot] = rounded(gathered)
                continue
            ahead = self.level[model] + PHI * self.trend[model]
            missed = value - ahead - season if model == DAY else value - ahead
            self.level[model] = rounded(ahead + ALPHA * missed)
            self.trend[model] = rounded(PHI * self.trend[model] + (0.05 if model >= TREND else 0.0) * missed)
            if model == DAY:
                self.season[slot] = rounded(season + GAMMA * missed)

    def ahead(self, model: int, at: int, steps: int) -> float:
        damped = 0.0
        for power in range(1, steps + 1):
            damped += PHI**power
        found = self.level[model] + damped * self.trend[model]
        return found + self.season[(at + steps) // SLOT_STEPS % SLOTS] if model == DAY else found


def told(series: Series, start: int = 0) -> tuple[Forecasts, list[tuple[float, float, float]]]:
    """The forecasts of a node of that series, and (forecast, its error, the last value's) after each step."""
    made = Forecasts()
    outlooks = [made.take(np.asarray([[value]]), WHO, start + at) for at, value in enumerate(series)]
    return made, [(one.forecast.item(), one.error.item(), one.last_error.item()) for one in outlooks]


def what_counts(series: Series) -> list[float]:
    """The forecast, or the last value where it is off."""
    return [value if math.isnan(one[0]) else one[0] for value, one in zip(series, told(series)[1], strict=True)]


def errors(series: Series, expected: Series) -> float:
    """The sum of what was missed, HORIZON steps ahead."""
    pairs = zip(expected[:-HORIZON], series[HORIZON:], strict=True)
    return sum(abs(one - other) for one, other in pairs if not math.isnan(other) and not math.isnan(one))


def day(at: int, noise: float = 0.0) -> float:
    return 0.5 + 0.3 * math.sin(2 * math.pi * at / DAY_STEPS) + noise


values = st.floats(0, 1) | st.just(NAN)
pieces = st.lists(
    st.tuples(st.integers(1, 80), st.sampled_from(["flat", "noise", "swing", "ramp", "dead"]), st.floats(0, 1)),
    min_size=1,
    max_size=6,
)


def series_of(parts: list[tuple[int, str, float]], seed: int) -> list[float]:
    rng, found = np.random.default_rng(seed), list[float]()
    for length, kind, level in parts:
        steps = np.arange(length)
        form = {
            "flat": np.full(length, level),
            "noise": rng.random(length),
            "swing": np.where(steps // HORIZON % 2, level, 1.0 - level),
            "ramp": level * steps / length,
            "dead": np.full(length, NAN),
        }
        found += form[kind].tolist()
    return found


@settings(max_examples=8)
@given(st.lists(values, min_size=1, max_size=3 * HORIZON), pieces, st.integers(0, 9), st.integers(0, 10_000))
def test_many_nodes_are_foreseen_as_one_by_one(
    few: list[float], parts: list[tuple[int, str, float]], seed: int, start: int
) -> None:
    rows = [few, series_of(parts, seed), [day(at) for at in range(DAY_STEPS + 30)]]
    length = max(map(len, rows))
    rows = [[*row, *[NAN] * (length - len(row))] for row in rows]
    made, naive, rank = Forecasts(), [Naive() for _ in rows], np.arange(len(rows))
    for at in range(length):
        found = made.take(np.asarray([[row[at] for row in rows]]), rank, start + at)
        want = [one.take(row[at], start + at) for one, row in zip(naive, rows, strict=True)]
        np.testing.assert_array_equal(np.stack(found)[:, 0].T.astype(np.float32), np.asarray(want, dtype=np.float32))


@settings(max_examples=5)
@given(st.floats(0, 1, width=32))
def test_what_never_changes_is_foreseen_as_it_is(share: float) -> None:
    made, found = told([share] * (DAY_STEPS + 50))
    assert made.level[:, 0, 0].tolist() == pytest.approx([share] * len(MODELS), abs=1e-6)
    assert what_counts([share] * 50) == [share] * 50
    assert found[-1][1:] == pytest.approx((0.0, 0.0), abs=1e-6)


def test_a_day_that_comes_again_is_foreseen_once_it_was_seen() -> None:
    rng = np.random.default_rng(1)
    series = [day(at, rng.normal(0, 0.02)) for at in range(4 * DAY_STEPS)]
    made, found = told(series)
    assert made.error[:, 0, 0].argmin() == DAY
    on = [not math.isnan(one[0]) for one in found[-DAY_STEPS:]]
    assert all(on)
    assert found[-1][1] < 0.6 * found[-1][2]
    low = 3 * DAY_STEPS + DAY_STEPS * 7 // 8  # what rises from here on is expected before it is there
    assert found[low][0] > series[low] + 0.02


def test_a_swing_about_one_level_is_foreseen_by_that_level() -> None:
    rng = np.random.default_rng(2)
    series = (0.5 + rng.normal(0, 0.1, 500)).clip(0, 1).tolist()
    found = told(series)[1]
    assert found[-1][1] < 0.9 * found[-1][2]
    assert [one[0] for one in found[-100:]] == pytest.approx([0.5] * 100, abs=0.15)


def test_a_load_that_jumps_and_stays_is_not_foreseen() -> None:
    rng = np.random.default_rng(3)
    series = np.repeat(rng.random(40), 30).tolist()
    found = told(series)[1]
    assert np.mean([math.isnan(one[0]) for one in found[100:]]) > 0.9


def test_walks_without_a_pattern_are_not_foreseen_worse_than_by_their_last_values() -> None:
    rng, made = np.random.default_rng(4), Forecasts()
    walks = (0.5 + np.cumsum(rng.normal(0, 0.01, (1000, 1, 20)), axis=0)).clip(0, 1)
    found = np.stack([made.take(walk, np.arange(20), at).forecast for at, walk in enumerate(walks)])
    counts = np.where(np.isnan(found), walks, found)
    missed, by_last = (np.abs(one[:-HORIZON] - walks[HORIZON:]).sum(axis=(0, 1)) for one in (counts, walks))
    assert (missed < 1.08 * by_last).all(), missed / by_last


@settings(max_examples=15)
@given(pieces, st.integers(0, 99))
def test_whatever_is_told_what_counts_is_bounded_by_the_last_value(
    parts: list[tuple[int, str, float]], seed: int
) -> None:
    series = series_of(parts, seed)
    assert errors(series, what_counts(series)) <= 2 * errors(series, series) + 2 * HORIZON


def test_what_is_unknown_teaches_nothing_and_a_long_silence_begins_anew() -> None:
    heard = [0.2, 0.6, 0.4] * 20
    made, found = told([*heard, *[NAN] * GAP_STEPS])
    assert np.isnan(found[-1][0])
    level = made.level[:DAY, 0, 0].copy()
    assert level.tolist() == told(heard)[0].level[:DAY, 0, 0].tolist()
    made.take(np.asarray([[0.9]]), WHO, len(heard) + GAP_STEPS)
    assert made.level[0, 0, 0] == pytest.approx(0.9)
    assert np.isnan(made.error).all()


def test_a_row_that_holds_another_node_begins_anew() -> None:
    made, _ = told([0.2, 0.6] * 20)
    made.take(np.asarray([[0.9]]), np.asarray([8]), 40)
    assert made.level[0, 0, 0] == pytest.approx(0.9)


def test_steps_that_nobody_took_are_not_measured() -> None:
    made = Forecasts()
    for at in (*range(HORIZON), *range(HORIZON + 5, HORIZON + 10)):
        made.take(np.asarray([[0.5]]), WHO, at)
    assert made.pending.shape[1] == HORIZON
    assert np.isnan(made.pending[:, [at % HORIZON for at in range(HORIZON, HORIZON + 5)]]).all()


# --- in the fleet ----------------------------------------------------------------------------------------------------


def watched(steps: int = 50) -> FleetState:
    """A node that swings about 0.3, of which half is requested; forecasts are made."""
    state, rng = fleet(a=[node("n").cpu(10).memory("10Gi")], now=STEP_S), np.random.default_rng(5)
    put(state, pod("t").cpu(5).memory("5Gi").on("n"), "a", "n")
    for share in rng.uniform(0.2, 0.4, steps).tolist():
        state.now += STEP_S
        state.put_reading("a", reading("n", cpu=share))
        state.learn_forecast(wanted=True)
    return state


def test_nothing_is_kept_where_no_profile_asks_for_forecasts() -> None:
    state = fleet(a=["n"])
    state.put_reading("a", reading("n", cpu=0.5))
    at = state.loads.position
    state.learn_forecast(wanted=False)
    assert (state._forecasts, state.loads.position) == (None, at)
    assert np.isnan(state.signals.forecast("cpu")).all()


def test_a_forecast_is_of_what_requests_do_not_explain() -> None:
    state = watched()
    [found] = foreseen(state, 0)[:1]
    assert found == pytest.approx(0.3, abs=0.05)
    assert state.signals.forecast("cpu")[0] == pytest.approx(0.3 - 0.5, abs=0.05)
    assert np.isnan(state.signals.forecast("memory")[0])
    error, last_error = state.signals.forecast_errors("cpu")
    assert error[0] < last_error[0]


def test_a_pod_that_comes_with_what_it_requests_is_no_trend() -> None:
    state = fleet(a=[node("n").cpu(10).memory("10Gi")])
    state.put_reading("a", reading("n", cpu=0.3))
    before = unexplained(state, state.now)[0, 0]
    put(state, pod("new").cpu(2).memory("1Gi").on("n"), "a", "n")
    for _ in range(60):
        state.now += 60
        state.put_reading("a", reading("n", cpu=0.5))
    assert unexplained(state, state.now)[0, 0] == pytest.approx(before, abs=0.01)


def test_a_pod_that_uses_other_than_its_request_moves_what_is_unexplained_once_and_is_held_from_then_on() -> None:
    state = fleet(a=[node("n").cpu(10).memory("10Gi")])
    state.put_reading("a", reading("n", cpu=0.3))
    before = unexplained(state, state.now)[0, 0]
    new = pod("new").cpu(2).memory("1Gi").on("n").build()
    state.place(("a", "new"), PodInfo(new, "a", counts_as=(500, 1 << 30)), "a", "n", assumed=True)
    found = [unexplained(state, state.now)[0, 0]]
    for _ in range(60):
        state.now += 60
        state.put_reading("a", reading("n", cpu=0.35))
        found.append(unexplained(state, state.now)[0, 0])
    assert found == pytest.approx([before + (0.5 - 2.0) / 10] * len(found), abs=0.01)


def test_rows_are_told_of_a_step_and_when_forecasts_are_wanted_no_more() -> None:
    state = watched()
    at = state.loads.position
    state.learn_forecast(wanted=True)
    assert state.loads.position == at
    state.learn_forecast(wanted=False)
    assert state.loads.position == at + 1
    assert np.isnan(state.signals.forecast("cpu")).all()
    assert state._forecasts is None


def test_old_readings_are_not_foreseen() -> None:
    state = watched()
    state.now += 2 * STEP_S
    state.learn_forecast(wanted=True)
    assert np.isnan(state.signals.forecast("cpu")).all()


def test_a_dispatcher_that_starts_foresees_nothing_until_it_has_measured_itself() -> None:
    assert foreseen(watched(HORIZON), 0)[0] is None


def test_nodes_and_signals_that_come_later_are_taken_in() -> None:
    state = watched()
    state.put_node("a", node("late").cpu(10).build())
    state.put_reading("a", Reading("late", cpu=0.4, more={"gpu": (0.5, 0.0)}))
    state.now += STEP_S
    state.put_reading("a", Reading("late", cpu=0.4, more={"gpu": (0.5, 0.0)}))
    state.learn_forecast(wanted=True)
    assert state.forecast.shape == (len(state.signal_axis), 2)


def test_a_signal_of_a_node_takes_so_many_bytes() -> None:
    made = Forecasts()
    made.take(np.zeros((3, 1000)), np.arange(1000), 0)
    assert made.size == 1000 * (3 * 344 + 8)


def test_nothing_is_known_at_first() -> None:
    assert np.isnan(np.stack(Outlook.blank((2, 3)))).all()
