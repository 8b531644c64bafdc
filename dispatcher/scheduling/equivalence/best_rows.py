"""Which rows are best: by total score, then by lowest `fleet.rank` (a stable hash of cluster and
node), then by row.

One rule for every place finder.
"""

from typing import Any, NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints, SmallInts
from dispatcher.scheduling.framework.kernels import kernel

BLOCK = 1024  # rows whose totals are in the processor's cache
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


def two_best_of(start: Any, totals: Any, ranks: Any, best: Any) -> Any:
    """The two best rows, as `best`: the best and its total, the next best and its total, -1 and -inf
    for none. `totals` are those of rows from `start` on, which are compared with the `best` before.
    """
    first, first_total, second, second_total = best
    for at in range(len(totals)):
        total = totals[at]
        row = start + at
        if total == -np.inf or total < second_total:
            continue
        if second >= 0 and total == second_total and ranks[row] >= ranks[second]:
            continue
        if first < 0 or total > first_total or (total == first_total and ranks[row] < ranks[first]):
            first, second = row, first
            first_total, second_total = total, first_total
        else:
            second, second_total = row, total
    return first, first_total, second, second_total


@kernel("floats wholes floats ints", formulas=(two_best_of,))
def _two_best(totals, group, points, ranks):  # type: ignore[no-untyped-def]
    """See `two_best`; -1 where there is none. Block by block, most of which hold neither of them."""
    best = (-1, -np.inf, -1, -np.inf)
    n = len(totals)
    found = np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        before = totals[start : start + size]
        groups = group[start : start + size]
        highest = -np.inf
        for at in range(size):
            found[at] = before[at] + points[groups[at]]
            highest = max(highest, found[at])
        if highest >= best[3]:
            best = two_best_of(start, found[:size], ranks, best)
    return best


def two_best(
    totals: Floats, group: SmallInts, points: Floats, ranks: Ints
) -> tuple[RowScore | None, RowScore | None]:
    """The best row and the next best, by total, then rank, then row; None where there is none.

    A row's score is its entry in `totals` [n] and the `points` [groups] of its `group` [n]; -inf
    for one of these: it is not feasible.
    """
    if _two_best.fast is not None:
        first, total, second, second_total = _two_best.fast(totals, group, points, ranks)
        return (
            RowScore(first, total) if first >= 0 else None,
            RowScore(second, second_total) if second >= 0 else None,
        )
    scores = totals + points[group]
    best = best_of(None, scores, ranks)
    if best is None:
        return None, None
    scores[best.row] = INFEASIBLE
    return best, best_of(None, scores, ranks)


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
