"""Live load by signal, as plugins read it: views of the columns of the fleet, or of one row of it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import NodeColumns, RowList, cells_at
from dispatcher.scheduling.framework import Bools, Floats, Readings, SmallInts
from dispatcher.scheduling.framework.derived import NOTHING, Derived, HotRule
from shared.model.signals import SignalAxis


class SignalColumns(NamedTuple):
    """[signals, n] each: the newest share, the time of its sample, the mean of shares, use by
    request, their variance (no rows: not kept). `hot`: [n] masks of the rules by which a node is
    hot.
    """

    used: Readings
    used_at: Floats
    mean: Readings
    usual: Readings
    variance: Readings
    hot: SmallInts

    @classmethod
    def of(cls, columns: NodeColumns) -> "SignalColumns":
        """Those of the fleet."""
        return cls(
            columns.used,
            columns.used_at,
            columns.used_mean,
            columns.usual,
            columns.used_variance,
            columns.hot,
        )

    @classmethod
    def of_row(cls, columns: NodeColumns, row: int) -> "SignalColumns":
        """Those of one row, copied."""
        at = slice(row, row + 1)
        return cls(
            columns.used[:, at].copy(),
            columns.used_at[:, at].copy(),
            columns.used_mean[:, at].copy(),
            columns.usual[:, at].copy(),
            columns.used_variance[:, at].copy(),
            columns.hot[at].copy(),
        )

    def rows(self, at: slice | Sequence[int] | RowList) -> "SignalColumns":
        """Those of some rows; copied unless `at` is a slice."""
        return SignalColumns(
            cells_at(self.used, at),
            cells_at(self.used_at, at),
            cells_at(self.mean, at),
            cells_at(self.usual, at),
            cells_at(self.variance, at),
            self.hot[at],
        )


class SignalView:
    """Satisfies `framework.Signals`. `columns` are [signals, n] each, in the order of `axis`."""

    __slots__ = ("_axis", "_columns", "derived")

    def __init__(
        self, axis: SignalAxis, columns: SignalColumns, derived: Derived = NOTHING
    ) -> None:
        self.derived = derived  # what is kept beside
        self.show(axis, columns)

    def show(self, axis: SignalAxis, columns: SignalColumns) -> None:
        """From now on these columns."""
        self._axis = axis
        self._columns = columns

    def used(self, name: str) -> Readings:
        """[n] share 0..1 of the capacity, NaN unknown."""
        return self._shares(self._columns.used, name, np.nan)

    def sampled_at(self, name: str) -> Floats:
        """[n] when that share was measured; -inf never."""
        column = self._axis.column(name)
        times = self._columns.used_at
        if column is None or column >= len(times):
            return np.full(times.shape[1], -np.inf)
        found: Floats = times[column]
        return found

    def mean(self, name: str) -> Readings:
        """[n] the mean of the shares read, NaN unknown (`readings.take_sample`)."""
        return self._shares(self._columns.mean, name, np.nan)

    def usual(self, name: str) -> Readings:
        """[n] what is used of what is requested, 1 until that is known (`usual.py`)."""
        return self._shares(self._columns.usual, name, 1.0)

    def told(self, name: str) -> tuple[Readings, Readings, Floats, Readings]:
        """`used`, `mean`, `sampled_at` and `usual` at once."""
        column = self._axis.column(name)
        every = self._columns
        if column is None or column >= len(every.used):
            return self.used(name), self.mean(name), self.sampled_at(name), self.usual(name)
        return every.used[column], every.mean[column], every.used_at[column], every.usual[column]

    def deviation(self, name: str) -> Readings:
        """[n] how far the shares read lie from that mean; NaN unknown, or not kept
        (`deviations.py`).
        """
        columns = self._columns
        if not len(columns.variance):
            return np.full(columns.used.shape[1], np.nan, dtype=np.float32)
        found: Readings = np.sqrt(self._shares(columns.variance, name, np.nan))
        return found

    def hot(self, rule: HotRule) -> Bools:
        """[n] whether a node is hot by a rule (`hot.py`); nowhere if nobody `derives` it."""
        masks = self._columns.hot
        rules = self.derived.hot
        found: Bools = (
            (masks >> rules.index(rule)) & 1 > 0
            if rule in rules
            else np.zeros(len(masks), dtype=np.bool_)
        )
        return found

    def _shares(self, columns: Readings, name: str, unknown: float) -> Readings:
        column = self._axis.column(name)
        if column is None or column >= len(columns):
            return np.full(columns.shape[1], unknown, dtype=np.float32)
        found: Readings = columns[column]
        return found
