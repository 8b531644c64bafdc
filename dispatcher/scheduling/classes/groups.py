"""The answers of a pod class where they rest on fault domains or on few distinct values: kept by group of rows.

All rows of a group are in the same domains and have the same values of the normalising scores that rest on nodes alone.
So the total of a row is its own points (see `class_rows`) and a bonus that its group has in common. One placement moves
the points of one row and the bonus of some groups; no other row is looked at. Normalising needs the set of raw scores
of the feasible rows: the groups that hold a feasible row have them all.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.classes.judges import Judge, finite, weighted
from dispatcher.scheduling.classes.kernels import kernel
from dispatcher.scheduling.classes.partitions import Partition, Partitions
from dispatcher.scheduling.classes.peaks import NOWHERE, Peak, Peaks, peak_of
from dispatcher.scheduling.classes.rows import RowTable
from dispatcher.scheduling.classes.shared_answers import SharedColumn
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Codes, Floats, Ints, Part, SmallInts
from dispatcher.scheduling.framework.points import PluginError

_SMALL = 1 << 14  # rows
_MOST_SETTLED = 64
_ONE = np.zeros(1, dtype=np.int64)


class Bonus:
    """What each group adds to the points of its rows, or why it refuses them.

    `codes` [groups]: the first domain filter that refuses the group, else 0. `points` [groups]: the weighted scores.
    `raw`, `normal`: score_at -> [groups]. Points and normal scores hold for the groups that `settle` was told of.
    """

    def __init__(self, columns: Sequence[SharedColumn], judges: Sequence[Judge], partitions: Partitions) -> None:
        self.columns, self.judges, self._partitions = tuple(columns), tuple(judges), partitions
        self.partition: Partition | None = None
        self.codes: Codes = np.zeros(1, dtype=np.uint16)
        self.points: Floats = np.zeros(1)
        self.raw: dict[int, Floats] = {}
        self.normal: dict[int, Floats] = {}
        self._filters: list[Sequence[Part]] = [()] * len(self.judges)
        self._scores: list[Sequence[Part]] = [()] * len(self.judges)
        self._axes: list[SmallInts] = []  # what `partition` is by
        self._codes: dict[int, NDArray[np.int64]] = {}  # id of an axis -> [groups] its codes
        self._settled = b""
        self._known: dict[bytes, tuple[Floats, dict[int, Floats]]] = {}
        self._at = -1

    @property
    def size(self) -> int:
        """How many groups there are."""
        return 1 if self.partition is None else self.partition.size

    def ask(self, fleet: FleetState, judges: Collection[Judge] | None = None) -> bool:
        """Take the answers by domain of `judges` (None: of all); the others' are as they were.

        False if there are nearly as many groups as rows, so that this does not pay.
        """
        self._fleet, self._settled = fleet, b""
        for at, judge in enumerate(self.judges):
            if judges is None or judge in judges:
                self._filters[at], self._scores[at] = judge.filter_parts(fleet), judge.score_parts(fleet)
        parts = [part for told in (*self._filters, *self._scores) for part in told]
        varied = [column.value for column in self.columns if len(column.values) > 1]
        axes = _distinct(varied, [part.domain for part in parts])
        same = self._at == fleet.changes.position and list(map(id, axes)) == list(map(id, self._axes))
        if not same or judges is None:
            self.partition = self._partitions.of(axes) if axes else None
            if axes and self.partition is None:
                return False
            split = self.partition.codes if self.partition else ()
            self._axes, self._codes = axes, dict(zip(map(id, axes), split, strict=True))
            self._at = fleet.changes.position
            self.raw = {}
            for column in self.columns:
                codes = self._codes.get(id(column.value), _ONE)
                self._put(column.role.score_at, np.asarray(column.values or [0.0])[codes])
        self._refuse()
        for judge, told in zip(self.judges, self._scores, strict=True):
            self._sum_up(judge, told)
        return True

    def _put(self, at: int | None, raw: Floats) -> None:
        if at is not None:
            self.raw[at] = raw + np.zeros(self.size)

    def _refuse(self) -> None:
        self.codes = np.zeros(self.size, dtype=np.uint16)
        for judge, told in zip(self.judges, self._filters, strict=True):
            for part in told:
                answers = judge.answers(part, self._codes[id(part.domain)])
                np.copyto(self.codes, answers, where=self.codes == 0)

    def _sum_up(self, judge: Judge, parts: Sequence[Part]) -> None:
        at, plugin = judge.role.score_at, judge.role.plugin
        if at is None:
            return
        total = np.zeros(self.size)
        for part in parts:
            codes = self._codes.get(id(part.domain))
            if codes is None:
                raise PluginError(plugin.name, "weigh changed the domains that its parts are about")
            total = total + finite(plugin, judge.answers(part, codes))
        self.raw = {**self.raw, at: total}  # others may still read the old scores

    def _weigh(self, open_: Bools) -> None:
        """Tell those whose scores rest on it: a row of each group stands for all of them."""
        partition = self.partition
        telling = [judge for judge, told in zip(self.judges, self._scores, strict=True) if told and judge.role.weighs]
        if partition is None or not telling or not open_.any():
            return
        rows = np.sort(partition.order[np.asarray(partition.starts)[:-1][open_]])
        for judge in telling:
            judge.weigh(self._fleet, rows)
            self._sum_up(judge, judge.score_parts(self._fleet))

    def settle(self, live: Bools) -> Bools:
        """[groups] which take pods, of those that are `live` (hold a row that may); normalise over them."""
        open_: Bools = live & (self.codes == 0)
        if self._settled == (now := open_.tobytes()):
            return open_
        self._settled = now
        self._weigh(open_)
        # The same raw scores of the same groups are normalised once: spread goes round in circles.
        seen = b"".join([now, *[raw.tobytes() for raw in self.raw.values()]])
        known = self._known.get(seen)
        if known is not None:
            self.points, self.normal = known
            return open_
        self._normalize(open_)
        if len(self._known) >= _MOST_SETTLED:
            self._known.clear()
        self._known[seen] = self.points, self.normal
        return open_

    def _normalize(self, open_: Bools) -> None:
        self.points = np.zeros(self.size)
        self.normal = {}
        for judge in (*(column.judge for column in self.columns), *self.judges):
            role = judge.role
            if role.score_at is None:
                continue
            normal = self.raw[role.score_at]
            if role.normalizes and open_.any():
                normal = normal.copy()
                normal[open_] = judge.normalize(normal[open_])
            self.normal[role.score_at] = normal
            self.points += weighted(normal, role.weight)


def _distinct(*lists: Sequence[SmallInts]) -> list[SmallInts]:
    return list({id(axis): axis for axes in lists for axis in axes}.values())


@kernel("floats ints")
def top_two(totals, ranks):  # type: ignore[no-untyped-def]
    """The two best rows: by total, then rank, then row; -1 where there is none."""
    first = second = -1
    for row in range(len(totals)):
        total = totals[row]
        if total == -np.inf:
            continue
        if second >= 0 and (total < totals[second] or (total == totals[second] and ranks[row] >= ranks[second])):
            continue
        if first < 0 or total > totals[first] or (total == totals[first] and ranks[row] < ranks[first]):
            first, second = row, first
        else:
            second = row
    return first, second


def two_best(totals: Floats, ranks: Ints) -> tuple[int, int]:
    """Where the two best stand: by total, then rank, then place; -1 where there is none."""
    if top_two.fast is not None:
        found: tuple[int, int] = top_two.fast(totals, ranks)
        return found
    first = peak_of(None, totals, ranks)
    if first is None:
        return -1, -1
    totals[first.row] = NOWHERE
    second = peak_of(None, totals, ranks)
    totals[first.row] = first.score
    return first.row, -1 if second is None else second.row


class GroupTable:
    """The best row of each group, and the best of all with its bonus."""

    def __init__(self, fleet: FleetState, rows: RowTable, bonus: Bonus) -> None:
        self._fleet, self._rows, self.bonus = fleet, rows, bonus
        self._peaks: list[Peak | None] = []
        self._totals: Floats = np.zeros(0)  # [groups] of the peaks, -inf without
        self._due: set[int] = set()
        self._top: tuple[int, int] | None = None  # of small fleets: the two best rows, -1 without
        self._whole = Peaks()  # instead of all that while there is one group
        self._refused: list[dict[int, int]] | None = None

    # --- catching up -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look at all rows."""
        self._refused = None
        self._top = None
        if self.bonus.partition is None and not self._is_small():
            self._whole.rebuild(self._rows.total[: self._fleet.n])
        self._peaks = [None] * self.bonus.size
        self._totals = np.full(self.bonus.size, NOWHERE)
        self._due = set(range(self.bonus.size))

    def update(self, rows: RowList, moved: RowList) -> None:
        """Look at `rows`, whose totals may have changed; `moved`: those whose being feasible has."""
        if len(moved):
            self._refused = None
        partition = self.bonus.partition
        if partition is None:
            self._top, self._due = None, {0}
            if not self._is_small():
                self._whole.update(rows.tolist(), self._rows.total[: self._fleet.n])
            return
        for row, group in zip(rows.tolist(), partition.group[rows].tolist(), strict=True):
            peak, total = self._peaks[group], self._rows.total.item(row)
            if group not in self._due and (peak is None or row == peak.row or total >= peak.score):
                self._due.add(group)

    def _look(self) -> None:
        totals, ranks, partition = self._rows.total[: self._fleet.n], self._fleet.rank, self.bonus.partition
        for group in self._due:
            if partition is None:
                peak = self._whole_best(0) if self._is_small() else self._whole.best(totals, ranks)
            else:
                peak = peak_of(partition.rows(group), totals, ranks)
            self._peaks[group] = peak
            self._totals[group] = NOWHERE if peak is None else peak.score
        self._due = set()

    def _is_small(self) -> bool:
        """Whether all rows are looked at faster than it takes to keep peaks of blocks."""
        return top_two.fast is not None and self._fleet.n <= _SMALL

    def _whole_best(self, place: int) -> Peak | None:
        """The best row of all, or the next best."""
        totals = self._rows.total[: self._fleet.n]
        if self._top is None:
            self._top = top_two.fast(totals, self._fleet.rank)
        row: int = self._top[place]
        return None if row < 0 else Peak(row, totals.item(row))

    # --- answers -----------------------------------------------------------------------------------------------------

    def best(self) -> tuple[Peak, Peak | None] | None:
        """The best row and the runner-up, with their bonus; None if nothing is feasible."""
        if self.bonus.partition is None:
            return self._best_of_all()
        self._look()
        open_ = self.bonus.settle(self._totals > NOWHERE)
        totals = np.where(open_, self._totals + self.bonus.points, NOWHERE)
        first = self._choose(totals)
        if first is None:
            return None
        group, peak = first
        totals[group] = NOWHERE
        rival = self._choose(totals)
        own = self._second(group, peak.row)
        if own is not None and (rival is None or self._key(own) < self._key(rival[1])):
            return peak, own
        return peak, rival[1] if rival else None

    def _best_of_all(self) -> tuple[Peak, Peak | None] | None:
        self._look()
        first = self._peaks[0]
        if not self.bonus.settle(self._totals > NOWHERE).item(0) or first is None:
            return None
        return Peak(first.row, first.score + self.bonus.points.item(0)), self._second(0, first.row)

    def at(self, row: int) -> Peak | None:
        """A row with its score, None if it is not feasible."""
        group = self.group(row)
        if self._rows.first[row] != 0 or self.bonus.codes[group] or self.best() is None:
            return None
        return Peak(row, float(self._rows.total[row] + self.bonus.points[group]))

    def _choose(self, totals: Floats) -> tuple[int, Peak] | None:
        highest = totals.max(initial=NOWHERE)
        if highest == NOWHERE:
            return None
        groups = np.flatnonzero(totals == highest).tolist()
        found = [(group, Peak(peak.row, float(highest))) for group in groups if (peak := self._peaks[group])]
        return min(found, key=lambda one: self._key(one[1]))

    def _key(self, peak: Peak) -> tuple[float, int, int]:
        return -peak.score, int(self._fleet.rank[peak.row]), peak.row

    def _second(self, group: int, row: int) -> Peak | None:
        totals, ranks, partition = self._rows.total[: self._fleet.n], self._fleet.rank, self.bonus.partition
        if partition is None:
            found = self._whole_best(1) if self._is_small() else self._whole.second(row, totals, ranks)
        else:
            rows = partition.rows(group)
            found = peak_of(rows[rows != row], totals, ranks)
        return None if found is None else Peak(found.row, found.score + float(self.bonus.points[group]))

    def group(self, row: int) -> int:
        """The group of a row."""
        return 0 if self.bonus.partition is None else int(self.bonus.partition.group[row])

    def refused(self) -> dict[tuple[int, int], int]:
        """(reason code, cluster index) -> rows that only their domains refuse."""
        return refused_by(self.bonus.codes, self.by_cluster()) if self.bonus.codes.any() else {}

    def by_cluster(self) -> list[dict[int, int]]:
        """[groups] cluster index -> rows that no other filter refuses; a copy."""
        if self._refused is None:
            rows, clusters = self._rows.feasible_rows(), max(len(self._fleet.clusters), 1)
            groups = self.bonus.partition.group[rows].astype(np.int64) if self.bonus.partition else 0
            counts = np.bincount(groups * clusters + self._fleet.cluster[rows])
            self._refused = [{} for _ in range(self.bonus.size)]
            for key in np.flatnonzero(counts).tolist():
                group, cluster = divmod(key, clusters)
                self._refused[group][cluster] = int(counts[key])
        return [dict(one) for one in self._refused]

    def scores_at(self, rows: Iterable[int]) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """(raw, normalised) score_at -> per row, of the scores that groups have in common."""
        groups = [self.group(row) for row in rows]
        raw = {at: [values.item(group) for group in groups] for at, values in self.bonus.raw.items()}
        return raw, {at: [values.item(group) for group in groups] for at, values in self.bonus.normal.items()}


def refused_by(codes: Codes, by_cluster: Sequence[dict[int, int]]) -> dict[tuple[int, int], int]:
    """(reason code, cluster index) -> rows of the groups [groups] that domain filters refuse."""
    counts: dict[tuple[int, int], int] = {}
    for group in np.flatnonzero(codes).tolist():
        code = int(codes[group])
        for cluster, rows in by_cluster[group].items():
            if rows:
                counts[code, cluster] = counts.get((code, cluster), 0) + rows
    return counts
