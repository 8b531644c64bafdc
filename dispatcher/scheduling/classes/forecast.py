"""Many equal pods at once: the order in which one-by-one would take the rows, found by looking one pod ahead.

Where the points of a row depend on that row alone, a batch of m pods touches only rows among the m + 1 best of their
group (see `class_groups`). What a row will score after one more pod is asked for many rows in one go: the pods are
supposed on the columns, the plugins are asked, and the columns are put back bit for bit. Then the batch is a merge: in
each group the best rows in order and a heap of the rows that have already taken a pod; and between the groups, with
the bonus of each, asked anew of the plugins when a placement has moved their domains.
"""

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from dispatcher.scheduling.classes.groups import GroupTable, refused_by
from dispatcher.scheduling.classes.judges import finite, weighted
from dispatcher.scheduling.classes.lanes import NO_BID, Bid, Lane
from dispatcher.scheduling.classes.peaks import NOWHERE
from dispatcher.scheduling.classes.pod_class import PodClass, merged
from dispatcher.scheduling.explain import Batch, Common, Decision, Ground, LateAccount
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.framework import Floats, Placed, Reserve
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.framework.roles import Reach

_MOST_GROUPS = 256
_LEAST_DEPTH = 32  # rows looked at in each of many groups


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
            Lane(self._bids(found, raw, rows, pods.rows.total[found]), complete=complete) for found, complete in chosen
        ]
        self._heads = [lane.two()[0] for lane in self._lanes]
        self._next: dict[int, Bid | int] = {}  # row -> its bid after one more pod, or why that will not fit
        self._rejected = dict(pods.rows.rejected)
        self._feasible = pods.rows.feasible
        self._by_cluster = groups.by_cluster() if self._bonus.codes.any() or self._bonus.judges else []
        self._ground: Ground | None = pods.ground()
        # Plugins with nothing to say so far, or that count for rows: the class must catch up when their counts move.
        self._watched = [one for one in pods.judges if one.versions and one not in self._bonus.judges]
        self._places = {NO_BID[2]: ("", "")}
        self._batch: Batch | None = None
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
        return list(zip((-points).tolist(), ranks, found.tolist(), repeat(raw), at, strict=False))

    def _settle(self) -> None:
        """Take over who is open and with how many points."""
        bonus = self._bonus
        self._open = bonus.settle(np.asarray([head is not NO_BID for head in self._heads])).tolist()
        if bonus.normal is self._normal and bonus.raw is self._raw:
            return
        self._batch = None
        self._points: list[float] = bonus.points.tolist()
        self._raw, self._normal = bonus.raw, bonus.normal
        self._common: Common = tuple(
            (at, bonus.raw[score], bonus.normal[score])
            for at, one in enumerate(self._pods.scored)
            if (score := one.role.score_at) is not None and score in bonus.normal
        )

    # --- answers -----------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        """Whether `run` may be asked: one group of rows, which nothing but the pods themselves changes."""
        return self._deferred and not self.void and len(self._lanes) == 1 and not self._watched

    def run(self, items: Sequence[tuple[PodId, Placed]]) -> list[Decision]:
        """The places of as many of the first pods as find one here, all booked in the forecast; then it is void."""
        found: list[Decision] = []
        if not self._open[0]:
            return found
        lane, taken, places = self._lanes[0], self.sheet.taken, self._places
        for pod_id, placed in items:
            first, second = lane.two()
            if first is NO_BID:
                break
            row = first[2]
            pods = taken.get(row, 0)
            account = LateAccount(self._batch or self._circumstances(), first, second, pods)
            cluster, node = places.get(row) or self._place(row)
            if second[2] not in places:
                self._place(second[2])
            found.append(Decision(pod_id, placed, cluster, node, row, self._points[0] - first[0], account))
            taken[row] = pods + 1
            self._left -= 1
            try:
                bid = self._next_of(row, 0)
            except PluginError:
                break  # the next pod will meet the error itself
            if not lane.go_on(bid):
                break
        self.void = True
        return found

    def decide(self, pod_id: PodId, placed: Placed) -> Decision | None:
        """The place for the next pod and why; None if nothing fits any more."""
        offers = self._best()
        if offers is None:
            return None
        (first, group), (second, other) = self._offers = offers
        row = first[2]
        pods = self.sheet.taken.get(row, 0)
        account = LateAccount(self._batch or self._circumstances(), first, second, pods, group, other)
        cluster, node = self._places.get(row) or self._place(row)
        if second[2] not in self._places:
            self._place(second[2])
        return Decision(pod_id, placed, cluster, node, row, self._points[group] - first[0], account)

    def _circumstances(self) -> Batch:
        ground, fleet, later, places = self.ground(), self._fleet, self._pods.later, self._places
        self._batch = Batch(ground, fleet, later, self.sheet, places, self._names, self._common, self._points)
        return self._batch

    def _place(self, row: int) -> tuple[str, str]:
        place = self._places[row] = self._fleet.name_of(row)
        return place

    def _best(self) -> tuple[tuple[Bid, int], tuple[Bid, int]] | None:
        """The best bid and the next best (NO_BID without), each with its group."""
        if len(self._heads) == 1:
            first, second = self._lanes[0].two()
            return None if first is NO_BID or not self._open[0] else ((first, 0), (second, 0))
        offers = [
            (bid[0] - self._points[group], bid[1], bid[2], group, bid)
            for group, bid in enumerate(self._heads)
            if bid is not NO_BID and self._open[group]
        ]
        if not offers:
            return None
        best = min(offers)
        offers.remove(best)
        group, own = best[3], self._lanes[best[3]].two()[1]
        if own is not NO_BID:
            offers.append((own[0] - self._points[group], own[1], own[2], group, own))
        rival = min(offers) if offers else None
        return (best[4], group), (NO_BID, 0) if rival is None else (rival[4], rival[3])

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
        if self._left <= 0:
            self.void = True
            return
        self.sheet.booked(row)
        try:
            self._rebid(row, self._offers[0][1])
            if self._bonus.judges and not self.void:
                self._ask_domains()
            self.void |= any(one.is_stale(self._fleet, changed=False, touched=True) for one in self._watched)
        except PluginError:
            self.void = True  # the next pod will meet the error itself

    def _rebid(self, row: int, group: int) -> None:
        lane = self._lanes[group]
        self.void = not lane.go_on(self._next_of(row, group))
        was, head = self._heads[group], lane.two()[0]
        self._heads[group] = head
        if not self.void and (was is NO_BID or head is NO_BID):
            self._settle()

    def _next_of(self, row: int, group: int) -> Bid | None:
        """The next bid of a row that has just taken a pod; None if another will not fit."""
        found = self._next.pop(row, None)
        if found is None:
            self._look_ahead(row)
            found = self._next.pop(row)
        if isinstance(found, int):
            self._full(row, group, found)
            return None
        return found

    def _full(self, row: int, group: int, code: int) -> None:
        cluster = int(self._fleet.cluster[row])
        self._rejected[code, cluster] = self._rejected.get((code, cluster), 0) + 1
        self._feasible -= 1
        if self._by_cluster:
            self._by_cluster[group][cluster] -= 1
        self._ground = self._batch = None

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
        self._batch = None
        if not np.array_equal(before, self._bonus.codes):
            self._ground = None

    def _look_ahead(self, row: int) -> None:
        """Ask for the next bid of `row`, and of all rows that may soon be chosen, for these with one more pod."""
        soon = {row}.union(*[lane.soon(self._left) for lane in self._lanes]).difference(self._next)
        asked = sorted(soon)
        rows = np.asarray(asked, dtype=np.intp)
        more = (rows != row).astype(np.int64)
        fleet, pod, taken = self._fleet, self._placed.pod, self.sheet.taken
        if self._deferred:
            more += list(map(taken.get, asked, repeat(0)))
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
        self._next.update(zip(fits.tolist(), self._bids(fits, raw, fits, points), strict=True))
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
