"""Many equal pods at once: the order in which one-by-one would take the rows, found by looking one pod ahead.

Where the points of a row depend on that row alone, a batch of m pods touches only rows among the m + 1 best of their
group (see `class_groups`). What a row will score after one more pod is asked for many rows in one go: the pods are
supposed on the columns, the plugins are asked, and the columns are put back bit for bit. Then the batch is a merge: in
each group the best rows in order and a heap of the rows that have already taken a pod; and between the groups, with
the bonus of each, asked anew of the plugins when a placement has moved their domains.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.classes.groups import GroupTable, refused_by
from dispatcher.scheduling.classes.judges import finite, weighted
from dispatcher.scheduling.classes.peaks import NOWHERE
from dispatcher.scheduling.classes.pod_class import PodClass, merged
from dispatcher.scheduling.explain import Bid, Common, Decision, Ground, LateScores
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.fleet.row import FactSheet, LateFacts
from dispatcher.scheduling.framework import Floats, Placed, Reserve
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.framework.roles import Reach

_MOST_GROUPS = 256
_LEAST_DEPTH = 32  # rows looked at in each of many groups


class _Lane:
    """The bids of a group: rows still untouched in order, and those that have taken a pod of this batch.

    `complete`: no row of the group is missing that this batch could come to.
    """

    __slots__ = ("_at", "_touched", "_untouched", "complete")

    def __init__(self, untouched: list[Bid], *, complete: bool) -> None:
        self._untouched, self._at, self.complete = untouched, 0, complete
        self._touched: list[Bid] = []

    def head(self) -> Bid | None:
        """The best bid."""
        touched, fresh = self._touched, self._untouched[self._at] if self._at < len(self._untouched) else None
        if not touched:
            return fresh
        return touched[0] if fresh is None or touched[0] < fresh else fresh

    def second(self) -> Bid | None:
        """The best bid but one."""
        touched = self._touched
        if not touched:
            return self._untouched[self._at + 1] if self._at + 1 < len(self._untouched) else None
        bids = sorted((*self._untouched[self._at : self._at + 2], *touched[:3]))
        return bids[1] if len(bids) > 1 else None

    def take(self) -> bool:
        """Take the best bid out; False if a row that is missing here might be among the next."""
        if self.head() is (self._touched[0] if self._touched else None):
            heapq.heappop(self._touched)
            return True
        self._at += 1
        return self.complete or len(self._untouched) - self._at >= 2

    def put(self, bid: Bid) -> None:
        """The next bid of a row that has taken a pod."""
        heapq.heappush(self._touched, bid)

    def soon(self, count: int) -> list[int]:
        """Rows that may be chosen for the next `count` pods."""
        return [bid.row for bid in (*self._untouched[self._at : self._at + count], *self._touched)]


def can_forecast(pods: PodClass, items: Sequence[tuple[object, Placed]]) -> bool:
    """Whether looking ahead is exact: answers by row and by group, and pods that all take the same."""
    groups, first = pods.groups, items[0][1].pod
    if groups is None or groups.bonus.size > _MOST_GROUPS:
        return False
    if any(isinstance(one.role.plugin, Reserve) for one in pods.judges):
        return False  # what a plugin books for itself cannot be supposed
    return all(
        placed.pod is first or (placed.pod.requests == first.requests and not placed.pod.ports) for _, placed in items
    )


class Forecast:
    """Best rows for the next `count` pods of a class that has caught up; meanwhile nothing else touches the fleet.

    Once `void` it must not be asked any more: the class has to catch up first. `deferred`: what is booked is not in the
    fleet yet, but will be before anybody else looks.
    """

    def __init__(
        self, pods: PodClass, groups: GroupTable, placed: Placed, count: int, *, deferred: bool = False
    ) -> None:
        self._pods, self._groups, self._placed, self._left = pods, groups, placed, count
        self._deferred = deferred
        self._bonus, self._fleet = groups.bonus, pods.fleet
        self._asked = [one for one in pods.judges if one.role.reach is Reach.ROW and not one.silent]
        self._scored = {id(one): at for at, one in enumerate(pods.scored)}
        self._names = tuple(one.role.name for one in pods.scored), tuple(one.role.weight for one in pods.scored)
        chosen = self._candidates(count)
        rows = np.sort(np.concatenate([rows for rows, _ in chosen])) if chosen else np.zeros(0, dtype=np.intp)
        self.sheet = FactSheet(self._fleet, rows, placed.pod)
        raw = pods.raw_of(rows)
        self._lanes = [
            _Lane(self._bids(found, raw, rows, pods.rows.total[found]), complete=complete) for found, complete in chosen
        ]
        self._heads = [lane.head() for lane in self._lanes]
        self._next: dict[int, Bid | int] = {}  # row -> its bid after one more pod, or why that will not fit
        self._rejected = dict(pods.rows.rejected)
        self._feasible = pods.rows.feasible
        self._by_cluster = groups.by_cluster() if self._bonus.codes.any() or self._bonus.judges else []
        self._ground: Ground | None = pods.ground()
        # Plugins with nothing to say so far, or that count for rows: the class must catch up when their counts move.
        self._watched = [one for one in pods.judges if one.versions and one not in self._bonus.judges]
        self._places: dict[int, tuple[str, str]] = {}
        self._raw: object = None  # what `_common` was made of
        self._normal: object = None
        self._settle()
        self.void = not self._fleet.can_suppose(rows, placed.pod, count + 1)

    def _candidates(self, count: int) -> list[tuple[RowList, bool]]:
        """Per group: its best feasible rows in order, and whether these are all that `count` pods can come to."""
        partition, size = self._bonus.partition, self._bonus.size
        most = count + 1 if size == 1 else min(count + 1, max(_LEAST_DEPTH, 4 * count // size))
        chosen = []
        for group in range(size):
            rows = best_rows(None if partition is None else partition.rows(group), self._pods, most)
            chosen.append((rows, len(rows) < most or most > count))
        return chosen

    def _bids(self, found: RowList, raw: Floats, rows: RowList, points: Floats) -> list[Bid]:
        at, ranks = np.searchsorted(rows, found).tolist(), self._fleet.rank[found].tolist()
        keys = zip((-points).tolist(), ranks, found.tolist(), at, strict=True)
        return [Bid(minus, rank, row, raw, where) for minus, rank, row, where in keys]

    def _settle(self) -> None:
        """Take over who is open and with how many points."""
        bonus = self._bonus
        self._open = bonus.settle(np.asarray([head is not None for head in self._heads])).tolist()
        if bonus.normal is self._normal and bonus.raw is self._raw:
            return
        self._points = bonus.points.tolist()
        self._raw, self._normal = bonus.raw, bonus.normal
        self._common: Common = tuple(
            (at, bonus.raw[score], bonus.normal[score])
            for at, one in enumerate(self._pods.scored)
            if (score := one.role.score_at) is not None and score in bonus.normal
        )

    # --- answers -----------------------------------------------------------------------------------------------------

    def decide(self, pod_id: PodId, placed: Placed) -> Decision | None:
        """The place for the next pod and why; None if nothing fits any more."""
        offers = self._best()
        if offers is None:
            return None
        (first, group), second = self._offers = offers
        row, points = first[2], self._points
        rival = None
        if second is not None:
            where = second[0][2]
            rival = (*(self._places.get(where) or self._place(where)), points[second[1]] - second[0][0])
        return Decision(
            pod_id,
            placed,
            *(self._places.get(row) or self._place(row)),
            row,
            points[group] - first[0],
            self.sheet.now,
            self._ground or self.ground(),
            LateScores(self._names, self._common, *offers),
            LateFacts(self.sheet, row, self.sheet.taken.get(row, 0)),
            self._fleet,
            self._pods.later,
            rival,
        )

    def _place(self, row: int) -> tuple[str, str]:
        place = self._places[row] = self._fleet.name_of(row)
        return place

    def _best(self) -> tuple[tuple[Bid, int], tuple[Bid, int] | None] | None:
        """The best bid and the next best, each with its group."""
        if len(self._heads) == 1:
            first = self._heads[0]
            if first is None or not self._open[0]:
                return None
            second = self._lanes[0].second()
            return (first, 0), None if second is None else (second, 0)
        offers = [
            (bid[0] - self._points[group], bid[1], bid[2], group, bid)
            for group, bid in enumerate(self._heads)
            if bid is not None and self._open[group]
        ]
        if not offers:
            return None
        best = min(offers)
        offers.remove(best)
        group, own = best[3], self._lanes[best[3]].second()
        if own is not None:
            offers.append((own[0] - self._points[group], own[1], own[2], group, own))
        rival = min(offers) if offers else None
        return (best[4], group), None if rival is None else (rival[4], rival[3])

    def ground(self) -> Ground:
        """What a decision taken now stands on."""
        if self._ground is None:
            refused = refused_by(self._bonus.codes, self._by_cluster)
            counts = merged(self._rejected, refused)
            self._ground = self._pods.ground_of(counts, self._feasible - sum(refused.values()))
        return self._ground

    # --- going on ----------------------------------------------------------------------------------------------------

    def booked(self, row: int) -> None:
        """The best row has taken the pod (it is in the fleet now)."""
        self._left -= 1
        group = self._offers[0][1]
        lane = self._lanes[group]
        self.void = not lane.take() or self._left <= 0
        if self.void:
            return
        self.sheet.booked(row)
        try:
            self._rebid(row, group, lane)
            if self._bonus.judges:
                self._ask_domains()
            self.void |= any(one.is_stale(self._fleet, changed=False, touched=True) for one in self._watched)
        except PluginError:
            self.void = True  # the next pod will meet the error itself

    def _rebid(self, row: int, group: int, lane: _Lane) -> None:
        found = self._next.pop(row, None)
        if found is None:
            self._look_ahead(row)
            found = self._next.pop(row)
        if isinstance(found, Bid):
            lane.put(found)
        else:
            self._full(row, group, found)
        was = self._heads[group]
        head = self._heads[group] = lane.head()
        if was is None or head is None:
            self._settle()

    def _full(self, row: int, group: int, code: int) -> None:
        cluster = int(self._fleet.cluster[row])
        self._rejected[code, cluster] = self._rejected.get((code, cluster), 0) + 1
        self._feasible -= 1
        if self._by_cluster:
            self._by_cluster[group][cluster] -= 1
        self._ground = None

    def _ask_domains(self) -> None:
        """Ask the plugins by domain again where the placement has moved what they look at."""
        stale = [one for one in self._bonus.judges if one.is_stale(self._fleet, changed=False, touched=True)]
        if not stale:
            return
        partition = self._bonus.partition
        for judge in stale:
            if judge.pre_filter(self._placed, self._fleet) is not None:
                judge.known = False
                self.void = True
                return
        before = self._bonus.codes
        self.void = not self._bonus.ask(self._fleet, stale) or self._bonus.partition is not partition
        for judge in stale:
            judge.note(self._fleet)
            judge.known = not self.void
        self._pods.sort_far_notes()
        self._settle()
        if not np.array_equal(before, self._bonus.codes):
            self._ground = None

    def _look_ahead(self, row: int) -> None:
        """Ask for the next bid of `row`, and of all rows that may soon be chosen, for these with one more pod."""
        soon = {one for lane in self._lanes for one in lane.soon(self._left)}
        rows = np.asarray(sorted({row, *(one for one in soon if one not in self._next)}), dtype=np.intp)
        more = (rows != row).astype(np.int64)
        if self._deferred:
            more += np.asarray([self.sheet.pods(one) for one in rows.tolist()])
        fleet, pod = self._fleet, self._placed.pod
        fleet.suppose(rows, pod, more)
        try:
            self._ask(rows)
        finally:
            fleet.suppose(rows, pod, -more)

    def _ask(self, rows: RowList) -> None:
        codes = np.zeros(len(rows), dtype=np.uint16)
        for judge in self._asked:
            if judge.role.filter_at is not None:
                np.copyto(codes, judge.codes(self._fleet, rows), where=codes == 0)
        fits = rows[codes == 0]
        raw, points = self._pods.raw_of(fits), np.zeros(len(fits))
        for at, one in enumerate(self._pods.scored):
            if not one.role.normalizes and one.role.reach in (Reach.ROW, Reach.SHARED):
                points += weighted(finite(one.role.plugin, raw[at]), one.role.weight)
        self._next.update((bid.row, bid) for bid in self._bids(fits, raw, fits, points))
        self._next.update(zip(rows[codes != 0].tolist(), codes[codes != 0].tolist(), strict=True))


def best_rows(rows: RowList | None, pods: PodClass, count: int) -> RowList:
    """The best feasible ones of `rows` (None: of all) in order, `count` at most."""
    ranks = pods.fleet.rank
    totals = pods.rows.total[: pods.fleet.n] if rows is None else pods.rows.total[rows]
    fits = np.flatnonzero(totals > NOWHERE)
    totals, rows = totals[fits], fits if rows is None else rows[fits]
    if len(rows) > count:
        worst = np.partition(totals, len(rows) - count)[len(rows) - count]
        better, equal = rows[totals > worst], rows[totals == worst]
        wanted = count - len(better)
        if len(equal) > wanted:
            equal = equal[np.argpartition(ranks[equal], wanted - 1)[:wanted]]
        rows = np.concatenate([better, equal])
        totals = pods.rows.total[rows]
    best: RowList = rows[np.lexsort((rows, ranks[rows], -totals))]
    return best
