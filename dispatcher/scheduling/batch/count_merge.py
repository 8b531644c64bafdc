"""The count merge: a batch of equal pods, decided in one go by compiled code.

Policies that count pods by fault domain are asked for their rules once
(`CountedPlugin.rules`); from then on one pod more is a few counts and one row. What a row will
offer after one more pod, and after several where pods are small beside the rows, is asked of the
row-scoped plugins for many rows at once: the pods are supposed on the columns, the plugins are
evaluated, and the columns are put back bit for bit. Nobody else may touch the fleet until the batch
is booked; nothing of it is read on the way. docs/algorithms/batch-merge.md has an example with
numbers.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.batch.brought_points import BroughtPoints, brought_by
from dispatcher.scheduling.batch.buckets import BucketLayout, PluginRules
from dispatcher.scheduling.batch.fresh_layouts import layout_of
from dispatcher.scheduling.batch.leading_rows import leading_rows
from dispatcher.scheduling.batch.merge_compiled import MERGE
from dispatcher.scheduling.batch.merge_explanation import MergeExplanation
from dispatcher.scheduling.batch.merge_tables import (
    AT,
    BUCKET_UNKNOWN,
    CANDIDATE_UNKNOWN,
    OPEN_SET_CHANGED,
    Candidates,
    Trace,
)
from dispatcher.scheduling.batch.pod_variants import PodVariants
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.evaluators import finite, weighted
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.volumes import has_only_claims
from dispatcher.scheduling.framework import Ints, PodInfo
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.framework.roles import AnswerScope
from dispatcher.scheduling.records.decision import Decision
from shared.model.pod import PodId

_FEW = 16  # buckets whose next ones are found before the merge begins
_SOON = 128  # rows, beside two for each pod, that are looked at in one go
_UNKNOWN = -1
# buckets; of so many at most a merge pays that is not compiled (yet)
_FEW_PLAIN = 16


def count_merge_of(
    eq_class: EquivalenceClass, variants: PodVariants, count: int
) -> "CountMerge | None":
    """The places of `count` pods of a refreshed class, in order; None where they cannot be known in
    advance.

    `variants`: the first pod and one of each variant among the others (see `pod_variants`).
    """
    if not _are_alike(eq_class, variants.pods):
        return None
    first = variants.pods[0]
    brought = brought_by(eq_class, variants, count)
    plugin_rules = _rules_of(eq_class)
    layout = None if plugin_rules is None else layout_of(eq_class, plugin_rules, count)
    if plugin_rules is None or layout is None or brought is None:
        return None
    if MERGE.fast is None and layout.begun > _FEW_PLAIN:
        return None
    best = _candidates_of(eq_class, layout, count)
    rows = np.sort(best.candidates.row)
    exact = len(rows) > 0 and eq_class.fleet.can_suppose(rows, first, count + 1)
    found = eq_class, first, count, plugin_rules, layout, best, brought
    return CountMerge(*found) if exact else None


def _are_alike(eq_class: EquivalenceClass, variants: Sequence[PodInfo]) -> bool:
    if any(one.role.reserves for one in eq_class.evaluators):
        return False  # what a plugin books for itself cannot be supposed
    fleet = eq_class.fleet
    if any(
        fleet.moves(count, variants[0])
        for one in eq_class.evaluators
        if one not in eq_class.beyond_row
        for count, _ in one.versions
    ):
        return False  # it rests on counts that the merge does not update for it
    first = variants[0].pod
    return not first.terminating and all(
        pod_info.pod is first
        or (
            pod_info.pod.requests == first.requests
            and not pod_info.pod.ports
            and not pod_info.pod.terminating
            and has_only_claims(pod_info.pod)
        )
        for pod_info in variants
    )


def _rules_of(eq_class: EquivalenceClass) -> PluginRules | None:
    """What each policy that looks further than a row makes of counts; None if one of them does not
    say.
    """
    plugin_rules = []
    for evaluator in eq_class.beyond_row:
        rules = evaluator.count_rules() if evaluator.role.scope is AnswerScope.DOMAIN else None
        if rules is None or not rules.lasting:
            return None
        plugin_rules.append((evaluator, rules))
    return plugin_rules


class CountMerge:
    """The decisions of a batch, all taken when it is made."""

    def __init__(  # noqa: PLR0913 - all that was found out before it begins
        self,
        eq_class: EquivalenceClass,
        pod_info: PodInfo,
        count: int,
        plugin_rules: PluginRules,
        layout: BucketLayout,
        best: "_Best",
        brought: BroughtPoints,
    ) -> None:
        self._eq_class = eq_class
        self._fleet = eq_class.fleet
        self._pod_info = pod_info
        self._layout = layout
        self._count = count
        self._asked = [
            one
            for one in eq_class.evaluators
            if one.role.scope is AnswerScope.ROW and not one.skipped
        ]
        self._candidates, starts = best
        sizes = starts[1:] - starts[:-1]
        self._bucket_of = np.repeat(
            np.arange(len(sizes)), sizes
        )  # of a candidate without a pod yet
        self._renormalizes = any(len(column.values) > 1 for column in eq_class.normalizing)
        self._progress = np.asarray([0, count, self._renormalizes], dtype=np.int64)
        self._trace = _blank(count, len(plugin_rules), len(layout.all_buckets.members))
        self._brought = brought.merged
        self.explanation = MergeExplanation(eq_class, plugin_rules, layout, brought, self._trace)
        self.explanation.seal(self._run(), eq_class, pod_info, layout, self._candidates)

    # --- deciding
    # ----------------------------------------------------------------------------------------------

    def _run(self) -> int:
        """Decide as many pods as can be known in advance; returns how many."""
        layout = self._layout
        run = MERGE.fast or MERGE.function
        going_on = True
        for bucket in range(
            min(layout.begun, max(_FEW, self._count // 8))
        ):  # each would stop the merge once
            if layout.all_buckets.after[bucket] < 0:
                layout.after(bucket)
        self._normalize_shared()
        if (
            len(self._candidates.row) <= 2 * self._count + _SOON
        ):  # all at once: the first pod would stop the merge
            with suppress(PluginError):  # it is met again there
                self._look_ahead(np.argsort(self._candidates.row))
        while going_on:
            views = layout.buckets_in_use, layout.counts, layout.rules_in_use, layout.plugins_in_use
            status = run(*views, self._candidates, self._brought, self._trace, self._progress)
            if status == OPEN_SET_CHANGED:
                self._normalize_shared()
            elif status in (CANDIDATE_UNKNOWN, BUCKET_UNKNOWN):
                going_on = self._find_out(status)
                if not going_on:
                    return (
                        int(self._progress[AT]) + 1
                    )  # the pod itself is decided, but none after it
            else:
                going_on = False
        return int(self._progress[AT])

    def _find_out(self, status: int) -> bool:
        """What is missing to book the pod; False if that cannot be found out here."""
        at = int(self._progress[AT])
        if status == BUCKET_UNKNOWN:
            known = self._layout.after(int(self._trace.bucket[at, 0]))
            self._make_next_buckets()
            return known
        try:
            self._look_ahead(self._with_soon(int(self._trace.candidate[at, 0])))
        except PluginError:
            return False  # the next pod will meet the error itself
        return True

    def _make_next_buckets(self) -> None:
        """Make the next bucket of those, too, that pods probably go to soon, the best first: each
        would stop the merge once. Room for one new bucket a pod is left.
        """
        layout = self._layout
        left = self._count - int(self._progress[AT])
        buckets = layout.all_buckets
        roots = layout.all_buckets.root[: layout.used]
        likely = np.flatnonzero(
            (buckets.after[: layout.used] < 0) & (roots >= 0) & (buckets.open[: layout.used] == 1)
        )
        points = buckets.points[likely] + self._candidates.points[roots[likely]]
        for bucket in likely[np.argsort(-points, kind="stable")[: min(left, _FEW)]].tolist():
            if len(buckets.members) - layout.used <= left:
                break
            layout.after(bucket)

    def _normalize_shared(self) -> None:
        """Normalise the node-only scores over the buckets that are open now; once where each has
        one raw score.
        """
        layout = self._layout
        if self._renormalizes or not layout.normals:
            layout.normalize(self._eq_class.normalizing, open_alone=self._renormalizes)
        self.explanation.normal_history.append((int(self._progress[AT]), layout.normals))

    def _with_soon(self, candidate: int) -> Ints:
        """This candidate and those that may be chosen soon, ordered by row."""
        due = self._soon()
        due = due if (due == candidate).any() else np.append(due, candidate)
        return due[np.argsort(self._candidates.row[due])]

    def _look_ahead(self, due: Ints) -> None:
        """Ask the plugins about the rows of candidates `due`, ordered by row, as if each had one
        more pod.
        """
        candidates = self._candidates
        fleet = self._fleet
        pod_info = self._pod_info
        rows = candidates.row[due]
        more = candidates.taken[due] + 1
        fleet.suppose(rows, pod_info, more)
        try:
            self._ask(due, rows)
        finally:
            fleet.suppose(rows, pod_info, -more)

    def _soon(self) -> Ints:
        """Candidates that may be chosen soon, and whose next ones are not known."""
        candidates = self._candidates
        left = self._count - int(self._progress[AT])
        unknown = candidates.next_code < 0
        taking = np.flatnonzero(unknown & (candidates.taken > 0))
        fresh = np.flatnonzero(unknown & (candidates.taken == 0))
        most = 2 * left + _SOON
        if len(fresh) > most:
            points = (
                candidates.points[fresh] + self._layout.all_buckets.points[self._bucket_of[fresh]]
            )
            fresh = fresh[np.argpartition(-points, most)[:most]]
        return np.concatenate([taking, fresh])

    def _ask(self, due: Ints, rows: RowList) -> None:
        eq_class = self._eq_class
        candidates = self._candidates
        codes = np.zeros(len(rows), dtype=np.uint16)
        for evaluator in self._asked:
            if evaluator.role.filter_at is not None:
                np.copyto(codes, evaluator.codes(rows), where=codes == 0)
        fits = codes == 0
        raw = eq_class.raw_of(rows[fits])
        points = np.zeros(int(np.count_nonzero(fits)))
        for at, one in enumerate(eq_class.scored):
            if not one.role.normalizes and one.role.scope in (
                AnswerScope.ROW,
                AnswerScope.NODE_OBJECT,
            ):
                points += weighted(finite(one.role.plugin, raw[at]), one.role.weight)
        candidates.next_code[due] = codes
        candidates.next_points[due[fits]] = points
        self.explanation.raws.add(due[fits], candidates.taken[due[fits]] + 1, raw)

    def decisions(self, items: Sequence[tuple[PodId, PodInfo]]) -> list[Decision]:
        """The places of as many of the first pods as find one here, as if each had been booked; the
        caller books them.
        """
        return self.explanation.decisions(items[: self.explanation.decided])


class _Best(NamedTuple):
    """The candidates of all buckets; those of bucket b from `starts[b]` to `starts[b + 1]`."""

    candidates: Candidates
    starts: Ints


def _candidates_of(eq_class: EquivalenceClass, layout: BucketLayout, count: int) -> _Best:
    """The best rows of each bucket, in order, as its heap; where the candidates of each begin, and
    the last end.
    """
    buckets = layout.all_buckets
    size = layout.begun
    ranks = eq_class.fleet.rank
    found, starts = leading_rows(layout, eq_class.rows, ranks, count)
    first = starts[:-1]
    held = starts[1:] - starts[:-1]
    buckets.fresh[:size], buckets.root[:size] = held, np.where(held > 0, first, _UNKNOWN)
    buckets.complete[:size] = (held == buckets.members[:size]) | (held > count)
    blank = np.full(len(found), _UNKNOWN, dtype=np.int64)
    none = np.zeros(len(found), dtype=np.int64)
    lefts = np.arange(1, len(found) + 1)  # a heap of one branch
    lefts[starts[1:][held > 0] - 1] = _UNKNOWN
    points = eq_class.rows.totals_of(found)
    heap = Candidates(
        points, ranks[found], found, lefts, blank, none, np.zeros(len(found)), blank.copy()
    )
    return _Best(heap, starts)


def _blank(count: int, evaluators: int, buckets: int) -> Trace:
    two = np.full((count, 2), _UNKNOWN, dtype=np.int64)
    scores = np.zeros((count, 2, evaluators))
    return Trace(
        two,
        two.copy(),
        two.copy(),
        np.zeros((count, 2)),
        scores,
        scores.copy(),
        np.zeros(buckets, dtype=np.uint16),
    )
