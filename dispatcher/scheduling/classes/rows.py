"""What the plugins that look at one row each make of every row for a pod class: refused and why, or its points so far.

Only two columns are kept. What a single plugin said of a row can be asked again when somebody wants to know.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dispatcher.scheduling.classes.judges import GRID, Judge, blocks, finite
from dispatcher.scheduling.classes.kernels import kernel
from dispatcher.scheduling.classes.peaks import NOWHERE
from dispatcher.scheduling.classes.shared_answers import DEAD, JointCodes, SharedColumn, count_codes
from dispatcher.scheduling.fleet.columns import RowList, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Codes, Floats, Placed, Rows

_FEW = 32
Answers = SharedColumn | Judge


@kernel("floats float out")
def _add(raw, scale, total):  # type: ignore[no-untyped-def]
    """Add the weighted scores."""
    for row in range(len(total)):
        total[row] += np.rint(raw[row] * scale)


@kernel("marks float out")
def _close(first, grid, total):  # type: ignore[no-untyped-def]
    """Whole totals of the rows that fit, -inf for the others; 1 if one is no finite number, else 0."""
    nonsense = 0
    for row in range(len(total)):
        if first[row] == 0:
            total[row] /= grid
            if not np.isfinite(total[row]):
                nonsense = 1
        else:
            total[row] = -np.inf
    return nonsense


_NO_FILTERS = JointCodes(())


@dataclass(frozen=True)
class Pass:
    """A question to everybody about all rows: `joint`, then `filters` in order; `judges` and `points` score.

    `first` and `total` [n] are where the answers belong (see RowTable).
    """

    placed: Placed
    joint: JointCodes
    filters: Sequence[Answers]
    judges: Sequence[Judge]
    points: Sequence[SharedColumn]
    first: Codes
    total: Floats


class Passes(Protocol):
    """Others who may answer in the place of this process, just as it would."""

    def fill(self, asked: Pass) -> Sequence[slice]:
        """Write what they answer; the rows that nobody answered for."""
        ...


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
    total[first != 0] = NOWHERE
    return finite_ones


class RowTable:
    """`first` [n]: code of the first filter that refuses the row, DEAD without a node. `total` [n]: the weighted scores
    added up, -inf where refused.

    `rejected`: (reason code, cluster index) -> rows; `feasible` + rejected rows = `evaluated`, all live rows.
    """

    def __init__(self, fleet: FleetState, passes: Passes | None = None) -> None:
        self._fleet, self._passes = fleet, passes
        self._joint = _NO_FILTERS
        self._filters: Sequence[Answers] = ()
        self._points: Sequence[SharedColumn] = ()
        self._judges: Sequence[Judge] = ()
        self._said: dict[
            int | None, Floats
        ] = {}  # score_at -> [n] of the last time all rows were asked, if they are few
        self.first: Codes = np.zeros(0, dtype=np.uint16)
        self.total: Floats = np.zeros(0)
        self.rejected: Counter[tuple[int, int]] = Counter()
        self.feasible = self.evaluated = 0

    def hear(
        self, joint: JointCodes, filters: Sequence[Answers], points: Sequence[SharedColumn], judges: Sequence[Judge]
    ) -> None:
        """Who has something to say: `joint`, then `filters` in profile order; and who scores without normalising."""
        self._joint, self._filters, self._points, self._judges = joint, filters, points, judges

    def update(self, rows: RowList | None, placed: Placed, *, nodes_changed: bool) -> RowList | None:
        """Ask again about `rows` (None: all); returns those whose being feasible has changed, None: any may have.

        `placed` is any pod of the class.
        """
        n = self._fleet.n
        self._said = {}
        if rows is None or 2 * len(rows) > n:
            self.fill_all(placed)
            self._count_all()
            return None
        self.first, self.total = grown(self.first, n, DEAD), grown(self.total, n, NOWHERE)
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
        moved: RowList = rows[(before == 0) != (after == 0)]
        return moved

    def fill_all(self, placed: Placed) -> None:
        """Ask about all rows, without counting."""
        n = self._fleet.n
        self.first, self.total = grown(self.first, n, DEAD), grown(self.total, n, NOWHERE)
        left: Sequence[slice] = (slice(0, n),)
        if self._passes is not None:
            heard = self._joint, self._filters, self._judges, self._points
            left = self._passes.fill(Pass(placed, *heard, self.first[:n], self.total[:n]))
        for part in left:
            for block in blocks(part):
                self._fill(block)

    def _fill(self, where: Rows) -> None:
        first = self._joint.first[where]
        first = first.copy() if isinstance(where, slice) else first
        for one in self._filters:
            codes = one.codes[where] if isinstance(one, SharedColumn) else one.codes(self._fleet, where)
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
        total = np.full(len(fits), NOWHERE)
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
        for judge in self._judges:
            raw = judge.scores(self._fleet, rows)
            if len(raw) == self._fleet.n:
                self._said[judge.role.score_at] = raw
            add_score(raw, judge.role.weight, total)
        for column in self._points:
            total += column.points[rows]
        return total

    def take_said(self) -> dict[int | None, Floats]:
        """score_at -> [n] raw scores, if all rows were asked at the last update and are few; only once."""
        said, self._said = self._said, {}
        return said

    def _find_nonsense(self, where: Rows, fits: Bools) -> None:
        for judge in self._judges:
            finite(judge.role.plugin, judge.scores(self._fleet, where)[fits])

    # --- counts ------------------------------------------------------------------------------------------------------

    def _shift(self, code: int, cluster: int, by: int) -> None:
        if code == 0:
            self.feasible += by
        elif code != DEAD:
            self.rejected[code, cluster] += by
            if not self.rejected[code, cluster]:
                del self.rejected[code, cluster]

    def _count_all(self) -> None:
        n = self._fleet.n
        first = self.first[:n]
        if np.count_nonzero(first) == self._joint.refused:  # no other filter refuses any row
            self.rejected, self.evaluated = Counter(self._joint.rejected), self._joint.evaluated
            self.feasible = n - self._joint.refused
            return
        rows = np.flatnonzero(first != self._joint.first[:n])  # what the joint filters refuse is counted already
        self.rejected = Counter(self._joint.rejected)
        self.rejected.update(count_codes(first[rows], self._fleet, rows))
        self.feasible = int(np.count_nonzero(first == 0))
        self.evaluated = self.feasible + self.rejected.total()

    def feasible_rows(self) -> RowList:
        """All feasible rows, ascending."""
        return np.flatnonzero(self.first[: self._fleet.n] == 0)
