"""The answers of a pod class where they may rest on anything: all rows are asked anew whenever something moved.

For plugins that say so (`depends` FLEET, or DOMAIN without parts), and for domains as small as a host.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from dispatcher.scheduling.classes.judges import Judge, weighted
from dispatcher.scheduling.classes.peaks import NOWHERE, Peak, peak_of
from dispatcher.scheduling.classes.rows import RowTable
from dispatcher.scheduling.classes.shared_answers import SharedColumn, count_codes
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats, Placed, Rows, Skip


class WideTable:
    """Totals of all feasible rows."""

    def __init__(
        self, fleet: FleetState, rows: RowTable, columns: Sequence[SharedColumn], judges: Sequence[Judge]
    ) -> None:
        self._fleet, self._table = fleet, rows
        self._columns = tuple(column for column in columns if column.role.score_at is not None)
        self._judges = tuple(judges)
        self._first: Codes = np.zeros(0, dtype=np.uint16)
        self._rows: RowList = np.zeros(0, dtype=np.intp)  # feasible, ascending
        self._totals: Floats = np.zeros(0)  # of these
        self._raw: dict[int, Floats] = {}
        self._normal: dict[int, Floats] = {}
        self._due: Placed | None = None

    def due(self, placed: Placed) -> None:
        """Everybody has to be asked anew before the next answer; `placed` is any pod of the class."""
        self._due = placed

    def ask(self) -> None:
        """Ask everybody about every row that is left, if that is due."""
        placed, self._due = self._due, None
        if placed is None:
            return
        fleet, table = self._fleet, self._table
        candidates = table.feasible_rows()
        codes = np.zeros(len(candidates), dtype=np.uint16)
        for judge in self._judges:
            if judge.role.filter_at is not None and len(candidates):
                np.copyto(codes, judge.codes(fleet, self._where(candidates)), where=codes == 0)
        self._first = codes
        self._candidates = candidates
        self._rows = rows = candidates if not codes.any() else candidates[codes == 0]
        self._totals, self._raw, self._normal = table.total[rows], {}, {}
        if len(rows):
            self._score(placed, self._where(rows))

    def _where(self, rows: RowList) -> Rows:
        return slice(0, self._fleet.n) if len(rows) == self._fleet.n else rows  # a window is cheaper than a copy

    def _score(self, placed: Placed, rows: Rows) -> None:
        for column in self._columns:
            raw = column.raw[rows]
            if len(column.values) == 1:
                normal = np.full(len(raw), column.judge.normalize(raw[:1])[0])
            else:
                normal = column.judge.normalize(raw)
            self._keep(column.judge, raw, normal)
        for judge in self._judges:
            if judge.role.score_at is not None:
                raw = self._raw_of(judge, placed, rows)
                normalizes = judge.role.normalizes and not isinstance(judge.prepared, Skip)
                self._keep(judge, raw, judge.normalize(raw) if normalizes else raw)

    def _raw_of(self, judge: Judge, placed: Placed, rows: Rows) -> Floats:
        if judge.pre_scores:
            return judge.prepared_scores(placed, self._fleet, self._rows, rows)
        if judge.role.weighs:
            judge.weigh(self._fleet, rows)
        return judge.finite_scores(self._fleet, rows)

    def _keep(self, judge: Judge, raw: Floats, normal: Floats) -> None:
        role = judge.role
        if role.score_at is not None:
            self._raw[role.score_at], self._normal[role.score_at] = raw, normal
            self._totals += weighted(normal, role.weight)

    # --- answers -----------------------------------------------------------------------------------------------------

    def best(self) -> tuple[Peak, Peak | None] | None:
        """The best row and the runner-up; None if nothing is feasible."""
        self.ask()
        first = self._peak()
        if first is None:
            return None
        at = int(np.searchsorted(self._rows, first.row))
        kept, self._totals[at] = self._totals[at], NOWHERE
        second = self._peak()
        self._totals[at] = kept
        return first, second

    def at(self, row: int) -> Peak | None:
        """A row with its score, None if it is not feasible."""
        self.ask()
        at = int(np.searchsorted(self._rows, row))
        found = at < len(self._rows) and int(self._rows[at]) == row
        return Peak(row, float(self._totals[at])) if found else None

    def _peak(self) -> Peak | None:
        found = peak_of(None, self._totals, self._fleet.rank[self._rows])
        return None if found is None else Peak(int(self._rows[found.row]), found.score)

    def refused(self) -> dict[tuple[int, int], int]:
        """(reason code, cluster index) -> rows that only these filters refuse."""
        self.ask()
        return count_codes(self._first, self._fleet, self._candidates)

    def scores_at(self, rows: Iterable[int]) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """(raw, normalised) score_at -> per row, of feasible rows."""
        self.ask()
        at = np.searchsorted(self._rows, np.fromiter(rows, dtype=np.intp))
        raw = {score: values[at].tolist() for score, values in self._raw.items()}
        return raw, {score: values[at].tolist() for score, values in self._normal.items()}
