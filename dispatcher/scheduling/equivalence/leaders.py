"""The best rows of each group of a partition, kept from batch to batch for all classes that share a row table.

A placement makes the best rows of its group alone due: of 500,000 nodes in 300 groups, a batch of 50 pods looks again
at those of 50 groups at most; from a quarter as many placements as groups on, all rows are looked at in one go.
"""

from collections import OrderedDict

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import best_rows, fill_best_kernel
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.rows import RowTable
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Ints

WIDTH = 64  # rows of each group
_ANEW = 4  # from one touched row for so many groups on, all are looked at in one go
_MOST_KEPT = 16


class GroupLeaders:
    """`members` [groups]: feasible rows. `best` [groups, WIDTH]: the best of them by the table's totals, in order; -1
    where there are no more.
    """

    def __init__(self, fleet: FleetState, table: RowTable, partition: Partition) -> None:
        self._fleet, self.table, self.partition = fleet, table, partition
        self.members: Ints = np.zeros(partition.size, dtype=np.int64)
        self.best: Ints = np.full((partition.size, WIDTH), -1, dtype=np.int64)
        self._version, self._asked_at = -1, 0

    def refresh(self) -> None:
        """Follow the table, which is up to date."""
        table = self.table
        rows = table.asked.since(self._asked_at) if self._version == table.version else None
        self._version = -1  # if somebody fails, all is due
        if rows is None or _ANEW * len(rows) >= self.partition.size:
            self._look_at_all()
        else:
            groups, touched = self.partition.group[rows], self._fleet.live[rows]
            for group in set(groups.tolist()):
                self._follow(group, rows[(groups == group) & touched])
        self._version, self._asked_at = table.version, table.asked.position

    def _follow(self, group: int, touched: RowList) -> None:
        """Put the touched rows of a group where they belong among its best.

        Of the others, those in the list are its best still, and what ranks before the last of them is known: 64 best
        rows of which the 3rd and the 64th took a pod are 62 and these two, unless they rank below all 62.
        """
        before, total, ranks = self.best[group], self.table.total, self._fleet.rank
        before = before[before >= 0]
        complete = len(before) == self.members[group]
        kept = before[~np.isin(before, touched)]
        if not complete and len(kept) < WIDTH // 2:
            self._look_at(group)
            return
        fits = touched[self.table.first[touched] == 0]
        rows = np.concatenate([kept, fits])
        rows = rows[np.lexsort((rows, ranks[rows], -total[rows]))][:WIDTH]
        if not complete:
            rows = rows[: int(np.flatnonzero(np.isin(rows, kept))[-1]) + 1]
        self.members[group] = np.count_nonzero(self.table.first[self.partition.rows(group)] == 0)
        self.best[group, : len(rows)], self.best[group, len(rows) :] = rows, -1

    def _look_at(self, group: int) -> None:
        rows = self.partition.rows(group)
        self.members[group] = np.count_nonzero(self.table.first[rows] == 0)
        found = best_rows(rows, self.table.total, self._fleet.rank, WIDTH)
        self.best[group, : len(found)] = found
        self.best[group, len(found) :] = -1

    def _look_at_all(self) -> None:
        fill, size = fill_best_kernel.fast, self.partition.size
        if fill is None:
            for group in range(size):
                self._look_at(group)
            return
        rows = self.table.feasible_rows()
        groups = self.partition.group[rows].astype(np.int64)
        self.members = np.bincount(groups, minlength=size)
        self.best[:] = -1
        starts, held = np.arange(size + 1) * WIDTH, np.zeros(size, dtype=np.int64)
        fill(rows, groups, self.table.total, self._fleet.rank, starts, self.best.reshape(-1), held)

    def rows(self, group: int, count: int, without: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> RowList:
        """The best rows of a group, as many as asked for, but those that `without` [n] names."""
        rows = self.partition.rows(group)
        return best_rows(rows[~without[rows]], self.table.total, self._fleet.rank, count)


class Leaders:
    """Those of tables and partitions that were last asked about, until a node changes."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet, self._at = fleet, -1
        self._kept: OrderedDict[tuple[RowTable, Partition], GroupLeaders] = OrderedDict()

    def of(self, table: RowTable, partition: Partition) -> GroupLeaders:
        """Up to date, as the table is."""
        if self._at != self._fleet.changes.position:
            self._kept.clear()
            self._at = self._fleet.changes.position
        found = self._kept.pop((table, partition), None) or GroupLeaders(self._fleet, table, partition)
        found.refresh()
        self._kept[table, partition] = found
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return found

    def forget(self, table: RowTable) -> None:
        """Nobody uses the table any more."""
        for key in [key for key in self._kept if key[0] is table]:
            del self._kept[key]
