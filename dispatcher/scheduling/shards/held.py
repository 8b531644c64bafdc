"""The rows that a shard holds, as plugins read them there: numbers that move with pods and readings, nothing else.

A plugin that asks for more (labels, ports, volumes, counts, names) is told so by an error, and the driver, who has the
whole books, answers for its pods. So whatever a shard does answer rests on its own rows alone.
"""

import numpy as np

from dispatcher.model.reasons import ReasonTable
from dispatcher.model.resources import ResourceAxis
from dispatcher.model.signals import SignalAxis
from dispatcher.scheduling.fleet.columns import NodeColumns, RowList, RowStore
from dispatcher.scheduling.fleet.journal import Journal
from dispatcher.scheduling.fleet.signals import SignalColumns, SignalView
from dispatcher.scheduling.framework.derived import Derived

NUMBERS = ("allocatable", "requested", "nonzero", "recent", "settling", "used_at", "rank")  # of 8 bytes
SHARES = ("used", "used_mean", "usual", "used_variance", "forecast", "forecast_error", "last_error")  # of 4
MASKS = ("hot",)  # of 4
MARKS = ("live", "ready", "unschedulable")  # of 1
HELD = (*NUMBERS, *SHARES, *MASKS, *MARKS)


class NotHeldError(Exception):
    """A plugin asked for something that shards do not hold."""


class HeldRows(NodeColumns):
    """The part of the fleet that rests on single rows and moves with pods; rows count from 0 in each shard."""

    def __init__(self) -> None:
        self.reasons = ReasonTable()
        self.changes = Journal()  # rows of which it was told anew whether they are live
        self.forget()

    def forget(self) -> None:
        """Hold nothing."""
        self.axis, self.signal_axis = ResourceAxis(), SignalAxis(())
        self.n = 0
        self.clock = float("-inf")
        self.store = RowStore(len(self.axis), len(self.signal_axis))
        self.signals = SignalView(self.signal_axis, SignalColumns.of(self.store))
        self._show()

    def __getattr__(self, name: str) -> object:
        raise NotHeldError(f"shards do not hold {name!r}")

    def reserve(self, rows: int, resources: tuple[str, ...], signals: tuple[str, ...], derived: Derived) -> None:
        """Hold that many rows; `resources` and `signals` are all that the driver knows, in its order."""
        if derived != self.signals.derived:
            self.store.derive(deviations=derived.deviations, rules=())
            self.signals.derived = derived
        for name in resources:
            self.axis.intern(name)
        for name in signals:
            self.signal_axis.intern(name)
        self.n = rows
        self.store.reserve(rows, len(self.axis), len(self.signal_axis))
        self._show()

    def _show(self) -> None:
        for name, window in self.store.windows(self.n):
            if name in HELD:
                setattr(self, name, window)
        self.signals.show(self.signal_axis, SignalColumns.of(self))

    def came_or_went(self, rows: RowList, live: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> None:
        """Note which of `rows` are to be written with another `live`."""
        moved = rows[self.store.live[rows] != live]
        if len(moved):
            self.changes.extend(moved.tolist())
