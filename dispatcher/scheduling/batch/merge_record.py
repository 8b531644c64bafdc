"""Why the pods of a merged batch went where they went: put together from what the merge wrote down.

Zone counts in `extras` are recounted by the plugin from the chosen rows (`explain_batch`), not read from the merge.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from dispatcher.model.pod import PodId
from dispatcher.scheduling.batch.batch_record import BatchRecord
from dispatcher.scheduling.batch.buckets import BucketLayout, PluginRules
from dispatcher.scheduling.batch.merge_tables import Candidates, Trace
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import FactSheet, RowFacts
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Floats, Ints, Placed
from dispatcher.scheduling.framework.domain_counts import ExplainPod
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import DecisionContext, Scores, merged


class MergeHistory:
    """What the decisions of a batch have in common. `normal_history`: (pods decided before, normal scores by bucket of
    the columns that normalise), whenever these changed.
    """

    def __init__(  # noqa: PLR0913 - all that a merge was told, to explain it afterwards
        self,
        eq_class: EquivalenceClass,
        plugin_rules: PluginRules,
        layout: BucketLayout,
        candidates: Candidates,
        trace: Trace,
        sheet: FactSheet,
        raws: Sequence[Sequence[tuple[Floats, int]]],
    ) -> None:
        self.fleet, self.row_explainers, self.sheet = eq_class.fleet, eq_class.row_explainers, sheet
        self.normal_history: list[tuple[int, list[Floats]]] = []
        self._candidates, self._trace, self._raws = candidates, trace, raws
        self._shared, self._after = layout.shared, layout.all_buckets.after
        self._names = tuple(one.role.name for one in eq_class.scored), tuple(one.role.weight for one in eq_class.scored)
        self._score_positions = _score_positions(eq_class, plugin_rules)
        self._begin = eq_class.context_of(dict(eq_class.rows.rejected), eq_class.rows.feasible)
        self._members = _members(layout, eq_class.fleet)
        self._explainers: list[tuple[str, ExplainPod]] = []

    def seal(self, decided: int, plugin_rules: PluginRules) -> None:
        """The merge has ended: what its decisions need at once, and what is no longer known once pods are placed."""
        trace = self._trace
        self._chosen = self._candidates.row[
            trace.candidate[:decided]
        ]  # [pods, 2]; what stands where there is none means nothing
        self._has_rival = (trace.candidate[:decided, 1] >= 0).tolist()
        self._rows: list[int] = self._chosen[:, 0].tolist()
        self._scores: list[float] = trace.score[:decided, 0].tolist()
        self._cluster_of = self.fleet.cluster[self._chosen[:, 0]]
        name_of = self.fleet.name_of
        self.places = {row: name_of(row) for row in {*self._rows, *self._chosen[:, 1].tolist()}}
        rows, view = self._chosen[:, 0], view_of(self.fleet)
        for evaluator, _ in plugin_rules if decided else ():
            plugin = evaluator.role.plugin
            if evaluator.role.explainer:
                told_later = guarded(plugin, plugin.explain_batch, evaluator.state, rows, view)
                self._explainers.append((evaluator.role.name, told_later))

    def decision(self, at: int, pod_id: PodId, placed: Placed) -> Decision:
        """The decision for the pod number `at`."""
        row = self._rows[at]
        cluster, node = self.places[row]
        return Decision(pod_id, placed, cluster, node, row, self._scores[at], MergeRecord(self, at))

    # --- looking back ------------------------------------------------------------------------------------------------

    def runner_up(self, at: int) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best; None if there is none."""
        if not self._has_rival[at]:
            return None
        return (*self.places[int(self._chosen[at, 1])], float(self._trace.score[at, 1]))

    def facts(self, at: int) -> RowFacts:
        """The chosen row as it was."""
        return self.sheet.facts(self._rows[at], int(self._trace.depth[at, 0]))

    def scores(self, at: int) -> Scores:
        """Of the chosen row and of the runner-up."""
        raw, normal = self._values(at, 0)
        return Scores(*self._names, raw, normal, self._values(at, 1)[1] if self._has_rival[at] else None)

    def _values(self, at: int, place: int) -> tuple[list[float], list[float]]:
        trace = self._trace
        bucket, values = trace.bucket.item(at, place), self._raws[trace.candidate.item(at, place)]
        matrix, column = values[trace.depth.item(at, place)]
        raw: list[float] = matrix[:, column].tolist()
        normal = raw.copy()
        evaluators, columns = self._score_positions
        for evaluator, where in evaluators:
            raw[where], normal[where] = trace.raw.item(at, place, evaluator), trace.normal.item(at, place, evaluator)
        normals = self.normal_history[bisect_right(self.normal_history, at, key=lambda one: one[0]) - 1][1]
        for one, where in columns:
            raw[where], normal[where] = self._shared[one].item(bucket), normals[one].item(bucket)
        return raw, normal

    def context(self, at: int) -> DecisionContext:
        """What the decision for pod number `at` stood on."""
        begin, trace, buckets = self._begin, self._trace, self._trace.bucket[:at, 0]
        full = trace.full[:at]
        clusters = self._cluster_of[:at]
        filled = Counter(zip(full[full > 0].tolist(), clusters[full > 0].tolist(), strict=True))
        rejected = merged(begin.rejected, filled)
        refused = self._refused(at, buckets, clusters, full)
        feasible = begin.feasible - filled.total() - sum(refused.values())
        return DecisionContext(
            begin.profile, begin.reasons, begin.clusters, merged(rejected, refused), feasible, begin.evaluated
        )

    def _refused(self, at: int, buckets: Any, clusters: Any, full: Any) -> dict[tuple[int, int], int]:
        counts, going_on = self._members.copy(), full == 0
        np.add.at(counts, (buckets, clusters), -1)
        np.add.at(counts, (self._after[buckets[going_on]], clusters[going_on]), 1)
        refused: Counter[tuple[int, int]] = Counter()
        codes = self._trace.codes[at]
        for bucket in np.flatnonzero(codes).tolist():
            for cluster in np.flatnonzero(counts[bucket]).tolist():
                refused[int(codes[bucket]), cluster] += int(counts[bucket, cluster])
        return dict(refused)

    def extras(self, at: int) -> dict[str, Any]:
        """What policies by domains have to say of the decision for pod number `at`."""
        extras: dict[str, Any] = {}
        for name, story in self._explainers:
            try:
                extras[name] = story(at)
            except Exception as error:  # a decision stands without its comments, too
                extras[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
        return extras


def _members(layout: BucketLayout, fleet: FleetState) -> Ints:
    """[buckets, clusters] rows that no other filter refuses."""
    buckets, clusters = len(layout.all_buckets.members), max(len(fleet.clusters), 1)
    where = layout.bucket_of * clusters + fleet.cluster[layout.rows]
    counts: Ints = np.bincount(where, minlength=buckets * clusters).reshape(buckets, clusters)
    return counts


class MergeRecord(BatchRecord[MergeHistory], gc=False, eq=False, frozen=True):
    """Why one of the pods went where it went (see `DecisionRecord`)."""

    at: int

    @property
    def context(self) -> DecisionContext:
        """What it stood on."""
        return self.batch.context(self.at)

    @property
    def facts(self) -> RowFacts:
        """The chosen row as it was."""
        return self.batch.facts(self.at)

    @property
    def scores(self) -> Scores:
        """Of the chosen row and of the runner-up."""
        return self.batch.scores(self.at)

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best."""
        return self.batch.runner_up(self.at)

    def extras(self) -> dict[str, Any]:
        """What plugins that look further than the row have to say."""
        return self.batch.extras(self.at)


def _score_positions(
    eq_class: EquivalenceClass, plugin_rules: PluginRules
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the scores of each plugin that counts, and of each column that normalises, stand among all scores."""
    at = {id(one): place for place, one in enumerate(eq_class.scored)}
    evaluators = [(evaluator, at[id(one)]) for evaluator, (one, _) in enumerate(plugin_rules) if id(one) in at]
    columns = [(place, at[id(one)]) for place, one in enumerate(eq_class.normalizing) if id(one) in at]
    return evaluators, columns
