"""The best rows of each group of a partition, kept from batch to batch for all classes that share a
row table.

A placement makes the best rows of its group alone due: of 500,000 nodes in 300 groups, a batch of
50 pods puts 50 rows where they belong now, and looks at all rows of those groups alone of which too
few best ones are known.
"""

from collections import OrderedDict
from typing import Any

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import best_rows, fill_best_kernel
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.rows import RowTable
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Ints
from dispatcher.scheduling.framework.kernels import kernel

WIDTH = 64  # rows of each group
FIRST_WIDTH = 8  # of a table that is asked about for the first time: many are so once alone
_ANEW = 4  # from one group to look at in so many on, all are looked at in one go
_MOST_KEPT = 16
_SHORT = -2


def _take_out(  # noqa: PLR0913 - columns
    touched: Any,
    group_of: Any,
    first: Any,
    fits: Any,
    best: Any,
    members: Any,
    held: Any,
    whole: Any,
) -> None:
    """Take touched rows out of the best of their groups, and count the feasible ones anew."""
    width = len(best) // len(members)
    for row in touched:
        group = group_of[row]
        if held[group] < 0:
            held[group] = 0
            while held[group] < width and best[group * width + held[group]] >= 0:
                held[group] += 1
            whole[group] = held[group] == members[group]
    for row in touched:
        group = group_of[row]
        members[group] += int(first[row] == 0) - int(fits[row])
        fits[row] = first[row] == 0
        last = group * width + held[group] - 1
        for at in range(group * width, last + 1):
            if best[at] == row:
                best[at:last] = best[at + 1 : last + 1].copy()
                best[last] = -1
                held[group] -= 1
                break


def _place_of(row: int, best: Any, start: int, size: int, total: Any, ranks: Any) -> int:
    """How many of a group's best rows are better than `row`."""
    place = size
    while place > 0:
        other = best[start + place - 1]
        if total[other] > total[row]:
            break
        if total[other] == total[row] and (ranks[other], other) < (ranks[row], row):
            break
        place -= 1
    return place


@kernel(
    "ints wholes floats ints marks out_bools out_ints out_ints out_ints out_bools",
    formulas=(_take_out, _place_of),
)
def _follow_all(touched, group_of, total, ranks, first, fits, best, members, held, whole):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """`GroupLeaders._follow` of all groups with touched rows.

    `fits` [n]: which rows were feasible. `held` [groups], -1 before: how many best rows are known
    now, _SHORT of groups that have to be looked at. `whole` [groups], scratch: whether these were
    all feasible ones.
    """
    width = len(best) // len(members)
    _take_out(touched, group_of, first, fits, best, members, held, whole)
    for row in touched:
        group = group_of[row]
        if 0 <= held[group] < width // 2 and not whole[group]:
            held[group] = _SHORT
    for row in touched:
        group = group_of[row]
        start = group * width
        size = held[group]
        if size == _SHORT or first[row] != 0:
            continue
        place = _place_of(row, best, start, size, total, ranks)
        if place == size and (size == width or not whole[group]):
            continue
        last = start + min(size, width - 1)
        best[start + place + 1 : last + 1] = best[start + place : last].copy()
        best[start + place] = row
        held[group] = last - start + 1


