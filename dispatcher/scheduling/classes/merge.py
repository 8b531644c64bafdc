"""A batch of pods whose policies count pods by fault domain, decided in one go by the compiled merge.

The policies are asked for their rules once (`DomainPlugin.count_rules`); from then on one pod more is a few counts and
one row. What rows offer after one more pod is asked of the plugins that look at one row for many of them at once, as
in `forecast`. Nobody else may touch the fleet until the batch is booked; nothing of it is read on the way.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.classes.cells import Layout, Told, layout_of
from dispatcher.scheduling.classes.forecast import best_rows
from dispatcher.scheduling.classes.judges import finite, weighted
from dispatcher.scheduling.classes.merge_account import Merged
from dispatcher.scheduling.classes.merge_kernel import MERGE
from dispatcher.scheduling.classes.merge_tables import AT, NO_BID, NO_CELL, OTHERS_OPEN, Bids, Trace
from dispatcher.scheduling.classes.pod_class import PodClass
from dispatcher.scheduling.explain import Decision, Ground
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.framework import DomainPlugin, Floats, Ints, Placed, Reserve
from dispatcher.scheduling.framework.points import PluginError, guarded
from dispatcher.scheduling.framework.roles import Reach

_LEAST_DEPTH = 32  # rows looked at in each of many cells
_UNKNOWN = -1


def merge_of(pods: PodClass, items: Sequence[tuple[PodId, Placed]]) -> "Merge | None":
    """The places of these pods of a class that has caught up, in order; None where that cannot be told in advance."""
    if MERGE.fast is None or not pods.far or not _are_alike(pods, items):
        return None
    first = items[0][1]
    try:
        told = _told(pods, first)
        layout = layout_of(pods, told, len(items)) if told else None
        merge = Merge(pods, first, len(items), told, layout) if layout else None
    except PluginError:
        return None  # decided alone, the pod meets the error again and says so
    return merge if merge and merge.exact else None


def _are_alike(pods: PodClass, items: Sequence[tuple[PodId, Placed]]) -> bool:
    if any(isinstance(one.role.plugin, Reserve) for one in pods.judges):
        return False  # what a plugin books for itself cannot be supposed
    if any(one.versions and one not in pods.far for one in pods.judges):
        return False  # it counts for rows
    first = items[0][1].pod
    return not first.terminating and all(
        placed.pod is first
        or (placed.pod.requests == first.requests and not placed.pod.ports and not placed.pod.terminating)
        for _, placed in items
    )


def _told(pods: PodClass, placed: Placed) -> Told:
    """What each policy by domains makes of counts; nothing if one of them does not say."""
    told = []
    for judge in pods.far:
        plugin = judge.role.plugin
        if judge.role.reach is not Reach.PARTS or not isinstance(plugin, DomainPlugin):
            return ()
        pods.fleet.observed = judge.observed
        rules = guarded(plugin, plugin.count_rules, judge.state, placed, pods.fleet)
        if rules is None:
            return ()
        told.append((judge, rules))
    return told


class Merge:
    """The decisions of a batch. Once `void` it must not be asked any more: the class has to catch up first.

    `exact`: whether it may be asked at all.
    """

    runs = True

    def __init__(self, pods: PodClass, placed: Placed, count: int, told: Told, layout: Layout) -> None:
        self._pods, self._fleet, self._placed = pods, pods.fleet, placed
        self._layout, self._count = layout, count
        self._asked = [one for one in pods.judges if one.role.reach is Reach.ROW and not one.silent]
        self._at = 0  # pods decided and booked
        self._bids, self._starts = _bids_of(pods, layout, count)
        found = self._bids.row
        rows = np.sort(found)
        self.exact = bool(len(rows)) and self._fleet.can_suppose(rows, placed.pod, count + 1)
        if not self.exact:
            return
        raw, where = pods.raw_of(rows), np.searchsorted(rows, found).tolist()
        self._raws: list[list[tuple[Floats, int]]] = [[(raw, at)] for at in where]  # by bid and pods it had taken
        self._varied = any(len(column.values) > 1 for column in pods.normalizing)
        self._progress = np.asarray([0, count, self._varied], dtype=np.int64)
        self._trace = _blank(count, len(told), len(layout.whole.members))
        sheet = FactSheet(self._fleet, rows, placed.pod)
        self._record = Merged(pods, told, layout, self._bids, self._trace, sheet, self._raws)
        self._decided = self._run()
        self._record.settle(self._decided, told)

    # --- deciding ----------------------------------------------------------------------------------------------------

    def _run(self) -> int:
        """Decide as many pods as can be told; returns how many."""
        layout, going_on = self._layout, True
        self._share()
        while going_on:
            views = layout.cells, layout.counts, layout.ruled, layout.scored
            status = MERGE.fast(*views, self._bids, self._trace, self._progress)
            if status == OTHERS_OPEN:
                self._share()
            elif status in (NO_BID, NO_CELL):
                going_on = self._find_out(status)
                if not going_on:
                    return int(self._progress[AT]) + 1  # the pod itself is decided, but none after it
            else:
                going_on = False
        return int(self._progress[AT])

    def _find_out(self, status: int) -> bool:
        """What is missing to book the pod; False if that cannot be found out here."""
        at = int(self._progress[AT])
        if status == NO_CELL:
            return self._layout.after(int(self._trace.cell[at, 0]))
        try:
            self._look_ahead(int(self._trace.bid[at, 0]))
        except PluginError:
            return False  # the next pod will meet the error itself
        return True

    def _share(self) -> None:
        """Normalise what rests on nodes alone, over the cells that are open now."""
        layout = self._layout
        open_ = layout.whole.open == 1 if self._varied else np.ones(len(layout.whole.open), dtype=np.bool_)
        normals = []
        layout.whole.shared[:] = 0.0
        for column, raw in zip(self._pods.normalizing, layout.shared, strict=True):
            normal = raw.copy()
            if open_.any():
                normal[open_] = column.judge.normalize(raw[open_])
            layout.whole.shared[:] += weighted(normal, column.role.weight)
            normals.append(normal)
        self._record.epochs.append((int(self._progress[AT]), normals))

    def _look_ahead(self, bid: int) -> None:
        """Ask for the next bid of a row, and of rows that may soon be chosen, as if each had one more pod."""
        bids, fleet, pod = self._bids, self._fleet, self._placed.pod
        due = np.union1d(self._soon(), [bid])
        due = due[np.argsort(bids.row[due])]
        rows, more = bids.row[due], bids.taken[due] + 1
        fleet.suppose(rows, pod, more)
        try:
            self._ask(due, rows)
        finally:
            fleet.suppose(rows, pod, -more)

    def _soon(self) -> Ints:
        """Bids that may be chosen soon, and whose next ones are not known."""
        bids, left = self._bids, self._count - int(self._progress[AT])
        each = min(left, 2 * left // max(1, int(np.count_nonzero(self._layout.cells.open))) + 8)
        unknown = bids.next_code < 0
        soon = [np.flatnonzero(unknown & (bids.taken > 0))]
        unknown &= bids.taken == 0
        for first, last in zip(self._starts[:-1], self._starts[1:], strict=True):
            soon.append(np.flatnonzero(unknown[first:last])[:each] + first)
        return np.concatenate(soon)

    def _ask(self, due: Ints, rows: RowList) -> None:
        pods, bids = self._pods, self._bids
        codes = np.zeros(len(rows), dtype=np.uint16)
        for judge in self._asked:
            if judge.role.filter_at is not None:
                np.copyto(codes, judge.codes(self._fleet, rows), where=codes == 0)
        fits = codes == 0
        raw, points = pods.raw_of(rows[fits]), np.zeros(int(np.count_nonzero(fits)))
        for at, one in enumerate(pods.scored):
            if not one.role.normalizes and one.role.reach in (Reach.ROW, Reach.SHARED):
                points += weighted(finite(one.role.plugin, raw[at]), one.role.weight)
        bids.next_code[due] = codes
        bids.next_points[due[fits]] = points
        for at, one in enumerate(due[fits].tolist()):
            self._raws[one].append((raw, at))

    # --- answers -----------------------------------------------------------------------------------------------------

    @property
    def void(self) -> bool:
        """Whether it knows no more places."""
        return self._at >= self._decided

    def run(self, items: Sequence[tuple[PodId, Placed]]) -> list[Decision]:
        """The places of as many of the first pods as find one here, all booked; then it is void."""
        found = [self._record.decision(at, *item) for at, item in enumerate(items[: self._decided])]
        self._at = self._decided
        return found

    def decide(self, pod_id: PodId, placed: Placed) -> Decision | None:
        """The place for the next pod and why."""
        return self._record.decision(self._at, pod_id, placed)

    def booked(self, row: int) -> None:
        """The best row has taken the pod."""
        self._at += 1

    def ground(self) -> Ground:
        """What a decision taken now stands on."""
        return self._record.ground(self._at)


def _bids_of(pods: PodClass, layout: Layout, count: int) -> tuple[Bids, list[int]]:
    """The best rows of each cell, in order, as the cell's heap; and where each cell's bids begin, and the last end."""
    cells, size = layout.whole, layout.used
    most = count + 1 if size == 1 else min(count + 1, max(_LEAST_DEPTH, 4 * count // size))
    order = np.argsort(layout.cell_of.astype(np.int16), kind="stable")
    ends = np.cumsum(cells.members[:size]).tolist()
    starts, chosen, left = [0], [], []
    for cell, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
        rows = best_rows(layout.rows[order[first:last]], pods, most)
        start = starts[-1]
        chosen.append(rows)
        starts.append(start + len(rows))
        left.append(np.arange(start + 1, starts[-1] + 1))  # a heap of one branch
        left[-1][-1:] = _UNKNOWN
        cells.fresh[cell], cells.root[cell] = len(rows), start if len(rows) else _UNKNOWN
        cells.complete[cell] = len(rows) < most or most > count
    found = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    blank = np.full(len(found), _UNKNOWN, dtype=np.int64)
    none = np.zeros(len(found), dtype=np.int64)
    points = pods.rows.total[found]
    lefts = np.concatenate(left) if left else blank.copy()
    return Bids(points, pods.fleet.rank[found], found, lefts, blank, none, np.zeros(len(found)), blank.copy()), starts


def _blank(count: int, judges: int, cells: int) -> Trace:
    two = np.full((count, 2), _UNKNOWN, dtype=np.int64)
    scores = np.zeros((count, 2, judges))
    return Trace(
        two,
        two.copy(),
        two.copy(),
        np.zeros((count, 2)),
        scores,
        scores.copy(),
        np.zeros((count, cells), dtype=np.uint16),
        np.zeros(count, dtype=np.int64),
    )
