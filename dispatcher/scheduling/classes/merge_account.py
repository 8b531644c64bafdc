"""Why the pods of a merged batch went where they went: put together from what the merge wrote down."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from dispatcher.scheduling.classes.cells import Layout, Told
from dispatcher.scheduling.classes.merge_tables import Bids, Trace
from dispatcher.scheduling.classes.pod_class import PodClass, merged
from dispatcher.scheduling.explain import Decision, Ground, Notes, Scores
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.fleet.row import FactSheet, RowFacts
from dispatcher.scheduling.framework import Floats, Ints, Placed
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.framework.tallies import Story


class Merged:
    """What the decisions of a batch have in common. `epochs`: (pods decided before, normal scores by cell of the
    columns that normalise), whenever these changed.
    """

    def __init__(
        self,
        pods: PodClass,
        told: Told,
        layout: Layout,
        bids: Bids,
        trace: Trace,
        sheet: FactSheet,
        raws: Sequence[Sequence[tuple[Floats, int]]],
    ) -> None:
        self.fleet, self.later, self.sheet = pods.fleet, pods.later, sheet
        self.epochs: list[tuple[int, list[Floats]]] = []
        self._bids, self._trace, self._raws = bids, trace, raws
        self._shared, self._after, self._codes_now = layout.shared, layout.whole.after, layout.whole.codes
        self._names = tuple(one.role.name for one in pods.scored), tuple(one.role.weight for one in pods.scored)
        self._places_of = _where(pods, told)
        self._begin = pods.ground_of(dict(pods.rows.rejected), pods.rows.feasible)
        self._members = _members(layout, pods.fleet)
        self._stories: list[tuple[str, Story]] = []

    def settle(self, decided: int, told: Told) -> None:
        """The merge has ended: what its decisions need at once, and what cannot be told once pods are placed."""
        trace = self._trace
        self._chosen = self._bids.row[trace.bid[:decided]]  # [pods, 2]; what stands where there is none means nothing
        self._has_rival = (trace.bid[:decided, 1] >= 0).tolist()
        self._rows: list[int] = self._chosen[:, 0].tolist()
        self._scores: list[float] = trace.score[:decided, 0].tolist()
        self._cluster_of = self.fleet.cluster[self._chosen[:, 0]]
        name_of = self.fleet.name_of
        self.places = {row: name_of(row) for row in {*self._rows, *self._chosen[:, 1].tolist()}}
        for judge, _ in told if decided else ():
            plugin = judge.role.plugin
            if judge.role.explainer:
                told_later = guarded(plugin, plugin.explain_batch, judge.state, self._chosen[:, 0], self.fleet)
                self._stories.append((judge.role.name, told_later))

    def decision(self, at: int, pod_id: PodId, placed: Placed) -> Decision:
        """The decision for the pod number `at`."""
        row = self._rows[at]
        cluster, node = self.places[row]
        return Decision(pod_id, placed, cluster, node, row, self._scores[at], MergeAccount(self, at))

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
        cell, values = trace.cell.item(at, place), self._raws[trace.bid.item(at, place)]
        matrix, column = values[trace.depth.item(at, place)]
        raw: list[float] = matrix[:, column].tolist()
        normal = raw.copy()
        judges, columns = self._places_of
        for judge, where in judges:
            raw[where], normal[where] = trace.raw.item(at, place, judge), trace.normal.item(at, place, judge)
        normals = self.epochs[bisect_right(self.epochs, at, key=lambda one: one[0]) - 1][1]
        for one, where in columns:
            raw[where], normal[where] = self._shared[one].item(cell), normals[one].item(cell)
        return raw, normal

    def ground(self, at: int) -> Ground:
        """What the decision for pod number `at` stood on."""
        begin, trace, cells = self._begin, self._trace, self._trace.cell[:at, 0]
        full = trace.full[:at]
        clusters = self._cluster_of[:at]
        filled = Counter(zip(full[full > 0].tolist(), clusters[full > 0].tolist(), strict=True))
        rejected = merged(begin.rejected, filled)
        refused = self._refused(at, cells, clusters, full)
        feasible = begin.feasible - filled.total() - sum(refused.values())
        return Ground(
            begin.profile, begin.reasons, begin.clusters, merged(rejected, refused), feasible, begin.evaluated
        )

    def _refused(self, at: int, cells: Any, clusters: Any, full: Any) -> dict[tuple[int, int], int]:
        counts, going_on = self._members.copy(), full == 0
        np.add.at(counts, (cells, clusters), -1)
        np.add.at(counts, (self._after[cells[going_on]], clusters[going_on]), 1)
        refused: Counter[tuple[int, int]] = Counter()
        codes = self._trace.codes[at] if at < len(self._rows) else self._codes_now
        for cell in np.flatnonzero(codes).tolist():
            for cluster in np.flatnonzero(counts[cell]).tolist():
                refused[int(codes[cell]), cluster] += int(counts[cell, cluster])
        return dict(refused)

    def notes(self, at: int) -> dict[str, Any]:
        """What policies by domains have to say of the decision for pod number `at`."""
        told: dict[str, Any] = {}
        for name, story in self._stories:
            try:
                told[name] = story(at)
            except Exception as error:  # a decision stands without its comments, too
                told[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
        return told


def _members(layout: Layout, fleet: FleetState) -> Ints:
    """[cells, clusters] rows that no other filter refuses."""
    cells, clusters = len(layout.whole.members), max(len(fleet.clusters), 1)
    where = layout.cell_of * clusters + fleet.cluster[layout.rows]
    counts: Ints = np.bincount(where, minlength=cells * clusters).reshape(cells, clusters)
    return counts


class MergeAccount(msgspec.Struct, gc=False, eq=False, frozen=True):
    """Why one of the pods went where it went (see `explain.Account`)."""

    batch: Merged
    at: int

    @property
    def ground(self) -> Ground:
        """What it stood on."""
        return self.batch.ground(self.at)

    @property
    def time(self) -> float:
        """When it was taken."""
        return self.batch.sheet.now

    @property
    def fleet(self) -> FleetState:
        """The fleet it is about."""
        return self.batch.fleet

    @property
    def later(self) -> Notes:
        """Plugins that explain it from the chosen row alone."""
        return self.batch.later

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

    def notes(self) -> dict[str, Any]:
        """What plugins that look further than the row have to say."""
        return self.batch.notes(self.at)


def _where(pods: PodClass, told: Told) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where the scores of each judge that counts, and of each column that normalises, stand among all scores."""
    at = {id(one): place for place, one in enumerate(pods.scored)}
    judges = [(judge, at[id(one)]) for judge, (one, _) in enumerate(told) if id(one) in at]
    columns = [(place, at[id(one)]) for place, one in enumerate(pods.normalizing) if id(one) in at]
    return judges, columns
