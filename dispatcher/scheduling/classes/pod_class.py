"""A pod class: what every plugin answers for every row, brought up to date where something changed.

All pods whose plugins look at equal things share one of these. Its answers come in layers: columns shared with other
classes (plugins that look at nodes alone), the points of each row, and what domains or the whole fleet add to them.
Whatever changes in the fleet is written in journals; a class that is used again looks at the rows in them, and at the
plugins whose `depends` says that more is stale:

    STATIC  rows whose node changed
    NODE    and rows whose pods or readings changed
    DOMAIN  the answers by domain, when a count the plugin asked for has changed (any touched row, if it asked for none)
    FLEET   everything, when any row was touched
    a plugin that read the clock: everything, when the clock has moved

PreFilter is asked again whenever a node changed or the plugin is stale. What plugins that look further than one row
refuse is told after what the others do.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dispatcher.model.reasons import Why
from dispatcher.scheduling.classes.groups import Bonus, GroupTable
from dispatcher.scheduling.classes.judges import Judge
from dispatcher.scheduling.classes.partitions import Partitions
from dispatcher.scheduling.classes.peaks import Peak
from dispatcher.scheduling.classes.rows import Passes, RowTable
from dispatcher.scheduling.classes.shared_answers import SharedColumn
from dispatcher.scheduling.classes.shared_part import SharedAnswers
from dispatcher.scheduling.classes.wide import WideTable
from dispatcher.scheduling.explain import Account, Decision, Ground, Notes, Scores
from dispatcher.scheduling.fleet.columns import RowList, distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.framework import SKIP, Depends, Floats, Placed
from dispatcher.scheduling.framework.points import ClassKey, Plan
from dispatcher.scheduling.framework.roles import Reach, Role

_NEVER = -1
Common = dict[int, list[float]]  # score_at -> the score of each row asked for
_ROW_ALONE = (Depends.STATIC, Depends.NODE)


class PodClass:
    """The answers for the class named `key` over all rows of the fleet. Raises PluginError where a plugin fails."""

    def __init__(
        self,
        plan: Plan,
        roles: Sequence[Role],
        fleet: FleetState,
        shared: SharedAnswers,
        passes: Passes | None = None,
    ) -> None:
        self.plan, self.fleet, self._shared = plan, fleet, shared
        self._roles = [role for role in roles if role.reach is not Reach.SHARED]
        self.rows = RowTable(fleet, passes)

    def begin(self, key: ClassKey) -> None:
        """Become the class of that key, perhaps with the memory of another one."""
        self.refusal: Why | None = None
        self._part = self._shared.part(key)
        self.judges = [Judge(role) for role in self._roles]
        self.later: Notes = ()  # plugins that can explain a decision later, from the row as it was
        self.at_once: Notes = ()  # and those that look further and must do so at once
        self.scored: list[SharedColumn | Judge] = []  # that score this class, in profile order
        self._names: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        self._far: list[Judge] = []
        self.bonus: Bonus | None = None
        self.groups: GroupTable | None = None
        self._wide: WideTable | None = None
        self._ground: Ground | None = None
        self._loads_at = self._changes_at = _NEVER
        self._heard: tuple[object, ...] = ()

    # --- catching up -------------------------------------------------------------------------------------------------

    def catch_up(self, placed: Placed) -> None:
        """Bring every answer up to date with the fleet; `placed` is any pod of the class."""
        fleet, part = self.fleet, self._part
        changed, touched = self._since()
        moved, loaded = changed is None or len(changed) > 0, touched is None or len(touched) > 0
        stale = [one for one in self.judges if one.is_stale(fleet, changed=moved, touched=loaded)]
        if not (moved or loaded or stale) and part.current and self._heard[0] == part.epoch:
            return
        self._changes_at = self._loads_at = _NEVER  # if somebody fails, all is due
        self._ground = None
        self.refusal = self._pre_filter(placed, self.judges if moved else stale)
        if self.refusal is not None:
            return
        anew = self._hear() or changed is None or any(one.role.reach is Reach.ROW for one in stale)
        rows = None if anew or changed is None or touched is None else distinct(changed, touched)
        far = anew or moved or any(one.role.reach is not Reach.ROW for one in stale)
        self._answer(placed, rows, nodes_changed=moved, far=far)
        for one in self.judges:
            one.note(fleet)
        if far:
            self._sort_notes()
        self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position

    def _since(self) -> tuple[RowList | None, RowList | None]:
        if self._loads_at == _NEVER:
            return None, None
        changed, touched = self.fleet.changes.since(self._changes_at), self.fleet.loads.since(self._loads_at)
        return (None, None) if changed is None or touched is None else (changed, touched)

    def _pre_filter(self, placed: Placed, due: Sequence[Judge]) -> Why | None:
        refused = None if self._part.current else self._part.catch_up(placed)
        for judge in due:
            if refused is None:
                refused = judge.pre_filter(placed, self.fleet)
        return refused

    def _hear(self) -> bool:
        """Sort those who have something to say; True if all rows are due for it."""
        part = self._part
        judges = [one for one in self.judges if not one.silent]
        heard = (part.epoch, judges)
        if heard == self._heard:
            return False
        self._heard = heard
        near, self._far = [one for one in judges if one.role.reach is Reach.ROW], []
        if len(near) < len(judges):
            self._far = [one for one in judges if one.role.reach is not Reach.ROW]
        everybody: list[SharedColumn | Judge] = [*part.heard, *judges]
        scored = [one for one in everybody if one.role.score_at is not None]
        self.scored = sorted(scored, key=_score_at)
        self._names = tuple([one.role.name for one in self.scored]), tuple([one.role.weight for one in self.scored])
        filters = [one for one in everybody if one.role.filter_at is not None and one not in part.joint.columns]
        filters = sorted([one for one in filters if one not in self._far], key=_filter_at)
        points = [one for one in part.heard if one.role.score_at is not None and not one.role.normalizes]
        self.rows.hear(part.joint, filters, points, [one for one in near if one.role.score_at is not None])
        self.groups = self._wide = self.bonus = None
        return True

    def _answer(self, placed: Placed, rows: RowList | None, *, nodes_changed: bool, far: bool) -> None:
        moved = self.rows.update(rows, placed, nodes_changed=nodes_changed)
        if far:
            partition = self.bonus.partition if self.bonus else None
            self.bonus = self._bonus()
            if self.bonus is None:
                self.groups = None
                self._wide = WideTable(self.fleet, self.rows, self._part.normalizing, self._far)
            elif self.groups is None or self.groups.bonus is not self.bonus or self.bonus.partition is not partition:
                self._wide, rows = None, None
                self.groups = GroupTable(self.fleet, self.rows, self.bonus)
        if self.groups is None:
            if self._wide is not None:
                self._wide.due(placed)
                if any(one.role.reach is not Reach.PARTS for one in self._far):
                    self._wide.ask()  # what they look at in doing so is part of what their answers rest on
        elif rows is None or moved is None:
            self.groups.begin()
        else:
            self.groups.update(rows, moved)

    def _bonus(self) -> Bonus | None:
        """What domains say; None if not all of that is by domain, or if there is nearly a domain a row."""
        if not self._far:
            return self._part.bonus
        if any(judge.role.reach is not Reach.PARTS for judge in self._far):
            return None
        bonus = self.bonus or Bonus(self._part.normalizing, self._far, self._shared.partitions)
        return bonus if bonus.ask(self.fleet) else None

    def _sort_notes(self) -> None:
        heard = (*(column.judge for column in self._part.heard), *(one for one in self.judges if not one.silent))
        notes = [(one.role.explainer, one.role.plugin.depends, one.state) for one in heard if one.role.explainer]
        self.later = tuple([(plugin, state) for plugin, depends, state in notes if plugin and depends in _ROW_ALONE])
        self.sort_far_notes()

    def sort_far_notes(self) -> None:
        """Who looks further than a row and can explain a decision, with what they know now."""
        told = [(one.role.explainer, one.state, one.role.plugin.depends) for one in self._far if one.role.explainer]
        self.at_once = tuple(
            [(plugin, state) for plugin, state, depends in told if plugin and depends not in _ROW_ALONE]
        )

    @property
    def far(self) -> Sequence[Judge]:
        """Those with something to say that look further than one row."""
        return self._far

    @property
    def normalizing(self) -> Sequence[SharedColumn]:
        """Shared columns whose scores mean something only beside those of other rows."""
        return self._part.normalizing

    @property
    def partitions(self) -> Partitions:
        """Rows by fault domains, kept for all classes."""
        return self._shared.partitions

    # --- answers -----------------------------------------------------------------------------------------------------

    def decide(self, pod_id: PodId, placed: Placed) -> Decision | None:
        """The place for a pod of the class and why; None if no node is feasible."""
        table = self.groups or self._wide
        found = table.best() if table else None
        return None if found is None else self._decision(pod_id, placed, *found)

    def decide_on(self, row: int, pod_id: PodId, placed: Placed) -> Decision | None:
        """The same as if `row` were the only node."""
        table = self.groups or self._wide
        peak = table.at(row) if table else None
        return None if peak is None else self._decision(pod_id, placed, peak, None)

    def answer_of(self, plugin: str) -> object:
        """What a plugin answered in PreFilter, or in PreScore after it; SKIP if it was not asked."""
        for judge in (*(column.judge for column in self._part.heard), *self.judges):
            if judge.role.name == plugin:
                return judge.prepared if judge.pre_scores else judge.state
        return SKIP

    def _decision(self, pod_id: PodId, placed: Placed, first: Peak, second: Peak | None) -> Decision:
        table = self.groups or self._wide
        if table is None:
            raise LookupError("the class has not caught up")
        fleet, rows = self.fleet, [first.row] if second is None else [first.row, second.row]
        account = Account(
            self.ground(),
            fleet.clock,
            fleet,
            self.later,
            self._scores(rows, *table.scores_at(rows)),
            RowFacts.of(fleet, first.row),
            None if second is None else (*fleet.name_of(second.row), second.score),
        )
        return Decision(pod_id, placed, *fleet.name_of(first.row), first.row, first.score, account)

    def _scores(self, rows: Sequence[int], raw: Common, normal: Common) -> Scores:
        """The scores of a row and perhaps its rival: `raw` and `normal` where they are known, the rest asked for."""
        said = self.rows.take_said()
        values, normals = [], []
        for one in self.scored:
            at = -1 if one.role.score_at is None else one.role.score_at
            found = raw[at] if at in raw else self._raw_at(one, rows, said)
            values.append(found)
            normals.append(normal.get(at, found))
        rival = [found[1] for found in normals] if len(rows) > 1 else None
        return Scores(*self._names, [found[0] for found in values], [found[0] for found in normals], rival)

    def _raw_at(self, one: SharedColumn | Judge, rows: Sequence[int], said: dict[int | None, Floats]) -> list[float]:
        known = one.raw if isinstance(one, SharedColumn) else said.get(one.role.score_at)
        if known is not None:
            return [known.item(row) for row in rows]
        asked = np.asarray(sorted(rows), dtype=np.intp)
        found: list[float] = self._ask(one, asked).tolist()
        return found if rows[0] == asked[0] else found[::-1]

    def _ask(self, one: SharedColumn | Judge, rows: RowList) -> Floats:
        return one.raw[rows] if isinstance(one, SharedColumn) else one.scores(self.fleet, rows)

    def raw_of(self, rows: RowList) -> Floats:
        """[scores, rows] what the plugins that look at one row each say of feasible rows, ascending; else 0."""
        raw = np.zeros((len(self.scored), len(rows)))
        for at, one in enumerate(self.scored):
            if len(rows) and one.role.reach in (Reach.SHARED, Reach.ROW):
                raw[at] = self._ask(one, rows)
        return raw

    def ground(self) -> Ground:
        """What a decision taken now stands on."""
        if self._ground is None:
            table, rows = self.groups or self._wide, self.rows
            refused = table.refused() if table else {}
            self._ground = self.ground_of(merged(rows.rejected, refused), rows.feasible - sum(refused.values()))
        return self._ground

    def ground_of(self, rejected: Mapping[tuple[int, int], int], feasible: int) -> Ground:
        """The same for given counts."""
        names = tuple(info.name for info in self.fleet.clusters)
        return Ground(self.plan.profile, self.fleet.reasons, names, rejected, feasible, self.rows.evaluated)

    def booked(self, row: int) -> None:
        """The best row has taken the pod: the journals say so, too."""


def merged(one: Mapping[tuple[int, int], int], other: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Two counts added up."""
    counts = dict(one)
    for key, count in other.items():
        counts[key] = counts.get(key, 0) + count
    return counts


def _score_at(one: SharedColumn | Judge) -> int:
    return -1 if one.role.score_at is None else one.role.score_at


def _filter_at(one: SharedColumn | Judge) -> int:
    return -1 if one.role.filter_at is None else one.role.filter_at
