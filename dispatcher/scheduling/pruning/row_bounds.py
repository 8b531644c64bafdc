"""How high each row may reach for one pod: the bounds of `upper_bounds` with what is known of its
groups of rows.
"""

from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Readings, SmallInts
from dispatcher.scheduling.framework.kernels import kernel

BLOCK = 64  # rows
LOWEST = float(np.finfo(np.float32).min)


@kernel("shares shares float float out_ints")
def _between(reach, best, low, high, found):  # type: ignore[no-untyped-def]
    """How many rows reach `low` but not `high`; those are found, as far as there is room for them."""
    count = 0
    for block in range(len(best)):
        if best[block] >= low:
            for row in range(block * BLOCK, min(block * BLOCK + BLOCK, len(reach))):
                if low <= reach[row] < high:
                    if count < len(found):
                        found[count] = row
                    count += 1
    return count


@kernel("shares out_shares")
def _highest(best, top):  # type: ignore[no-untyped-def]
    """The lowest of the highest, as many as `top` has room for; they are kept there, ascending
    (before: -inf).
    """
    for reach in best:
        if reach > top[0]:
            at = 1
            while at < len(top) and top[at] < reach:
                top[at - 1] = top[at]
                at += 1
            top[at - 1] = reach
    return top[0]


def highest(reach: Readings, count: int) -> float:
    """The lowest of so many of the highest, compiled; -inf for fewer."""
    return float(_highest.fast(reach, np.full(count, -np.inf, dtype=np.float32)))


class GroupPoints(NamedTuple):
    """Points that all rows of a group have in common, rounded up, by group; and the group of each
    row, [n].

    `base`: groups by these names, of all rows but those that `moved` to another one; None: nothing
    is known of that.
    """

    points: Readings
    group: SmallInts
    base: Partition | None = None
    moved: RowList = np.zeros(0, dtype=np.intp)


class RowBounds:
    """How high each row reaches for one pod; -inf where it is refused, or `left_out`. `top`: the
    highest.

    `rows`, ascending: what the entries of `reach` are about; None: all rows.
    """

    def __init__(
        self, reach: Readings, best: Readings, left_out: RowList, rows: RowList | None = None
    ) -> None:
        if rows is not None:
            at = np.searchsorted(rows, left_out)
            left_out = at[np.append(rows, -1)[at] == left_out]
        reach[left_out] = -np.inf
        self._reach = reach
        self._best = best
        self._rows = rows
        self.top = float(best.max(initial=-np.inf))

    def enough(self, count: int) -> float:
        """A reach that about `count` rows have, or more."""
        if len(self._best) <= count:
            return -np.inf
        if _highest.fast is None:
            return float(np.partition(self._best, len(self._best) - count)[len(self._best) - count])
        return highest(self._best, count)

    def between(self, low: float, high: float, most: int) -> RowList | None:
        """The rows that reach `low` but not `high`, ascending; None if these are more than `most`."""
        if _between.fast is None:
            found: RowList = np.flatnonzero(
                (self._reach >= low) & (self._reach < high) & (self._reach > -np.inf)
            )
            count = len(found)
        else:
            found = np.empty(min(most, len(self._reach)), dtype=np.int64)
            count = _between.fast(self._reach, self._best, max(low, LOWEST), high, found)
        if count > most:
            return None
        return found[:count] if self._rows is None else self._rows[found[:count]]
