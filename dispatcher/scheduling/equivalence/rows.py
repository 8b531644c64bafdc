"""What the row-scoped plugins make of every row: refused and why, or its score so far.

Two columns are cached, not one a plugin: what a single plugin answered is asked again when a record
needs it. Classes whose pods look alike to all of these plugins share a table (`class_rows`).
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE
from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator, finite
from dispatcher.scheduling.equivalence.static_answers import (
    FEW_OPEN,
    NO_NODE,
    StaticFilters,
    count_codes,
)
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.fleet.changed_rows import ChangedRows
from dispatcher.scheduling.fleet.columns import RowList, distinct, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Codes, Floats, Rows
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import blocks, window_of

_FEW = 32
_NEVER = -1
_MOST_ASKED = 4096  # rows that are remembered as asked again; who fell behind looks at all
Answers = StaticColumn | PluginEvaluator
# The shared filters that come first, the other filters in profile order, shared scores, and plugins
# that score.
RowTableName = tuple[
    StaticFilters, tuple[Answers, ...], tuple[StaticColumn, ...], tuple[PluginEvaluator, ...]
]


@kernel("floats float out")
def _add(raw, scale, total):  # type: ignore[no-untyped-def]
    """Add the weighted scores."""
    for row in range(len(total)):
        total[row] += np.rint(raw[row] * scale)


@kernel("marks float out")
def _close(first, grid, total):  # type: ignore[no-untyped-def]
    """Convert totals from units of 1 / grid to points; -inf for refused rows; 1 if a total is not
    finite, else 0.
    """
    nonsense = 0
    for row in range(len(total)):
        if first[row] == 0:
            total[row] /= grid
            if not np.isfinite(total[row]):
                nonsense = 1
        else:
            total[row] = -np.inf
    return nonsense


def add_score(raw: Floats, weight: float, total: Floats) -> None:
    """Add weighted scores to totals in units of 1 / GRID."""
    if _add.fast is not None and is_plain(raw):
        _add.fast(raw, weight * GRID, total)
    else:
        total += np.rint(raw * (weight * GRID))


def is_plain(raw: Floats) -> bool:
    """Whether scores are as compiled code takes them."""
    return raw.dtype == np.float64 and raw.flags.c_contiguous


class RowPlugins:
    """The plugins that look at one row each, asked for pods that look alike to all of them.

    `version` moves when they have to be asked about all rows anew, whatever the logs of rows say.
    """

    def __init__(self, evaluators: Sequence[PluginEvaluator]) -> None:
        self.evaluators = tuple(evaluators)
        self.version = 0


class RowTable:
    """What the plugins say of each row, and what it comes to.

    `refusal_codes` [n]: of the first filter that refuses the row, 0 if none does, NO_NODE without a
    node. `total` [n]: the sum of the weighted scores, -inf where refused. `rejected`: (reason code,
    cluster index) -> rows; `feasible` + rejected rows = `evaluated`, all live rows. `version` moves
    when all rows were asked; rows that were asked since stand in `reevaluated_rows`.
    `feasibility_version` moves when rows became feasible, or are no longer.
    """

    def __init__(
        self,
        fleet: FleetState,
        plugins: RowPlugins,
        name: RowTableName,
        old: "RowTable | None" = None,
    ) -> None:
        """`old`: a table that nobody needs any more; its memory is used again."""
        self._fleet = fleet
        self._plugins = plugins
        self.name = name
        self._static_filters, self._filters, self._points, self._evaluators = name
        self._loads_at = self._changes_at = _NEVER
        self._seen: tuple[int, ...] = ()
        self.version = self.feasibility_version = 0
        self.reevaluated_rows = ChangedRows(_MOST_ASKED)
        # score_at -> [n] raw scores of the last full scan, if one call asked for all rows: only
        # where the whole fleet fits in one BLOCK (else scores of a full scan come in pieces and are
        # not kept), and until a pod is booked
        self.last_scores: dict[int | None, Floats] = {}
        self._first: Codes = np.zeros(0, dtype=np.uint16) if old is None else old._first
        self._total: Floats = np.zeros(0) if old is None else old._total
        # Where few rows are open: their part of `refusal_codes` and of `total`, each until somebody
        # asks for all.
        self._open_codes: tuple[RowList, Codes] | None = None
        self._open_totals: tuple[Rows, Floats] | None = None
        self.rejected: Counter[tuple[int, int]] = Counter()
        self.feasible = self.evaluated = 0

    @property
    def refusal_codes(self) -> Codes:
        """By row (see above). Of few open rows made when somebody asks: fresh memory costs more
        than their answers.
        """
        if self._open_codes is not None:
            (few, codes), self._open_codes = self._open_codes, None
            closed = self._static_filters.refusal_codes[: self._fleet.n]
            self._first = grown(self._first, len(closed), NO_NODE)
            self._first[: len(closed)] = closed
            self._first[few] = codes
        return self._first

    @property
    def total(self) -> Floats:
        """By row (see above). Of few open rows it is made when somebody asks, too."""
        if self._open_totals is not None:
            known, (where, part), self._open_totals = len(self._total), self._open_totals, None
            self._total = grown(self._total, self._fleet.n, INFEASIBLE)
            self._total[:known] = INFEASIBLE
            self._total[where] = part
        return self._total

    def totals_of(self, rows: RowList) -> Floats:
        """[rows] the same of some rows."""
        where, part = self._open_totals or (rows, self._total)
        if (
            isinstance(where, slice)
            and len(rows)
            and where.start <= rows.min()
            and rows.max() < where.stop
        ):
            found: Floats = part[rows - where.start]
        else:
            found = self.total[rows]
        return found

    def refresh(self) -> None:
        """Ask again about the rows that changed, or about all. The shared columns are up to date,
        and PreFilter of the plugins has answered.
        """
        fleet = self._fleet
        seen = self._versions()
        changed = touched = None
        if self._loads_at != _NEVER and seen == self._seen:
            changed = fleet.changes.since(self._changes_at)
            touched = fleet.loads.since(self._loads_at)
        self._loads_at = self._changes_at = _NEVER  # if somebody fails, all is due
        if changed is None or touched is None:
            self._ask_all()
        elif len(changed) or len(touched):
            self._ask_again(distinct(changed, touched), nodes_changed=len(changed) > 0)
        self._seen = seen
        self._changes_at = fleet.changes.position
        self._loads_at = fleet.loads.position

    def _versions(self) -> tuple[int, ...]:
        columns = [
            one.version for one in (*self._filters, *self._points) if isinstance(one, StaticColumn)
        ]
        return self._plugins.version, self._static_filters.version, *columns

    def _ask_all(self) -> None:
        self.last_scores, self.reevaluated_rows = {}, ChangedRows(_MOST_ASKED)
        self.version += 1
        self.feasibility_version += 1
        self.fill_all()
        self._count_all()

    def _ask_again(self, rows: RowList, *, nodes_changed: bool) -> None:
        n = self._fleet.n
        if 2 * len(rows) > n:
            self._ask_all()
            return
        self.last_scores = {}
        self._first, self._total = (
            grown(self.refusal_codes, n, NO_NODE),
            grown(self.total, n, INFEASIBLE),
        )
        before = self._first[rows]
        self._total[rows] = self._fill(rows)
        self.reevaluated_rows.extend(rows)
        after = self._first[rows]
        # A row that got another node may be of another cluster now: then counts cannot be kept by
        # difference.
        if nodes_changed or len(rows) > _FEW:
            self._count_all()
        elif (before != after).any():
            clusters = self._fleet.cluster[rows].tolist()
            for cluster, old, new in zip(clusters, before.tolist(), after.tolist(), strict=True):
                self._shift(old, cluster, -1)
                self._shift(new, cluster, 1)
        # Of few open rows, what was of the others before a node changed is not known any more.
        self.feasibility_version += nodes_changed or bool(((before == 0) != (after == 0)).any())

    def fill_all(self) -> None:
        """Ask about all rows, without counting."""
        n = self._fleet.n
        few = self._static_filters.few_open
        self._open_codes = None
        self._open_totals = None
        if few is not None:
            self._fill_few(few)
            return
        self._first = grown(self._first, n, NO_NODE)
        self._total = grown(self._total, n, INFEASIBLE)
        for block in blocks(slice(0, n)):
            is_open = self._static_filters.refusal_codes[block] == 0
            if FEW_OPEN * np.count_nonzero(is_open) > block.stop - block.start:
                self._total[block] = self._fill(block)
                continue
            open_ = np.flatnonzero(is_open)
            self._first[block], self._total[block] = (
                self._static_filters.refusal_codes[block],
                INFEASIBLE,
            )
            if len(open_):
                rows = open_ + block.start
                self._total[rows] = self._fill(rows)

    def _fill_few(self, few: RowList) -> None:
        where = window_of(few)
        codes = np.zeros(len(few), dtype=np.uint16)
        if len(few):
            self._apply_filters(where, codes)
        self._open_totals = where, self._add_up(where, codes) if len(few) else np.zeros(0)
        self._open_codes = few, codes

    def _fill(self, where: Rows) -> Floats:
        """Write `refusal_codes` of these rows; [rows] their totals."""
        first = self._static_filters.refusal_codes[where]
        first = first.copy() if isinstance(where, slice) else first
        self._apply_filters(where, first)
        self._first[where] = first
        return self._add_up(where, first)

    def _apply_filters(self, where: Rows, first: Codes) -> None:
        """Write into `refusal_codes` [rows] the codes of the filters that come after the static
        ones.
        """
        for one in self._filters:
            codes = one.codes[where] if isinstance(one, StaticColumn) else one.codes(where)
            if np.count_nonzero(codes):
                np.copyto(first, codes, where=first == 0)

    def _add_up(self, where: Rows, first: Codes) -> Floats:
        fits = first == 0
        count = int(np.count_nonzero(fits))
        if _close.fast is not None and 2 * count > len(fits):
            total = self._sum(where)
            if _close.fast(first, GRID, total):
                self._find_nonsense(where, fits)
            return total
        total = np.full(len(fits), INFEASIBLE)
        if 2 * count > len(
            fits
        ):  # a window is cheaper than a copy, even if some rows are asked in vain
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
                self.last_scores[evaluator.role.score_at] = raw
            add_score(raw, evaluator.role.weight, total)
        for column in self._points:
            total += column.grid_points[rows]
        return total

    def _find_nonsense(self, where: Rows, fits: Bools) -> None:
        for evaluator in self._evaluators:
            finite(evaluator.role.plugin, evaluator.scores(where)[fits])

    # --- counts
    # ----------------------------------------------------------------------------------------------

    def _shift(self, code: int, cluster: int, by: int) -> None:
        if code == 0:
            self.feasible += by
        elif code != NO_NODE:
            self.rejected[code, cluster] += by
            if not self.rejected[code, cluster]:
                del self.rejected[code, cluster]

    def _count_all(self) -> None:
        n = self._fleet.n
        joint = self._static_filters
        few = self._codes_of_few()
        self.rejected = Counter(joint.rejected)
        self.evaluated = joint.evaluated
        more: RowList = np.zeros(0, dtype=np.intp)  # rows that other filters refuse
        if few is not None:
            more = few[0][few[1] != 0]
        elif np.count_nonzero(self._first[:n]) != joint.refused:
            more = np.flatnonzero(self._first[:n] != joint.refusal_codes[:n])
        if len(more):
            codes = few[1][few[1] != 0] if few is not None else self._first[more]
            self.rejected.update(count_codes(codes, self._fleet, more))
        self.feasible = n - joint.refused - len(more)

    def feasible_rows(self) -> RowList:
        """All feasible rows, ascending."""
        few = self._codes_of_few()
        if few is None:
            return np.flatnonzero(self.refusal_codes[: self._fleet.n] == 0)
        rows, codes = few
        return rows[codes == 0] if np.count_nonzero(codes) else rows

    def _codes_of_few(self) -> tuple[RowList, Codes] | None:
        """The few rows that the static filters let pass, and `refusal_codes` there; None if these
        are not few.
        """
        few = self._static_filters.few_open
        return None if few is None else self._open_codes or (few, self._first[few])
