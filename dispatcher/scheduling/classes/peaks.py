"""The best of many rows, found again after a few of them changed without looking at all the others."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints

_BLOCK = 1024
NOWHERE = -np.inf


class Peak(NamedTuple):
    """A row and its total score."""

    row: int
    score: float


def peak_of(rows: RowList | None, totals: Floats, ranks: Ints) -> Peak | None:
    """The best of `rows` (None: of all): the highest total, among equals the lowest rank, then the lowest row."""
    part = totals if rows is None else totals[rows]
    if not len(part):
        return None
    at = int(part.argmax())
    highest = part.item(at)
    if highest == NOWHERE:
        return None
    equals = np.flatnonzero(part == highest)
    if len(equals) > 1:
        found = equals if rows is None else rows[equals]
        return Peak(int(found[ranks[found].argmin()]), highest)
    return Peak(at if rows is None else int(rows[at]), highest)


class Peaks:
    """The highest total, by blocks of 1024 rows; among equals the row of the lowest rank, then the lowest row."""

    def __init__(self) -> None:
        self._best: Floats = np.zeros(0)

    def rebuild(self, totals: Floats) -> None:
        """Look at everything."""
        n = len(totals)
        whole = n - n % _BLOCK
        self._best = totals[:whole].reshape(-1, _BLOCK).max(axis=1)
        if whole < n:
            self._best = np.append(self._best, totals[whole:].max())

    def update(self, rows: Iterable[int], totals: Floats) -> None:
        """Look again at the blocks of `rows`."""
        for block in {row // _BLOCK for row in rows}:
            self._best[block] = totals[block * _BLOCK : (block + 1) * _BLOCK].max()

    def best(self, totals: Floats, ranks: Ints) -> Peak | None:
        """The best row, None if no row is feasible."""
        if not len(self._best):
            return None
        highest = self._best.max()
        if highest == NOWHERE:
            return None
        blocks = np.flatnonzero(self._best == highest)
        if len(blocks) == 1:
            start = int(blocks[0]) * _BLOCK
            rows = np.flatnonzero(totals[start : start + _BLOCK] == highest) + start
        else:
            rows = np.flatnonzero(totals == highest)
        return Peak(int(rows[ranks[rows].argmin()] if len(rows) > 1 else rows[0]), float(highest))

    def second(self, first: int, totals: Floats, ranks: Ints) -> Peak | None:
        """The best row but `first`; `totals` is restored before this returns."""
        kept = totals[first]
        totals[first] = NOWHERE
        self.update((first,), totals)
        found = self.best(totals, ranks)
        totals[first] = kept
        self.update((first,), totals)
        return found
