"""The best row of a class whose answers rest on fault domains, by groups of rows.

All rows of a group are in the same domains and have the same values of the normalising scores that
rest on nodes alone. So the total of a row is its own score (`rows`) plus what its group adds
(`group_scores`). One placement moves one row and what some groups add.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE, RowScore, two_best
from dispatcher.scheduling.equivalence.class_rows import ClassRows
from dispatcher.scheduling.equivalence.group_scores import GroupScores
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats, Ints

_FEW = 64  # below one feasible row in so many, no other row is looked at


class GroupTable:
    """The two best rows of all, and what groups refuse."""

    def __init__(self, fleet: FleetState, rows: ClassRows, group_scores: GroupScores) -> None:
        self._fleet = fleet
        self._rows = rows
        self.group_scores = group_scores
        self.partition = group_scores.partition  # what it is made for
        self._members: Ints | None = None

    def update(self, *, flipped: bool) -> None:
        """Follow the rows; `flipped`: some became feasible, or are no longer."""
        if flipped:
            self._members = None

    def best(self) -> tuple[RowScore, RowScore | None] | None:
        """The best row and the runner-up; None if nothing is feasible."""
        n = self._fleet.n
        groups = self.group_scores.group
        ranks = self._fleet.rank[:n]
        if _FEW * self._rows.feasible > n:
            first, second = two_best(self._rows.total[:n], groups, self._points(), ranks)
        else:
            rows = self._rows.feasible_rows()
            totals = self._rows.totals_of(rows)
            found = two_best(totals, groups[rows], self._points(), ranks[rows])
            first, second = (one and one._replace(row=rows.item(one.row)) for one in found)
        return None if first is None else (first, second)

    def at(self, row: int) -> RowScore | None:
        """A row with its score, None if it is not feasible."""
        total = float(self._rows.total[row] + self._points()[self.group_scores.group[row]])
        return None if total == INFEASIBLE else RowScore(row, total)

    def _points(self) -> Floats:
        """[groups] what they add, normalised over those that take pods; -inf for all others."""
        takes = self.group_scores.finalise(self._by_cluster().sum(axis=1) > 0)
        found: Floats = np.where(takes, self.group_scores.points, INFEASIBLE)
        return found

    def _by_cluster(self) -> Ints:
        """[groups, clusters] rows that no other filter refuses."""
        if self._members is None:
            fleet = self._fleet
            rows = self._rows.feasible_rows()
            clusters = max(len(fleet.clusters), 1)
            places = self.group_scores.group[rows].astype(np.int64) * clusters + fleet.cluster[rows]
            size = self.group_scores.size
            counts = np.bincount(places, minlength=size * clusters)
            self._members = counts.reshape(size, clusters)
        return self._members

    def refused(self) -> Mapping[tuple[int, int], int]:
        """(reason code, cluster index) -> rows that only their domains refuse."""
        codes = self.group_scores.codes
        found = dict[tuple[int, int], int]()
        if not codes.any():
            return found
        members = self._by_cluster()
        for group in np.flatnonzero(codes).tolist():
            for cluster in np.flatnonzero(members[group]).tolist():
                why = codes.item(group), cluster
                found[why] = found.get(why, 0) + members.item(group, cluster)
        return found

    def scores_at(
        self, rows: Iterable[int]
    ) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """(raw, normalised) score_at -> per row, of the scores that groups have in common."""
        groups = self.group_scores.group[list(rows)].tolist()
        of = self.group_scores
        raw = {at: [values.item(group) for group in groups] for at, values in of.raw.items()}
        normal = {at: [values.item(group) for group in groups] for at, values in of.normal.items()}
        return raw, normal
