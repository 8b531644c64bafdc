"""Which rows may not have room for a pod, without looking at all of them: an index of those that
have little free.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Ints, Rows
from dispatcher.scheduling.framework.memory import blocks
from shared.model.resources import MAX_QUANTITY

_NEVER = -1
NO_ROWS: RowList = np.zeros(0, dtype=np.intp)
_AMPLE = 2  # rows are known that have less free than so many times what was asked for


@dataclass(slots=True)
class _Low:
    """`rows`, ascending: all that may have less than `amount` free of a resource; some may have
    more by now.
    """

    amount: int
    rows: RowList


class LowCapacityIndex:
    """Rows with little room, by resource: found when somebody asks for more than before, then kept
    up to date.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._low: dict[int, _Low] = {}
        self._changes_at = self._loads_at = _NEVER
        self._noted = 0  # rows since the last were found

    def refresh(self) -> None:
        """Look again at rows that changed."""
        fleet = self._fleet
        changed = fleet.changes.since(self._changes_at) if self._changes_at != _NEVER else None
        touched = fleet.loads.since(self._loads_at) if self._loads_at != _NEVER else None
        if changed is None or touched is None or self._noted > fleet.n:
            # room that came free is noticed now
            self._low = {}
            self._noted = 0
        else:
            self._note(distinct(changed, touched) if len(changed) else touched)
        self._changes_at = fleet.changes.position
        self._loads_at = fleet.loads.position

    def _note(self, rows: RowList) -> None:
        self._noted += len(rows)
        for column, low in self._low.items():
            if len(rows) == 1 and self._free_on(column, rows.item()) >= low.amount:
                continue  # the usual case, without arrays
            short = rows[self._free(column, rows) < low.amount]
            if len(short):
                low.rows = distinct(low.rows, short)

    def _free_on(self, column: int, row: int) -> int:
        return int(self._fleet.allocatable.item(column, row)) - int(
            self._fleet.requested.item(column, row)
        )

    def _free(self, column: int, rows: Rows) -> Ints:
        free: Ints = self._fleet.allocatable[column][rows] - self._fleet.requested[column][rows]
        return free

    def short_of(self, wanted: Sequence[tuple[str, int]]) -> RowList | None:
        """The rows on which not all of `wanted` (resource, amount) is free, ascending; some may
        hold no node.

        None: some resource is nowhere.
        """
        fleet = self._fleet
        found: list[RowList] = []
        for name, amount in wanted:
            column = fleet.axis.column(name)
            if column is None or column >= len(fleet.allocatable):
                return None
            rows = self._rows_low(column, amount)
            if len(rows):
                found.append(rows[self._free(column, rows) < amount])
        return distinct(*found) if found else NO_ROWS

    def _rows_low(self, column: int, amount: int) -> RowList:
        low = self._low.get(column)
        if low is None or low.amount < amount:
            ample = max(amount, min(_AMPLE * amount, MAX_QUANTITY))
            every = blocks(
                slice(0, self._fleet.n)
            )  # arrays of so many rows take no new memory of the system
            rows = [
                np.flatnonzero(self._free(column, block) < ample) + block.start for block in every
            ]
            low = self._low[column] = _Low(
                ample, np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)
            )
        return low.rows
