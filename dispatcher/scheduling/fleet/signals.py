"""Live load by signal, as plugins read it: views of the columns that the fleet, one row of it or a shard holds."""

from typing import NamedTuple

import numpy as np

from dispatcher.model.signals import SignalAxis
from dispatcher.scheduling.framework import Floats, Readings


class SignalColumns(NamedTuple):
    """[signals, n] each: the newest share, the time of its sample, the mean of shares, use by request."""

    used: Readings
    used_at: Floats
    mean: Readings
    usual: Readings

    def of(self, at: slice) -> "SignalColumns":
        """Those of some rows."""
        return SignalColumns(self.used[:, at], self.used_at[:, at], self.mean[:, at], self.usual[:, at])


class SignalView:
    """Satisfies `framework.Signals`. `columns` are [signals, n] each, in the order of `axis`."""

    __slots__ = ("_axis", "_columns")

    def __init__(self, axis: SignalAxis, columns: SignalColumns) -> None:
        self.show(axis, columns)

    def show(self, axis: SignalAxis, columns: SignalColumns) -> None:
        """From now on these columns."""
        self._axis, self._columns = axis, columns

    def used(self, name: str) -> Readings:
        """[n] share 0..1 of the capacity, NaN unknown."""
        return self._shares(self._columns.used, name, np.nan)

    def sampled_at(self, name: str) -> Floats:
        """[n] when that share was measured; -inf never."""
        column, times = self._axis.column(name), self._columns.used_at
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

    def _shares(self, columns: Readings, name: str, unknown: float) -> Readings:
        column = self._axis.column(name)
        if column is None or column >= len(columns):
            return np.full(columns.shape[1], unknown, dtype=np.float32)
        found: Readings = columns[column]
        return found
