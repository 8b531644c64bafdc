"""Who has to go so that pods which may take quota back have room on nodes that are full.

One pod: on each node by itself. A group: in each domain that may hold it, a member after the other,
the largest first, each where the fewest have to go for it beside those that go already. Who may be
taken, and in which order, `tenants.reclaim` says. It is room by what pods request alone: whether
all other filters let the pods have it, a what-if tells.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

import numpy as np

from dispatcher.scheduling.core.borrowers import Borrowers
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.framework import Codes
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.groups.domain_levels import DomainLevels, keys_up_to
from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from dispatcher.scheduling.rules.budgets import Left
from dispatcher.scheduling.tenants.reclaim import Candidate, Claimant, victims
from shared.model.pod import PodId
from shared.model.reasons import Why

_MOST_NODES = 64  # that are looked at for one pod, or in one domain,
_MOST_LOOKS = 512  # and in all domains, and again for the next member
_MOST_WORK = 50_000  # pods that may go, each each time that it is looked at
_MOST_SETS = 4
_Amounts = Mapping[str, int]


@dataclass(slots=True)
class _World:
    """Who may go from where, and what has been supposed so far."""

    by_row: dict[int, list[Candidate]] = field(default_factory=dict)
    together: dict[Hashable, list[Candidate]] = field(default_factory=dict)
    freed: dict[int, Counter[str]] = field(default_factory=dict)  # by row, of those that go
    gone: dict[PodId, None] = field(default_factory=dict)


class FullNodes:
    """Looks at one claimant, while those that are `going` are charged nothing any more."""

    def __init__(
        self,
        state: CoreState,
        ledger: QuotaLedger,
        borrowers: Borrowers,
        candidates: Sequence[Candidate],
        going: Sequence[PodId],
    ) -> None:
        self._fleet = state.fleet
        self._profiles = state.profiles
        self._groups = state.queue.groups
        self._ledger = ledger
        self._borrowers = borrowers
        self._going = going
        self._left: Left | None = None  # by budgets, while nobody else is gone
        self._world = world = _World()
        self._looks = 0
        self._work = 0
        for one in candidates:
            world.by_row.setdefault(one.row, []).append(one)
            if one.group is not None:
                world.together.setdefault(one.group, []).append(one)
        for pod_id in going:
            occupant = self._fleet.occupant(pod_id)
            if occupant is not None and occupant.row is not None:
                charged = charge_of(occupant.pod_info.at(occupant.cluster).pod)
                self._free(occupant.row, charged)

    def _free(self, row: int, amounts: _Amounts, times: int = 1) -> None:
        freed = self._world.freed.setdefault(row, Counter())
        for name, amount in amounts.items():
            freed[name] += times * amount

    def sets(self, members: Sequence[QueuedPod], claimant: Claimant) -> list[list[Candidate]]:
        """Some that would do, the fewest first."""
        try:
            closed = [self._closed(one) for one in members]
        except PluginError:
            return []
        asked = [charge_of(one.pod_info.pod) for one in members]
        wanted = sorted(
            zip(asked, closed, strict=True),
            key=lambda one: (-max(one[0].values()), sorted(one[0].items())),
        )
        found = list[list[Candidate]]()
        for rows in self._domains(members):
            some = self._emptied(rows, wanted, claimant)
            if some:
                found.append(some)
            if self._looks >= _MOST_LOOKS or self._work > _MOST_WORK or len(found) >= _MOST_NODES:
                break
        found.sort(key=lambda some: (len(some), max(one.priority for one in some)))
        return found[:_MOST_SETS]

    def _closed(self, item: QueuedPod) -> Codes | None:
        """[n] not 0 where nodes are closed to it, whoever is there; None: all are."""
        found = self._profiles.of(item.pod_info).closed_nodes(item.pod_info)
        return None if isinstance(found, Why) else found.refusal_codes

    def _domains(self, members: Sequence[QueuedPod]) -> Iterator[list[int]]:
        """The rows of each."""
        group = self._groups.waits_in(members[0])
        if group is None or len(members) == 1:
            yield from ([row] for row in self._world.by_row)
            return
        fleet = self._fleet
        key = keys_up_to(group.group.within)[-1]
        codes = DomainLevels(fleet).codes(key)
        inside = {codes.item(row) for row in self._world.by_row} - {-1}
        placed = [fleet.occupant(one) for one in group.placed]
        bound = {codes.item(one.row) for one in placed if one is not None and one.row is not None}
        for code in sorted(inside & bound if bound else inside):
            yield np.flatnonzero((codes == code) & fleet.live).tolist()

    def _emptied(
        self,
        rows: Sequence[int],
        wanted: Sequence[tuple[_Amounts, Codes | None]],
        claimant: Claimant,
    ) -> list[Candidate]:
        """Who has to go from these so that all members have room there; none if that cannot be, or
        if nobody has to. All is as before then.
        """
        taken = list[Candidate]()
        placed = list[tuple[int, _Amounts]]()
        try:
            heap = list[tuple[int, int]]()
            last: tuple[_Amounts, Codes | None] | None = None
            for asked, closed in wanted:
                if last is None or last[0] != asked or last[1] is not closed:
                    heap = [(0, row) for row in self._near(rows, asked, closed)]
                    heapify(heap)
                    last = asked, closed
                found = self._cheapest(heap, asked, claimant)
                if found is None:
                    return []
                row, some = found
                for one in some:
                    self._go(one, 1)
                taken += some
                placed.append((row, asked))
                self._free(row, asked, -1)
            return taken
        finally:
            for row, asked in placed:
                self._free(row, asked)
            for one in taken:
                self._go(one, -1)

    def _go(self, one: Candidate, times: int) -> None:
        """One is gone; -1: and is there again."""
        self._ledger.tree.nodes[one.tenant].charge(one.amounts, -times)
        self._free(one.row, one.amounts, times)
        self._left = None
        if times > 0:
            self._world.gone[one.pod_id] = None
        else:
            self._world.gone.pop(one.pod_id, None)

    def _cheapest(
        self, heap: list[tuple[int, int]], asked: _Amounts, claimant: Claimant
    ) -> tuple[int, list[Candidate]] | None:
        """The row where the fewest have to go for one more, and these. What a row costs is known
        from when it was looked at last: it is looked at again before it is taken.
        """
        while heap and self._looks < _MOST_LOOKS and self._work <= _MOST_WORK:
            _, row = heappop(heap)
            some = self._on(row, asked, claimant)
            if some is None:
                continue
            heappush(heap, (len(some), row))
            if heap[0][1] == row:
                return row, some
        return None

    def _near(self, rows: Sequence[int], asked: _Amounts, closed: Codes | None) -> list[int]:
        """Of the rows that are open to a pod those where the least is missing for it."""
        if closed is None:
            return []
        short = dict[int, int]()
        for row in rows:
            room = {} if closed[row] else self._missing(row, asked)
            here = self._world.by_row.get(row, ())
            gives = {name: sum(one.amounts.get(name, 0) for one in here) for name in room}
            if not closed[row] and all(gives[name] >= room[name] for name in room):
                short[row] = sum(room.values())
        return sorted(short, key=short.__getitem__)[:_MOST_NODES]

    def _missing(self, row: int, asked: _Amounts) -> dict[str, int]:
        """How much is missing on a node, of each resource of which any is."""
        fleet = self._fleet
        freed: _Amounts = self._world.freed.get(row, {})
        missing = {}
        for name, amount in asked.items():
            at = fleet.axis.column(name)
            if at is not None:
                free = int(fleet.allocatable[at, row] - fleet.requested[at, row])
                missing[name] = amount - free - freed.get(name, 0)
        return {name: amount for name, amount in missing.items() if amount > 0}

    def _on(self, row: int, asked: _Amounts, claimant: Claimant) -> list[Candidate] | None:
        """Who has to go so that this node has room for one more pod; None if there is no way. What is
        fair is asked for all members together.
        """
        self._looks += 1
        room = self._missing(row, asked)
        if not room:
            return []
        world = self._world
        here = [one for one in world.by_row.get(row, ()) if one.pod_id not in world.gone]
        some = [one for one in here if one.group is None]
        for group in dict.fromkeys(one.group for one in here if one.group is not None):
            some += world.together[group]
        self._work += len(some)
        if self._left is None:
            self._left = self._borrowers.left_by_budgets([*self._going, *world.gone])
        some = self._borrowers.within_budgets(some, self._left)
        return victims(self._ledger.tree, replace(claimant, room=room, row=row), some)
