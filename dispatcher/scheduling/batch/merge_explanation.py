"""Why the pods of a merged batch went where they went: put together from what the merge wrote down.

A pod's own score, row and runner-up are those of its turn. All that is counted (nodes that are
feasible or refused, what plugins that look further than the row explain) is as it was at the
beginning of the batch, and its record says which place it has in the batch.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat

import msgspec
import numpy as np

from dispatcher.scheduling.batch.brought_points import BroughtPoints
from dispatcher.scheduling.batch.buckets import BucketLayout, PluginRules
from dispatcher.scheduling.batch.merge_tables import Candidates, Trace
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.static_answers import count_codes
from dispatcher.scheduling.fleet.columns import distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.framework import Floats, Ints, PodInfo
from dispatcher.scheduling.framework.value_columns import Column, taken
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    Explainers,
    Place,
    RecordParts,
    ScoreColumns,
    merged,
)
from shared.model.pod import PodId


class RawValues:
    """Raw scores of the rows that a merge chooses among, by how many pods of the batch each had
    taken: block by block as it was asked, looked through only when a record is wanted.
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[Ints, Ints, Floats]] = []

    def add(self, candidates: Ints, taken: Ints, raw: Floats) -> None:
        """[scores, asked] of candidates, each with so many pods of the batch on its row; each such
        pair comes once.
        """
        self._blocks.append((candidates, taken, raw))

    def of(self, candidates: Ints, taken: Ints) -> Floats:
        """[scores, wanted] of these, all of which were asked."""
        if len(self._blocks) > 1:
            asked, had, raws = zip(*self._blocks, strict=True)
            self._blocks = [
                (np.concatenate(asked), np.concatenate(had), np.concatenate(raws, axis=1))
            ]
        all_asked, all_had, raw = self._blocks[0]
        width = 1 + int(all_had.max(initial=0))
        keys = all_asked * width + all_had
        order = np.argsort(keys)
        found: Floats = raw[
            :, order[np.searchsorted(keys, candidates * width + taken, sorter=order)]
        ]
        return found


