"""The best row of each group of rows, and the best of all: the answers of a class that rest on
fault domains.

All rows of a group are in the same domains and have the same values of the normalising scores that
rest on nodes alone. So the total of a row is its own score (`rows`) plus what its group adds
(`group_scores`). One placement moves one row and what some groups add; no other row is looked at.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import (
    INFEASIBLE,
    BlockMaxima,
    RowScore,
    best_of,
    two_best_kernel,
)
from dispatcher.scheduling.equivalence.class_rows import ClassRows
from dispatcher.scheduling.equivalence.group_scores import GroupScores
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats

_SMALL = 1 << 14  # rows


class GroupTable:
    """The best row of each group, and the best of all with its group score."""

    def __init__(self, fleet: FleetState, rows: ClassRows, group_scores: GroupScores) -> None:
        self._fleet = fleet
        self._rows = rows
        self.group_scores = group_scores
        self.partition = group_scores.partition  # what it is made for
        self._best_of_group: list[RowScore | None] = []
        self._totals: Floats = np.zeros(0)  # [groups] of the best rows, -inf without
        self._due: set[int] = set()
        self._top: tuple[int, int] | None = None  # of small fleets: the two best rows, -1 without
        # of all rows, used while there is one group and the fleet is not small
        self._all_rows_maxima = BlockMaxima()
        self._refused: list[dict[int, int]] | None = None

    # --- catching up
    # ----------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Look at all rows."""
        self._refused = None
        self._top = None
        if self.group_scores.partition is None and not self._is_small():
            self._all_rows_maxima.rebuild(self._rows.total[: self._fleet.n])
        self._best_of_group = [None] * self.group_scores.size
        self._totals = np.full(self.group_scores.size, INFEASIBLE)
        self._due = set(range(self.group_scores.size))

    def update(self, rows: RowList, *, flipped: bool) -> None:
        """Look at `rows`, whose totals may have changed; `flipped`: some became feasible, or are no
        longer.
        """
        if flipped:
            self._refused = None
        partition = self.group_scores.partition
        if partition is None:
            self._top = None
            self._due = {0}
            if not self._is_small():
                self._all_rows_maxima.update(rows.tolist(), self._rows.total[: self._fleet.n])
            return
        for row, group in zip(rows.tolist(), partition.group[rows].tolist(), strict=True):
            row_score = self._best_of_group[group]
            total = self._rows.total.item(row)
            if group not in self._due and (
                row_score is None or row == row_score.row or total >= row_score.score
            ):
                self._due.add(group)

    def _look(self) -> None:
        totals = self._rows.total[: self._fleet.n]
        ranks = self._fleet.rank
        partition = self.group_scores.partition
        for group in self._due:
            if partition is None:
                row_score = (
                    self._best_of_small(0)
                    if self._is_small()
                    else self._all_rows_maxima.best(totals, ranks)
                )
            else:
                row_score = best_of(partition.rows(group), totals, ranks)
            self._best_of_group[group] = row_score
            self._totals[group] = INFEASIBLE if row_score is None else row_score.score
        self._due = set()

    def _is_small(self) -> bool:
        """Whether all rows are looked at faster than it takes to keep best rows of blocks."""
        return two_best_kernel.fast is not None and self._fleet.n <= _SMALL

    def _best_of_small(self, place: int) -> RowScore | None:
        """The best row of all (`place` 0), or the next best (1)."""
        totals = self._rows.total[: self._fleet.n]
        if self._top is None:
            self._top = two_best_kernel.fast(totals, self._fleet.rank)
        row: int = self._top[place]
        return None if row < 0 else RowScore(row, totals.item(row))

    # --- answers
    # ----------------------------------------------------------------------------------------------

    def best(self) -> tuple[RowScore, RowScore | None] | None:
        """The best row and the runner-up, with their group score; None if nothing is feasible."""
        if self.group_scores.partition is None:
            return self._best_of_all()
        self._look()
        open_ = self.group_scores.finalise(self._totals > INFEASIBLE)
        totals = np.where(open_, self._totals + self.group_scores.points, INFEASIBLE)
        first = self._choose(totals)
        if first is None:
            return None
        group, row_score = first
        totals[group] = INFEASIBLE
        rival = self._choose(totals)
        own = self._second(group, row_score.row)
        if own is not None and (rival is None or self._key(own) < self._key(rival[1])):
            return row_score, own
        return row_score, rival[1] if rival else None

    def _best_of_all(self) -> tuple[RowScore, RowScore | None] | None:
        self._look()
        first = self._best_of_group[0]
        if not self.group_scores.finalise(self._totals > INFEASIBLE).item(0) or first is None:
            return None
        return RowScore(first.row, first.score + self.group_scores.points.item(0)), self._second(
            0, first.row
        )

    def at(self, row: int) -> RowScore | None:
        """A row with its score, None if it is not feasible."""
        group = self.group(row)
        # best() also brings the points of the groups up to date.
        if (
            self._rows.refusal_codes[row] != 0
            or self.group_scores.codes[group]
            or self.best() is None
        ):
            return None
        return RowScore(row, float(self._rows.total[row] + self.group_scores.points[group]))

    def _choose(self, totals: Floats) -> tuple[int, RowScore] | None:
        highest = totals.max(initial=INFEASIBLE)
        if highest == INFEASIBLE:
            return None
        groups = np.flatnonzero(totals == highest).tolist()
        found = [
            (group, RowScore(row_score.row, float(highest)))
            for group in groups
            if (row_score := self._best_of_group[group])
        ]
        return min(found, key=lambda one: self._key(one[1]))

    def _key(self, row_score: RowScore) -> tuple[float, int, int]:
        return -row_score.score, int(self._fleet.rank[row_score.row]), row_score.row

    def _second(self, group: int, row: int) -> RowScore | None:
        totals = self._rows.total[: self._fleet.n]
        ranks = self._fleet.rank
        partition = self.group_scores.partition
        if partition is None:
            found = (
                self._best_of_small(1)
                if self._is_small()
                else self._all_rows_maxima.second(row, totals, ranks)
            )
        else:
            rows = partition.rows(group)
            found = best_of(rows[rows != row], totals, ranks)
        return (
            None
            if found is None
            else RowScore(found.row, found.score + float(self.group_scores.points[group]))
        )

    def group(self, row: int) -> int:
        """The group of a row."""
        return (
            0
            if self.group_scores.partition is None
            else int(self.group_scores.partition.group[row])
        )

    def refused(self) -> dict[tuple[int, int], int]:
        """(reason code, cluster index) -> rows that only their domains refuse."""
        return (
            refused_by(self.group_scores.codes, self.by_cluster())
            if self.group_scores.codes.any()
            else {}
        )

    def by_cluster(self) -> list[dict[int, int]]:
        """[groups] cluster index -> rows that no other filter refuses; a copy."""
        if self._refused is None:
            rows = self._rows.feasible_rows()
            clusters = max(len(self._fleet.clusters), 1)
            groups = (
                self.group_scores.partition.group[rows].astype(np.int64)
                if self.group_scores.partition
                else 0
            )
            counts = np.bincount(groups * clusters + self._fleet.cluster[rows])
            self._refused = [{} for _ in range(self.group_scores.size)]
            for key in np.flatnonzero(counts).tolist():
                group, cluster = divmod(key, clusters)
                self._refused[group][cluster] = int(counts[key])
        return [dict(one) for one in self._refused]

    def scores_at(
        self, rows: Iterable[int]
    ) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """(raw, normalised) score_at -> per row, of the scores that groups have in common."""
        groups = [self.group(row) for row in rows]
        raw = {
            at: [values.item(group) for group in groups]
            for at, values in self.group_scores.raw.items()
        }
        return raw, {
            at: [values.item(group) for group in groups]
            for at, values in self.group_scores.normal.items()
        }


def refused_by(codes: Codes, by_cluster: Sequence[dict[int, int]]) -> dict[tuple[int, int], int]:
    """(reason code, cluster index) -> rows of the groups [groups] that domain filters refuse."""
    counts: dict[tuple[int, int], int] = {}
    for group in np.flatnonzero(codes).tolist():
        code = int(codes[group])
        for cluster, rows in by_cluster[group].items():
            if rows:
                counts[code, cluster] = counts.get((code, cluster), 0) + rows
    return counts
