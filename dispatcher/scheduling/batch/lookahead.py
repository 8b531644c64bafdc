"""Batch lookahead: places for many equal pods in the order that one-by-one would find, by looking
one pod ahead.

Where row scores change only on the chosen row, a batch of m pods touches only rows among the m + 1
best of their group (see `equivalence.groups`). What a row will score after one more pod, and after
several where pods are small beside the rows, is asked for many rows in one go: the pods are
supposed on the columns, the plugins are evaluated, and the columns are put back bit for bit. Then
the batch is a merge: in each group the best rows in order and a heap of the rows that have already
taken a pod; and between the groups, with what each adds, evaluated anew when a placement has moved
a count that it rests on: domain plugins without usable rules are asked again after each pod.

Not here: batches whose plugins count pods by domain and tell the rules of it; `count_merge` is
faster for them.
"""

from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.batch.candidates import NO_CANDIDATE, Candidate, CandidateQueue
from dispatcher.scheduling.batch.lookahead_explanation import (
    GroupScoreColumns,
    LookaheadContext,
    LookaheadExplanation,
)
from dispatcher.scheduling.equivalence.best_rows import best_rows
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.evaluators import finite, weighted
from dispatcher.scheduling.equivalence.group_scores import GroupScores
from dispatcher.scheduling.equivalence.groups import GroupTable, refused_by
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.fleet.volumes import has_only_claims
from dispatcher.scheduling.framework import Floats, PodInfo
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.framework.roles import AnswerScope
from dispatcher.scheduling.place_finder import BatchPlaceFinder, NoPlace
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import DecisionContext, Explainers, merged
from shared.model.pod import PodId

_MOST_GROUPS = 256
_LEAST_DEPTH = 32  # rows looked at in each of many groups
_DEEPEST = 64  # pods on one row


def lookahead_of(
    eq_class: EquivalenceClass, variants: Sequence[PodInfo], count: int, *, deferred: bool = False
) -> "Lookahead | None":
    """For the next `count` pods of a refreshed class; None where looking ahead is not exact.

    `variants`: the first pod and one of each variant among the others (see `pod_variants`).
    `deferred`: what is booked is not in the fleet yet, but will be before anybody else looks.
    """
    groups = eq_class.groups
    pod_info = variants[0]
    if (
        groups is None
        or groups.group_scores.size > _MOST_GROUPS
        or not _are_alike(eq_class, variants)
    ):
        return None
    best = _best_per_group(eq_class, groups.group_scores, count)
    rows = (
        np.sort(np.concatenate([rows for rows, _ in best])) if best else np.zeros(0, dtype=np.intp)
    )
    if not eq_class.fleet.can_suppose(rows, pod_info, count + 1):
        return None
    return Lookahead(eq_class, groups, pod_info, count, _Best(rows, best), deferred=deferred)


def _are_alike(eq_class: EquivalenceClass, variants: Sequence[PodInfo]) -> bool:
    """Whether all pods take the same, and nothing that cannot be supposed."""
    if any(one.role.reserves for one in eq_class.evaluators):
        return False  # what a plugin books for itself cannot be supposed
    first = variants[0].pod
    return all(
        pod_info.pod is first
        or (
            pod_info.pod.requests == first.requests
            and not pod_info.pod.ports
            and has_only_claims(pod_info.pod)
        )
        for pod_info in variants
    )


class _Best(NamedTuple):
    """`rows`, ascending: all of `groups`, which are per group its best rows in order, and whether
    they are complete.
    """

    rows: RowList
    groups: list[tuple[RowList, bool]]


