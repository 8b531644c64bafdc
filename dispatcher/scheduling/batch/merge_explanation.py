"""Why the pods of a merged batch went where they went: put together from what the merge wrote down.

Zone counts in `extras` are recounted by the plugin from the chosen rows (`explain_batch`), not read
from the merge.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from dispatcher.scheduling.batch.batch_explanation import BatchExplanation
from dispatcher.scheduling.batch.brought_points import BroughtPoints
from dispatcher.scheduling.batch.buckets import BucketLayout, PluginRules
from dispatcher.scheduling.batch.merge_tables import Candidates, Trace
from dispatcher.scheduling.batch.raw_values import RawValues
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.fleet.columns import distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Codes, Floats, Ints, PodInfo
from dispatcher.scheduling.framework.domain_counts import ExplainPods, told_of
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.framework.value_columns import Column
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    RecordParts,
    ScoreColumns,
    merged,
)
from shared.model.pod import PodId


class MergeExplanation:
    """What the decisions of a batch have in common. `normal_history`: (pods decided before, normal
    scores by bucket of the columns that normalise), whenever these changed.
    """

    def __init__(
        self,
        eq_class: EquivalenceClass,
        plugin_rules: PluginRules,
        layout: BucketLayout,
        candidates: Candidates,
        brought: BroughtPoints,
        trace: Trace,
    ) -> None:
        self.fleet = eq_class.fleet
        self.row_explainers = eq_class.row_explainers
        self.raws = RawValues()
        self.normal_history: list[tuple[int, list[Floats]]] = []
        # of candidates, the rest is not kept
        self._row_of = candidates.row
        self._trace = trace
        self._shared = layout.shared
        self._after = layout.all_buckets.after
        self._names = (
            tuple(one.role.name for one in eq_class.scored),
            tuple(one.role.weight for one in eq_class.scored),
        )
        self._score_positions = _score_positions(eq_class, plugin_rules)
        self._brought = brought
        self._brought_positions = [
            at for at, one in enumerate(eq_class.scored) if one in eq_class.brought
        ]
        self._begin = eq_class.context_of(dict(eq_class.rows.rejected), eq_class.rows.feasible)
        self._members: Ints = np.zeros(
            (0, 0), dtype=np.int64
        )  # [buckets, clusters] if a bucket was ever refused
        self._explainers: list[tuple[str, ExplainPods]] = []

    def seal(
        self,
        decided: int,
        eq_class: EquivalenceClass,
        pod_info: PodInfo,
        plugin_rules: PluginRules,
        layout: BucketLayout,
    ) -> None:
        """The merge has ended: what its decisions need at once, and what is no longer known once
        pods are placed.
        """
        trace = self._trace
        self._keep_rows(eq_class, trace.candidate[:decided], pod_info)
        self._chosen = self._row_of[
            trace.candidate[:decided]
        ]  # [pods, 2]; where there is none it means nothing
        self._has_rival = trace.candidate[:decided, 1] >= 0
        if np.count_nonzero(trace.codes[:decided]):
            self._members = _members(layout, self.fleet)
        self._rival_rows: list[int] = np.where(self._has_rival, self._chosen[:, 1], -1).tolist()
        self._clusters = self.fleet.cluster[self._chosen]
        self._feasible: list[int] = self._feasible_nodes(
            decided
        ).tolist()  # lists: each decision is told of at once
        self._rival_scores: list[float] = trace.score[:decided, 1].tolist()
        rows = self._chosen[:, 0]
        view = view_of(self.fleet)
        for evaluator, _ in plugin_rules if decided else ():
            plugin = evaluator.role.plugin
            if evaluator.role.explainer:
                told_later = guarded(plugin, plugin.explain_batch, evaluator.state, rows, view)
                self._explainers.append((evaluator.role.name, told_later))

    def _keep_rows(self, eq_class: EquivalenceClass, chosen: Ints, pod_info: PodInfo) -> None:
        """The rows of the candidates that were chosen, or next best, as they were before the first
        pod came.
        """
        found = distinct(chosen[chosen >= 0])
        found = found[np.argsort(self._row_of[found])]
        rows = self._row_of[found]
        self.raws.add(
            found, np.zeros(len(found), dtype=np.int64), eq_class.raw_of(rows, refreshed=True)
        )
        eq_class.rows.forget_scores()
        self.sheet = FactSheet(self.fleet, rows, pod_info)
        self.places: dict[int, tuple[str, str]] = dict(
            zip(rows.tolist(), self.fleet.names_of(rows.tolist()), strict=True)
        )

    def decisions(self, items: Sequence[tuple[PodId, PodInfo]]) -> list[Decision]:
        """Those for the first pods."""
        rows = self._chosen[: len(items), 0].tolist()
        scores = self._trace.score[: len(items), 0].tolist()
        if not items:
            return []
        clusters, nodes = zip(*[self.places[row] for row in rows], strict=True)
        whys = map(MergeRecord, repeat(self), range(len(rows)))
        return list(map(Decision, *zip(*items, strict=True), clusters, nodes, rows, scores, whys))

    def decision(self, at: int, pod_id: PodId, pod_info: PodInfo) -> Decision:
        """The decision for the pod number `at`."""
        row: int = self._chosen.item(at, 0)
        cluster, node = self.places[row]
        return Decision(
            pod_id,
            pod_info,
            cluster,
            node,
            row,
            self._trace.score.item(at, 0),
            MergeRecord(self, at),
        )

    def _feasible_nodes(self, decided: int) -> Ints:
        """[pods] feasible nodes: without those that are full by then, and those of buckets that are
        refused.
        """
        trace = self._trace
        taking = self._trace.bucket[:decided, 0]
        full = trace.full[:decided] > 0
        codes = trace.codes[:decided]
        pods = np.arange(decided)
        feasible: Ints = self._begin.feasible - np.add.accumulate(full, dtype=np.int64) + full
        if len(self._members):
            moves = np.zeros(codes.shape, dtype=np.int64)
            moves[pods, taking] -= 1
            moves[pods[~full], self._after[taking[~full]]] += 1
            members = self._members.sum(axis=1) + np.cumsum(moves, axis=0) - moves
            feasible -= np.where(codes > 0, members, 0).sum(axis=1)
        return feasible

    # --- looking back
    # ----------------------------------------------------------------------------------------------

    def fit(self, at: int) -> tuple[int, int]:
        """How many nodes were feasible, of how many."""
        return self._feasible[at], self._begin.evaluated

    def runner_up(self, at: int) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best; None if there is none."""
        rival = self._rival_rows[at]
        return (*self.places[rival], self._rival_scores[at]) if rival >= 0 else None

    def parts(self, ats: Sequence[int]) -> RecordParts:
        """What the decisions for pods of these numbers, ascending, are told by."""
        facts = self.sheet.facts(self._chosen[ats, 0].tolist(), self._trace.depth[ats, 0])
        places = np.zeros(len(ats), dtype=np.int64)
        raw, normal = self._values(ats, places)
        rivals = self._values(ats, places + self._has_rival[ats])[
            1
        ]  # who has none stands for itself
        scores = ScoreColumns(*self._names, raw, normal, rivals)
        return RecordParts(
            list(self.contexts(ats)), facts, self._extras(ats), scores, self._rivals(ats)
        )

    def _rivals(self, ats: Sequence[int]) -> list[tuple[str, str, float] | None]:
        rows = self._chosen[ats, 1].tolist()
        scores = self._trace.score[ats, 1].tolist()
        told = zip(self._has_rival[ats].tolist(), rows, scores, strict=True)
        places = self.places
        return [(*places[row], score) if has else None for has, row, score in told]

    def _values(self, ats: Sequence[int], places: Ints) -> tuple[Floats, Floats]:
        """[scores, pods] raw and normalised, of the chosen rows (place 0) or the next best (1)."""
        trace = self._trace
        buckets = trace.bucket[ats, places]
        raw = self.raws.of(trace.candidate[ats, places], trace.depth[ats, places])
        clusters = self._clusters[ats, places]
        for one, where in enumerate(self._brought_positions):
            raw[where] = self._brought.raw[self._brought.merged.kind[ats], one, clusters]
        normal = raw.copy()
        evaluators, columns = self._score_positions
        for evaluator, where in evaluators:
            raw[where], normal[where] = (
                trace.raw[ats, places, evaluator],
                trace.normal[ats, places, evaluator],
            )
        begins = (
            np.searchsorted(ats, [begin for begin, _ in self.normal_history]).tolist()
            if columns
            else []
        )
        for first, last, (_, normals) in zip(
            begins, [*begins[1:], len(ats)], self.normal_history, strict=False
        ):
            of = buckets[first:last]
            for one, where in columns:
                raw[where, first:last], normal[where, first:last] = (
                    self._shared[one][of],
                    normals[one][of],
                )
        return raw, normal

    def contexts(self, ats: Sequence[int]) -> Iterator[DecisionContext]:
        """What the decisions for pods of these numbers, ascending, stood on; one and the same where
        nothing moved.
        """
        trace = self._trace
        done = 0
        found = self._begin
        stands_on = 0
        if not trace.codes.any() and not trace.full.any():
            yield from repeat(found, len(ats))
            return
        filled = Counter[tuple[int, int]]()
        members = self._members.copy()
        buckets = trace.bucket[:, 0].tolist()
        clusters = self._clusters[:, 0].tolist()
        full = trace.full.tolist()
        closed = trace.codes.any(axis=1).tolist()
        for at in ats:
            for bucket, cluster, code in zip(
                buckets[done:at], clusters[done:at], full[done:at], strict=True
            ):
                if code:
                    filled[code, cluster] += 1
                if len(members):
                    members[bucket, cluster] -= 1
                    if not code:
                        members[self._after[bucket], cluster] += 1
            refused = (
                self._refused(trace.codes[at], members)
                if closed[at]
                else Counter[tuple[int, int]]()
            )
            if refused or stands_on != filled.total():
                found = self._context(filled, refused)
                stands_on = -1 if refused else filled.total()
            yield found
            done = at

    def _context(
        self, filled: Counter[tuple[int, int]], refused: Counter[tuple[int, int]]
    ) -> DecisionContext:
        begin = self._begin
        gone = filled.total() + refused.total()
        rejected = merged(merged(begin.rejected, filled), refused)
        return replace(begin, rejected=rejected, feasible=begin.feasible - gone)

    def _refused(self, codes: Codes, members: Ints) -> Counter[tuple[int, int]]:
        refused: Counter[tuple[int, int]] = Counter()
        for bucket in np.flatnonzero(codes).tolist():
            for cluster in np.flatnonzero(members[bucket]).tolist():
                refused[int(codes[bucket]), cluster] += int(members[bucket, cluster])
        return refused

    def _extras(self, ats: Sequence[int]) -> dict[str, Column]:
        """What policies by domains have to say of the decisions for pods of these numbers,
        ascending.
        """
        return {name: told_of(story, ats) for name, story in self._explainers}


