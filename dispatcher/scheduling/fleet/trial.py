"""What-if for a pod without a place: take pods out of the fleet, ask the filters again, put them
back bit for bit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.least_pods import ROOM, STARTS, LeastPods
from dispatcher.scheduling.fleet.nominations import Nominee, is_seat
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.fleet.view import Observed, ObservedView
from dispatcher.scheduling.fleet.volumes import USERS
from dispatcher.scheduling.framework import (
    Bools,
    Codes,
    Depends,
    Filter,
    FleetView,
    Ints,
    PodInfo,
    Refuse,
    RoomFilter,
    Skip,
)
from dispatcher.scheduling.framework.lifecycle import RowList, Victim, VictimBounds
from dispatcher.scheduling.framework.points import Plan, guarded
from shared.model.pod import Pod, PodId
from shared.model.reasons import Why
from shared.model.resources import MAX_QUANTITY, PODS

KEPT_S = 5.0
# a priority above all (they are int32), and more victims than any row has
_BEYOND = 2**31
_MANY = 2**29
MayEvict = Callable[[Occupant, str], bool]  # (pod, home of the pod that wants its room)


_Asked = tuple[
    Filter, object, bool, FleetView
]  # a filter, its PreFilter answer, whether that rests on more than rows


def standing_of(fleet: FleetState) -> tuple[int, int, int]:
    """What an answer about evictions rests on but for the clock: pods, nodes, and objects of all
    kinds.
    """
    return fleet.loads.position, fleet.changes.position, sum(fleet.kept.versions.values())


class PostFilterCache:
    """What PostFilter plugins found out of rows for one kind of pod, forgotten row by row as the
    fleet moves; and what PreFilter of its filters answers, as long as no node and no object that
    they looked at changes.

    After `KEPT_S` seconds all is found out anew: who may be evicted is in no log, and that of pods
    that say anew when they started (`FleetState.starts`) is not read here.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._rows: dict[str, dict[int, Any]] = {}
        self._at: tuple[int, int, int] = (-1, -1, -1)
        self._since = float("-inf")
        # with the nodes and objects they rest on
        self._states: tuple[list[_Asked], int, dict[str, int]] | None = None

    def states(self) -> list[_Asked] | None:
        """The answers of PreFilter that are kept, if they hold."""
        if self._states is None:
            return None
        states, nodes_at, objects = self._states
        versions = self._fleet.kept.versions
        moved = nodes_at != self._fleet.changes.position or any(
            versions[one] != at for one, at in objects.items()
        )
        return None if moved else states

    def keep(self, states: list[_Asked], kinds: Iterable[str]) -> None:
        """Keep the answers of PreFilter, which rest on nodes and on objects of these kinds alone."""
        versions = self._fleet.kept.versions
        self._states = (
            states,
            self._fleet.changes.position,
            {kind: versions[kind] for kind in kinds},
        )

    def rows(self, plugin: str) -> dict[int, Any]:
        """What that plugin knows still."""
        return self._rows.setdefault(plugin, {})

    def forget(self) -> None:
        """Forget what does not hold any more."""
        fleet, (loads, changes, objects) = self._fleet, self._at
        touched = fleet.loads.since(loads)
        changed = fleet.changes.since(changes)
        late = fleet.now - self._since > KEPT_S
        if (
            loads < 0
            or late
            or touched is None
            or changed is None
            or objects != standing_of(fleet)[2]
        ):
            self._rows = {}
            self._since = fleet.now
        else:
            for rows in self._rows.values():
                for row in (*touched.tolist(), *changed.tolist()):
                    rows.pop(row, None)

    def note(self) -> None:
        """All that is known holds for the fleet as it is now."""
        self._at = standing_of(self._fleet)


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
        pod_info: PodInfo,
        first: Codes,
        least: LeastPods,
        may_evict: MayEvict,
        promised: Promised,
        kept: PostFilterCache,
    ) -> None:
        self._plan = plan
        self._fleet = fleet
        self._pod_info = pod_info
        self._least = least
        self._may_evict = may_evict
        nominee = self._nominee = promised.nominee
        self._alone = promised.alone
        self._priority = _priorities(fleet, pod_info)
        self._out: dict[PodId, tuple[Occupant, int]] = {}
        # rows that no filter refuses which rests on nodes and objects alone
        self._passed: set[int] = set()
        self._looked_at: set[int] = set()  # rows of which it is not known yet whether they pass
        # asked now
        self._kept = kept
        self._plugin = ""
        self.evaluated = int(np.count_nonzero(fleet.live))
        self.nominated = fleet.row_of(nominee.cluster, nominee.node) if nominee else None
        self._first = self._complete(first)
        self.rows = self._worth_a_try()
        lesser = self.rows[least.priority[self.rows] < self._priority[fleet.cluster[self.rows]]]
        spared = (
            _spared(fleet, pod_info)[fleet.cluster[lesser]]
            if pod_info.over
            else np.zeros(len(lesser), dtype=np.bool_)
        )
        self.hopeful = lesser[~spared]
        counts = np.bincount(fleet.cluster[lesser[spared]], minlength=len(fleet.clusters)).tolist()
        self.spared: Mapping[str, int] = {
            fleet.clusters[at].name: count for at, count in enumerate(counts) if count
        }

    def of(self, plugin: str) -> "FleetTrial":
        """For the next plugin."""
        self._plugin = plugin
        self.__dict__.pop("known", None)
        return self

    def __enter__(self) -> "FleetTrial":
        self._position = self._fleet.loads.position
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for occupant, row in reversed(self._out.values()):
            self._fleet.add_pod(occupant, row)
        self._out.clear()
        self._fleet.loads.rewind(self._position)

    # --- what was refused
    # --------------------------------------------------------------------------------------------

    def why(self, row: int) -> Why | None:
        """Why the row is refused, None if it is not."""
        code = int(self._first[row])
        return self._fleet.reasons.why(code) if code and self._fleet.live[row] else None

    def _complete(self, first: Codes) -> Codes:
        """`first` with what the filters say of rows that only those refuse that look further than
        one row.
        """
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

    # --- pods
    # ----------------------------------------------------------------------------------------------

    def victim_bounds(self, rows: RowList) -> VictimBounds:
        """What victims on `rows` come to at least, without a try.

        So many as the largest of them would have to be, to make what room is missing; and if all
        have the least priority there is, the one that started first of so many did so no later than
        these many latest. More than any victims come to where all of them together do not make the
        room. Example: 2900m are missing. On a row with pods of 900m and of the preemptor's priority
        one of 3000m there are 4 victims if it has as many of them, and none that help if it has 3.
        """
        fleet = self._fleet
        least = self._least
        count: Ints = np.ones(len(rows), dtype=np.int64)
        enough = np.ones(len(rows), dtype=np.bool_)
        # 0: victims are of the least priority
        of = (least.second[rows] < self._priority[fleet.cluster[rows]]).astype(np.intp)
        for plugin, state, _, _ in self._states:
            for name, amount in (
                (plugin.wants(state) or ()) if isinstance(plugin, RoomFilter) else ()
            ):
                column = fleet.axis.column(name)
                if name in ROOM and column is not None:
                    missing = amount - (
                        fleet.allocatable[column, rows] - fleet.requested[column, rows]
                    )
                    largest = np.maximum(least.largest[of, ROOM.index(name), rows], 1)
                    np.maximum(count, -(-missing // largest), out=count)
                    enough &= missing <= least.total[of, ROOM.index(name), rows]
        starts = least.starts[rows, np.minimum(count, STARTS) - 1]
        return VictimBounds(
            np.where(enough, least.priority[rows], _BEYOND), np.where(enough, count, _MANY), starts
        )

    def lower(self, row: int) -> Sequence[Victim]:
        """Pods of lower priority on the row that may be evicted."""
        if self._least.priority[row] >= self._priority[self._fleet.cluster[row]]:
            return ()
        self._looked_at.add(row)
        found = (one for one in self._on(row) if self._may_evict(one, self._pod_info.home))
        return [Victim(one.pod_id, one.pod_info, one.cluster, one.node) for one in found]

    def _on(self, row: int) -> list[Occupant]:
        priority = self._priority[self._fleet.cluster[row]]
        pods = self._fleet.occupants_on(*self._fleet.name_of(row))
        return [
            one for one in pods if one.pod_info.pod.priority < priority and not is_seat(one.pod_id)
        ]

    def terminating(self, row: int) -> bool:
        """Whether a pod of lower priority is on its way out, for this pod or another that a
        scheduler preferred.
        """
        evicted = self._nominee.victims if self._nominee else frozenset()
        return any(one.pod_info.pod.preempted or one.pod_id in evicted for one in self._on(row))

    def suppose_gone(self, victims: Sequence[Victim]) -> None:
        """As if these were gone."""
        for victim in victims:
            occupant = self._fleet.occupant(victim.pod_id)
            if occupant is not None and occupant.row is not None:
                self._out[victim.pod_id] = (occupant, occupant.row)
                self._fleet.remove_pod(occupant)

    def restore(self, victims: Sequence[Victim]) -> None:
        """As if these had stayed."""
        for victim in victims:
            out = self._out.pop(victim.pod_id, None)
            if out is not None:
                self._fleet.add_pod(*out)

    @cached_property
    def _room(self) -> Sequence[tuple[str, int]] | None:
        """(resource, amount) that must be free on a row, where nothing else rests on the pods
        there; None: it may.
        """
        wanted: list[tuple[str, int]] = []
        for plugin, state, wide, _ in self._states:
            asked = (
                plugin.wants(state)
                if isinstance(plugin, RoomFilter) and not isinstance(state, Refuse)
                else None
            )
            if wide or (asked is None and plugin.depends is not Depends.STATIC):
                return None
            wanted += asked or ()
        return wanted if self._alone is None else None

    def staying(self, row: int, victims: Sequence[Victim]) -> Sequence[bool] | None:
        """See `lifecycle.Trial`. Without a try: by what is free, if nothing else rests on the pods."""
        fleet = self._fleet
        wanted = self._room
        if wanted is None:
            return None
        if (
            row in self._looked_at and row not in self._passed
        ):  # to ask of many rows costs little more than of one
            self._asked(np.asarray(sorted(self._looked_at), dtype=np.intp), still=True)
            self._looked_at.clear()
        columns = [fleet.axis.column(name) for name, _ in wanted]
        found = [fleet.occupant(one.pod_id) for one in victims]
        if (
            row not in self._passed
            or None in columns
            or any(one is None or one.row != row for one in found)
        ):
            return None
        taken = [int(fleet.requested[column, row]) for column in columns]
        if max(taken, default=0) >= MAX_QUANTITY:  # how much more is taken the column does not say
            return None
        whole = [int(fleet.allocatable[column, row]) for column in columns]
        left = [
            had - used - asked for had, used, (_, asked) in zip(whole, taken, wanted, strict=True)
        ]
        return _staying(
            left, [_requests(one.pod_info.pod, [name for name, _ in wanted]) for one in victims]
        )

    # --- asking
    # ----------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> list[_Asked]:
        """PreFilter of every filter; one that speaks of more than its row is asked anew after every
        change.
        """
        states = self._kept.states()
        if states is not None:
            return states
        states = []
        kinds = set[str]()
        lasting = True
        observed = Observed()
        view = ObservedView(self._fleet, observed)
        for plugin in self._plan.filters:
            observed.counts.clear()
            observed.kinds.clear()
            state = guarded(plugin, plugin.pre_filter, self._pod_info, view)
            by_row = plugin.depends in (Depends.STATIC, Depends.NODE)
            wide = not by_row or bool(observed.counts) or USERS in observed.kinds
            skipped = isinstance(state, Skip)
            if not skipped:
                states.append((plugin, state, wide, view))
            lasting &= by_row or (skipped and plugin.depends is Depends.DOMAIN)
            # what those book moves with every pod
            lasting &= not observed.counts and plugin not in self._plan.pod_plugins
            kinds |= observed.kinds
        if lasting and not observed.now:
            self._kept.keep(states, kinds)
        return states

    @cached_property
    def one_by_one(self) -> bool:
        """See `lifecycle.Trial`."""
        return any(wide for _, _, wide, _ in self._states)

    @cached_property
    def known(self) -> dict[int, Any]:
        """See `lifecycle.Trial`; of rows that rest on others nothing is kept."""
        return {} if self.one_by_one else self._kept.rows(self._plugin)

    def codes(self, rows: RowList) -> Codes:
        """[len(rows)] what the filters say now: 0, or the first reason; with nominees, and without
        if there are any.
        """
        codes = self._asked(rows)
        if self._alone is not None and not codes.all():
            with self._alone():
                np.copyto(codes, self._asked(rows), where=codes == 0)
        return codes

    def _asked(self, rows: RowList, *, still: bool = False) -> Codes:
        """Filters that rest on nodes and objects alone are asked about a row once: no pod that
        leaves it moves them.

        `still`: these alone are asked.
        """
        codes: Codes = np.zeros(len(rows), dtype=np.uint16)
        passed = self._passed.issuperset(rows.tolist())
        fixed = np.zeros(len(rows), dtype=np.bool_)
        for plugin, known, wide, view in self._states:
            alone = plugin.depends is Depends.STATIC and not wide
            if passed if alone else still:
                continue
            state = guarded(plugin, plugin.refresh, known, self._pod_info, view) if wide else known
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


def _requests(pod: Pod, names: Sequence[str]) -> list[int]:
    return [1 if name == PODS else pod.requests.get(name, 0) for name in names]


def _staying(left: Sequence[int], pods: Sequence[Sequence[int]]) -> list[bool] | None:
    """Whether each of the pods may stay, in order, while no resource has less than 0 left; None:
    all have to go, and more. `left`: while all are there, with who wants the room. By resource;
    `pods`: what each requests.

    Example: 2900m are missing, and 4 pods request 900m each: without them 700m are left, so none
    may stay; were 2600m missing, 1000m would be left, and the first may stay.
    """
    left = [
        have + sum(amounts) for have, amounts in zip(left, zip(*pods, strict=True), strict=True)
    ]
    if min(left, default=0) < 0:
        return None
    stays = []
    for amounts in pods:
        after = [have - amount for have, amount in zip(left, amounts, strict=True)]
        stays.append(min(after, default=0) >= 0)
        left = after if stays[-1] else left
    return stays


def _priorities(fleet: FleetState, pod_info: PodInfo) -> Ints:
    """[clusters] how important the pod will be in each, once it is there."""
    return np.asarray(
        [fleet.priorities.of(pod_info, one.name) for one in fleet.clusters], dtype=np.int64
    )


def _spared(fleet: FleetState, pod_info: PodInfo) -> Bools:
    """[clusters] in which nobody is evicted for the pod: it was refused there, and may be once
    more.
    """
    names = [info.name for info in fleet.clusters]
    spared = [any(one.spares(name, pod_info.home) for one in pod_info.over) for name in names]
    return np.asarray(spared, dtype=np.bool_)


def _resolvable(fleet: FleetState, code: int) -> bool:
    return all(why.resolvable for why in fleet.reasons.whys(code))
