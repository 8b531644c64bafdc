"""The best of many rows, found again after a few of them changed without looking at all the others."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework import Floats, Ints

_BLOCK = 1024
NOWHERE = -np.inf


class Peak(NamedTuple):
    """A row and its total score."""

    row: int
    score: float


class Peaks:
    """The highest total, block by block of 1024 rows; among equals the row of the lowest rank, then the lowest row."""

    def __init__(self) -> None:
        self._best: Floats = np.zeros(0)
        self._row: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def rebuild(self, totals: Floats, ranks: Ints) -> None:
        """Look at everything."""
        blocks = -(-len(totals) // _BLOCK)
        self._best = np.full(blocks, NOWHERE)
        self._row = np.zeros(blocks, dtype=np.int64)
        for block in range(blocks):
            self._look(block, totals, ranks)

    def update(self, rows: Iterable[int], totals: Floats, ranks: Ints) -> None:
        """Look again at the blocks of `rows`."""
        for block in {row // _BLOCK for row in rows}:
            self._look(block, totals, ranks)

    def _look(self, block: int, totals: Floats, ranks: Ints) -> None:
        start = block * _BLOCK
        part = totals[start : start + _BLOCK]
        highest = part.max()
        self._best[block] = highest
        if highest == NOWHERE:
            return
        equals = np.flatnonzero(part == highest)
        chosen = equals[0] if len(equals) == 1 else equals[ranks[start + equals].argmin()]
        self._row[block] = start + chosen

    def best(self, ranks: Ints) -> Peak | None:
        """The best row, None if no row is feasible."""
        if not len(self._best):
            return None
        highest = self._best.max()
        if highest == NOWHERE:
            return None
        rows = self._row[self._best == highest]
        return Peak(int(rows[ranks[rows].argmin()] if len(rows) > 1 else rows[0]), float(highest))

    def second(self, first: int, totals: Floats, ranks: Ints) -> Peak | None:
        """The best row but `first`; `totals` is restored before this returns."""
        kept = totals[first]
        totals[first] = NOWHERE
        self.update((first,), totals, ranks)
        found = self.best(ranks)
        totals[first] = kept
        self.update((first,), totals, ranks)
        return found
