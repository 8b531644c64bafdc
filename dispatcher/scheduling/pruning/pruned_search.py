"""Bound and prune: the exact decision for one pod of a class that is not cached, without evaluating
every row.

Caching a class pays from its fourth pod on; a pod unlike all others is decided here. In a small
fleet all rows are evaluated at once. In a large one two questions are answered for all rows at a
few operations each: how high may the row score (`upper_bounds`), and is enough free
(`low_capacity`). The rows with the highest bounds are scored exactly; the score of the second best
of them is the bar, and every row whose bound reaches the bar is scored, too. So the best row, the
runner-up and the counts of refusals are those of all rows. docs/algorithms/bound-and-prune.md has
an example.

Policies by fault domain add the same points to many rows (`domain_terms`). Not here: pods of which
other plugins look further than one row, or which domains refuse, and pods without a place; their
class decides. `searches` says which pods are decided here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE, add_terms, two_best
from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator, finite
from dispatcher.scheduling.equivalence.group_scores import GroupScores
from dispatcher.scheduling.equivalence.row_explanation import RowExplanation
from dispatcher.scheduling.equivalence.rows import add_score, close_totals, is_plain
from dispatcher.scheduling.equivalence.static_answers import StaticAnswers, count_codes
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.fleet.columns import RowList, distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.framework import SKIP, Codes, Floats, PodInfo, Rows
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.framework.roles import PluginRole
from dispatcher.scheduling.place_finder import PlaceFinder
from dispatcher.scheduling.pruning.block_bounds import blocks_of
from dispatcher.scheduling.pruning.counted_terms import CountedTerms
from dispatcher.scheduling.pruning.domain_terms import ClusterAnswers, DomainTerms, domain_terms
from dispatcher.scheduling.pruning.fitting_rows import FittingRows
from dispatcher.scheduling.pruning.low_capacity import LowCapacityIndex
from dispatcher.scheduling.pruning.row_bounds import GroupPoints, RowBounds
from dispatcher.scheduling.pruning.upper_bounds import UpperBounds
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    Explainers,
    Scores,
    merged,
)
from dispatcher.scheduling.rules.requests import least_expected
from shared.model.pod import PodId

_FIRST = 48  # rows that are asked at once
_MOST_SHARE = 4  # if more than a fourth of all rows may win, looking at all of them is as good


_NOTHING: Mapping[tuple[int, int], int] = {}


class SearchSetup:
    """What searches have in common whose pods share static answers and are evaluated by row by the
    same plugins.

    `scored`: who scores, in profile order, a column, a role by domain or a place in the evaluators
    by row that score. `common_score`: what all rows have in common, `common` (place in `scored`,
    raw, normalised) the scores behind it. Without `bounds` all rows are scored.
    """

    def __init__(
        self,
        profile: str,
        static: StaticAnswers,
        roles: Sequence[PluginRole],
        by_domain: Sequence[PluginRole],
        bounds: UpperBounds | None,
    ) -> None:
        self.static = static
        self.version = static.version
        self.source = static.group_scores
        self.bounds = bounds
        self._profile = profile
        by_row = [role for role in roles if role.score_at is not None]
        columns = [one for one in static.active if one.role.score_at is not None]
        scored: list[tuple[PluginRole, StaticColumn | PluginRole | int]] = [
            (one.role, one) for one in columns
        ]
        scored += [(role, at) for at, role in enumerate(by_row)]
        scored += [(role, role) for role in by_domain if role.score_at is not None]
        scored.sort(key=lambda one: one[0].score_at or 0)
        self.scored = tuple(one for _, one in scored)
        places = [role.score_at for role, _ in scored]
        self.names = (
            tuple(role.name for role, _ in scored),
            tuple(role.weight for role, _ in scored),
        )
        self._points = [one for one in columns if not one.role.normalizes]
        self._points_of_all: tuple[int, Floats] = (-1, np.zeros(0))  # position of the log of nodes
        self.common_score, common = _finalised(self.source)
        self.common = [(at, *common[place]) for at, place in enumerate(places) if place in common]
        self._context: DecisionContext | None = None
        self._clusters = 0

    @property
    def current(self) -> bool:
        """Whether it is about its part as that is now."""
        return self.version == self.static.version and self.source is self.static.group_scores

    def points_of(self, fleet: FleetState, rows: Rows) -> Floats:
        """[rows] what rests on nodes alone and is not normalised, in units of 1 / GRID; of all rows
        it is kept until a node changes.
        """
        if not isinstance(rows, slice):
            return sum([one.points_of(rows) for one in self._points], np.zeros(len(rows)))
        if self._points_of_all[0] != fleet.changes.position:
            every = sum([one.points_of(rows) for one in self._points], np.zeros(fleet.n))
            self._points_of_all = fleet.changes.position, every
        return self._points_of_all[1]

    def context(
        self,
        fleet: FleetState,
        refused: Mapping[tuple[int, int], int],
        shut: Mapping[tuple[int, int], int] = _NOTHING,
    ) -> DecisionContext:
        """What a decision stands on when rows are `refused` beside those that the shared filters
        refuse; `shut`: all nodes of clusters that are refused before anybody looks at nodes.
        """
        static_filters = self.static.static_filters
        if shut:
            away = {cluster for _, cluster in shut}
            told = merged(static_filters.rejected, refused)
            told = {**shut, **{why: rows for why, rows in told.items() if why[1] not in away}}
            return self._make(fleet, told, static_filters.evaluated - sum(told.values()))
        if refused:
            feasible = fleet.n - static_filters.refused - sum(refused.values())
            return self._make(fleet, merged(static_filters.rejected, refused), feasible)
        known = self._context
        if (
            known is None
            or known.rejected is not static_filters.rejected
            or self._clusters != len(fleet.clusters)
        ):
            known = self._context = self._make(
                fleet, static_filters.rejected, fleet.n - static_filters.refused
            )
            self._clusters = len(fleet.clusters)
        return known

    def _make(
        self, fleet: FleetState, rejected: Mapping[tuple[int, int], int], feasible: int
    ) -> DecisionContext:
        names = tuple(info.name for info in fleet.clusters)
        return DecisionContext(
            self._profile,
            fleet.reasons,
            names,
            rejected,
            feasible,
            self.static.static_filters.evaluated,
        )


def _finalised(
    group_scores: GroupScores | None,
) -> tuple[float, dict[int | None, tuple[float, float]]]:
    if group_scores is None or not group_scores.finalise(np.ones(1, dtype=np.bool_)).item(0):
        return INFEASIBLE, {}
    common: dict[int | None, tuple[float, float]] = {
        at: (group_scores.raw[at].item(0), values.item(0))
        for at, values in group_scores.normal.items()
    }
    return group_scores.points.item(0), common


@dataclass(slots=True)
class _Found:
    """Rows that were scored, ascending (None: all): `totals`, -inf where refused, and `raw` of each
    evaluator that scores. `best`: where the two best stand, -1 where there is none.
    """

    rows: RowList | None
    totals: Floats
    raw: list[Floats]
    best: tuple[int, int]

    def row(self, at: int) -> int:
        """The row that stands there."""
        return at if self.rows is None else self.rows.item(at)


def _second(found: _Found) -> float:
    """The total of the second best row."""
    return found.totals.item(found.best[1]) if found.best[1] >= 0 else INFEASIBLE


class PrunedSearch(PlaceFinder):
    """The search for one pod: `evaluators` are its row-scoped plugins; `domains`: what rests on
    clusters alone, and its policies by fault domain.
    """

    def __init__(
        self,
        setup: SearchSetup,
        evaluators: Sequence[PluginEvaluator],
        room: LowCapacityIndex,
        fitting: FittingRows,
        counted: CountedTerms,
        domains: tuple[ClusterAnswers, Sequence[PluginEvaluator]],
    ) -> None:
        self._fleet = fitting.fleet
        self._setup = setup
        self._evaluators = evaluators
        self._room = room
        self._fitting, self._counted, (self._clusters, self._by_domain) = fitting, counted, domains
        self._terms: DomainTerms | None = None
        self.by_host = False  # whether it found a place, and what domains say rests on hosts
        self._filters = [one for one in evaluators if one.role.filter_at is not None]
        self._scorers = [one for one in evaluators if one.role.score_at is not None]

    def answer_of(self, plugin: str) -> object:
        """What a plugin answered in PreFilter; SKIP if it was not asked."""
        columns = (column.evaluator for column in self._setup.static.active)
        active = (*columns, *self._clusters.evaluators, *self._evaluators, *self._by_domain)
        return next((one.state for one in active if one.role.name == plugin), SKIP)

    def select(self, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        """The place for the pod and why; None if too many rows may win, there is none, or a plugin
        fails: the class decides, and says so.
        """
        try:
            return self._select(pod_id, pod_info)
        except PluginError:
            return None

    def _select(self, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        fleet = self._fleet
        setup = self._setup
        short = self._short()
        if short is None or setup.common_score == INFEASIBLE:
            return None
        rows, codes = self._refusals(short)
        filters = setup.static.static_filters
        clusters = self._clusters
        if clusters.evaluators or self._by_domain:
            asked = filters, clusters, self._by_domain, rows[codes != 0]
            self._terms = self._counted.terms(pod_info, *asked) or domain_terms(
                self._fitting, *asked
            )
            if self._terms is None:
                return None
        if setup.bounds is None:
            found: _Found | None = self._all(rows, codes)
        else:
            found = self._best_two(pod_info, setup.bounds, rows[codes != 0])
        if found is None or found.best[0] < 0:
            return None
        first, rival = found.best
        row = found.row(first)
        self.by_host = self._terms is not None and self._terms.by_host
        why = RowExplanation(
            self._context(rows, codes),
            fleet.now,
            fleet,
            self._later(),
            self._scores(found),
            RowFacts.of(fleet, row),
            None
            if rival < 0
            else (*fleet.name_of(found.row(rival)), found.totals.item(rival) + setup.common_score),
        )
        return Decision(
            pod_id,
            pod_info,
            *fleet.name_of(row),
            row,
            found.totals.item(first) + setup.common_score,
            why,
        )

    # --- who is refused
    # ----------------------------------------------------------------------------------------------

    def _short(self) -> RowList | None:
        """Rows that the filters by row may refuse; None: any."""
        found: list[RowList] = []
        for evaluator in self._filters:
            wanted = evaluator.role.plugin.wants(evaluator.state)
            rows = None if wanted is None else self._room.short_of(wanted)
            if rows is None:
                return None
            found.append(rows)
        return found[0] if len(found) == 1 else distinct(*found)

    def _refusals(self, short: RowList) -> tuple[RowList, Codes]:
        """Rows that the filters by row are to be asked about, and what the first says that refuses."""
        rows = (
            short[self._setup.static.static_filters.refusal_codes[short] == 0]
            if len(short)
            else short
        )
        return rows, self._codes(rows)

    def _context(self, rows: RowList, codes: Codes) -> DecisionContext:
        """What the decision stands on; `codes`: why the filters by row refuse `rows`."""
        fleet = self._fleet
        closed = self._clusters.closed
        refused = count_codes(codes, fleet, rows) if len(rows) else {}
        if not self._clusters.closes:
            return self._setup.context(fleet, refused)
        nodes = list(fleet.node_counts().values())
        shut = {
            (int(closed[at]), at): nodes[at] for at in np.flatnonzero(closed).tolist() if nodes[at]
        }
        return self._setup.context(fleet, refused, shut)

    def _codes(self, rows: RowList) -> Codes:
        codes = np.zeros(len(rows), dtype=np.uint16)
        if len(rows):
            for evaluator in self._filters:
                np.copyto(codes, evaluator.codes(rows), where=codes == 0)
        return codes

    # --- who wins
    # ----------------------------------------------------------------------------------------------

    def _all(self, rows: RowList, codes: Codes) -> _Found:
        """All rows; `codes`: why the filters by row refuse `rows`, and no others."""
        n = self._fleet.n
        first = self._setup.static.static_filters.refusal_codes[:n]
        if len(rows):
            first = first.copy()
            first[rows] = codes
        return self._ask(slice(0, n), first)

    def _row_bounds(self, pod_info: PodInfo, bounds: UpperBounds, left_out: RowList) -> RowBounds:
        """Without the rows that are left out."""
        static = self._setup.static
        terms = self._terms
        points = static.upper_bounds()
        if terms is None:
            known = GroupPoints(
                np.zeros(1, dtype=np.float32), np.zeros(len(points), dtype=np.int32)
            )
        else:
            known = terms.upper_bounds()
        few = static.static_filters.few_open
        blocks = blocks_of(known, static, self._fitting.partitions) if few is None else None
        return bounds.row_bounds(points, known, least_expected(pod_info), left_out, few, blocks)

    def _best_two(self, pod_info: PodInfo, bounds: UpperBounds, refused: RowList) -> _Found | None:
        """Rows among which are the two best of all; None if too many may be. `refused`: by the
        filters by row.
        """
        loose = bounds.loose  # they may reach anything
        row_bounds = self._row_bounds(pod_info, bounds, np.concatenate([loose, refused]))
        loose = loose[np.append(refused, -1)[np.searchsorted(refused, loose)] != loose]
        most = max(_FIRST * 2, self._fleet.n // _MOST_SHARE)
        usual = bounds.usual
        bounds.usual = None
        few = row_bounds.enough(_FIRST)
        bar = few if usual is None else max(few, row_bounds.top - usual)
        rows = row_bounds.between(bar, np.inf, most)
        if rows is None:
            return None
        found = self._ask_some(np.sort(np.concatenate([rows, loose])) if len(loose) else rows)
        # If the second best is below the bar, first only down to the bar of the few: a poor second
        # is reached by most.
        for lower in (few, INFEASIBLE):
            low = max(_second(found), lower)
            if low < bar:
                rest = row_bounds.between(low, bar, most)
                if rest is None:
                    return None
                if len(rest):
                    found = self._joined(found, self._ask_some(rest))
                bar = low
        second = _second(found)
        if INFEASIBLE < second < row_bounds.top:
            bounds.usual = row_bounds.top - second
        return found

    def _ask_some(self, rows: RowList) -> _Found:
        """Some rows that the filters by row let pass."""
        return self._ask(rows, self._setup.static.static_filters.refusal_codes[rows])

    def _ask(self, rows: Rows, first: Codes) -> _Found:
        """Exact totals of some rows; `first`: who refuses these. At least one evaluator scores
        (`PrunedSearches`).
        """
        fleet = self._fleet
        terms = self._terms
        before = self._setup.points_of(self._fleet, rows)
        raw = [evaluator.scores(rows) for evaluator in self._scorers]
        weights = [evaluator.role.weight for evaluator in self._scorers]
        # With terms, the first scores are added in the same compiled pass as these: mostly there
        # are no others.
        fused = 1 if add_terms.fast is not None and terms is not None and is_plain(raw[0]) else 0
        total = before if len(raw) == fused else before.copy()
        for scores, weight in zip(raw[fused:], weights[fused:], strict=True):
            add_score(scores, weight, total)
        if fused and terms is not None:
            added = (total, raw[0], weights[0] * GRID, 1.0 / GRID)
            groups = (terms.group[rows], terms.by_name)
            total = np.empty(len(first))
            nonsense = add_terms.fast(first, *added, *groups, total)
        else:
            nonsense = not close_totals(first, total)
            total += 0.0 if terms is None else terms.by_name[terms.group[rows]]
        for evaluator, scores in zip(self._scorers if nonsense else (), raw, strict=False):
            finite(evaluator.role.plugin, scores[first == 0])
        return _Found(
            None if isinstance(rows, slice) else rows, total, raw, two_best(total, fleet.rank[rows])
        )

    def _joined(self, one: _Found, other: _Found) -> _Found:
        rows = np.concatenate([found.rows for found in (one, other) if found.rows is not None])
        order = np.argsort(rows)
        totals = np.concatenate([one.totals, other.totals])[order]
        raw = [np.concatenate(both)[order] for both in zip(one.raw, other.raw, strict=True)]
        return _Found(rows[order], totals, raw, two_best(totals, self._fleet.rank[rows[order]]))

    # --- why
    # ----------------------------------------------------------------------------------------------

    def _scores(self, found: _Found) -> Scores:
        """Of the best row and the runner-up."""
        raws = []
        normals = []
        for at in found.best:
            if at >= 0:
                row = found.row(at)
                setup = self._setup
                terms = self._terms
                group = 0 if terms is None else terms.group_of(row)
                raw = [self._raw(one, found, at, row, group) for one in setup.scored]
                normal = raw.copy()
                for place, one in enumerate(setup.scored if terms is not None else ()):
                    if isinstance(one, PluginRole) and terms is not None:
                        normal[place] = terms.normal[one.score_at].item(group)
                for place, scores, normalized in setup.common:
                    raw[place], normal[place] = scores, normalized
                raws.append(raw)
                normals.append(normal)
        return Scores(
            *self._setup.names, raws[0], normals[0], normals[1] if len(normals) > 1 else None
        )

    def _raw(
        self, one: StaticColumn | PluginRole | int, found: _Found, at: int, row: int, group: int
    ) -> float:
        if isinstance(one, int):
            return found.raw[one].item(at)
        if isinstance(one, PluginRole):
            return 0.0 if self._terms is None else self._terms.raw[one.score_at].item(group)
        return one.raw_at(row)

    def explainers(self) -> Explainers:
        """Policies by fault domain."""
        told = ((evaluator.role.explainer, evaluator.state) for evaluator in self._by_domain)
        return tuple([(plugin, state) for plugin, state in told if plugin is not None])

    def _on_nodes(self) -> list[PluginEvaluator]:
        """Those that look at nodes or clusters alone, in profile order."""
        columns = [column.evaluator for column in self._setup.static.active]
        beside = self._clusters.evaluators
        return sorted([*columns, *beside], key=lambda one: one.role.key_at) if beside else columns

    def _later(self) -> Explainers:
        active = (*self._on_nodes(), *self._evaluators)
        told = ((evaluator.role.explainer, evaluator.state) for evaluator in active)
        return tuple([(plugin, state) for plugin, state in told if plugin is not None])
