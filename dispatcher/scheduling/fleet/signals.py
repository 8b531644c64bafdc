"""Live load by signal, as plugins read it: views of the columns that the fleet, one row of it or a shard holds."""

from typing import NamedTuple

import numpy as np

from dispatcher.model.signals import SignalAxis
from dispatcher.scheduling.fleet.columns import NodeColumns
from dispatcher.scheduling.framework import Floats, Readings


class SignalColumns(NamedTuple):
    """[signals, n] each: the newest share, the time of its sample, the mean of shares, use by request; the forecast,
    its error and that of the last value (`forecast.Outlook`).
    """

    used: Readings
    used_at: Floats
    mean: Readings
    usual: Readings
    forecast: Readings
    forecast_error: Readings
    last_error: Readings


def columns_of(columns: NodeColumns) -> SignalColumns:
    """What of them is about signals."""
    means = columns.used_mean, columns.usual
    return SignalColumns(columns.used, columns.used_at, *means, *outlook_of(columns))


def outlook_of(columns: NodeColumns) -> tuple[Readings, Readings, Readings]:
    """The forecast and the two errors."""
    return columns.forecast, columns.forecast_error, columns.last_error


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

    def forecast(self, name: str) -> Readings:
        """[n] what is to come beside what requests explain, NaN where there is no forecast (`forecast.py`)."""
        return self._shares(self._columns.forecast, name, np.nan)

    def forecast_errors(self, name: str) -> tuple[Readings, Readings]:
        """[n] mean error of the forecast, and of "the last value stays"; NaN unknown."""
        columns = self._columns
        return self._shares(columns.forecast_error, name, np.nan), self._shares(columns.last_error, name, np.nan)

    def _shares(self, columns: Readings, name: str, unknown: float) -> Readings:
        column = self._axis.column(name)
        if column is None or column >= len(columns):
            return np.full(columns.shape[1], unknown, dtype=np.float32)
        found: Readings = columns[column]
        return found
