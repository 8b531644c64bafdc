"""What the load of each node will be, by its own past: level, trend and day; off where the last
value predicts better.

What is forecast is the part of the mean that requests do not explain, so that a pod that comes or
goes is no trend:

    x = mean - usual * (requests - settling) / allocatable               of CPU, memory, or the larger for other signals
    utilisation to come = usual * requests / allocatable + forecast of x

`settling` is what mean + usual * settling / allocatable holds of pods that have come, by what pods
of their owner use (`framework.Nodes.settling`). So a pod that uses other than its request changes x
once, when it comes, and not again while the mean takes it in.

Three models take a step every STEP_S seconds. All are additive Holt-Winters with a damped trend, by
their errors:

    e       = x - (level + PHI * trend + season[slot])
    level   = level + PHI * trend + ALPHA * e         trend = PHI * trend + BETA * e         season[slot] += GAMMA * e
    x(j)    = level + (PHI + ... + PHI^j) * trend + season[slot of j steps later]

`level` has neither trend nor season (simple exponential smoothing), `trend` no season, `day` all of
it: a season of 24 slots, an hour each, that begins as the means of the first day and counts from
then on. Sources: Holt 1957, Winters 1960; damping: Gardner and McKenzie 1985; this form: Hyndman
and Athanasopoulos, Forecasting: Principles and Practice, chapter 8. Example: level 0.20, trend 0, x
= 0.28, then `level` expects 0.20 + 0.25 * 0.08 = 0.22 from now on.

Each model is held against what came: the weighted mean of its absolute errors HORIZON steps ahead,
beside that of "x stays as it is", both out of sample. The model with the least error counts
(`trend` and `day` must be better by a tenth, as chance is in the choice), by its highest value
within the horizon; if its error is not less than that of the last value, there is no forecast. What
is unknown or old teaches nothing, and after GAP_STEPS steps without a reading a signal of a node
begins anew.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.fleet.nodes import NodeTable
from dispatcher.scheduling.fleet.usual import FRESH_S
from dispatcher.scheduling.framework import Floats, Readings
from shared.model.resources import CPU, MEMORY
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

STEP_S = 300.0
HORIZON = 12
GAP_STEPS = 12
SLOTS = 24
SLOT_STEPS = 12
DAY_STEPS = SLOTS * SLOT_STEPS
MODELS = LEVEL, TREND, DAY = range(3)
LAST = len(MODELS)  # beside the models: the last value stays
ALPHA = 0.25
PHI = 0.9
GAMMA = 0.05
BETA = np.asarray([0.0, 0.05, 0.05])[:, None, None]
FIRST_DAY = 1 / 6  # what a value counts in the mean of its slot, while the first day is learnt
# what the newest error counts: half of the weight is that of the last six hours
ERROR_WEIGHT = 0.01
HANDICAP = np.asarray([1.0, 1.1, 1.1])[
    :, None, None
]  # a model of more terms must be better by a tenth
_NEVER = -(1 << 40)
_DAMPED = np.cumsum(PHI ** np.arange(1, HORIZON + 1))  # what the trend adds after so many steps
_RESOURCES = (CPU, MEMORY)
_ROWS = {CPU_SIGNAL: (0,), MEMORY_SIGNAL: (1,)}  # of requests, by signal
_HEADS = {
    "level": (LAST,),
    "trend": (LAST,),
    "season": (SLOTS,),
    "pending": (LAST + 1, HORIZON),
    "error": (LAST + 1,),
}


class Outlook(NamedTuple):
    """[signals, n] each: the forecast of x, NaN where it is off; its error, and the last value's
    (NaN unknown).
    """

    forecast: Floats
    error: Floats
    last_error: Floats

    @classmethod
    def blank(cls, shape: tuple[int, ...]) -> "Outlook":
        """Nothing is known."""
        return cls(*(np.full(shape, np.nan) for _ in cls._fields))


class Forecasts:
    """The models of all rows, float32 [..., signals, n] each; NaN is what is not known yet.

    `pending`: what was foreseen for the steps to come. `began`, `seen`: the first and the last step
    with a value.
    """

    level: Readings
    trend: Readings
    season: Readings
    pending: Readings
    error: Readings

    def __init__(self) -> None:
        self.began = self.seen = np.zeros((0, 0), dtype=np.int64)
        self._rank = np.zeros(0, dtype=np.int64)
        self._step = -1
        for name, head in _HEADS.items():
            setattr(self, name, np.zeros((*head, 0, 0), dtype=np.float32))

    def step(self, fleet: NodeTable, now: float) -> Outlook | None:
        """Learn what the columns of `fleet` say now; None if the step of this time was taken
        before.
        """
        at = int(now // STEP_S)
        return self.take(unexplained(fleet, now), fleet.rank, at) if at > self._step else None

    def take(self, values: Floats, rank: NDArray[np.int64], at: int) -> Outlook:
        """Step number `at`, above all before: x as [signals, n], NaN where unknown; `rank` tells
        nodes apart.
        """
        self._fit(rank, *values.shape)
        for missed in range(max(self._step + 1, at - HORIZON), at):
            self.pending[:, missed % HORIZON] = np.nan
        self._step = at
        known = np.isfinite(values)
        self._forget(known & (at - self.seen > GAP_STEPS), at)
        self.seen[known] = at
        self._measure(values, at)
        self._learn(values, known, at)
        return self._outlook(values, known, at)

    def _fit(self, rank: NDArray[np.int64], signals: int, count: int) -> None:
        """Hold so many signals and rows; rows that hold another node than before begin anew."""
        if self.began.shape != (signals, count):
            for name in _HEADS:
                setattr(self, name, _larger(getattr(self, name), signals, count, np.nan))
            self.began, self.seen = (
                _larger(one, signals, count, _NEVER) for one in (self.began, self.seen)
            )
        other = np.ones(count, dtype=np.bool_)
        other[: len(self._rank)] = self._rank != rank[: len(self._rank)]
        self._forget(np.broadcast_to(other, (signals, count)), _NEVER)
        self._rank = rank.copy()

    def _forget(self, cells: NDArray[np.bool_], at: int) -> None:
        """These signals of these rows begin anew with step `at`."""
        for name in _HEADS:
            getattr(self, name)[..., cells] = np.nan
        self.began[cells] = self.seen[cells] = at

    def _measure(self, values: Floats, at: int) -> None:
        """Hold what was foreseen for this step against what came."""
        missed = np.abs(values - self.pending[:, at % HORIZON].astype(np.float64))
        before = self.error.astype(np.float64)
        moved = np.where(np.isnan(before), missed, before + ERROR_WEIGHT * (missed - before))
        self.error[:] = np.where(np.isnan(missed), before, moved)

    def _learn(self, values: Floats, known: NDArray[np.bool_], at: int) -> None:
        slot = _slot(at)
        self._end_first_day(
            known & np.isnan(self.level[DAY]) & (at - self.began >= DAY_STEPS), values, slot
        )
        season, level, trend = self.season[slot].astype(np.float64), *self._state()
        ahead = level + PHI * trend
        missed = values - ahead
        missed[DAY] -= season
        level, fresh = ahead + ALPHA * missed, np.isnan(level)
        level[:DAY] = np.where(fresh[:DAY], values, level[:DAY])
        trend = np.where(fresh, 0.0, PHI * trend + BETA * missed)
        slots = np.where(np.isnan(season), values, season + FIRST_DAY * (values - season))
        slots = np.where(fresh[DAY], slots, season + GAMMA * missed[DAY])
        np.copyto(self.level, level.astype(np.float32), where=known)
        np.copyto(self.trend, trend.astype(np.float32), where=known)
        np.copyto(self.season[slot], slots.astype(np.float32), where=known)

    def _end_first_day(self, cells: NDArray[np.bool_], values: Floats, slot: int) -> None:
        """Make what was gathered of the first day a season, that has mean 0, and begin the model
        `day` with it.
        """
        if cells.any():
            gathered = self.season[:, cells].astype(np.float64)
            season = np.nan_to_num(gathered - np.nanmean(gathered, axis=0)).astype(np.float32)
            self.season[:, cells] = season
            self.level[DAY, cells] = values[cells] - season[slot]
            self.trend[DAY, cells] = 0.0

    def _state(self) -> tuple[Floats, Floats]:
        return self.level.astype(np.float64), self.trend.astype(np.float64)

    def _outlook(self, values: Floats, known: NDArray[np.bool_], at: int) -> Outlook:
        level, trend = self._state()
        highest = np.full_like(level, -np.inf)
        for steps, damped in enumerate(_DAMPED.tolist(), start=1):
            ahead = level + damped * trend
            ahead[DAY] += self.season[_slot(at + steps)]
            highest = np.maximum(highest, ahead)
        self.pending[:LAST, at % HORIZON] = np.where(known, ahead, np.nan)
        self.pending[LAST, at % HORIZON] = values
        errors = np.where(np.isnan(self.error[:LAST]), np.inf, self.error[:LAST])
        best = (errors * HANDICAP).argmin(axis=0)[None]
        error, forecast = (np.take_along_axis(one, best, axis=0)[0] for one in (errors, highest))
        counts = known & (error < self.error[LAST])
        return Outlook(
            np.where(counts, forecast, np.nan),
            np.where(np.isfinite(error), error, np.nan),
            self.error[LAST].astype(np.float64),
        )

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return sum(int(getattr(self, name).nbytes) for name in (*_HEADS, "began", "seen", "_rank"))


def unexplained(fleet: NodeTable, now: float) -> Floats:
    """[signals, n] x, see above; NaN where no fresh reading is, or nothing can be allocated."""
    shares = np.stack([_requested(fleet, row) for row in range(len(_RESOURCES))])
    found = np.full(fleet.used_mean.shape, np.nan)
    for column, name in enumerate(fleet.signal_axis.names[: len(found)]):
        requested = shares[list(_ROWS.get(name, (0, 1)))].max(axis=0)
        fresh = fleet.live & (now - fleet.used_at[column] <= FRESH_S)
        value = (
            fleet.used_mean[column].astype(np.float64)
            - fleet.usual[column].astype(np.float64) * requested
        )
        found[column] = np.where(fresh, value, np.nan)
    return found


def foreseen(fleet: NodeTable, row: int) -> list[float | None]:
    """By signal the utilisation that is foreseen of a node, without pods to come; None where no
    forecast counts.
    """
    requested = []
    for at, resource in enumerate(_RESOURCES):
        column = fleet.axis.column(resource)
        room = fleet.allocatable.item(column, row) if column is not None else 0
        requested.append(fleet.nonzero.item(at, row) / max(room, 1))
    found: list[float | None] = []
    for column, name in enumerate(fleet.signal_axis.names[: len(fleet.forecast)]):
        booked = fleet.usual.item(column, row) * max(
            requested[at] for at in _ROWS.get(name, (0, 1))
        )
        expected = fleet.forecast.item(column, row)
        found.append(None if np.isnan(expected) else max(booked + expected, 0.0))
    return found


def _requested(fleet: NodeTable, row: int) -> Floats:
    """[n] the share that is requested, less what settles; NaN where nothing can be allocated."""
    column = fleet.axis.column(_RESOURCES[row])
    room = fleet.allocatable[column] if column is not None else np.zeros(fleet.n, dtype=np.int64)
    share: Floats = np.where(
        room > 0, (fleet.nonzero[row] - fleet.settling[row]) / np.maximum(room, 1), np.nan
    )
    return share


def _slot(step: int) -> int:
    return step // SLOT_STEPS % SLOTS


def _larger(array: NDArray[Any], signals: int, count: int, fill: float) -> NDArray[Any]:
    """The same with that many signals and rows."""
    bigger = np.full((*array.shape[:-2], signals, count), fill, dtype=array.dtype)
    bigger[..., : array.shape[-2], : array.shape[-1]] = array
    return bigger