class GroupLeaders:
    """`members` [groups]: feasible rows. `best` [groups, width]: the best of them by the table's
    totals, in order; -1 where there are no more. There are more of them from the second time on
    that they are asked for.
    """

    def __init__(self, fleet: FleetState, table: RowTable, partition: Partition) -> None:
        self._fleet = fleet
        self.table = table
        self.partition = partition
        self.members: Ints = np.zeros(partition.size, dtype=np.int64)
        self.best: Ints = np.full((partition.size, FIRST_WIDTH), -1, dtype=np.int64)
        self._fits: Bools = np.zeros(0, dtype=np.bool_)  # [n] which rows were feasible
        self._version = -1
        self._asked_at = 0

    def refresh(self) -> None:
        """Follow the table, which is up to date."""
        table = self.table
        rows = (
            table.reevaluated_rows.since(self._asked_at) if self._version == table.version else None
        )
        more = self.best.shape[1] < WIDTH and self._version >= 0
        self._version = -1  # if somebody fails, all is due
        if more:
            self.best = np.full((self.partition.size, WIDTH), -1, dtype=np.int64)
        if rows is None or more:
            self._look_at_all()
        elif len(rows):
            self._follow_rows(rows[self._fleet.live[rows]])
        self._version = table.version
        self._asked_at = table.reevaluated_rows.position

    def _follow_rows(self, touched: RowList) -> None:
        size = self.partition.size
        table = self.table
        groups = self.partition.group
        if _follow_all.fast is not None:
            held = np.full(size, -1, dtype=np.int64)
            whole = np.zeros(size, dtype=np.bool_)
            known = (
                table.total,
                self._fleet.rank,
                table.refusal_codes,
                self._fits,
                self.best.reshape(-1),
                self.members,
            )
            _follow_all.fast(touched, groups, *known, held, whole)
            short = np.flatnonzero(held == _SHORT).tolist()
            if _ANEW * len(short) >= size:
                self._look_at_all()
            else:
                for group in short:
                    self._look_at(group)
        elif _ANEW * len(touched) >= size:
            self._look_at_all()
        else:
            own = groups[touched]
            for group in set(own.tolist()):
                self._follow(group, touched[own == group])
            self._fits[touched] = table.refusal_codes[touched] == 0

    def _follow(self, group: int, touched: RowList) -> None:
        """Put the touched rows of a group where they belong among its best.

        Of the others, those in the list are its best still, and what ranks before the last of them
        is known: 64 best rows of which the 3rd and the 64th took a pod are 62 and these two, unless
        they rank below all 62.
        """
        before = self.best[group]
        total = self.table.total
        ranks = self._fleet.rank
        before = before[before >= 0]
        complete = len(before) == self.members[group]
        kept = before[~np.isin(before, touched)]
        width = self.best.shape[1]
        if not complete and len(kept) < width // 2:
            self._look_at(group)
            return
        fits = touched[self.table.refusal_codes[touched] == 0]
        rows = np.concatenate([kept, fits])
        rows = rows[np.lexsort((rows, ranks[rows], -total[rows]))][:width]
        if not complete:
            rows = rows[: int(np.flatnonzero(np.isin(rows, kept))[-1]) + 1]
        self.members[group] = np.count_nonzero(
            self.table.refusal_codes[self.partition.rows(group)] == 0
        )
        self.best[group, : len(rows)], self.best[group, len(rows) :] = rows, -1

    def _look_at(self, group: int) -> None:
        rows = self.partition.rows(group)
        self.members[group] = np.count_nonzero(self.table.refusal_codes[rows] == 0)
        found = best_rows(rows, self.table.total, self._fleet.rank, self.best.shape[1])
        self.best[group, : len(found)] = found
        self.best[group, len(found) :] = -1

    def _look_at_all(self) -> None:
        self._fits = self.table.refusal_codes[: self._fleet.n] == 0
        fill = fill_best_kernel.fast
        size = self.partition.size
        if fill is None:
            for group in range(size):
                self._look_at(group)
            return
        rows = self.table.feasible_rows()
        groups = self.partition.group[rows].astype(np.int64)
        self.members = np.bincount(groups, minlength=size)
        self.best[:] = -1
        starts = np.arange(size + 1) * self.best.shape[1]
        held = np.zeros(size, dtype=np.int64)
        fill(rows, groups, self.table.total, self._fleet.rank, starts, self.best.reshape(-1), held)

    def rows(
        self, group: int, count: int, without: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    ) -> RowList:
        """The best rows of a group, as many as asked for, but those that `without` [n] names."""
        rows = self.partition.rows(group)
        return best_rows(rows[~without[rows]], self.table.total, self._fleet.rank, count)


class Leaders:
    """Those of tables and partitions that were last asked about, until a node changes."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._at = -1
        self._kept: OrderedDict[tuple[RowTable, Partition], GroupLeaders] = OrderedDict()

    def of(self, table: RowTable, partition: Partition) -> GroupLeaders:
        """Up to date, as the table is."""
        if self._at != self._fleet.changes.position:
            self._kept.clear()
            self._at = self._fleet.changes.position
        found = self._kept.pop((table, partition), None) or GroupLeaders(
            self._fleet, table, partition
        )
        found.refresh()
        self._kept[table, partition] = found
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return found

    def forget(self, table: RowTable) -> None:
        """Nobody uses the table any more."""
        for key in [key for key in self._kept if key[0] is table]:
            del self._kept[key]
