"""What the row-scoped plugins make of every row for an equivalence class: refused and why, or its score so far.

Two columns are cached, not one a plugin: what a single plugin answered is asked again when a record needs it.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE
from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator, blocks, finite
from dispatcher.scheduling.equivalence.static_answers import NO_NODE, StaticColumn, StaticFilters, count_codes
from dispatcher.scheduling.fleet.columns import RowList, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Codes, Floats, Rows
from dispatcher.scheduling.framework.kernels import kernel

_FEW = 32
Answers = StaticColumn | PluginEvaluator


@kernel("floats float out")
def _add(raw, scale, total):  # type: ignore[no-untyped-def]
    """Add the weighted scores."""
    for row in range(len(total)):
        total[row] += np.rint(raw[row] * scale)


@kernel("marks float out")
def _close(first, grid, total):  # type: ignore[no-untyped-def]
    """Convert totals from units of 1 / grid to points; -inf for refused rows; 1 if a total is not finite, else 0."""
    nonsense = 0
    for row in range(len(total)):
        if first[row] == 0:
            total[row] /= grid
            if not np.isfinite(total[row]):
                nonsense = 1
        else:
            total[row] = -np.inf
    return nonsense


_NO_FILTERS = StaticFilters(())


def add_score(raw: Floats, weight: float, total: Floats) -> None:
    """Add weighted scores to totals in units of 1 / GRID."""
    if _add.fast is not None and raw.dtype == np.float64 and raw.flags.c_contiguous:
        _add.fast(raw, weight * GRID, total)
    else:
        total += np.rint(raw * (weight * GRID))


def close_totals(first: Codes, total: Floats) -> bool:
    """Totals as points, -inf where `first` refuses; False if one of the others is no finite number."""
    if _close.fast is not None:
        return not _close.fast(first, GRID, total)
    total /= GRID
    finite_ones = bool(np.isfinite(total[first == 0]).all())
    total[first != 0] = INFEASIBLE
    return finite_ones


class RowTable:
    """`first` [n]: code of the first filter that refuses the row, NO_NODE without a node. `total` [n]: the sum of the
    weighted scores, -inf where refused.

    `rejected`: (reason code, cluster index) -> rows; `feasible` + rejected rows = `evaluated`, all live rows.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._static_filters = _NO_FILTERS
        self._filters: Sequence[Answers] = ()
        self._points: Sequence[StaticColumn] = ()
        self._evaluators: Sequence[PluginEvaluator] = ()
        # score_at -> [n] raw scores of the last full scan, if one call asked for all rows: only where the whole fleet
        # fits in one BLOCK (else scores of a full scan come in pieces and are not kept)
        self._last_scores: dict[int | None, Floats] = {}
        self.first: Codes = np.zeros(0, dtype=np.uint16)
        self.total: Floats = np.zeros(0)
        self.rejected: Counter[tuple[int, int]] = Counter()
        self.feasible = self.evaluated = 0

    def select_active(
        self,
        static_filters: StaticFilters,
        filters: Sequence[Answers],
        points: Sequence[StaticColumn],
        evaluators: Sequence[PluginEvaluator],
    ) -> None:
        """The active ones: `static_filters`, then `filters` in profile order; and who scores without normalising."""
        self._static_filters, self._filters, self._points, self._evaluators = (
            static_filters,
            filters,
            points,
            evaluators,
        )

    def update(self, rows: RowList | None, *, nodes_changed: bool) -> RowList | None:
        """Ask again about `rows` (None: all); returns those whose being feasible has changed, None: any may have."""
        n = self._fleet.n
        self._last_scores = {}
        if rows is None or 2 * len(rows) > n:
            self.fill_all()
            self._count_all()
            return None
        self.first, self.total = grown(self.first, n, NO_NODE), grown(self.total, n, INFEASIBLE)
        before = self.first[rows]
        self._fill(rows)
        after = self.first[rows]
        # A row that got another node may be of another cluster now: then counts cannot be kept by difference.
        if nodes_changed or len(rows) > _FEW:
            self._count_all()
        elif (before != after).any():
            clusters = self._fleet.cluster[rows].tolist()
            for cluster, old, new in zip(clusters, before.tolist(), after.tolist(), strict=True):
                self._shift(old, cluster, -1)
                self._shift(new, cluster, 1)
        feasibility_changed: RowList = rows[(before == 0) != (after == 0)]
        return feasibility_changed

    def fill_all(self) -> None:
        """Ask about all rows, without counting."""
        n = self._fleet.n
        self.first, self.total = grown(self.first, n, NO_NODE), grown(self.total, n, INFEASIBLE)
        for block in blocks(slice(0, n)):
            self._fill(block)

    def _fill(self, where: Rows) -> None:
        first = self._static_filters.first[where]
        first = first.copy() if isinstance(where, slice) else first
        for one in self._filters:
            codes = one.codes[where] if isinstance(one, StaticColumn) else one.codes(where)
            if codes.any():
                np.copyto(first, codes, where=first == 0)
        self.first[where] = first
        self.total[where] = self._add_up(where, first == 0)

    def _add_up(self, where: Rows, fits: Bools) -> Floats:
        count = int(np.count_nonzero(fits))
        if _close.fast is not None and 2 * count > len(fits):
            total = self._sum(where)
            if _close.fast(self.first[where], GRID, total):
                self._find_nonsense(where, fits)
            return total
        total = np.full(len(fits), INFEASIBLE)
        if 2 * count > len(fits):  # a window is cheaper than a copy, even if some rows are asked in vain
            points = self._sum(where) / GRID
            np.copyto(total, points, where=fits)
        elif count:
            rows = np.flatnonzero(fits) + where.start if isinstance(where, slice) else where[fits]
            total[fits] = self._sum(rows) / GRID
        if np.isnan(total).any() or (count and total.max() == np.inf):
            self._find_nonsense(where, fits)
        return total

    def _sum(self, rows: Rows) -> Floats:
        """[rows] the weighted scores, in units of 1 / GRID."""
        total = np.zeros(rows.stop - rows.start if isinstance(rows, slice) else len(rows))
        for evaluator in self._evaluators:
            raw = evaluator.scores(rows)
            if len(raw) == self._fleet.n:
                self._last_scores[evaluator.role.score_at] = raw
            add_score(raw, evaluator.role.weight, total)
        for column in self._points:
            total += column.grid_points[rows]
        return total

    def take_scores(self) -> dict[int | None, Floats]:
        """score_at -> [n] raw scores, if one call of the last update asked for all rows (see `_last_scores`); only
        once.
        """
        last_scores, self._last_scores = self._last_scores, {}
        return last_scores

    def _find_nonsense(self, where: Rows, fits: Bools) -> None:
        for evaluator in self._evaluators:
            finite(evaluator.role.plugin, evaluator.scores(where)[fits])

    # --- counts ------------------------------------------------------------------------------------------------------

    def _shift(self, code: int, cluster: int, by: int) -> None:
        if code == 0:
            self.feasible += by
        elif code != NO_NODE:
            self.rejected[code, cluster] += by
            if not self.rejected[code, cluster]:
                del self.rejected[code, cluster]

    def _count_all(self) -> None:
        n = self._fleet.n
        first = self.first[:n]
        if np.count_nonzero(first) == self._static_filters.refused:  # no other filter refuses any row
            self.rejected, self.evaluated = Counter(self._static_filters.rejected), self._static_filters.evaluated
            self.feasible = n - self._static_filters.refused
            return
        rows = np.flatnonzero(
            first != self._static_filters.first[:n]
        )  # what the joint filters refuse is counted already
        self.rejected = Counter(self._static_filters.rejected)
        self.rejected.update(count_codes(first[rows], self._fleet, rows))
        self.feasible = int(np.count_nonzero(first == 0))
        self.evaluated = self.feasible + self.rejected.total()

    def feasible_rows(self) -> RowList:
        """All feasible rows, ascending."""
        return np.flatnonzero(self.first[: self._fleet.n] == 0)