class MergeExplanation:
    """What the decisions of a batch have in common.

    The merge adds to `raws` and `normal_history`: (pods decided before, normal scores by bucket of
    the columns that normalise), whenever these changed. `extras`: by plugin that looks further than
    the row, what it explains of each pod's place.
    """

    context: DecisionContext
    decided: int
    chosen: Ints  # [pods, 2] rows of the best and of the next best; where there is none, anything
    sheet: FactSheet
    places: dict[int, tuple[str, str]]

    def __init__(
        self,
        eq_class: EquivalenceClass,
        plugin_rules: PluginRules,
        layout: BucketLayout,
        brought: BroughtPoints,
        trace: Trace,
    ) -> None:
        self.fleet = eq_class.fleet
        self.row_explainers = eq_class.row_explainers
        self.extras: Mapping[str, Column] = {}
        self.raws = RawValues()
        self.normal_history: list[tuple[int, list[Floats]]] = []
        self._trace = trace
        self._shared = layout.shared
        self._names = (
            tuple(one.role.name for one in eq_class.scored),
            tuple(one.role.weight for one in eq_class.scored),
        )
        self._score_positions = _score_positions(eq_class, plugin_rules)
        self._brought = brought
        self._brought_positions = [
            at for at, one in enumerate(eq_class.scored) if one in eq_class.brought
        ]

    def seal(
        self,
        decided: int,
        eq_class: EquivalenceClass,
        pod_info: PodInfo,
        layout: BucketLayout,
        candidates: Candidates,
    ) -> None:
        """The merge has ended: keep what is no longer known once pods are placed; of candidates
        those rows alone that were chosen, or next best, as they were before the first pod came.
        """
        trace = self._trace
        self.decided = decided
        self.context = _context(eq_class, layout, trace)
        picked = trace.candidate[:decided]
        found = distinct(picked[picked >= 0])
        found = found[np.argsort(candidates.row[found])]
        rows = candidates.row[found]
        raw = eq_class.raw_of(rows, refreshed=True)
        self.raws.add(found, np.zeros(len(found), dtype=np.int64), raw)
        eq_class.rows.forget_scores()
        self.sheet = FactSheet(self.fleet, rows, pod_info)
        names = self.fleet.names_of(rows.tolist())
        self.places = dict(zip(rows.tolist(), names, strict=True))
        self.chosen = candidates.row[picked]
        self._clusters = self.fleet.cluster[self.chosen]  # as they are now: rows may come to others
        self._has_rival = picked[:, 1] >= 0
        # lists: each decision is told of at once
        self._rival_rows: list[int] = np.where(self._has_rival, self.chosen[:, 1], -1).tolist()
        self._rival_scores: list[float] = trace.score[:decided, 1].tolist()

    def decisions(self, items: Sequence[tuple[PodId, PodInfo]]) -> list[Decision]:
        """Those for the first pods."""
        rows = self.chosen[: len(items), 0].tolist()
        scores = self._trace.score[: len(items), 0].tolist()
        if not items:
            return []
        clusters, nodes = zip(*[self.places[row] for row in rows], strict=True)
        whys = map(MergeRecord, repeat(self), range(len(rows)))
        return list(map(Decision, *zip(*items, strict=True), clusters, nodes, rows, scores, whys))

    # --- looking back
    # ----------------------------------------------------------------------------------------------

    def runner_up(self, at: int) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best; None if there is none."""
        rival = self._rival_rows[at]
        return (*self.places[rival], self._rival_scores[at]) if rival >= 0 else None

    def parts(self, ats: Sequence[int]) -> RecordParts:
        """What the decisions for pods of these numbers, ascending, are told by."""
        facts = self.sheet.facts(self.chosen[ats, 0].tolist(), self._trace.depth[ats, 0])
        places = np.zeros(len(ats), dtype=np.int64)
        raw, normal = self._values(ats, places)
        # who has no rival stands for itself
        rivals = self._values(ats, places + self._has_rival[ats])[1]
        return RecordParts(
            self.context,
            facts,
            {name: taken(told, ats) for name, told in self.extras.items()},
            ScoreColumns(*self._names, raw, normal, rivals),
            [self.runner_up(at) for at in ats],
            Place(np.asarray(ats) + 1, self.decided),
        )

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


class MergeRecord(msgspec.Struct, gc=False, eq=False, frozen=True):
    """Why the pod number `at` of a batch went where it went (see `DecisionRecord`)."""

    batch: MergeExplanation
    at: int

    @property
    def context(self) -> DecisionContext:
        """What its batch stood on at the beginning."""
        return self.batch.context

    @property
    def time(self) -> float:
        """When it was taken."""
        return self.batch.sheet.now

    @property
    def fleet(self) -> FleetState:
        """The fleet it is about."""
        return self.batch.fleet

    @property
    def row_explainers(self) -> Explainers:
        """Plugins that explain it from the chosen row alone."""
        return self.batch.row_explainers

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best."""
        return self.batch.runner_up(self.at)

    def parts(self, whys: Sequence["MergeRecord"]) -> RecordParts:
        """All at once."""
        return self.batch.parts([one.at for one in whys])


def _context(eq_class: EquivalenceClass, layout: BucketLayout, trace: Trace) -> DecisionContext:
    """What the first pod stands on: rows that their own filters refuse, and those of buckets that
    are refused by counts.
    """
    rows = eq_class.rows
    refused = dict[tuple[int, int], int]()
    if np.count_nonzero(trace.codes):
        sorting = layout.sorting
        refused = count_codes(trace.codes[sorting.bucket_of], eq_class.fleet, sorting.rows)
    feasible = rows.feasible - sum(refused.values())
    return eq_class.context_of(merged(rows.rejected, refused), feasible)


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
