"""What-if for a pod without a place: take pods out of the fleet, ask the filters again, put them back bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from dispatcher.model.pod import PodId
from dispatcher.model.reasons import Why
from dispatcher.model.resources import CPU, MEMORY
from dispatcher.scheduling.fleet.columns import distinct, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominee, is_seat
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.fleet.view import Observed, ObservedView
from dispatcher.scheduling.fleet.volumes import USERS
from dispatcher.scheduling.framework import Bools, Codes, Depends, Filter, FleetView, Floats, Ints, Placed, Refuse, Skip
from dispatcher.scheduling.framework.bounds import RoomFilter
from dispatcher.scheduling.framework.lifecycle import LeastVictims, RowList, Victim
from dispatcher.scheduling.framework.points import Plan, guarded

_BUDGETS = "PodDisruptionBudget"
KEPT_S = 5.0
_NOBODY = np.iinfo(np.int64).max
_ROOM = (CPU, MEMORY)
_STARTS = 8  # of pods on a row that are told apart
MayEvict = Callable[[Occupant, str], bool]  # (pod, home of the pod that wants its room)


class LeastPods:
    """Of the pods on each row: `priority` [n], the least, more than any without pods; `starts` [n, 8], of those of that
    priority the latest starts, falling, infinite for those that have not started; `largest` [2, n], the most CPU and
    memory that any requests. Brought up to date where something changed.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self.priority: Ints = np.zeros(0, dtype=np.int64)
        self.starts: Floats = np.zeros((0, _STARTS))
        self.largest: Ints = np.zeros((len(_ROOM), 0), dtype=np.int64)
        self._loads_at = self._changes_at = self._starts_at = -1

    def refresh(self) -> "LeastPods":
        """Bring it up to date; itself."""
        fleet = self._fleet
        touched, changed = fleet.loads.since(self._loads_at), fleet.changes.since(self._changes_at)
        started = fleet.starts.since(self._starts_at)
        if self._loads_at < 0 or touched is None or changed is None or started is None:
            due = range(fleet.n)
        else:
            due = distinct(np.concatenate([touched, changed, started])).tolist()
        if fleet.n > len(self.priority):
            known = len(self.priority)
            self.priority = grown(self.priority, fleet.n, _NOBODY)
            more = len(self.priority) - known
            self.starts = np.concatenate([self.starts, np.zeros((more, _STARTS))])
            self.largest = np.concatenate([self.largest, np.zeros((len(_ROOM), more), dtype=np.int64)], axis=1)
        for row in due:
            if fleet.live[row]:
                self._look(row)
        self._loads_at, self._changes_at = fleet.loads.position, fleet.changes.position
        self._starts_at = fleet.starts.position
        return self

    def _look(self, row: int) -> None:
        pods = [one.placed.pod for one in self._fleet.occupants_on(*self._fleet.name_of(row))]
        self.priority[row] = least = min([pod.priority for pod in pods], default=_NOBODY)
        starts = sorted([pod.started or np.inf for pod in pods if pod.priority == least], reverse=True)[:_STARTS]
        self.starts[row] = [*starts, *[0.0] * (_STARTS - len(starts))]
        for at, name in enumerate(_ROOM):
            self.largest[at, row] = max([pod.requests.get(name, 0) for pod in pods], default=0)


