"""A pod class: every plugin's answer for every row, kept, and brought up to date where something changed.

All pods whose plugins look at equal things share one of these. Whatever changes in the fleet is written in journals;
a class that is used again looks at the rows in them, and at the plugins whose `depends` says that more is stale:

    STATIC  rows whose node changed
    NODE    and rows whose pods or readings changed
    DOMAIN  everything, when a count the plugin asked for has changed (any touched row, if it asked for none)
    FLEET   everything, when any row was touched
    a plugin that read the clock: everything, when the clock has moved

PreFilter is asked again whenever a node changed or the plugin is stale.
"""

from collections.abc import Mapping

from dispatcher.model.reasons import Why
from dispatcher.scheduling.class_filters import FilterTable
from dispatcher.scheduling.class_scores import ScoreTable
from dispatcher.scheduling.explain import Ground, Notes, Scores
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.framework import Depends, Placed
from dispatcher.scheduling.judges import Judge
from dispatcher.scheduling.peaks import Peak
from dispatcher.scheduling.points import Plan

_NEVER = -1
_ROW_ALONE = (Depends.STATIC, Depends.NODE)


class PodClass:
    """The answers for one class over all rows of the fleet. Raises PluginError where a plugin fails."""

    def __init__(self, plan: Plan, fleet: FleetState) -> None:
        self.plan, self.fleet = plan, fleet
        self.refusal: Why | None = None
        self.judges = [Judge.of(plan, plugin) for plugin in plan.judges]
        self.filters = FilterTable(self.judges, len(plan.filters), fleet)
        self.table = ScoreTable(plan, self.judges, fleet)
        self._loads_at = self._changes_at = _NEVER
        self._ground: Ground | None = None
        self.later: Notes = ()  # plugins that can explain a decision later, from the row as it was
        self.at_once: Notes = ()  # and those that look further and must do so at once
        self._best: tuple[Peak, Peak | None] | None = None

    def begin_anew(self) -> None:
        """Become another class, with the memory of this one."""
        self.refusal, self._ground, self._best = None, None, None
        self._loads_at = self._changes_at = _NEVER
        for judge in self.judges:
            judge.begin_anew()

    def catch_up(self, placed: Placed) -> None:
        """Bring every answer up to date with the fleet; `placed` is any pod of the class."""
        fleet = self.fleet
        changed, touched = fleet.changes.since(self._changes_at), fleet.loads.since(self._loads_at)
        if self._loads_at == _NEVER or changed is None or touched is None:
            changed = touched = None
        moved, loaded = changed is None or len(changed) > 0, touched is None or len(touched) > 0
        for judge in self.judges:
            judge.everything |= changed is None or judge.is_stale(fleet, changed=moved, touched=loaded)
        any_stale = any(judge.everything for judge in self.judges)
        if not (moved or loaded or any_stale):
            return
        self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position
        self.refusal = self._pre_filter(placed, moved)
        if self.refusal is not None:
            self._loads_at = _NEVER  # nothing else was asked: begin anew next time
            return
        self.table.forget(changed)
        filtered = self.filters.update(changed, touched)
        self.table.update(self.filters, filtered, touched)
        for judge in self.judges:
            judge.note(fleet)
        if moved or any_stale:
            self._sort_notes()

    def _pre_filter(self, placed: Placed, moved: bool) -> Why | None:
        for judge in self.judges:
            if judge.everything or moved:
                refused = judge.pre_filter(placed, self.fleet)
                if refused is not None:
                    return refused
        return None

    def _sort_notes(self) -> None:
        notes = [
            (judge.plugin.depends, judge.explainer, judge.state)
            for judge in self.judges
            if judge.explainer is not None and not judge.silent
        ]
        self.later = tuple((plugin, state) for depends, plugin, state in notes if depends in _ROW_ALONE)
        self.at_once = tuple((plugin, state) for depends, plugin, state in notes if depends not in _ROW_ALONE)

    # --- answers -----------------------------------------------------------------------------------------------------

    def best(self) -> tuple[Peak, Peak | None] | None:
        """The best row and the runner-up; None if no node is feasible."""
        self._best = self.table.best()
        return self._best

    def scores(self) -> Scores:
        """The per-plugin scores of what `best` answered."""
        if self._best is None:
            raise LookupError("no row was found")
        table, (first, second) = self.table, self._best
        names, weights = table.names()
        raw = table.raw[:, first.row]
        rival = None if second is None else table.normal_column(table.raw[:, second.row], second.row)
        return Scores(names, weights, table.heard_only(raw), table.normal_column(raw, first.row), rival)

    def ground(self) -> Ground:
        """What a decision taken now stands on."""
        if self._ground is None or self.filters.counts_moved:
            self._ground = self.ground_of(dict(self.filters.rejected), self.filters.feasible)
            self.filters.counts_moved = False
        return self._ground

    def ground_of(self, rejected: Mapping[tuple[int, int], int], feasible: int) -> Ground:
        """The same for given counts."""
        names = tuple(info.name for info in self.fleet.clusters)
        return Ground(self.plan.profile, self.fleet.reasons, names, rejected, feasible, self.filters.evaluated)

    def booked(self, row: int) -> None:
        """The best row has taken the pod: the journals say so, too."""
