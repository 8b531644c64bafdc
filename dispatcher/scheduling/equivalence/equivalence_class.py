"""An equivalence class: what every plugin answers for every row, refreshed where something changed.

All pods with the same class key (`Plan.class_key`: what the plugins look at in a pod), extended by
`Plan.fleet_key` (what placed pods and objects add right now), share one class. Without it each pod
would cost one call of every plugin for all rows. Its answers come in layers, so that one placement
touches one row and a few domains: columns shared with other classes (`static_answers`), the score
of each row (`rows`), and what domains add to it (`groups`) or the whole fleet does
(`fleet_scoped`).

Whatever changes in the fleet is written in two logs of rows: `fleet.changes`, of rows whose node
changed, and `fleet.loads`, of rows whose pods or readings changed. A class that is used again
re-evaluates the rows in them, and those plugins whose `depends` says that more is stale:

    STATIC  rows whose node changed
    NODE    and rows whose pods or readings changed
    DOMAIN  the answers by domain, when a count the plugin asked for has changed (any touched row, if it asked for none)
    FLEET   everything, when any row was touched
    a plugin that read the clock: everything, when the clock has moved

PreFilter is asked again whenever a node changed or the plugin is stale. Refusals of plugins that
look further than one row are reported after those of all others. Batches (`batch`) and classes not
worth keeping (`placing`) are not here.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dispatcher.scheduling.equivalence.best_rows import RowScore
from dispatcher.scheduling.equivalence.class_rows import ClassRows
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.equivalence.fleet_scoped import FleetScopedTable, LastAsked
from dispatcher.scheduling.equivalence.group_scores import GroupScores
from dispatcher.scheduling.equivalence.groups import GroupTable
from dispatcher.scheduling.equivalence.partitions import Partitions
from dispatcher.scheduling.equivalence.row_explanation import RowExplanation
from dispatcher.scheduling.equivalence.static_answers import StaticAnswersCache
from dispatcher.scheduling.equivalence.static_columns import (
    BroughtColumn,
    ClusterColumn,
    StaticColumn,
)
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.framework import SKIP, Depends, Floats, PodInfo
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import Plan, guarded
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole
from dispatcher.scheduling.place_finder import NoPlace, PlaceFinder
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    Explainers,
    Scores,
    merged,
)
from shared.model.pod import Needs, PodId
from shared.model.reasons import Why

_NEVER = -1
ScoresByPlace = dict[int, list[float]]  # score_at -> the score of each row asked for
_ROW_ALONE = (Depends.STATIC, Depends.NODE)


class EquivalenceClass(PlaceFinder):
    """The answers for the class named `key` over all rows of the fleet. Raises PluginError where a
    plugin fails.
    """

    def __init__(
        self,
        plan: Plan,
        roles: Sequence[PluginRole],
        fleet: FleetState,
        shared: StaticAnswersCache,
        key: ClassKey,
        rows: ClassRows,
    ) -> None:
        self.plan = plan
        self.fleet = fleet
        self._shared = shared
        self.rows = rows
        self.refusal: Why | None = None
        self._static = shared.part(key)
        by_row = {one.role: one for one in rows.plugins.evaluators}
        self.asked = key.asked
        roles = [role for role in roles if role.key_at in key.asked.at]
        mine = [role for role in roles if role.scope is not AnswerScope.NODE_OBJECT]
        self.brought = [
            BroughtColumn(role, fleet)
            for role in roles
            if role.key_at in key.brought and role.score_at is not None
        ]
        self.evaluators = [by_row.get(role) or PluginEvaluator(role, fleet) for role in mine]
        # plugins that can explain a decision later, from the row as it was
        self.row_explainers: Explainers = ()
        self.fleet_explainers: Explainers = ()  # and those that look further and must do so at once
        self.scored: list[
            StaticColumn | PluginEvaluator
        ] = []  # that score this class, in profile order
        self._names: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        self._beyond_row: list[PluginEvaluator] = []
        self.group_scores: GroupScores | None = None
        self.groups: GroupTable | None = None
        self._fleet_scoped: FleetScopedTable | None = None
        self.last_asked = LastAsked()  # of all classes of a cache
        self.said = 0  # bytes of what those of its pods say of which that is most
        # up to which change of nodes there were too many groups; -1: there are groups
        self._ungrouped_at = -1
        self._context: DecisionContext | None = None
        # part of the key of NamespaceOpen, so all pods of the class have the same
        self._needs: Needs | None = None
        self._loads_at = self._changes_at = _NEVER
        self._active: tuple[object, ...] = ()

    # --- catching up
    # ----------------------------------------------------------------------------------------------

    def refresh(self, pod_info: PodInfo) -> None:
        """Bring every answer up to date with the fleet; `pod_info` is any pod of the class."""
        self._needs = pod_info.pod.needs
        fleet = self.fleet
        part = self._static
        changed, touched = self._since()
        nodes_changed = changed is None or len(changed) > 0
        rows_touched = touched is None or len(touched) > 0
        stale = [
            one
            for one in self.evaluators
            if one.is_stale(changed=nodes_changed, touched=rows_touched)
        ]
        current = part.current and self.rows.current and not stale
        if current and not nodes_changed and not rows_touched and self._active[0] == part.version:
            return
        self._changes_at = self._loads_at = _NEVER  # if somebody fails, all is due
        self._context = None
        self.refusal = self._pre_filter(pod_info, self.evaluators if nodes_changed else stale)
        if self.refusal is not None:
            return
        by_row = [one.role.scope is AnswerScope.ROW for one in stale]
        self.rows.plugins.version += any(by_row)
        anew = self._select_active() or changed is None
        rows, flipped = self.rows.refresh()
        beyond_row = anew or rows is None or nodes_changed or self._table is None or not all(by_row)
        self._answer(pod_info, flipped=flipped or anew or rows is None, beyond_row=beyond_row)
        for one in self.evaluators:
            one.record_dependencies()
        if beyond_row:
            self._collect_explainers()
        self._changes_at = fleet.changes.position
        self._loads_at = fleet.loads.position

    def _since(self) -> tuple[RowList | None, RowList | None]:
        if self._loads_at == _NEVER:
            return None, None
        changed = self.fleet.changes.since(self._changes_at)
        touched = self.fleet.loads.since(self._loads_at)
        return (None, None) if changed is None or touched is None else (changed, touched)

    def _pre_filter(self, pod_info: PodInfo, due: Sequence[PluginEvaluator]) -> Why | None:
        refused = None if self._static.current else self._static.refresh(pod_info)
        for evaluator in due:
            if refused is None:
                refused = evaluator.pre_filter(pod_info)
        return refused

    def assume_first_placed(self, skipped: Sequence[PluginEvaluator], pod_info: PodInfo) -> bool:
        """Activate plugins that skip the class until one of its pods is placed, with the state that
        they will have then; False if one of them cannot tell it.

        For the merge of a batch alone: unless it books its pods, `discard_assumed` has to follow,
        also after False.
        """
        if not all(one.assume_first_placed(pod_info) for one in skipped):
            return False
        self._select_active()
        self._collect_explainers()
        self._context = None
        return True

    def discard_assumed(self, skipped: Sequence[PluginEvaluator]) -> None:
        """No pod was placed: the next refresh runs PreFilter of these again."""
        for one in skipped:
            one.known = False

    def _select_active(self) -> bool:
        """Sort the plugins that are not skipped; True if all rows are due for it: others evaluate
        rows now.
        """
        part = self._static
        evaluators = [one for one in self.evaluators if not one.skipped]
        row_scoped = [one for one in evaluators if one.role.scope is AnswerScope.ROW]
        active = (part.version, evaluators, row_scoped)
        if active == self._active:
            return False
        others = self._active[:1] + self._active[2:] != (part.version, row_scoped)
        self._active = active
        self._beyond_row = []
        if len(row_scoped) < len(evaluators):
            self._beyond_row = [one for one in evaluators if one.role.scope is not AnswerScope.ROW]
        everybody: list[StaticColumn | PluginEvaluator] = [*part.active, *evaluators]
        scored = [
            *(one for one in everybody if one.role.score_at is not None),
            *self.brought,
        ]
        self.scored = sorted(scored, key=_score_at)
        self._names = (
            tuple([one.role.name for one in self.scored]),
            tuple([one.role.weight for one in self.scored]),
        )
        if others:
            self._use_rows(everybody, row_scoped)
        self.groups = self._fleet_scoped = self.group_scores = None
        return others

    def _use_rows(
        self,
        everybody: Sequence[StaticColumn | PluginEvaluator],
        row_scoped: Sequence[PluginEvaluator],
    ) -> None:
        part = self._static
        filters = [
            one
            for one in everybody
            if one.role.filter_at is not None and one not in part.static_filters.columns
        ]
        filters = sorted([one for one in filters if one not in self._beyond_row], key=_filter_at)
        points = [
            one for one in part.active if one.role.score_at is not None and not one.role.normalizes
        ]
        self.rows.use(
            part.static_filters,
            filters,
            points,
            [one for one in row_scoped if one.role.score_at is not None],
        )

    def _answer(self, pod_info: PodInfo, *, flipped: bool, beyond_row: bool) -> None:
        if beyond_row:
            self.group_scores = self._group_scores()
            if self.group_scores is None:
                self.groups = None
                inputs = self._static.normalizing, self._beyond_row, self.last_asked
                self._fleet_scoped = FleetScopedTable(self.fleet, self.rows, *inputs)
            elif (
                self.groups is None
                or self.groups.group_scores is not self.group_scores
                or self.groups.partition is not self.group_scores.partition
            ):
                self._fleet_scoped = None
                self.groups = GroupTable(self.fleet, self.rows, self.group_scores)
        if self.groups is None:
            if self._fleet_scoped is not None:
                self._fleet_scoped.due(pod_info)
                if any(one.role.scope is not AnswerScope.DOMAIN for one in self._beyond_row):
                    # now: what PreScore answers is asked for beside the scores (`answer_of`)
                    self._fleet_scoped.ask()
        else:
            self.groups.update(flipped=flipped)

    def _group_scores(self) -> GroupScores | None:
        """What domains say; None if not all of that is by domain, or if there is nearly a domain a
        row.
        """
        if not self._beyond_row:
            return self._static.group_scores
        if any(evaluator.role.scope is not AnswerScope.DOMAIN for evaluator in self._beyond_row):
            return None
        if self._ungrouped_at == self.fleet.changes.position:
            return None
        group_scores = self.group_scores or GroupScores(
            self._static.normalizing, self._beyond_row, self._shared.partitions
        )
        grouped = group_scores.ask()
        self._ungrouped_at = -1 if grouped else self.fleet.changes.position
        return group_scores if grouped else None

    def _collect_explainers(self) -> None:
        active = (
            *(column.evaluator for column in self._static.active),
            *(one for one in self.evaluators if not one.skipped),
        )
        self.row_explainers = _explainers(active, by_row=True)
        self.fleet_explainers = _explainers(self._beyond_row, by_row=False)

    @property
    def beyond_row(self) -> Sequence[PluginEvaluator]:
        """Those with something to say that look further than one row."""
        return self._beyond_row

    @property
    def normalizing(self) -> Sequence[StaticColumn]:
        """Shared columns whose scores mean something only beside those of other rows."""
        return self._static.normalizing

    def brought_by(self, pod_info: PodInfo) -> list[ClusterColumn] | None:
        """What a pod of the class says itself of clusters, in the order of `brought`; None if a
        plugin refuses it or skips it.
        """
        found = list[ClusterColumn]()
        for one in self.brought:
            plugin = one.role.plugin
            column = self._shared.column(one.role, guarded(plugin, plugin.class_key, pod_info))
            if not isinstance(column, ClusterColumn) or column.refresh(pod_info, self.fleet):
                return None
            if column.evaluator.skipped:
                return None
            found.append(column)
        return found

    @property
    def partitions(self) -> Partitions:
        """Rows by fault domains, kept for all classes."""
        return self._shared.partitions

    # --- answers
    # ----------------------------------------------------------------------------------------------

    @property
    def _table(self) -> GroupTable | FleetScopedTable | None:
        """What knows the best rows; None until the first refresh."""
        return self.groups or self._fleet_scoped

    def prepare(self, pod_info: PodInfo) -> Why | None:
        """Bring every answer up to date; the reason if a plugin refuses the pods of the class as a
        whole.
        """
        self.refresh(pod_info)
        return self.refusal

    def select(self, pod_id: PodId, pod_info: PodInfo) -> Decision | NoPlace:
        """The place for a pod of the class and why, or that no node is feasible."""
        table = self._table
        found = table.best() if table else None
        if found is None:
            return NoPlace(self.context(), self.rows.refusal_codes[: self.fleet.n])
        return self._decision(pod_id, pod_info, *found)

    def select_on(self, row: int, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        """Decide for `row`, with scores normalised over all feasible rows; None if `row` is not
        feasible.
        """
        table = self._table
        row_score = table.at(row) if table else None
        return None if row_score is None else self._decision(pod_id, pod_info, row_score, None)

    def answer_of(self, plugin: str) -> object:
        """What a plugin answered in PreFilter, or in PreScore after it; SKIP if it was not asked."""
        for evaluator in (*(column.evaluator for column in self._static.active), *self.evaluators):
            if evaluator.role.name == plugin:
                return evaluator.prepared if evaluator.role.pre_scores else evaluator.state
        return SKIP

    def _decision(
        self, pod_id: PodId, pod_info: PodInfo, first: RowScore, second: RowScore | None
    ) -> Decision:
        table = self._table
        if table is None:
            raise LookupError("the class has not been refreshed")
        fleet = self.fleet
        rows = [first.row] if second is None else [first.row, second.row]
        why = RowExplanation(
            self.context(),
            fleet.now,
            fleet,
            self.row_explainers,
            self._scores(rows, *table.scores_at(rows)),
            RowFacts.of(fleet, first.row),
            None if second is None else (*fleet.name_of(second.row), second.score),
        )
        return Decision(pod_id, pod_info, *fleet.name_of(first.row), first.row, first.score, why)

    def _scores(self, rows: Sequence[int], raw: ScoresByPlace, normal: ScoresByPlace) -> Scores:
        """The scores of a row and perhaps its rival: `raw` and `normal` where they are known, the
        rest asked for.
        """
        values = []
        normals = []
        for one in self.scored:
            at = -1 if one.role.score_at is None else one.role.score_at
            found = raw[at] if at in raw else self._raw_at(one, rows)
            values.append(found)
            normals.append(normal.get(at, found))
        rival = [found[1] for found in normals] if len(rows) > 1 else None
        return Scores(
            *self._names, [found[0] for found in values], [found[0] for found in normals], rival
        )

    def _raw_at(self, one: StaticColumn | PluginEvaluator, rows: Sequence[int]) -> list[float]:
        if isinstance(one, StaticColumn):
            return [one.raw_at(row) for row in rows]
        known = self.rows.last_scores.get(one.role.score_at)
        if known is not None:
            return [known.item(row) for row in rows]
        asked = np.asarray(sorted(rows), dtype=np.intp)
        found: list[float] = self._ask(one, asked).tolist()
        return found if rows[0] == asked[0] else found[::-1]

    def _ask(self, one: StaticColumn | PluginEvaluator, rows: RowList) -> Floats:
        return one.raw_of(rows) if isinstance(one, StaticColumn) else one.scores(rows)

    def raw_of(self, rows: RowList, *, refreshed: bool = False) -> Floats:
        """[scores, rows] what the plugins that look at one row each say of feasible rows,
        ascending; else 0.

        `refreshed`: the fleet is as at the last refresh, so that what was asked there need not be
        asked again.
        """
        raw = np.zeros((len(self.scored), len(rows)))
        known = self.rows.last_scores if refreshed else {}
        for at, one in enumerate(self.scored):
            if len(rows) and one.role.scope in (AnswerScope.NODE_OBJECT, AnswerScope.ROW):
                of_all = known.get(one.role.score_at)
                raw[at] = self._ask(one, rows) if of_all is None else of_all[rows]
        return raw

    def booked(self, row: int) -> None:
        """The pod of the last decision was booked on its row."""
        self.rows.forget_scores()

    def context(self) -> DecisionContext:
        """What a decision taken now stands on."""
        if self._context is None:
            table = self._table
            rows = self.rows
            refused = table.refused() if table else {}
            self._context = self.context_of(
                merged(rows.rejected, refused), rows.feasible - sum(refused.values())
            )
        return self._context

    def context_of(self, rejected: Mapping[tuple[int, int], int], feasible: int) -> DecisionContext:
        """The same for given counts."""
        names = tuple(info.name for info in self.fleet.clusters)
        profile = self.plan.profile
        reasons = self.fleet.reasons
        return DecisionContext(
            profile, reasons, names, rejected, feasible, self.rows.evaluated, self._needs
        )

    def explainers(self) -> Explainers:
        """See `PlaceFinder`."""
        return self.fleet_explainers


def _explainers(some: Iterable[PluginEvaluator], *, by_row: bool) -> Explainers:
    return tuple(
        [
            (one.role.explainer, one.state)
            for one in some
            if one.role.explainer and (one.role.plugin.depends in _ROW_ALONE) is by_row
        ]
    )


def _score_at(one: StaticColumn | PluginEvaluator) -> int:
    return -1 if one.role.score_at is None else one.role.score_at


def _filter_at(one: StaticColumn | PluginEvaluator) -> int:
    return -1 if one.role.filter_at is None else one.role.filter_at
