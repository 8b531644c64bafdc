"""One pod, all rows, one pass: who refuses each row, its points, the two best, the counts of why
not.

1. Refusals: what rests on nodes alone is known for all pods alike to it (`static_answers`), closed
   clusters are known by cluster, and filters by row are asked about the rows that may lack room.
2. Points by group: rows that the policies by fault domain treat alike are one group, and a hundred
   groups are scored in place of all rows (`rule_groups`). Normalising needs the feasible rows, so
   these are counted by group first.
3. The two best rows by static points, the scores of plugins by row and the points of groups.

Nothing is kept of its rows: it serves classes that are not worth keeping, or whose answers would be
stale with each of their pods. Not here: pods without a place, policies that tell no rules, and
plugins that look at the whole fleet; the pod's class decides those (`passes` says which, and what
passes have in common).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import BLOCK, two_best_of
from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator, finite, weighted
from dispatcher.scheduling.equivalence.row_explanation import RowExplanation
from dispatcher.scheduling.equivalence.rows import add_score, is_plain
from dispatcher.scheduling.equivalence.static_answers import StaticAnswers, count_codes
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.framework import SKIP, Codes, Floats, Ints, PodInfo, RoomFilter, Rows
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import window_of
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole
from dispatcher.scheduling.place_finder import PlaceFinder
from dispatcher.scheduling.placing.low_capacity import NO_ROWS, LowCapacityIndex
from dispatcher.scheduling.placing.rule_groups import GroupPoints, RuleGroups
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    Explainers,
    Scores,
    merged,
)
from shared.model.pod import PodId

_NOTHING: Mapping[tuple[int, int], int] = {}
_NO_CODES: Codes = np.zeros(0, dtype=np.uint16)


@kernel("marks wholes ints int out_ints")
def _count_rows(first, group, numbers, size, members):  # type: ignore[no-untyped-def]
    """Count the rows that nobody refuses by group, and by the number on their hosts if there are
    `numbers`.
    """
    if len(numbers):
        for row in range(len(first)):
            if first[row] == 0:
                members[group[row] + numbers[row] * size] += 1
    else:
        for row in range(len(first)):
            if first[row] == 0:
                members[group[row]] += 1


@kernel("marks floats floats float float wholes ints int floats ints", formulas=(two_best_of,))
def _two_best_rows(first, before, raw, weight, unit, group, numbers, size, points, ranks):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """The two best rows and their totals, by total, then rank, then row; -1 where there is none.

    A total is `before` and the weighted `raw` score, in whole `unit`s of points, and the points of
    the row's group. The last answer: 1 if a total is no finite number, else 0. Block by block: what
    the first loop writes is in the processor's cache for the others.
    """
    best = (-1, -np.inf, -1, -np.inf)
    nonsense = 0
    totals = np.empty(BLOCK)
    n = len(first)
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        refused = first[start : start + count]
        known = before[start : start + count]
        scores = raw[start : start + count]
        groups = group[start : start + count]
        if len(numbers):
            held = numbers[start : start + count]
            for at in range(count):
                totals[at] = points[groups[at] + held[at] * size]
        else:
            for at in range(count):
                totals[at] = points[groups[at]]
        highest = -np.inf
        for at in range(count):
            total = (known[at] + np.rint(scores[at] * weight)) * unit
            nonsense |= refused[at] == 0 and not np.isfinite(total)
            total = total + totals[at] if refused[at] == 0 else -np.inf
            totals[at] = total
            highest = max(highest, total)
        if highest >= best[3]:
            best = two_best_of(start, totals[:count], ranks, best)
    return best, nonsense


def is_compiled() -> bool:
    """Whether passes can be made yet."""
    return _two_best_rows.fast is not None


@dataclass(frozen=True)
class ClusterAnswers:
    """What the `evaluators` say that look at nothing of a node but its cluster.

    `moving`: of these and those that skip the pod, whose answers rest on more than nodes. `closed`
    [clusters]: the first that refuses its nodes, else 0; `scores`: of each that scores, [clusters +
    1] raw ones, the last for rows without a cluster.
    """

    moving: Sequence[PluginEvaluator]
    evaluators: Sequence[PluginEvaluator]
    closed: Codes
    scores: Sequence[tuple[PluginEvaluator, Floats]]

    @cached_property
    def closes(self) -> bool:
        """Whether any cluster is closed."""
        return bool(self.closed.any())

    @classmethod
    def ask(cls, fleet: FleetState, asked: Sequence[PluginEvaluator]) -> "ClusterAnswers":
        """Ask about one node of each cluster; those that are `asked` are in profile order, and
        their PreFilter has answered.
        """
        evaluators = [one for one in asked if not one.skipped]
        every = fleet.row_of_each_cluster()
        known = np.flatnonzero(every >= 0)
        rows = every[known]
        closed = np.zeros(len(fleet.clusters), dtype=np.uint16)
        told = list[tuple[PluginEvaluator, Floats]]()
        for one in evaluators:
            if one.role.filter_at is not None:
                closed[known] = np.where(closed[known] == 0, one.codes(rows), closed[known])
            if one.role.score_at is not None:
                scores = np.zeros(len(closed) + 1)
                scores[known] = one.finite_scores(rows)
                told.append((one, scores))
        for one in asked:
            one.record_dependencies()
        moving = [one for one in asked if one.rests_on_more]
        return cls(moving, evaluators, closed, told)


class Lineup:
    """Who decides pods that are alike to plugins in all but what they request: `static` answers of
    nodes, those of `clusters`, and who is asked `beside` these: `filters` and `scorers` by row, and
    `policies` by fault domain.

    Who scores stands in profile order in `names`; by their places there are known: `of_columns` the
    column, `of_groups` the score_at of those whose scores are by group, `of_rows` the place in the
    `scorers`. `common_points`: of columns that give all rows the same, `common` (place, raw,
    normalised) the scores behind it; `columns`: those that normalise and tell rows apart.
    """

    def __init__(
        self,
        profile: str,
        fleet: FleetState,
        static: StaticAnswers,
        clusters: ClusterAnswers,
        beside: Sequence[PluginEvaluator],
    ) -> None:
        self.static = static
        self.clusters = clusters
        self.beside = beside
        # what it was made of: a node that changed may have brought other values of a column
        self.made_of = static.version, fleet.changes.position
        self._profile = profile
        by_row = [one for one in beside if one.role.scope is AnswerScope.ROW]
        by_row.sort(key=lambda one: one.role.key_at)
        self.filters = [one for one in by_row if one.role.filter_at is not None]
        self.scorers = [one for one in by_row if one.role.score_at is not None]
        self.policies = [one for one in beside if one.role.scope is AnswerScope.DOMAIN]
        by_node = [*[column.evaluator for column in static.active], *clusters.evaluators]
        nodes = sorted(by_node, key=lambda one: one.role.key_at)
        self.active = (*nodes, *by_row, *self.policies)
        # who explains the row at any time, and who has to at once
        self.later = [one for one in (*nodes, *by_row) if one.role.explainer]
        self.at_once = [one for one in self.policies if one.role.explainer]
        columns = [one for one in static.active if one.role.score_at is not None]
        self.columns = [one for one in columns if one.role.normalizes and len(one.values) > 1]
        scored: list[tuple[PluginRole, StaticColumn | PluginRole | int]] = [
            (one.role, one.role if one in self.columns else one) for one in columns
        ]
        scored += [(one.role, at) for at, one in enumerate(self.scorers)]
        by_group = [one.role for one in (*clusters.evaluators, *self.policies)]
        scored += [(role, role) for role in by_group if role.score_at is not None]
        scored.sort(key=lambda one: one[0].score_at or 0)
        self.of_columns = list[tuple[int, StaticColumn]]()
        self.of_groups = list[tuple[int, int | None]]()
        self.of_rows = list[tuple[int, int]]()
        self.names = (
            tuple(role.name for role, _ in scored),
            tuple(role.weight for role, _ in scored),
        )
        self.common_points = 0.0
        self.common = list[tuple[int, float, float]]()
        for place, (_, one) in enumerate(scored):
            if isinstance(one, int):
                self.of_rows.append((place, one))
            elif isinstance(one, PluginRole):
                self.of_groups.append((place, one.score_at))
            elif not one.role.normalizes:
                self.of_columns.append((place, one))
            else:
                raw = np.asarray(one.values or [0.0]) + 0.0
                normal = one.evaluator.normalize(raw.copy())
                self.common.append((place, raw.item(0), normal.item(0)))
                self.common_points += weighted(normal, one.role.weight).item(0)
        self._context: DecisionContext | None = None
        self._clusters = 0

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


@dataclass(slots=True)
class _Row:
    """A row with its total, and `raw`, what each evaluator by row scored it."""

    row: int
    total: float
    raw: Sequence[float]


class OnePass(PlaceFinder):
    """The pass for one pod, by `groups` of rows by the rules of its policies. `found_place` is
    called when it has found one.
    """

    def __init__(
        self,
        fleet: FleetState,
        lineup: Lineup,
        room: LowCapacityIndex,
        groups: RuleGroups,
        found_place: Callable[[], None],
    ) -> None:
        self._fleet = fleet
        self._lineup = lineup
        self._room = room
        self._clusters = lineup.clusters
        self._groups = groups
        self._refused: RowList = NO_ROWS  # rows that filters by row refuse
        self._found_place = found_place

    def answer_of(self, plugin: str) -> object:
        """What a plugin answered in PreFilter; SKIP if it was not asked."""
        active = self._lineup.active
        return next((one.state for one in active if one.role.name == plugin), SKIP)

    def select(self, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        """The place for the pod and why; None if there is none, or a plugin fails: the class
        decides, and says so.
        """
        try:
            first = self._refusals()
            numbers = self._groups.numbers()
            points = None if numbers is None else self._group_points(first, numbers)
            if points is None or numbers is None:
                return None
            found = self._two_best(first, numbers, points)
            if not found:
                return None
            return self._decision(pod_id, pod_info, first, numbers, points, found)
        except PluginError:
            return None

    # --- 1. who is refused
    # ----------------------------------------------------------------------------------------------

    def _refusals(self) -> Codes:
        """[n] why each row is refused, closed clusters apart."""
        n = self._fleet.n
        static = first = self._lineup.static.static_filters.refusal_codes[:n]
        for one in self._lineup.filters:
            rows = self._may_refuse(one)
            if not len(rows):
                continue
            rows = rows[first[rows] == 0]
            codes = one.codes(rows) if len(rows) else _NO_CODES
            if np.count_nonzero(codes):
                first = first.copy() if first is static else first
                first[rows] = codes
                self._refused = np.flatnonzero(first != static)
        return first

    def _may_refuse(self, one: PluginEvaluator) -> RowList:
        plugin = one.role.plugin
        wanted = plugin.wants(one.state) if isinstance(plugin, RoomFilter) else None
        rows = None if wanted is None else self._room.short_of(wanted)
        return np.arange(self._fleet.n) if rows is None else rows

    # --- 2. points by group
    # ----------------------------------------------------------------------------------------------

    def _group_points(self, first: Codes, numbers: Ints) -> GroupPoints | None:
        """None where a policy's scores are no finite numbers."""
        groups = self._groups
        clusters = self._clusters
        members = np.zeros(groups.groups, dtype=np.int64)
        _count_rows.fast(first, groups.group, numbers, groups.size, members)
        if clusters.closes:
            closed = np.append(clusters.closed, np.uint16(0))
            members[closed[groups.clusters] != 0] = 0
        found = groups.points(members, self._fleet.n)
        if found is not None:
            for one, scores in clusters.scores:
                found.add(one, scores[groups.clusters])
        return found

    # --- 3. who wins
    # ----------------------------------------------------------------------------------------------

    def _two_best(self, first: Codes, numbers: Ints, points: GroupPoints) -> list[_Row]:
        lineup = self._lineup
        groups = self._groups
        fleet = self._fleet
        few = lineup.static.static_filters.few_open
        where: Rows = slice(0, fleet.n) if few is None else window_of(few)
        before = lineup.static.points()[where]
        scorers = lineup.scorers
        raws = [one.scores(where) for one in scorers]
        if not is_plain(raws[0]):
            raws[0] = np.ascontiguousarray(raws[0], dtype=np.float64)
        if len(raws) > 1:
            before = before.copy()
            for one, raw in zip(scorers[1:], raws[1:], strict=True):
                add_score(raw, one.role.weight, before)
        (best, total, second, second_total), nonsense = _two_best_rows.fast(
            first[where],
            before,
            raws[0],
            scorers[0].role.weight * GRID,
            1.0 / GRID,
            groups.group[where],
            numbers[where] if len(numbers) else numbers,
            groups.size,
            points.points,
            fleet.rank[where],
        )
        if nonsense:
            for one, raw in zip(scorers, raws, strict=True):
                finite(one.role.plugin, raw[first[where] == 0])
        rows = range(fleet.n)[where] if isinstance(where, slice) else where
        return [
            _Row(int(rows[at]), points + lineup.common_points, [raw.item(at) for raw in raws])
            for at, points in ((best, total), (second, second_total))
            if at >= 0
        ]

    # --- why
    # ----------------------------------------------------------------------------------------------

    def _decision(
        self,
        pod_id: PodId,
        pod_info: PodInfo,
        first: Codes,
        numbers: Ints,
        points: GroupPoints,
        found: Sequence[_Row],
    ) -> Decision:
        fleet = self._fleet
        self._found_place()
        scores = [self._scores(one, numbers, points) for one in found]
        best = found[0]
        rival = found[1] if len(found) > 1 else None
        why = RowExplanation(
            self._context(first, points),
            fleet.now,
            fleet,
            _explainers(self._lineup.later),
            Scores(
                *self._lineup.names,
                *scores[0],
                None if rival is None else scores[1][1],
            ),
            RowFacts.of(fleet, best.row),
            None if rival is None else (*fleet.name_of(rival.row), rival.total),
        )
        return Decision(pod_id, pod_info, *fleet.name_of(best.row), best.row, best.total, why)

    def _context(self, first: Codes, points: GroupPoints) -> DecisionContext:
        fleet = self._fleet
        refused = points.refused_rows(self._groups.clusters)
        rows = self._refused
        if len(rows):
            refused = merged(count_codes(first[rows], fleet, rows), refused)
        clusters = self._clusters
        if not clusters.closes:
            return self._lineup.context(fleet, refused)
        nodes = list(fleet.node_counts().values())
        closed = clusters.closed
        shut = {
            (int(closed[at]), at): nodes[at] for at in np.flatnonzero(closed).tolist() if nodes[at]
        }
        return self._lineup.context(fleet, refused, shut)

    def _scores(
        self, one: _Row, numbers: Ints, points: GroupPoints
    ) -> tuple[list[float], list[float]]:
        """Raw and normalised, in the order of `Lineup.names`."""
        group = self._groups.group.item(one.row)
        if len(numbers):
            group += numbers.item(one.row) * self._groups.size
        lineup = self._lineup
        raw = [0.0] * len(lineup.names[0])
        for place, at in lineup.of_rows:
            raw[place] = one.raw[at]
        for place, column in lineup.of_columns:
            raw[place] = column.raw_at(one.row)
        normal = raw.copy()
        for place, score_at in lineup.of_groups:
            raw[place] = points.raw[score_at].item(group)
            normal[place] = points.normal[score_at].item(group)
        for place, score, scaled in lineup.common:
            raw[place], normal[place] = score, scaled
        return raw, normal

    def explainers(self) -> Explainers:
        """Policies by fault domain."""
        return _explainers(self._lineup.at_once)


def _explainers(explaining: Sequence[PluginEvaluator]) -> Explainers:
    return tuple([(one.role.plugin, one.state) for one in explaining])
