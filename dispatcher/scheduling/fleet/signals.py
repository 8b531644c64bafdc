"""Live load by signal, as plugins read it: views of the columns that the fleet, one row of it or a shard holds."""

import numpy as np

from dispatcher.model.signals import SignalAxis
from dispatcher.scheduling.framework import Floats, Readings


class SignalView:
    """Satisfies `framework.Signals`. `used` and `used_at` are [signals, n], in the order of `axis`."""

    __slots__ = ("_axis", "_used", "_used_at")

    def __init__(self, axis: SignalAxis, used: Readings, used_at: Floats) -> None:
        self.show(axis, used, used_at)

    def show(self, axis: SignalAxis, used: Readings, used_at: Floats) -> None:
        """From now on these columns."""
        self._axis, self._used, self._used_at = axis, used, used_at

    def used(self, name: str) -> Readings:
        """[n] share 0..1 of the capacity, NaN unknown."""
        column = self._axis.column(name)
        if column is None or column >= len(self._used):
            return np.full(self._used.shape[1], np.nan, dtype=np.float32)
        found: Readings = self._used[column]
        return found

    def sampled_at(self, name: str) -> Floats:
        """[n] when that share was measured; -inf never."""
        column = self._axis.column(name)
        if column is None or column >= len(self._used_at):
            return np.full(self._used_at.shape[1], -np.inf)
        found: Floats = self._used_at[column]
        return found