class Known:
    """What PostFilter plugins found out of rows for one kind of pod, forgotten row by row as the fleet moves.

    After `KEPT_S` seconds all is found out anew: when pods started, and who may be evicted, is in no journal.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._rows: dict[str, dict[int, Any]] = {}
        self._at: tuple[int, int, int] = (-1, -1, -1)
        self._since = float("-inf")

    def rows(self, plugin: str) -> dict[int, Any]:
        """What that plugin knows still."""
        return self._rows.setdefault(plugin, {})

    def _now(self) -> tuple[int, int, int]:
        fleet = self._fleet
        return fleet.loads.position, fleet.changes.position, fleet.kept.versions[_BUDGETS]

    def forget(self) -> None:
        """Forget what does not hold any more."""
        fleet, (loads, changes, budgets) = self._fleet, self._at
        touched, changed = fleet.loads.since(loads), fleet.changes.since(changes)
        late = fleet.now - self._since > KEPT_S
        if loads < 0 or late or touched is None or changed is None or budgets != fleet.kept.versions[_BUDGETS]:
            self._rows, self._since = {}, fleet.now
        else:
            for rows in self._rows.values():
                for row in (*touched.tolist(), *changed.tolist()):
                    rows.pop(row, None)

    def note(self) -> None:
        """All that is known holds for the fleet as it is now."""
        self._at = self._now()


class Promised(NamedTuple):
    """What the pod was promised; and a while without any nominee, if the pod might lean on some."""

    nominee: Nominee | None
    alone: Callable[[], AbstractContextManager[None]] | None = None


class FleetTrial:
    """Satisfies `lifecycle.Trial`. A context: at its end every pod that was taken out is back.

    `first` [n]: the code by which the filters refused each row.
    """

    def __init__(  # noqa: PLR0913 - the fleet, the pod and its refusals, as PostFilter has them
        self,
        plan: Plan,
        fleet: FleetState,
        placed: Placed,
        first: Codes,
        least: LeastPods,
        may_evict: MayEvict,
        promised: Promised,
    ) -> None:
        self._plan, self._fleet, self._placed = plan, fleet, placed
        self._least, self._may_evict = least, may_evict
        nominee = self._nominee = promised.nominee
        self._alone = promised.alone
        self._out: dict[PodId, tuple[Occupant, int]] = {}
        self._passed: set[int] = set()  # rows that no filter refuses which rests on nodes and objects alone
        self.remember: Callable[[], dict[int, Any]] = dict
        self.evaluated = int(np.count_nonzero(fleet.live))
        self.nominated = fleet.row_of(nominee.cluster, nominee.node) if nominee else None
        self._first = self._complete(first)
        self.rows = self._worth_a_try()
        lesser = self.rows[least.priority[self.rows] < placed.pod.priority]
        spared = _spared(fleet, placed)[fleet.cluster[lesser]] if placed.over else np.zeros(len(lesser), dtype=np.bool_)
        self.hopeful = lesser[~spared]
        counts = np.bincount(fleet.cluster[lesser[spared]], minlength=len(fleet.clusters)).tolist()
        self.spared: Mapping[str, int] = {fleet.clusters[at].name: count for at, count in enumerate(counts) if count}

    def of(self, remember: Callable[[], dict[int, Any]]) -> "FleetTrial":
        """For the next plugin, which keeps there what it knows."""
        self.remember = remember
        self.__dict__.pop("known", None)
        return self

    def __enter__(self) -> "FleetTrial":
        self._position = self._fleet.loads.position
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for occupant, row in reversed(self._out.values()):
            self._fleet.add_pod(occupant, row)
        self._out.clear()
        self._fleet.loads.rewind(self._position)

    # --- what was refused --------------------------------------------------------------------------------------------

    def why(self, row: int) -> Why | None:
        """Why the row is refused, None if it is not."""
        code = int(self._first[row])
        return self._fleet.reasons.why(code) if code and self._fleet.live[row] else None

    def _complete(self, first: Codes) -> Codes:
        """`first` with what the filters say of rows that only those refuse that look further than one row."""
        complete = first.copy()
        left = np.flatnonzero((first == 0) & self._fleet.live)
        if len(left):
            complete[left] = self.codes(left)
        return complete

    def _worth_a_try(self) -> RowList:
        fleet = self._fleet
        codes = np.flatnonzero(np.bincount(self._first[fleet.live])).tolist()
        hopeful = np.zeros(1 << 16, dtype=np.bool_)  # by code
        hopeful[[code for code in codes if code and _resolvable(fleet, code)]] = True
        rows: RowList = np.flatnonzero(fleet.live & hopeful[self._first])
        return rows

    # --- pods --------------------------------------------------------------------------------------------------------

    def least(self, rows: RowList) -> LeastVictims:
        """What victims on `rows` come to at least, without a try.

        So many as their largest pod would have to be, to make what room is missing; and if all have the least priority
        there is, the one that started first of so many did so no later than these many latest.
        """
        fleet, least = self._fleet, self._least
        count: Ints = np.ones(len(rows), dtype=np.int64)
        for plugin, state, _, _ in self._states:
            for name, amount in (plugin.wants(state) or ()) if isinstance(plugin, RoomFilter) else ():
                column = fleet.axis.column(name)
                if name in _ROOM and column is not None:
                    missing = amount - (fleet.allocatable[column, rows] - fleet.requested[column, rows])
                    largest = np.maximum(least.largest[_ROOM.index(name), rows], 1)
                    np.maximum(count, -(-missing // largest), out=count)
        return LeastVictims(least.priority[rows], count, least.starts[rows, np.minimum(count, _STARTS) - 1])

    def lower(self, row: int) -> Sequence[Victim]:
        """Pods of lower priority on the row that may be evicted."""
        if self._least.priority[row] >= self._placed.pod.priority:
            return ()
        found = (one for one in self._on(row) if self._may_evict(one, self._placed.home))
        return [Victim(one.pod_id, one.placed, one.cluster, one.node) for one in found]

    def _on(self, row: int) -> list[Occupant]:
        priority = self._placed.pod.priority
        pods = self._fleet.occupants_on(*self._fleet.name_of(row))
        return [one for one in pods if one.placed.pod.priority < priority and not is_seat(one.pod_id)]

    def going(self, row: int) -> bool:
        """Whether a pod of lower priority is on its way out, for this pod or another that a scheduler preferred."""
        evicted = self._nominee.victims if self._nominee else frozenset()
        return any(one.placed.pod.preempted or one.pod_id in evicted for one in self._on(row))

    def without(self, victims: Sequence[Victim]) -> None:
        """As if these were gone."""
        for victim in victims:
            occupant = self._fleet.occupant(victim.pod_id)
            if occupant is not None and occupant.row is not None:
                self._out[victim.pod_id] = (occupant, occupant.row)
                self._fleet.remove_pod(occupant)

    def back(self, victims: Sequence[Victim]) -> None:
        """As if these had stayed."""
        for victim in victims:
            out = self._out.pop(victim.pod_id, None)
            if out is not None:
                self._fleet.add_pod(*out)

    # --- asking ------------------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> list[tuple[Filter, object, bool, FleetView]]:
        """PreFilter of every filter; one that speaks of more than its row is asked anew after every change."""
        states: list[tuple[Filter, object, bool, FleetView]] = []
        observed = Observed()
        view = ObservedView(self._fleet, observed)
        for plugin in self._plan.filters:
            observed.counts.clear()
            observed.kinds.clear()
            state = guarded(plugin, plugin.pre_filter, self._placed, view)
            wide = plugin.depends in (Depends.DOMAIN, Depends.FLEET) or bool(observed.counts) or USERS in observed.kinds
            if not isinstance(state, Skip):
                states.append((plugin, state, wide, view))
        return states

    @cached_property
    def one_by_one(self) -> bool:
        """See `lifecycle.Trial`."""
        return any(wide for _, _, wide, _ in self._states)

    @cached_property
    def known(self) -> dict[int, Any]:
        """See `lifecycle.Trial`; of rows that rest on others nothing is kept."""
        return {} if self.one_by_one else self.remember()

    def codes(self, rows: RowList) -> Codes:
        """[len(rows)] what the filters say now: 0, or the first reason; with nominees, and without if there are any."""
        codes = self._asked(rows)
        if self._alone is not None and not codes.all():
            with self._alone():
                np.copyto(codes, self._asked(rows), where=codes == 0)
        return codes

    def _asked(self, rows: RowList) -> Codes:
        """Filters that rest on nodes and objects alone are asked about a row once: no pod that leaves it moves them."""
        codes: Codes = np.zeros(len(rows), dtype=np.uint16)
        passed = self._passed.issuperset(rows.tolist())
        fixed = np.zeros(len(rows), dtype=np.bool_)
        for plugin, known, wide, view in self._states:
            alone = plugin.depends is Depends.STATIC and not wide
            if alone and passed:
                continue
            state = guarded(plugin, plugin.refresh, known, self._placed, view) if wide else known
            if isinstance(state, Skip):
                continue
            if isinstance(state, Refuse):
                why = state.why
                code = self._fleet.reasons.code(why.reason, why.argument, lasting=why.lasting)
                answer = np.full(len(rows), code, dtype=np.uint16)
            else:
                answer = guarded(plugin, plugin.filter, state, view, rows)
            np.copyto(codes, answer, where=codes == 0)
            if alone:
                fixed |= answer != 0
        if not passed:
            self._passed.update(rows[~fixed].tolist())
        return codes


def _spared(fleet: FleetState, placed: Placed) -> Bools:
    """[clusters] in which nobody is evicted for the pod: it was refused there, and may be once more."""
    names = [info.name for info in fleet.clusters]
    spared = [any(one.spares(name, placed.home) for one in placed.over) for name in names]
    return np.asarray(spared, dtype=np.bool_)


def _resolvable(fleet: FleetState, code: int) -> bool:
    return all(why.resolvable for why in fleet.reasons.whys(code))
