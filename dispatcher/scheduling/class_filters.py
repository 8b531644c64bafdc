"""What the filters of a pod class said about every row, the first reason of each, and how often each reason stands."""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.columns import RowList, grown
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Rows
from dispatcher.scheduling.judges import Judge, union

DEAD = 0xFFFF  # in `first`: the row holds no node
_FEW = 32


class FilterTable:
    """`codes` [filters, rows]: each filter's answer. `first` [rows]: the first failing one in profile order, 0: fits.

    `rejected`: (reason code, cluster index) -> rows; `feasible` + rejected rows = `evaluated`, all live rows.
    """

    def __init__(self, judges: Sequence[Judge], filters: int, fleet: FleetState) -> None:
        self._judges = [judge for judge in judges if judge.filter_at is not None]
        self._fleet = fleet
        self.codes: Codes = np.zeros((filters, 0), dtype=np.uint16)
        self.first: Codes = np.zeros(0, dtype=np.uint16)
        self.rejected: dict[tuple[int, int], int] = {}
        self.feasible = self.evaluated = 0
        self.moved = True  # whether feasibility moved anywhere at the last update
        self.counts_moved = True

    def update(self, changed: RowList | None, touched: RowList | None) -> RowList | None:
        """Ask the filters what is due; returns the rows looked at, None for all."""
        self.codes = grown(self.codes, self._fleet.n, 0)
        self.first = grown(self.first, self._fleet.n, DEAD)
        looked = changed
        for judge in self._judges:
            rows = judge.rows_due(changed, touched)
            if rows is None or len(rows):
                where: Rows = slice(0, self._fleet.n) if rows is None else rows
                self.codes[judge.filter_at, where] = 0 if judge.silent else judge.codes(self._fleet, where)
                looked = union(looked, rows)
        self._find_first(looked, nodes_changed=changed is None or len(changed) > 0)
        self.moved |= changed is None
        return looked

    def _find_first(self, rows: RowList | None, *, nodes_changed: bool) -> None:
        where: Rows = slice(0, self._fleet.n) if rows is None else rows
        before = self.first[where].copy()
        after = np.where(self._fleet.live[where], np.uint16(0), np.uint16(DEAD))
        for judge in reversed(self._judges):
            if not judge.silent:
                codes = self.codes[judge.filter_at, where]
                np.copyto(after, codes, where=(codes != 0) & (after != DEAD))
        self.first[where] = after
        self.moved = bool(((before == 0) != (after == 0)).any())
        # A row that got another node may be of another cluster now: then counts cannot be kept by difference.
        if rows is None or nodes_changed or len(rows) > _FEW:
            self._count_all()
        elif (before != after).any():
            clusters = self._fleet.cluster[rows].tolist()
            for cluster, old, new in zip(clusters, before.tolist(), after.tolist(), strict=True):
                self._shift(old, cluster, -1)
                self._shift(new, cluster, 1)
            self.counts_moved = True

    def _shift(self, code: int, cluster: int, by: int) -> None:
        if code == 0:
            self.feasible += by
        elif code != DEAD:
            left = self.rejected.get((code, cluster), 0) + by
            if left:
                self.rejected[code, cluster] = left
            else:
                del self.rejected[code, cluster]

    def _count_all(self) -> None:
        first = self.first[: self._fleet.n]
        no = np.flatnonzero((first != 0) & (first != DEAD))
        clusters = max(len(self._fleet.clusters), 1)
        counts = np.bincount(first[no].astype(np.int64) * clusters + self._fleet.cluster[no])
        keys = np.flatnonzero(counts).tolist()
        self.rejected = {divmod(key, clusters): int(counts[key]) for key in keys}
        self.feasible = int(np.count_nonzero(first == 0))
        self.evaluated = self.feasible + len(no)
        self.counts_moved = True

    def feasible_rows(self, rows: RowList | None = None) -> RowList:
        """The feasible ones of `rows` (None: of all), ascending."""
        if rows is None:
            return np.flatnonzero(self.first[: self._fleet.n] == 0)
        still: RowList = rows[self.first[rows] == 0]
        return still
