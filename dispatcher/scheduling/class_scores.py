"""What the scores of a pod class are for every feasible row, their weighted sum, and the best of them.

Every weighted score is rounded to a multiple of 2^-20, so that sums are exact in any order and equal scores are equal.
Normalising plugins are kept raw, and normalised over the feasible rows whenever those or their raw scores move.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.class_filters import FilterTable
from dispatcher.scheduling.columns import RowList, distinct, grown
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Depends, Floats, Rows
from dispatcher.scheduling.judges import Judge
from dispatcher.scheduling.peaks import NOWHERE, Peak, Peaks
from dispatcher.scheduling.points import Plan

_GRID = 2.0**20
_FEW = 32


class ScoreTable:
    """`raw` [scores, rows]; `total` [rows], -inf where infeasible; valid on feasible rows after `update`."""

    def __init__(self, plan: Plan, judges: Sequence[Judge], fleet: FleetState) -> None:
        self._fleet = fleet
        self._judges = [judge for judge in judges if judge.score_at is not None]
        self._scores = plan.scores
        self._normal: dict[int, Floats] = {}
        self._scored: Bools = np.zeros(0, dtype=np.bool_)
        self._peaks = Peaks()
        self._heard: list[int] = []
        self._names: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        self.raw: Floats = np.zeros((len(plan.scores), 0))
        self.total: Floats = np.zeros(0)

    # --- catching up -------------------------------------------------------------------------------------------------

    def forget(self, changed: RowList | None) -> None:
        """The nodes of these rows are others now (None: all): no plugin's score for them holds."""
        n = self._fleet.n
        self.raw, self.total = grown(self.raw, n, 0.0), grown(self.total, n, NOWHERE)
        self._scored = grown(self._scored, n, False)
        self._normal = {at: grown(values, n, 0.0) for at, values in self._normal.items()}
        self._scored[slice(None) if changed is None else changed] = False

    def update(self, filters: FilterTable, filtered: RowList | None, touched: RowList | None) -> None:
        """Ask the scores what is due. `filtered`: rows whose feasibility may have moved, `touched`: whose load has."""
        self._hear()
        fresh = self._fresh(filters, filtered)
        feasible = filters.feasible_rows() if self._wants_all(filters, touched) else None
        still = filters.feasible_rows(touched) if touched is not None else feasible
        loaded = rescored = fresh if still is None else still if touched is None else distinct(fresh, still)
        renormalise = filters.moved
        for judge in self._judges:
            rows = fresh if judge.plugin.depends is Depends.STATIC else loaded
            if judge.everything and feasible is not None:
                rows = rescored = feasible
            if len(rows) and not judge.silent:
                self.raw[judge.score_at, self._where(rows)] = judge.scores(self._fleet, rows)
                renormalise |= judge.normalizes
        if renormalise and self.normalizing:
            rescored = filters.feasible_rows() if feasible is None else feasible
            self._normalise(rescored)
        self._add_up(filters, filtered, rescored)

    def _wants_all(self, filters: FilterTable, touched: RowList | None) -> bool:
        return (
            touched is None or any(judge.everything for judge in self._judges) or (filters.moved and self.normalizing)
        )

    def _where(self, rows: RowList) -> Rows:
        return slice(0, self._fleet.n) if len(rows) == self._fleet.n else rows  # a window is cheaper than a copy

    def _hear(self) -> None:
        heard = [judge.score_at for judge in self._judges if judge.score_at is not None and not judge.silent]
        if heard == self._heard:
            return
        self._heard = heard
        scores = [self._scores[at] for at in heard]
        self._names = tuple(one.plugin.name for one in scores), tuple(one.weight for one in scores)
        normalizing = {judge.score_at for judge in self._judges if judge.normalizes and not judge.silent}
        self._normal = {
            at: self._normal.get(at, np.zeros(self.raw.shape[1])) for at in self._heard if at in normalizing
        }

    @property
    def normalizing(self) -> bool:
        """Whether any score of the class rests on the set of feasible rows."""
        return bool(self._normal)

    def _fresh(self, filters: FilterTable, filtered: RowList | None) -> RowList:
        """Feasible rows without a score; rows that ceased to be feasible lose theirs."""
        rows = np.arange(self._fleet.n) if filtered is None else filtered
        fits = filters.first[rows] == 0
        fresh: RowList = rows[fits & ~self._scored[rows]]
        self._scored[rows] = fits
        return fresh

    def _normalise(self, rows: RowList) -> None:
        for judge in self._judges:
            if judge.score_at in self._normal:
                self._normal[judge.score_at][rows] = judge.normalize(self.raw[judge.score_at, rows])

    def _add_up(self, filters: FilterTable, filtered: RowList | None, rescored: RowList) -> None:
        n, ranks = self._fleet.n, self._fleet.rank
        gone = np.flatnonzero(filters.first[:n] != 0) if filtered is None else filtered[filters.first[filtered] != 0]
        self.total[gone] = NOWHERE
        where = self._where(rescored)
        self.total[where] = self.sum_of(self.raw[:, where], rescored)
        if filtered is None or len(rescored) + len(gone) > _FEW:
            self._peaks.rebuild(self.total[:n], ranks)
        else:
            self._peaks.update([*rescored.tolist(), *gone.tolist()], self.total[:n], ranks)

    # --- answers -----------------------------------------------------------------------------------------------------

    def sum_of(self, raw: Floats, rows: RowList) -> Floats:
        """[rows] the weighted totals of raw scores [scores, rows], normalised where a plugin normalises."""
        total = np.zeros(len(rows))
        for at in self._heard:
            normal = self._normal.get(at)
            score = (raw[at] if normal is None else normal[rows]) * (self._scores[at].weight * _GRID)
            total += np.rint(score, out=score)
        return total / _GRID

    def best(self) -> tuple[Peak, Peak | None] | None:
        """The best row and the runner-up; None if nothing is feasible."""
        ranks = self._fleet.rank
        first = self._peaks.best(ranks)
        if first is None:
            return None
        return first, self._peaks.second(first.row, self.total[: self._fleet.n], ranks)

    def names(self) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Names and weights of the plugins that have something to say about this class."""
        return self._names

    def heard_only(self, raw: Floats) -> Floats:
        """Of one value per score plugin, those of the plugins in `names`; a copy."""
        values: Floats = raw[self._heard]
        return values

    def normal_column(self, raw: Floats, row: int) -> Floats:
        """The raw scores of a row, normalised, of the plugins in `names`; a copy."""
        values = raw
        if self._normal:
            values = raw.copy()
            for at, normal in self._normal.items():
                values[at] = normal[row]
        return self.heard_only(values)
