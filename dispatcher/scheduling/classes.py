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
from dispatcher.scheduling.class_groups import Bonus, GroupTable
from dispatcher.scheduling.class_rows import RowTable
from dispatcher.scheduling.class_wide import WideTable
from dispatcher.scheduling.columns import RowList, distinct
from dispatcher.scheduling.explain import Ground, Notes, Scores
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.fleet_row import RowFacts
from dispatcher.scheduling.framework import SKIP, Depends, Floats, Placed
from dispatcher.scheduling.judges import Judge
from dispatcher.scheduling.partitions import Partitions
from dispatcher.scheduling.peaks import Peak
from dispatcher.scheduling.points import ClassKey, Plan
from dispatcher.scheduling.roles import Reach, Role
from dispatcher.scheduling.shared_answers import SharedAnswers, SharedColumn

_NEVER = -1
_ROW_ALONE = (Depends.STATIC, Depends.NODE)
_FAR = (Reach.PARTS, Reach.WIDE)
_NO_ROWS: RowList = np.zeros(0, dtype=np.intp)


class PodClass:
    """The answers for the class named `key` over all rows of the fleet. Raises PluginError where a plugin fails."""

    def __init__(
        self, plan: Plan, roles: Sequence[Role], fleet: FleetState, shared: SharedAnswers, partitions: Partitions
    ) -> None:
        self.plan, self.fleet = plan, fleet
        self._roles, self._shared, self._partitions = roles, shared, partitions
        self.rows = RowTable(fleet)

    def begin(self, key: ClassKey) -> None:
        """Become the class of that key, perhaps with the memory of another one."""
        self.refusal: Why | None = None
        self.members: list[SharedColumn | Judge] = [
            self._shared.column(role, key[role.key_at]) if role.reach is Reach.SHARED else Judge(role)
            for role in self._roles
        ]
        self.later: Notes = ()  # plugins that can explain a decision later, from the row as it was
        self.at_once: Notes = ()  # and those that look further and must do so at once
        self.scored: list[SharedColumn | Judge] = []  # that score this class, in profile order
        self.bonus: Bonus | None = None
        self.groups: GroupTable | None = None
        self._wide: WideTable | None = None
        self._ground: Ground | None = None
        self._best: tuple[Peak, Peak | None] | None = None
        self._loads_at = self._changes_at = _NEVER
        self._heard: tuple[object, ...] = ()
        self._seen: list[int] = []

    # --- catching up -------------------------------------------------------------------------------------------------

    def catch_up(self, placed: Placed) -> None:
        """Bring every answer up to date with the fleet; `placed` is any pod of the class."""
        fleet = self.fleet
        changed, touched = self._since()
        moved, loaded = changed is None or len(changed) > 0, touched is None or len(touched) > 0
        stale = [one for one in self.members if self._is_stale(one, moved, loaded)]
        if not (moved or loaded or stale) and self._seen == self._epochs_of():
            return
        self._changes_at = self._loads_at = _NEVER  # if somebody fails, all is due
        self._ground = None
        self.refusal = self._pre_filter(placed, stale, moved)
        if self.refusal is not None:
            return
        anew = self._hear() or changed is None or any(one.role.reach is Reach.ROW for one in stale)
        rows = None if anew or changed is None or touched is None else distinct(changed, touched)
        far = anew or moved or any(one.role.reach in _FAR for one in stale)
        self._answer(placed, rows, nodes_changed=moved, far=far)
        for one in self.members:
            if isinstance(one, Judge):
                one.note(fleet)
        self._seen = self._epochs_of()
        self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position

    def _epochs_of(self) -> list[int]:
        return [one.epoch for one in self.members if isinstance(one, SharedColumn)]

    def _since(self) -> tuple[RowList | None, RowList | None]:
        if self._loads_at == _NEVER:
            return None, None
        changed, touched = self.fleet.changes.since(self._changes_at), self.fleet.loads.since(self._loads_at)
        return (None, None) if changed is None or touched is None else (changed, touched)

    def _is_stale(self, one: SharedColumn | Judge, moved: bool, loaded: bool) -> bool:
        judge = one.judge if isinstance(one, SharedColumn) else one
        return judge.is_stale(self.fleet, changed=moved, touched=loaded)

    def _pre_filter(self, placed: Placed, stale: Sequence[SharedColumn | Judge], moved: bool) -> Why | None:
        for one in self.members:
            refused = None
            if isinstance(one, SharedColumn):
                refused = one.catch_up(placed, self.fleet)
            elif moved or one in stale:
                refused = one.pre_filter(placed, self.fleet)
            if refused is not None:
                return refused
        return None

    def _hear(self) -> bool:
        """Sort those who have something to say; True if all rows are due for it."""
        heard = [one for one in self.members if not one.silent]
        joint = self._shared.joint(self._leading_filters(heard))
        epochs = (joint, joint.epoch, *((one, one.epoch if isinstance(one, SharedColumn) else 0) for one in heard))
        self.sort_notes()
        if epochs == self._heard:
            return False
        self._heard = epochs
        near = [one for one in heard if one.role.reach not in _FAR]
        filters = [one for one in near if one.role.filter_at is not None and one not in joint.columns]
        self.scored = [one for one in heard if one.role.score_at is not None]
        self.rows.hear(joint, filters, [one for one in self.scored if one in near and not one.role.normalizes])
        columns = [one for one in heard if isinstance(one, SharedColumn) and one.role.normalizes]
        judges = [one for one in heard if isinstance(one, Judge) and one.role.reach in _FAR]
        self._wide = self.groups = self.bonus = None
        if all(judge.role.reach is Reach.PARTS for judge in judges):
            self.bonus = Bonus(columns, judges, self._partitions)
        self._wide_table = WideTable(self.fleet, self.rows, columns, judges)
        return True

    def _leading_filters(self, heard: Sequence[SharedColumn | Judge]) -> tuple[SharedColumn, ...]:
        leading = []
        for one in heard:
            if one.role.filter_at is None:
                continue
            if not isinstance(one, SharedColumn):
                break
            leading.append(one)
        return tuple(leading)

    def _answer(self, placed: Placed, rows: RowList | None, *, nodes_changed: bool, far: bool) -> None:
        moved = self.rows.update(rows, nodes_changed=nodes_changed)
        if self.bonus is not None and (far or self.groups is None):
            partition = self.bonus.partition
            grouped = self.bonus.ask(self.fleet)
            if not grouped:
                self.groups = None
            elif self.groups is None or self.bonus.partition is not partition:
                self.groups = GroupTable(self.fleet, self.rows, self.bonus)
                rows = None
            self._wide = None if grouped else self._wide_table
        elif self.bonus is None:
            self._wide = self._wide_table
        if self._wide is not None:
            self._wide.ask(placed)
        elif self.groups is not None and (rows is None or moved is None):
            self.groups.begin()
        elif self.groups is not None and rows is not None and moved is not None:
            self.groups.update(rows, moved)

    def sort_notes(self) -> None:
        """Who can explain a decision, with what they know now."""
        notes = [
            (
                one.role.plugin.depends,
                one.role.explainer,
                one.judge.state if isinstance(one, SharedColumn) else one.state,
            )
            for one in self.members
            if one.role.explainer is not None and not one.silent
        ]
        self.later = tuple((plugin, state) for depends, plugin, state in notes if depends in _ROW_ALONE)
        self.at_once = tuple((plugin, state) for depends, plugin, state in notes if depends not in _ROW_ALONE)

    # --- answers -----------------------------------------------------------------------------------------------------

    def best(self) -> tuple[Peak, Peak | None] | None:
        """The best row and the runner-up; None if no node is feasible."""
        table = self.groups or self._wide
        self._best = table.best() if table else None
        return self._best

    def only(self, row: int) -> tuple[Peak, None] | None:
        """`best` as if `row` were the only node; None if it is not feasible."""
        table = self.groups or self._wide
        peak = table.at(row) if table else None
        if peak is None:
            return None
        self._best = found = (peak, None)
        return found

    def answer_of(self, plugin: str) -> object:
        """What a plugin answered in PreFilter, or in PreScore after it; SKIP if it was not asked."""
        for one in self.members:
            if one.role.name == plugin:
                judge = one.judge if isinstance(one, SharedColumn) else one
                return judge.prepared if judge.pre_scores else judge.state
        return SKIP

    def scores(self) -> Scores:
        """The per-plugin scores of what `best` answered; to be asked before anything moves."""
        table = self.groups or self._wide
        if self._best is None or table is None:
            raise LookupError("no row was found")
        first, second = self._best
        rows = [first.row] if second is None else [first.row, second.row]
        raw, normal = table.scores_at(rows)
        return self.scores_of(rows, raw, normal)

    def scores_of(self, rows: Sequence[int], raw: dict[int, Floats], normal: dict[int, Floats]) -> Scores:
        """The scores of a row and perhaps its rival: common ones by score_at as given, the rest asked for."""
        asked = np.asarray(rows, dtype=np.intp)
        values = self.raw_of(asked) if len(rows) < 2 or rows[0] < rows[1] else self.raw_of(asked[::-1])[:, ::-1]
        normals = values.copy()
        for at, one in enumerate(self.scored):
            if one.role.score_at in raw:
                values[at], normals[at] = raw[one.role.score_at], normal[one.role.score_at]
        names, weights = tuple(one.role.name for one in self.scored), tuple(one.role.weight for one in self.scored)
        return Scores(names, weights, values[:, 0], normals[:, 0], normals[:, 1] if len(rows) > 1 else None)

    def raw_of(self, rows: RowList) -> Floats:
        """[scores, rows] what the plugins that look at one row each say of feasible rows, ascending; else 0."""
        raw = np.zeros((len(self.scored), len(rows)))
        for at, one in enumerate(self.scored):
            if isinstance(one, SharedColumn):
                raw[at] = one.raw[rows]
            elif one.role.reach is Reach.ROW and len(rows):
                raw[at] = one.scores(self.fleet, rows)
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

    def facts(self) -> RowFacts:
        """The chosen row as it is now."""
        if self._best is None:
            raise LookupError("no row was found")
        return RowFacts.of(self.fleet, self._best[0].row)

    def booked(self, row: int) -> None:
        """The best row has taken the pod: the journals say so, too."""


def merged(one: Mapping[tuple[int, int], int], other: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Two counts added up."""
    counts = dict(one)
    for key, count in other.items():
        counts[key] = counts.get(key, 0) + count
    return counts
