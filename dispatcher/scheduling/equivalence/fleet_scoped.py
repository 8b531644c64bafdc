"""The answers of a class where they may rest on anything: all rows are evaluated anew whenever
something moved.

For plugins that say so (`depends` FLEET, or DOMAIN without parts), and for domains as small as a
host.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE, RowScore, best_of
from dispatcher.scheduling.equivalence.class_rows import ClassRows
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator, weighted
from dispatcher.scheduling.equivalence.static_answers import count_codes
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats, PodInfo, Rows, Skip


class LastAsked:
    """The table of all classes that keeps its answers, some 60 bytes a row: nearly all others' are
    stale anyway.
    """

    def __init__(self) -> None:
        self.table: FleetScopedTable | None = None


class FleetScopedTable:
    """Totals of all feasible rows."""

    def __init__(
        self,
        fleet: FleetState,
        rows: ClassRows,
        columns: Sequence[StaticColumn],
        evaluators: Sequence[PluginEvaluator],
        last: LastAsked,
    ) -> None:
        self._fleet = fleet
        self._table = rows
        self._last = last
        self._columns = tuple(column for column in columns if column.role.score_at is not None)
        self._evaluators = tuple(evaluators)
        self._due: PodInfo | None = None
        self._asked: PodInfo | None = None  # what the answers are of
        self._blank()

    def _blank(self) -> None:
        self._first: Codes = np.zeros(0, dtype=np.uint16)
        self._candidates: RowList = np.zeros(0, dtype=np.intp)
        self._rows: RowList = self._candidates  # feasible, ascending
        self._totals: Floats = np.zeros(0)  # of these
        self._raw: dict[int, Floats] = {}
        self._normal: dict[int, Floats] = {}

    def _take_turn(self, pod_info: PodInfo) -> None:
        before = self._last.table
        self._last.table = self
        self._asked = pod_info
        if before is not None and before is not self:
            before._due = before._due or before._asked
            before._blank()

    def due(self, pod_info: PodInfo) -> None:
        """Everybody has to be asked anew before the next answer; `pod_info` is any pod of the class."""
        self._due = pod_info

    def ask(self) -> None:
        """Ask everybody about every row that is left, if that is due, and note what the answers
        rest on.
        """
        pod_info = self._due
        if pod_info is None:
            return
        self._take_turn(pod_info)
        table = self._table
        candidates = table.feasible_rows()
        codes = np.zeros(len(candidates), dtype=np.uint16)
        for evaluator in self._evaluators:
            if evaluator.role.filter_at is not None and len(candidates):
                np.copyto(codes, evaluator.codes(self._where(candidates)), where=codes == 0)
        self._first = codes
        self._candidates = candidates
        self._rows = rows = candidates if not codes.any() else candidates[codes == 0]
        self._totals = table.totals_of(rows)
        self._raw = {}
        self._normal = {}
        if len(rows):
            self._score(pod_info, self._where(rows))
        for evaluator in self._evaluators:
            evaluator.record_dependencies()
        self._due = None  # not before: who fails is asked again

    def _where(self, rows: RowList) -> Rows:
        return (
            slice(0, self._fleet.n) if len(rows) == self._fleet.n else rows
        )  # a window is cheaper than a copy

    def _score(self, pod_info: PodInfo, rows: Rows) -> None:
        for column in self._columns:
            raw = column.raw[rows]
            if len(column.values) == 1:
                normal = np.full(len(raw), column.evaluator.normalize(raw[:1])[0])
            else:
                normal = column.evaluator.normalize(raw)
            self._keep(column.evaluator, raw, normal)
        for evaluator in self._evaluators:
            if evaluator.role.score_at is not None:
                raw = self._raw_of(evaluator, pod_info, rows)
                normalizes = evaluator.role.normalizes and not isinstance(evaluator.prepared, Skip)
                self._keep(evaluator, raw, evaluator.normalize(raw) if normalizes else raw)

    def _raw_of(self, evaluator: PluginEvaluator, pod_info: PodInfo, rows: Rows) -> Floats:
        if evaluator.role.pre_scores:
            return evaluator.prepared_scores(pod_info, self._rows, rows)
        if evaluator.pre_scores_domains:
            evaluator.pre_score_domains(rows)
        return evaluator.finite_scores(rows)

    def _keep(self, evaluator: PluginEvaluator, raw: Floats, normal: Floats) -> None:
        role = evaluator.role
        if role.score_at is not None:
            self._raw[role.score_at], self._normal[role.score_at] = (
                raw + 0.0,
                normal,
            )  # never -0.0, as by groups
            self._totals += weighted(normal, role.weight)

    # --- answers
    # ----------------------------------------------------------------------------------------------

    def best(self) -> tuple[RowScore, RowScore | None] | None:
        """The best row and the runner-up; None if nothing is feasible."""
        self.ask()
        first = self._best_row()
        if first is None:
            return None
        at = int(np.searchsorted(self._rows, first.row))
        kept = self._totals[at]
        self._totals[at] = INFEASIBLE
        second = self._best_row()
        self._totals[at] = kept
        return first, second

    def at(self, row: int) -> RowScore | None:
        """A row with its score, None if it is not feasible."""
        self.ask()
        at = int(np.searchsorted(self._rows, row))
        found = at < len(self._rows) and int(self._rows[at]) == row
        return RowScore(row, float(self._totals[at])) if found else None

    def _best_row(self) -> RowScore | None:
        found = best_of(None, self._totals, self._fleet.rank[self._rows])
        return None if found is None else RowScore(int(self._rows[found.row]), found.score)

    def refused(self) -> dict[tuple[int, int], int]:
        """(reason code, cluster index) -> rows that only these filters refuse."""
        self.ask()
        return count_codes(self._first, self._fleet, self._candidates)

    def scores_at(
        self, rows: Iterable[int]
    ) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """(raw, normalised) score_at -> per row, of feasible rows."""
        self.ask()
        at = np.searchsorted(self._rows, np.fromiter(rows, dtype=np.intp))
        raw = {score: values[at].tolist() for score, values in self._raw.items()}
        return raw, {score: values[at].tolist() for score, values in self._normal.items()}
