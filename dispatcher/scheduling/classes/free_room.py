"""The least room that is free on any row of each block of rows: where a pod fits that, it fits all of them."""

from collections.abc import Sequence

import numpy as np

from dispatcher.model.resources import MAX_QUANTITY
from dispatcher.scheduling.classes.kernels import kernel
from dispatcher.scheduling.fleet.columns import RowList, distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Ints

_BLOCK = 256  # rows
_NEVER = -1
_NO_ROWS: RowList = np.zeros(0, dtype=np.intp)


@kernel("ints ints ints int out_ints")
def _short(allocatable, requested, least, amount, found):  # type: ignore[no-untyped-def]
    """How many rows have less than `amount` free; `found` has them. `least`: of each block."""
    count = 0
    for block in range(len(least)):
        if least[block] < amount:
            for row in range(block * _BLOCK, min(block * _BLOCK + _BLOCK, len(allocatable))):
                if allocatable[row] - requested[row] < amount:
                    found[count] = row
                    count += 1
    return count


@kernel("ints ints out_ints")
def _lowest(allocatable, requested, least):  # type: ignore[no-untyped-def]
    """The least that is free on any row of each block; nothing is where there is no node."""
    for block in range(len(least)):
        low = MAX_QUANTITY
        for row in range(block * _BLOCK, min(block * _BLOCK + _BLOCK, len(allocatable))):
            low = min(low, allocatable[row] - requested[row])
        least[block] = low


class FreeRoom:
    """[resources, blocks] of a fleet, never more than the truth: room that comes free is noticed now and then."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._least: Ints = np.zeros((0, 0), dtype=np.int64)
        self._lowest: list[int] = []  # [resources] of all blocks
        self._changes_at = self._loads_at = _NEVER
        self._noted = 0  # rows since all were looked at

    def catch_up(self) -> None:
        """Look again at rows that changed."""
        fleet = self._fleet
        changed = fleet.changes.since(self._changes_at) if self._changes_at != _NEVER else None
        touched = fleet.loads.since(self._loads_at) if self._loads_at != _NEVER else None
        if changed is None or touched is None or len(changed) or self._noted > fleet.n // 2 + _BLOCK:
            self._rebuild()
        else:
            self._note(touched)
        self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position

    def _note(self, rows: RowList) -> None:
        self._noted += len(rows)
        fleet, least = self._fleet, self._least
        for row in rows.tolist():
            block = row // _BLOCK
            for at, known in enumerate(self._lowest):
                free = fleet.allocatable.item(at, row) - fleet.requested.item(at, row)
                if free < least.item(at, block):
                    least[at, block] = free
                    self._lowest[at] = min(free, known)

    def _rebuild(self) -> None:
        fleet, self._noted = self._fleet, 0
        self._least = np.zeros((len(fleet.allocatable), -(-fleet.n // _BLOCK)), dtype=np.int64)
        starts = np.arange(0, fleet.n, _BLOCK)
        for least, allocatable, requested in zip(self._least, fleet.allocatable, fleet.requested, strict=True):
            if _lowest.fast is not None:
                _lowest.fast(allocatable, requested, least)
            elif fleet.n:
                np.minimum.reduceat(allocatable - requested, starts, out=least)
        self._lowest = self._least.min(axis=1, initial=MAX_QUANTITY).tolist()

    def short_of(self, wanted: Sequence[tuple[str, int]]) -> RowList | None:
        """The rows on which not all of `wanted` (resource, amount) is free, ascending; some may hold no node.

        None: some resource is nowhere.
        """
        fleet = self._fleet
        found: list[RowList] = []
        for name, amount in wanted:
            column = fleet.axis.column(name)
            if column is None or column >= len(self._least):
                return None
            if self._lowest[column] < amount:
                least = self._least[column]
                found.append(_rows_short(fleet.allocatable[column], fleet.requested[column], least, amount))
        return distinct(*found) if found else _NO_ROWS


def _rows_short(allocatable: Ints, requested: Ints, least: Ints, amount: int) -> RowList:
    if _short.fast is None:
        return np.flatnonzero(allocatable - requested < amount)
    found = np.empty(len(allocatable), dtype=np.intp)
    return found[: _short.fast(allocatable, requested, least, amount, found)]