def _best_per_group(
    eq_class: EquivalenceClass, group_scores: GroupScores, count: int
) -> list[tuple[RowList, bool]]:
    """Per group: its best feasible rows in order, and whether these are all that `count` pods can
    come to.
    """
    partition = group_scores.partition
    size = group_scores.size
    most = count + 1 if size == 1 else min(count + 1, max(_LEAST_DEPTH, 4 * count // size))
    scores = eq_class.rows.total[: eq_class.fleet.n]
    ranks = eq_class.fleet.rank
    found = []
    for group in range(size):
        rows = best_rows(None if partition is None else partition.rows(group), scores, ranks, most)
        found.append((rows, len(rows) < most or most > count))
    return found


class Lookahead(BatchPlaceFinder):
    """Best rows for the next `count` pods of a refreshed class; meanwhile nothing else touches the
    fleet.
    """

    def __init__(
        self,
        eq_class: EquivalenceClass,
        groups: GroupTable,
        pod_info: PodInfo,
        count: int,
        best: _Best,
        *,
        deferred: bool,
    ) -> None:
        self._eq_class = eq_class
        self._groups = groups
        self._pod_info = pod_info
        self._left = count
        self._deferred = deferred
        self._spent = False
        self._group_scores = groups.group_scores
        self._fleet = eq_class.fleet
        self._asked = [
            one
            for one in eq_class.evaluators
            if one.role.scope is AnswerScope.ROW and not one.skipped
        ]
        self._names = (
            tuple(one.role.name for one in eq_class.scored),
            tuple(one.role.weight for one in eq_class.scored),
        )
        rows = best.rows
        self.sheet = FactSheet(self._fleet, rows, pod_info)
        raw = eq_class.raw_of(rows, refreshed=True)
        eq_class.rows.forget_scores()
        self._queues = [
            CandidateQueue(
                self._candidates_of(found, raw, rows, eq_class.rows.total[found]), complete=complete
            )
            for found, complete in best.groups
        ]
        self._heads = [queue.two()[0] for queue in self._queues]
        # row -> its candidates after one more pod, after two and so on; the last may be why one
        # more will not fit
        self._next: dict[int, deque[Candidate | int]] = {}
        self._wide = 1
        self._rejected = dict(eq_class.rows.rejected)
        self._feasible = eq_class.rows.feasible
        self._by_cluster = (
            groups.by_cluster()
            if self._group_scores.codes.any() or self._group_scores.evaluators
            else []
        )
        self._context: DecisionContext | None = eq_class.context()
        # Plugins outside the group scores that rest on counts, also if they skip: once such a count
        # changes, the lookahead ends.
        self._watched = [
            one
            for one in eq_class.evaluators
            if one.versions and one not in self._group_scores.evaluators
        ]
        self._places = {NO_CANDIDATE[2]: ("", "")}
        self._batch: LookaheadContext | None = None
        self._raw: object = None  # what `_common` was made of
        self._normal: object = None
        self._finalise()

    def _candidates_of(
        self, found: RowList, raw: Floats, rows: RowList, points: Floats
    ) -> list[Candidate]:
        at = np.searchsorted(rows, found).tolist()
        ranks = self._fleet.rank[found].tolist()
        return list(zip((-points).tolist(), ranks, found.tolist(), repeat(raw), at, strict=False))

    def _finalise(self) -> None:
        """Take over who is open and with how many points."""
        group_scores = self._group_scores
        self._open = group_scores.finalise(
            np.asarray([head is not NO_CANDIDATE for head in self._heads])
        ).tolist()
        if group_scores.normal is self._normal and group_scores.raw is self._raw:
            return
        self._batch = None
        self._points: list[float] = group_scores.points.tolist()
        self._raw = group_scores.raw
        self._normal = group_scores.normal
        self._common: GroupScoreColumns = tuple(
            (at, group_scores.raw[score], group_scores.normal[score])
            for at, one in enumerate(self._eq_class.scored)
            if (score := one.role.score_at) is not None and score in group_scores.normal
        )

    # --- answers
    # ----------------------------------------------------------------------------------------------

    def spent(self) -> bool:
        """See `BatchPlaceFinder`."""
        return self._spent

    def answer_of(self, plugin: str) -> object:
        """As the class."""
        return self._eq_class.answer_of(plugin)

    def explainers(self) -> Explainers:
        """As the class."""
        return self._eq_class.explainers()

    def selects_all(self) -> bool:
        """Whether nothing but the pods themselves changes the rows: they are one group, and no
        counts are watched.
        """
        return self._deferred and not self._spent and len(self._queues) == 1 and not self._watched

    def select_all(self, items: Sequence[tuple[PodId, PodInfo]]) -> list[Decision]:
        """The places of as many of the first pods as find one here, as if each had been booked; the
        caller books them in the fleet, and the lookahead is spent.
        """
        found: list[Decision] = []
        if not self._open[0]:
            return found
        queue = self._queues[0]
        taken = self.sheet.taken
        places = self._places
        for pod_id, pod_info in items:
            first, second = queue.two()
            if first is NO_CANDIDATE:
                break
            row = first[2]
            pods = taken.get(row, 0)
            why = LookaheadExplanation(self._batch or self._circumstances(), first, second, pods)
            cluster, node = places.get(row) or self._place(row)
            if second[2] not in places:
                self._place(second[2])
            found.append(
                Decision(pod_id, pod_info, cluster, node, row, self._points[0] - first[0], why)
            )
            taken[row] = pods + 1
            self._left -= 1
            if not self._left:
                break  # what its row offers after it, nobody asks
            try:
                candidate = self._next_of(row, 0)
            except PluginError:
                break  # the next pod will meet the error itself
            if not queue.go_on(candidate):
                break
        self._spent = True
        return found

    def select(self, pod_id: PodId, pod_info: PodInfo) -> Decision | NoPlace:
        """The place for the next pod and why, or that nothing fits any more."""
        offers = self._best()
        if offers is None:
            return NoPlace(self.context())
        (first, group), (second, other) = self._offers = offers
        row = first[2]
        pods = self.sheet.taken.get(row, 0)
        why = LookaheadExplanation(
            self._batch or self._circumstances(), first, second, pods, group, other
        )
        cluster, node = self._places.get(row) or self._place(row)
        if second[2] not in self._places:
            self._place(second[2])
        return Decision(pod_id, pod_info, cluster, node, row, self._points[group] - first[0], why)

    def _circumstances(self) -> LookaheadContext:
        context = self.context()
        fleet = self._fleet
        row_explainers = self._eq_class.row_explainers
        places = self._places
        self._batch = LookaheadContext(
            context,
            fleet,
            row_explainers,
            self.sheet,
            places,
            self._names,
            self._common,
            self._points,
        )
        return self._batch

    def _place(self, row: int) -> tuple[str, str]:
        place = self._places[row] = self._fleet.name_of(row)
        return place

    def _best(self) -> tuple[tuple[Candidate, int], tuple[Candidate, int]] | None:
        """The best candidate and the next best (NO_CANDIDATE without), each with its group."""
        if len(self._heads) == 1:
            first, second = self._queues[0].two()
            return None if first is NO_CANDIDATE or not self._open[0] else ((first, 0), (second, 0))
        offers = [
            (candidate[0] - self._points[group], candidate[1], candidate[2], group, candidate)
            for group, candidate in enumerate(self._heads)
            if candidate is not NO_CANDIDATE and self._open[group]
        ]
        if not offers:
            return None
        best = min(offers)
        offers.remove(best)
        group = best[3]
        own = self._queues[best[3]].two()[1]
        if own is not NO_CANDIDATE:
            offers.append((own[0] - self._points[group], own[1], own[2], group, own))
        rival = min(offers) if offers else None
        return (best[4], group), (NO_CANDIDATE, 0) if rival is None else (rival[4], rival[3])

    def context(self) -> DecisionContext:
        """What a decision taken now stands on."""
        if self._context is None:
            refused = refused_by(self._group_scores.codes, self._by_cluster)
            counts = merged(self._rejected, refused)
            self._context = self._eq_class.context_of(
                counts, self._feasible - sum(refused.values())
            )
        return self._context

    # --- going on
    # ----------------------------------------------------------------------------------------------

    def booked(self, row: int) -> None:
        """The best row has taken the pod (it is in the fleet now)."""
        self._left -= 1
        if self._left <= 0:
            self._spent = True
            return
        self.sheet.booked(row)
        try:
            self._requeue(row, self._offers[0][1])
            if self._group_scores.evaluators and not self._spent:
                self._ask_domains()
            self._spent |= any(one.is_stale(changed=False, touched=True) for one in self._watched)
            # What is held for claims shows in objects.
            self._spent |= bool(self._pod_info.pod.volumes) and self._eq_class.is_moved
        except PluginError:
            self._spent = True  # the next pod will meet the error itself

    def _requeue(self, row: int, group: int) -> None:
        queue = self._queues[group]
        self._spent = not queue.go_on(self._next_of(row, group))
        was = self._heads[group]
        head = queue.two()[0]
        self._heads[group] = head
        if not self._spent and (was is NO_CANDIDATE or head is NO_CANDIDATE):
            self._finalise()

    def _next_of(self, row: int, group: int) -> Candidate | None:
        """The next candidate of a row that has just taken a pod; None if another will not fit."""
        levels = self._next.get(row)
        if not levels:
            self._look_ahead(row)
            levels = self._next[row]
        found = levels.popleft()
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
        self._context = self._batch = None

    def _ask_domains(self) -> None:
        """Ask the plugins by domain again where the placement has moved what they look at."""
        stale = [
            one
            for one in self._group_scores.evaluators
            if one.is_stale(changed=False, touched=True)
        ]
        if not stale:
            return
        partition = self._group_scores.partition
        for evaluator in stale:
            if evaluator.pre_filter(self._pod_info) is not None:
                evaluator.known = False
                self._spent = True
                return
        before = self._group_scores.codes
        self._spent = (
            not self._group_scores.ask(self._fleet, stale)
            or self._group_scores.partition is not partition
        )
        for evaluator in stale:
            evaluator.record_dependencies()
            evaluator.known = not self._spent
        if self._spent:  # the groups are others now
            return
        self._eq_class.collect_beyond_row_explainers()
        self._finalise()
        self._batch = None
        if not np.array_equal(before, self._group_scores.codes):
            self._context = None

    def _look_ahead(self, row: int) -> None:
        """Ask for the next candidates of `row`, and of the rows that may soon be chosen.

        The first time one of each. Small pods come to the same rows again and again: a row that has
        to be asked anew is asked about as many pods more as it has taken, and so are the best rows
        beside it, twice as many each time. So the number of calls is about how deep the rows are,
        and not the number of pods.
        """
        depth = 1
        wide = self._left
        if self._next:
            depth = max(1, min(self.sheet.pods(row), self._left, _DEEPEST))
            self._wide = min(2 * self._wide, self._left)
            wide = min(self._wide, -(-self._left // depth))
        soon = {row}.union(*[queue.soon(wide) for queue in self._queues])
        for level in range(depth):
            asked = sorted(one for one in soon if self._knows(one) == level)
            if asked:
                self._look_at(np.asarray(asked, dtype=np.intp), row, level)

    def _knows(self, row: int) -> int:
        """How many candidates are known of a row; -1 if it will be full after these."""
        levels = self._next.get(row, ())
        return -1 if levels and isinstance(levels[-1], int) else len(levels)

    def _look_at(self, rows: RowList, just_taken: int, level: int) -> None:
        """Ask about `rows`, ascending, with so many pods more; `just_taken` has the next one
        already.
        """
        more = (rows != just_taken).astype(np.int64) + level
        fleet = self._fleet
        pod_info = self._pod_info
        if self._deferred:
            more += list(map(self.sheet.taken.get, rows.tolist(), repeat(0)))
        fleet.suppose(rows, pod_info, more)
        try:
            self._ask(rows)
        finally:
            fleet.suppose(rows, pod_info, -more)

    def _ask(self, rows: RowList) -> None:
        codes = np.zeros(len(rows), dtype=np.uint16)
        for evaluator in self._asked:
            if evaluator.role.filter_at is not None:
                np.copyto(codes, evaluator.codes(rows), where=codes == 0)
        fits = rows[codes == 0]
        raw = self._eq_class.raw_of(fits)
        points = np.zeros(len(fits))
        for at, one in enumerate(self._eq_class.scored):
            if not one.role.normalizes and one.role.scope in (
                AnswerScope.ROW,
                AnswerScope.NODE_OBJECT,
            ):
                points += weighted(finite(one.role.plugin, raw[at]), one.role.weight)
        full = codes != 0
        for row, candidate in zip(
            fits.tolist(), self._candidates_of(fits, raw, fits, points), strict=True
        ):
            self._next.setdefault(row, deque()).append(candidate)
        for row, code in zip(rows[full].tolist(), codes[full].tolist(), strict=True):
            self._next.setdefault(row, deque()).append(code)
