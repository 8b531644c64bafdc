"""Whom to evict so that a whole group has a place: the domain whose victims matter least.

Candidates are all domains where pods of lower priority than every member run. Of a domain all of
these are supposed gone; if the group fits then, as many as possible stay, those whose eviction a
PodDisruptionBudget forbids first, each time from the most important down; pods of a group that goes
as a whole (`Group.whole`) stay or go together. The domain: kube-scheduler's criteria for a node
(`rules.victims.badness`), then the narrower level, then its name. Domains are tried in the order of
the least that their victims can matter, until no other can be better than the best so far.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate, groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.cycle.batches import Result
from dispatcher.scheduling.cycle.beside_nominees import leans_on_pods
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.least_pods import ROOM, STARTS
from dispatcher.scheduling.fleet.nominations import is_seat
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.fleet.trial import KEPT_S, standing_of
from dispatcher.scheduling.framework import Bools, Floats, Ints, SmallInts
from dispatcher.scheduling.framework.group_domain import ANYWHERE, rows_in
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.pod_info import GroupId, group_id, whole_group_id
from dispatcher.scheduling.groups.domain_levels import GroupPlace
from dispatcher.scheduling.groups.members import MOST_DECISIONS, Members, held
from dispatcher.scheduling.groups.rooms import MOST
from dispatcher.scheduling.groups.templates import Template
from dispatcher.scheduling.rules.budgets import Budgets, Left
from dispatcher.scheduling.rules.victims import SHIFT, Badness, badness, by_importance, importance
from shared.messages.pod_cache import said
from shared.model.pod import PodId
from shared.model.resources import PODS

MOST_EMPTIED = 64  # domains that are tried for one group,
MOST_BETTER = 16  # and if one of these will do
_MOST_ASKED = 256  # what-ifs of one domain
_LOOKS = 128  # at the room of one template on one node: they cost as much as a decision
_MOST_ROWS = 1 << 16  # of which it is asked who started last
_UNKNOWN = 1 << 40
Unit = tuple[Victim, ...]  # that stay or go together


class Emptied(NamedTuple):
    """A domain where the group fits once the victims are gone, and where its members go then."""

    place: GroupPlace
    victims: Unit  # from the most important down
    results: list[Result]


class GroupPreemption:
    """Looks for the victims of one group. `is_cut`: not everywhere, as that would take too long."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._fleet = members.profiles.fleet
        scheduler = members.templates[0].scheduler
        self._post_filters = scheduler.post_filters
        self._may = bool(scheduler.plan.post_filters) and all(
            one.pod.preempts for _, one in members.waiting
        )
        self._budgets = Budgets(scheduler.view.objects)
        self._least = self._post_filters.least
        self._left = MOST_DECISIONS
        self.is_cut = False
        self._whole: dict[GroupId, list[Occupant]] | None = None
        self._by_room_alone = True
        # more pods there may be what makes members fit: the fewer are gone need not be the better
        self._leans = scheduler.plan.spreads or any(
            leans_on_pods(one.pod) for _, one in members.waiting
        )

    def best(self) -> Emptied | None:
        """The domain whose victims matter least; None if nobody's leaving makes the group fit."""
        if not self._may:
            return None
        hopeless = self._members.hopeless
        kind = self._kind()
        now = standing_of(self._fleet)
        since = self._fleet.now
        known = hopeless.get(kind)
        if known is not None and known[0] == now and since - known[1] <= KEPT_S:
            return None
        found = self._best()
        if found is None and self._by_room_alone and not self.is_cut:
            hopeless.put(kind, (now, since), self._kind_bytes())
        return found

    def _kind_bytes(self) -> int:
        """What a kind takes: what its pods say, and the answers of the filters that they met."""
        members = self._members
        closed = {one.closed for one in members.templates if one.closed is not None}
        told = sum([one.said for one in members.templates]) + said(list(members.placed))
        return told + sum([one.refusal_codes.nbytes for one in closed])

    def _kind(self) -> Hashable:
        """All that says who may be evicted for a group of this shape, as far as room is asked for."""
        members = self._members
        shapes = [
            (one.closed, one.room.wants if one.room else None, len(one.items), one.most)
            for one in members.templates
        ]
        pods = {
            (one.home, one.pod.namespace, one.pod.priority, one.over) for _, one in members.waiting
        }
        return (*shapes, frozenset(pods), members.needed, *members.keys, *members.placed)

    def _best(self) -> Emptied | None:
        self._priority = self._priorities()
        names = [info.name for info in self._fleet.clusters]
        self._by_cluster: dict[str, int] = dict(zip(names, self._priority.tolist(), strict=True))
        fleet = self._fleet
        self._least.refresh()
        hopeful = fleet.live & (
            self._least.priority[: fleet.n] < self._priority[fleet.cluster[: fleet.n]]
        )
        if not hopeful.any():
            return None
        found: tuple[Badness, Emptied] | None = None
        for tried, (bound, level, place) in enumerate(self._by_bound(hopeful)):
            most = MOST_EMPTIED if found is None else MOST_BETTER
            if tried >= most or (found is not None and found[0] < bound):
                break
            if tried and self._left < self._members.a_try:
                self.is_cut = True
                break
            one = self._emptied(place)
            if one is None:
                continue
            emptied, violations = one
            rank = (*badness(emptied.victims, violations), level, *place)
            if found is None or rank < found[0]:
                found = rank, emptied
        return None if found is None else found[1]

    def _priorities(self) -> Ints:
        """[clusters] the least of any member there; below all where nobody is evicted for them."""
        fleet = self._fleet
        kinds = {
            (one.pod.priority, one.pod.needs, one.home): one for _, one in self._members.waiting
        }
        over = {refused for _, one in self._members.waiting for refused in one.over}
        home = self._members.waiting[0][1].home
        found = []
        for info in fleet.clusters:
            spared = any(one.spares(info.name, home) for one in over)
            of = [fleet.priorities.of(one, info.name) for one in kinds.values()]
            found.append(-_UNKNOWN if spared else min(of))
        return np.asarray(found, dtype=np.int64)

    def _others_aside(self) -> AbstractContextManager[None]:
        """Without the room of those that are less important and only promised it."""
        first = max(self._members.waiting, key=lambda item: item[1].pod.priority)
        return self._members.profiles.nominations.aside_for(*first)

    # --- which domains may do
    # ----------------------------------------------------------------------------------------------

    def _by_bound(self, hopeful: Bools) -> Iterator[tuple[Badness, int, GroupPlace]]:
        """Domains that the group may fit in, each with the least badness that it can have, in the
        order of that.
        """
        members = self._members
        rows = np.flatnonzero(hopeful)
        with self._others_aside():
            emptied = {
                id(one.room): self._room_without(one, rows)
                for one in {id(one.room): one for one in members.templates}.values()
            }
            gain: Floats = np.zeros(len(rows))
            for one in members.templates:
                gain += self._most_a_victim(one, rows)
        bounds = []
        for level, key in enumerate(members.keys):
            codes = members.codes(key)
            size = members.levels.size(key)
            domain = members.levels.codes(key)[rows]
            inside = domain >= 0
            here = domain[inside]
            more = {of: _summed(found[inside], here, size) for of, found in emptied.items()}
            rooms = (
                None if one.room is None else more[id(one.room)] + one.in_domains[key]
                for one in members.templates
            )
            could, _ = members.fitting(rooms, size)
            least = np.full(size, _UNKNOWN)
            np.minimum.at(least, here, self._least.priority[rows[inside]])
            most = np.ones(size)
            np.maximum.at(most, here, gain[inside])
            now, _ = members.fitting_in(key)
            at = codes[(could[codes] >= members.needed) & (least[codes] < _UNKNOWN)]
            count = np.maximum(np.ceil((members.needed - now[at]) / most[at]), 1.0)
            found = zip(at.tolist(), least[at].tolist(), count.tolist(), strict=True)
            bounds += [
                (priority, number * (priority + SHIFT), int(number), level, code)
                for code, priority, number in found
            ]
        for (priority, total, number), alike in groupby(sorted(bounds), itemgetter(0, 1, 2)):
            timed = list[tuple[float, int, int]]()
            for level, some in groupby(alike, itemgetter(3)):
                same = [one[-1] for one in some]
                started = self._latest(members.keys[level], same, rows, priority, number)
                timed += [(-late, level, code) for late, code in zip(started, same, strict=True)]
            for late, level, code in sorted(timed):
                place = members.levels.place(members.keys[level], code)
                yield (0, priority, total, number, late), level, place

    def _latest(
        self, key: str, codes: Sequence[int], rows: RowList, priority: int, count: int
    ) -> list[float]:
        """By domain, how late the longest running of so many pods of this priority has started at
        most; infinite where to tell would take longer than to try.
        """
        levels = self._members.levels
        wanted = np.zeros(levels.size(key) + 1, dtype=np.bool_)  # the last for no domain
        wanted[codes] = True
        inside = rows[wanted[levels.codes(key)[rows]]]
        inside = inside[self._least.priority[inside] == priority]
        if len(inside) > _MOST_ROWS:
            return [np.inf] * len(codes)
        starts = self._least.starts[inside].ravel()
        domain = np.repeat(levels.codes(key)[inside], STARTS)
        order = np.lexsort((-starts, domain))
        domain = domain[order]
        first = np.searchsorted(domain, codes)
        last = np.searchsorted(domain, codes, side="right") - 1
        # of more than are told of a row the others started earlier
        at = np.minimum(first + min(count, STARTS) - 1, last)
        found: list[float] = starts[order[at]].tolist()
        return found

    def _room_without(self, template: Template, rows: RowList) -> Ints:
        """[rows] how many more may fit there at most if all pods were gone."""
        fleet = self._fleet
        found: Ints = np.zeros(len(rows), dtype=np.int64)
        if template.room is None or template.closed is None:
            return found
        found[:] = MOST
        for name, amount in template.room.wants:
            column = fleet.axis.column(name)
            if column is None:
                return np.zeros(len(rows), dtype=np.int64)
            np.minimum(found, fleet.allocatable[column][rows] // amount, out=found)
        found[template.closed.refusal_codes[: fleet.n][rows] != 0] = 0
        np.maximum(found - template.room.by_row[rows], 0, out=found)
        return found

    def _most_a_victim(self, template: Template, rows: RowList) -> Floats:
        """[rows] how many more fit at most for each pod that leaves, by what is shortest there."""
        found: Floats = np.full(len(rows), np.inf)
        if template.room is None or not template.room.wants:
            return found
        shortest = template.room.by_want(rows).argmin(axis=0)
        for at, (name, amount) in enumerate(template.room.wants):
            here = shortest == at
            if name == PODS:
                found[here] = 1.0
            elif name in ROOM:
                largest = self._least.largest[1, ROOM.index(name)][rows[here]]
                found[here] = np.ceil(largest / amount)
        return found

    # --- the victims of a domain
    # ----------------------------------------------------------------------------------------------

    def _emptied(self, place: GroupPlace) -> tuple[Emptied, int] | None:
        """The domain without its victims, and how many budgets forbid; None if the group does not
        fit though all leave, or would without any.
        """
        rows = self._rows(place)
        units, forbidden = self._units(rows)
        if not units or not self._may_reckon(units, rows):
            return None
        victims = self._reckoned(units, rows)
        if victims is None:
            return None
        results = self._decided(place, victims) if victims and not self._leans else None
        if results is None:
            victims = self._tried(place, units)
            results = self._decided(place, victims) if victims else None
        if results is None:
            return None
        evicted = tuple(by_importance([one for unit in victims for one in unit]))
        violations = sum(one.pod_id in forbidden for one in evicted)
        return Emptied(place, evicted, results), violations

    def _rows(self, place: GroupPlace) -> RowList:
        only_in = place.only_in
        if only_in.key == ANYWHERE:
            return np.flatnonzero(self._fleet.live)
        return rows_in(only_in, self._members.templates[0].scheduler.view)

    def _units(self, rows: RowList) -> tuple[list[Unit], set[PodId]]:
        """Who may be evicted on these rows, in the order in which they may stay; and of whom a budget
        forbids it.
        """
        units = dict[object, Unit]()
        for row in rows.tolist():
            if self._least.priority[row] >= self._priority[self._fleet.cluster[row]]:
                continue
            for one in self._fleet.occupants_on(*self._fleet.name_of(row)):
                if not self._is_lower(one):
                    continue
                whole = whole_group_id(one.pod_info)
                if whole is None:
                    units[one.pod_id] = (_victim(one),)
                elif whole not in units and (unit := self._all_of(whole)):
                    units[whole] = unit
        in_order = sorted(units.values(), key=_importance)
        left = Left()
        forbidden = {
            one.pod_id for unit in in_order for one in unit if self._budgets.take(one, left)
        }
        guarded = [any(one.pod_id in forbidden for one in unit) for unit in in_order]
        first = [unit for unit, is_guarded in zip(in_order, guarded, strict=True) if is_guarded]
        others = [
            unit for unit, is_guarded in zip(in_order, guarded, strict=True) if not is_guarded
        ]
        return first + others, forbidden

    def _is_lower(self, one: Occupant) -> bool:
        priority = self._by_cluster.get(one.cluster, -_UNKNOWN)
        lower = one.pod_info.pod.priority < priority and not is_seat(one.pod_id)
        return lower and self._post_filters.may_evict(one, self._members.waiting[0][1].home)

    def _all_of(self, group: GroupId) -> Unit:
        """All pods of a group that goes as a whole; none if not all of them may go."""
        if self._whole is None:
            self._whole = {}
            for one in self._fleet.occupants():
                if (known := whole_group_id(one.pod_info)) is not None:
                    self._whole.setdefault(known, []).append(one)
        pods = self._whole[group]
        together = len({one.cluster for one in pods}) == 1 and all(map(self._is_lower, pods))
        return tuple(by_importance(list(map(_victim, pods)))) if together else ()

    def _may_reckon(self, units: Sequence[Unit], rows: RowList) -> bool:
        """Whether that costs no more than is left; what it costs is spent then. For a single template
        it is as nothing.
        """
        looks = len(rows) + 3 * sum(map(len, units))
        cost = (len(self._members.templates) - 1) * looks // _LOOKS
        if cost > self._left:
            self.is_cut = True
            return False
        self._left -= cost
        return True

    def _reckoned(self, units: Sequence[Unit], rows: RowList) -> list[Unit] | None:
        """Who has to go by what pods request alone; None if even all of them are not enough. If the
        group fits once these are gone, trying one by one would find nobody else to stay.
        """
        with self._others_aside():
            room = RoomLeft(self._members.templates, self._fleet, rows)
        for unit in units:
            room.free(unit)
        if room.fitting < self._members.needed:
            return None
        evicted = list[Unit]()
        for unit in units:
            room.take(unit)
            if room.fitting < self._members.needed:
                room.free(unit)
                evicted.append(unit)
        return evicted

    def _tried(self, place: GroupPlace, units: Sequence[Unit]) -> list[Unit]:
        """The same by trying, for what looks at more than room: ever more at a time may stay, or one
        by one where it matters who is there.
        """
        evicted = list(units)
        self._by_room_alone = False
        if self._decided(place, evicted) is None:
            return []
        at = 0
        size = 1
        for _ in range(_MOST_ASKED):
            if at >= len(units):
                break
            if self._left < self._members.a_try:
                # rather nobody than all who are left
                self.is_cut = True
                return []
            some = set(map(id, units[at : at + size]))
            without = [unit for unit in evicted if id(unit) not in some]
            if without and self._decided(place, without) is not None:
                evicted = without
                at += size
                size *= 1 if self._leans else 2
            elif size > 1:
                size = 1
            else:
                at += 1
        return evicted

    def _decided(self, place: GroupPlace, units: Sequence[Unit]) -> list[Result] | None:
        """Where the members go once these are gone; None if they do not fit."""
        before = self._members.decisions
        with self._members.profiles.what_if() as trial:
            for unit in units:
                for one in unit:
                    trial.take_away(one.pod_id)
            results = self._members.decide_in(trial, place)
        self._left -= self._members.decisions - before
        return results if held(results) >= self._members.needed else None


def _summed(values: Ints, domain: SmallInts, size: int) -> Ints:
    sums: Ints = np.bincount(domain, weights=values, minlength=size).astype(np.int64)
    return sums


def _victim(one: Occupant) -> Victim:
    return Victim(one.pod_id, one.pod_info, one.cluster, one.node)


def _importance(unit: Unit) -> tuple[object, ...]:
    """As of its most important pod; pods of groups before others, and the larger units of them:
    kube-scheduler's MoreImportantVictim.
    """
    first = unit[0]
    priority, started = importance(first)
    alone = group_id(first.pod_info) is None
    return priority, alone, -len(unit), started, first.pod_info.pod.key, first.pod_id


class RoomLeft:
    """Room of the members on some rows, as pods leave and come back."""

    def __init__(self, templates: Sequence[Template], fleet: FleetState, rows: RowList) -> None:
        self._fleet = fleet
        self._templates = [one for one in templates if one.room is not None]
        self._free = dict[int, dict[str, int]]()
        self._room = [dict[int, int]() for _ in self._templates]
        self._sums = [0 for _ in self._templates]
        self._open = []
        names = {
            name for one in self._templates for name, _ in (one.room.wants if one.room else ())
        }
        for row in rows.tolist():
            self._free[row] = {name: self._free_of(name, row) for name in names}
        for at, one in enumerate(self._templates):
            closed = one.closed.refusal_codes[rows] if one.closed else np.ones(len(rows))
            self._open.append(
                {row for row, code in zip(rows.tolist(), closed.tolist(), strict=True) if not code}
            )
            for row in rows.tolist():
                self._look(at, row)
        self._members = sum(len(one.items) for one in templates)
        self._asked = {name: self._sums_of(name) for name in names} if len(templates) > 1 else {}
        self._open_rows = set[int]().union(*self._open)
        # what is free of each on all rows that are open to some
        self._total = {
            name: sum(max(self._free[row][name], 0) for row in self._open_rows) for name in names
        }

    def _sums_of(self, name: str) -> list[int]:
        """The sums of the smallest 1, 2, ... requests of members that ask for it."""
        amounts = list[int]()
        for one in self._templates:
            amount = dict(one.room.wants).get(name, 0) if one.room is not None else 0
            amounts += [amount] * (len(one.items) if amount else 0)
        return list(accumulate(sorted(amounts)))

    def _free_of(self, name: str, row: int) -> int:
        column = self._fleet.axis.column(name)
        if column is None:
            return 0
        return int(self._fleet.allocatable[column, row] - self._fleet.requested[column, row])

    def _look(self, at: int, row: int) -> None:
        one = self._templates[at]
        room = 0
        if row in self._open[at] and one.room is not None:
            free = self._free[row]
            room = min(
                [max(free[name], 0) // amount for name, amount in one.room.wants], default=MOST
            )
        self._sums[at] += room - self._room[at].get(row, 0)
        self._room[at][row] = room

    @property
    def fitting(self) -> int:
        """How many members have room at most, each template by itself and all together."""
        found = sum(
            min(one.most, room) for one, room in zip(self._templates, self._sums, strict=True)
        )
        for name, asked in self._asked.items():
            together = bisect_right(asked, self._total[name])
            found = min(found, self._members - len(asked) + together)
        return found

    def free(self, unit: Unit) -> None:
        """These leave."""
        self._move(unit, 1)

    def take(self, unit: Unit) -> None:
        """These come back."""
        self._move(unit, -1)

    def _move(self, unit: Unit, sign: int) -> None:
        for one in unit:
            row = self._fleet.row_of(one.cluster, one.node)
            if row is None or row not in self._free:
                continue
            free = self._free[row]
            requests = one.pod_info.at(one.cluster).pod.requests
            for name, before in free.items():
                after = before + sign * (1 if name == PODS else requests.get(name, 0))
                free[name] = after
                if row in self._open_rows:
                    self._total[name] += max(after, 0) - max(before, 0)
            for at in range(len(self._templates)):
                self._look(at, row)
