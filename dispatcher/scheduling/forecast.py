"""Many equal pods at once: the order in which one-by-one would take the rows, found by looking one pod ahead.

Where the score of a row depends on that row alone, a batch of m pods touches only rows among the m + 1 best. What a
row will score after one more pod is asked for many rows in one go: the pods are supposed on the columns, the plugins
are asked, and the columns are put back bit for bit. Then the batch is a merge: the best rows in order, and a heap of
the rows that have already taken a pod.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.classes import PodClass
from dispatcher.scheduling.columns import RowList
from dispatcher.scheduling.explain import Ground, Scores
from dispatcher.scheduling.framework import Depends, Floats, Placed
from dispatcher.scheduling.judges import Judge
from dispatcher.scheduling.peaks import Peak
from dispatcher.scheduling.points import PluginError


class _Bid(NamedTuple):
    """What a row offers for the next pod, ordered as decisions are: highest total, lowest rank, lowest row."""

    minus_total: float
    rank: int
    row: int
    raw: Floats  # [plugins, rows]; column `at` is behind this bid
    at: int

    @property
    def peak(self) -> Peak:
        return Peak(self.row, -self.minus_total)


def can_forecast(pods: PodClass, items: Sequence[tuple[object, Placed]]) -> bool:
    """Whether looking ahead is exact: answers that depend on one row each, and pods that all take the same."""
    first = items[0][1].pod
    return all(_one_row(judge) for judge in pods.judges) and all(
        placed.pod is first or (placed.pod.requests == first.requests and not placed.pod.ports) for _, placed in items
    )


def _one_row(judge: Judge) -> bool:
    depends = judge.plugin.depends
    return judge.silent or depends is Depends.STATIC or (depends is Depends.NODE and not judge.normalizes)


class Forecast:
    """Best rows for the next `count` pods of a class that has caught up; meanwhile nothing else touches the fleet.

    Once `void` it must not be asked any more: the class has to catch up first.
    """

    def __init__(self, pods: PodClass, placed: Placed, count: int) -> None:
        self._pods, self._placed, self._left = pods, placed, count
        rows = _best_rows(pods, count + 1)
        keys = zip((-pods.table.total[rows]).tolist(), pods.fleet.rank[rows].tolist(), rows.tolist(), strict=True)
        self._untouched = [_Bid(*key, pods.table.raw, key[2]) for key in keys]
        self._at = 0
        self._touched: list[_Bid] = []
        self._next: dict[int, _Bid | int] = {}  # row -> its bid after one more pod, or why that will not fit
        self._asked = [one for one in pods.judges if not one.silent and one.plugin.depends is not Depends.STATIC]
        self._rejected = dict(pods.filters.rejected)
        self._feasible = pods.filters.feasible
        self._ground: Ground | None = pods.ground()
        self.void = not pods.fleet.can_suppose(rows, placed.pod, count + 1)

    # --- answers -----------------------------------------------------------------------------------------------------

    def best(self) -> tuple[Peak, Peak | None] | None:
        """The best row and the runner-up; None if nothing fits any more."""
        bids = self._untouched[self._at : self._at + 2]
        if self._touched:
            bids = sorted([*bids, *self._touched[:3]])
        if not bids:
            return None
        self._first, self._second = bids[0], bids[1] if len(bids) > 1 else None
        return self._first.peak, self._second.peak if self._second else None

    def scores(self) -> Scores:
        """The per-plugin scores of what `best` answered."""
        table, first, second = self._pods.table, self._first, self._second
        rival = None if second is None else table.normal_column(second.raw[:, second.at], second.row)
        names, weights = table.names()
        raw = first.raw[:, first.at]
        return Scores(names, weights, table.heard_only(raw), table.normal_column(raw, first.row), rival)

    def ground(self) -> Ground:
        """What a decision taken now stands on."""
        if self._ground is None:
            self._ground = self._pods.ground_of(dict(self._rejected), self._feasible)
        return self._ground

    # --- going on ----------------------------------------------------------------------------------------------------

    def booked(self, row: int) -> None:
        """The best row has taken the pod (it is in the fleet now)."""
        self._left -= 1
        if self._at < len(self._untouched) and self._untouched[self._at].row == row:
            self._at += 1
        else:
            heapq.heappop(self._touched)
        if self._left <= 0:
            self.void = True
            return
        found = self._next.pop(row, None)
        if found is None:
            try:
                self._look_ahead(row)
            except PluginError:
                self.void = True  # the next pod will meet the error itself
                return
            found = self._next.pop(row)
        if isinstance(found, _Bid):
            heapq.heappush(self._touched, found)
        else:
            self._full(row, found)

    def _full(self, row: int, code: int) -> None:
        cluster = int(self._pods.fleet.cluster[row])
        self._rejected[code, cluster] = self._rejected.get((code, cluster), 0) + 1
        self._feasible -= 1
        self._ground = None
        # Normalised scores rest on the feasible set: they are others from here on.
        self.void = self._pods.table.normalizing

    def _look_ahead(self, row: int) -> None:
        """Ask for the next bid of `row`, and of all rows that may soon be chosen, for these with one more pod."""
        soon = [bid.row for bid in self._untouched[self._at : self._at + self._left]]
        soon += [bid.row for bid in self._touched]
        others = np.asarray([one for one in soon if one not in self._next], dtype=np.intp)
        rows = np.sort(np.append(others, row))
        fleet, pod = self._pods.fleet, self._placed.pod
        fleet.suppose(others, pod, 1)
        try:
            self._ask(rows)
        finally:
            fleet.suppose(others, pod, -1)

    def _ask(self, rows: RowList) -> None:
        pods, table = self._pods, self._pods.table
        codes = np.zeros(len(rows), dtype=np.uint16)
        for judge in reversed(self._asked):
            if judge.filter_at is not None:
                answer = judge.codes(pods.fleet, rows)
                np.copyto(codes, answer, where=answer != 0)
        fits = rows[codes == 0]
        raw = table.raw[:, fits]
        for judge in self._asked:
            if judge.score_at is not None and len(fits):
                raw[judge.score_at] = judge.scores(pods.fleet, fits)
        totals, ranks = table.sum_of(raw, fits), pods.fleet.rank[fits]
        keys = zip((-totals).tolist(), ranks.tolist(), fits.tolist(), strict=True)
        self._next.update((key[2], _Bid(*key, raw, at)) for at, key in enumerate(keys))
        self._next.update(zip(rows[codes != 0].tolist(), codes[codes != 0].tolist(), strict=True))


def _best_rows(pods: PodClass, count: int) -> RowList:
    """The best feasible rows in order, `count` at most."""
    totals, ranks = pods.table.total[: pods.fleet.n], pods.fleet.rank
    rows = np.flatnonzero(totals > -np.inf)
    if len(rows) > count:
        worst = np.partition(totals[rows], len(rows) - count)[len(rows) - count]
        better, equal = rows[totals[rows] > worst], rows[totals[rows] == worst]
        wanted = count - len(better)
        if len(equal) > wanted:
            equal = equal[np.argpartition(ranks[equal], wanted - 1)[:wanted]]
        rows = np.concatenate([better, equal])
    order = np.lexsort((rows, ranks[rows], -totals[rows]))
    best: RowList = rows[order]
    return best
