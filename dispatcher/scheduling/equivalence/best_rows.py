"""Which rows are best: by total score, then by lowest `fleet.rank` (a stable hash of cluster and
node), then by row.

One rule for every place finder. `BlockMaxima` finds the best of many rows again after a few
changed, without looking at all the others.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints
from dispatcher.scheduling.framework.kernels import kernel

_BLOCK = 1024
INFEASIBLE = -np.inf


class RowScore(NamedTuple):
    """A row and its total score."""

    row: int
    score: float


def best_of(rows: RowList | None, totals: Floats, ranks: Ints) -> RowScore | None:
    """The best of `rows` (None: of all): the highest total, among equals the lowest rank, then the
    lowest row.
    """
    part = totals if rows is None else totals[rows]
    if not len(part):
        return None
    at = int(part.argmax())
    highest = part.item(at)
    if highest == INFEASIBLE:
        return None
    equals = np.flatnonzero(part == highest)
    if len(equals) > 1:
        found = equals if rows is None else rows[equals]
        return RowScore(int(found[ranks[found].argmin()]), highest)
    return RowScore(at if rows is None else int(rows[at]), highest)


class BlockMaxima:
    """The highest total, by blocks of 1024 rows; among equals the row of the lowest rank, then the
    lowest row.
    """

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

    def best(self, totals: Floats, ranks: Ints) -> RowScore | None:
        """The best row, None if no row is feasible."""
        if not len(self._best):
            return None
        highest = self._best.max()
        if highest == INFEASIBLE:
            return None
        blocks = np.flatnonzero(self._best == highest)
        if len(blocks) == 1:
            start = int(blocks[0]) * _BLOCK
            rows = np.flatnonzero(totals[start : start + _BLOCK] == highest) + start
        else:
            rows = np.flatnonzero(totals == highest)
        return RowScore(
            int(rows[ranks[rows].argmin()] if len(rows) > 1 else rows[0]), float(highest)
        )

    def second(self, first: int, totals: Floats, ranks: Ints) -> RowScore | None:
        """The best row but `first`; `totals` is restored before this returns."""
        kept = totals[first]
        totals[first] = INFEASIBLE
        self.update((first,), totals)
        found = self.best(totals, ranks)
        totals[first] = kept
        self.update((first,), totals)
        return found


@kernel("floats ints")
def two_best_kernel(totals, ranks):  # type: ignore[no-untyped-def]
    """The two best rows: by total, then rank, then row; -1 where there is none."""
    first = second = -1
    for row in range(len(totals)):
        total = totals[row]
        if total == -np.inf:
            continue
        if second >= 0 and (
            total < totals[second] or (total == totals[second] and ranks[row] >= ranks[second])
        ):
            continue
        if (
            first < 0
            or total > totals[first]
            or (total == totals[first] and ranks[row] < ranks[first])
        ):
            first, second = row, first
        else:
            second = row
    return first, second


@kernel("marks floats floats float float wholes floats out")
def add_terms(first, before, raw, weight, unit, group, points, totals):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """Write `totals` [n] in one pass; 1 if one of them is no finite number, else 0.

    A total is `before` and the weighted `raw` score, rounded to whole `unit`s of points, and the
    points of the row's group; -inf for rows that `first` refuses.
    """
    nonsense = 0
    for row in range(len(totals)):
        total = (before[row] + np.rint(raw[row] * weight)) * unit
        nonsense |= first[row] == 0 and not np.isfinite(total)
        totals[row] = total + points[group[row]] if first[row] == 0 else -np.inf
    return nonsense


def two_best(totals: Floats, ranks: Ints) -> tuple[int, int]:
    """Where the two best stand: by total, then rank, then place; -1 where there is none."""
    if two_best_kernel.fast is not None:
        found: tuple[int, int] = two_best_kernel.fast(totals, ranks)
        return found
    first = best_of(None, totals, ranks)
    if first is None:
        return -1, -1
    totals[first.row] = INFEASIBLE
    second = best_of(None, totals, ranks)
    totals[first.row] = first.score
    return first.row, -1 if second is None else second.row


def best_rows(rows: RowList | None, scores: Floats, ranks: Ints, count: int) -> RowList:
    """The best feasible ones of `rows` (None: of all) in order, `count` at most."""
    totals = scores if rows is None else scores[rows]
    fits = np.flatnonzero(totals > INFEASIBLE)
    totals = totals[fits]
    rows = fits if rows is None else rows[fits]
    if len(rows) > count:
        worst = np.partition(totals, len(rows) - count)[len(rows) - count]
        better = rows[totals > worst]
        equal = rows[totals == worst]
        wanted = count - len(better)
        if len(equal) > wanted:
            equal = equal[np.argpartition(ranks[equal], wanted - 1)[:wanted]]
        rows = np.concatenate([better, equal])
        totals = scores[rows]
    best: RowList = rows[np.lexsort((rows, ranks[rows], -totals))]
    return best


@kernel("ints ints floats ints ints out_ints out_ints")
def fill_best_kernel(rows, bucket_of, totals, ranks, starts, found, held):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """The best rows of each bucket in order, as many as there is room for from `starts` on; `held`:
    how many.
    """
    for at in range(len(rows)):
        row = rows[at]
        bucket = bucket_of[at]
        start = starts[bucket]
        size = held[bucket]
        room = starts[bucket + 1] - start
        if size == room:
            if room == 0:
                continue
            size -= 1
            last = found[start + size]
            if totals[row] < totals[last] or (
                totals[row] == totals[last] and ranks[row] >= ranks[last]
            ):
                continue
        place = start + size
        while place > start:
            other = found[place - 1]
            if totals[row] < totals[other] or (
                totals[row] == totals[other] and ranks[row] >= ranks[other]
            ):
                break
            found[place] = other
            place -= 1
        found[place] = row
        held[bucket] = size + 1
    return 0