def _members(layout: BucketLayout, fleet: FleetState) -> Ints:
    """[buckets, clusters] rows that no other filter refuses."""
    buckets = len(layout.all_buckets.members)
    clusters = max(len(fleet.clusters), 1)
    where = layout.sorting.bucket_of * clusters + fleet.cluster[layout.sorting.rows]
    counts: Ints = np.bincount(where, minlength=buckets * clusters).reshape(buckets, clusters)
    return counts


class MergeRecord(BatchExplanation[MergeExplanation], gc=False, eq=False, frozen=True):
    """Why one of the pods went where it went (see `DecisionRecord`)."""

    at: int

    @property
    def context(self) -> DecisionContext:
        """What it stood on."""
        return next(self.batch.contexts([self.at]))

    @property
    def fit(self) -> tuple[int, int]:
        """How many nodes were feasible, of how many."""
        return self.batch.fit(self.at)

    def parts(self, whys: Sequence["MergeRecord"]) -> RecordParts:
        """Found by going through the merge once."""
        return self.batch.parts([one.at for one in whys])

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best."""
        return self.batch.runner_up(self.at)


def _score_positions(
    eq_class: EquivalenceClass, plugin_rules: PluginRules
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the scores of each plugin that counts, and of each column that normalises, stand among
    all scores.
    """
    at = {id(one): place for place, one in enumerate(eq_class.scored)}
    evaluators = [
        (evaluator, at[id(one)]) for evaluator, (one, _) in enumerate(plugin_rules) if id(one) in at
    ]
    columns = [
        (place, at[id(one)]) for place, one in enumerate(eq_class.normalizing) if id(one) in at
    ]
    return evaluators, columns
