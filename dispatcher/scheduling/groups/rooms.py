"""How many pods of one template have room on each node, and in each domain: an upper bound.

Room is what filters that rest on nodes alone leave open, and there as often as what the pods
request is free. Other filters only take from it.
"""

from collections.abc import Hashable

import numpy as np

from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Ints, Rows, SmallInts
from dispatcher.scheduling.groups.domain_levels import DomainLevels
from shared.messages.pod_cache import PodCache

Wants = tuple[tuple[str, int], ...]  # (resource, amount)
MOST = 1 << 20  # pods on one node: so many where nothing bounds them
_BYTES_KEPT = 64 * 2**20
_LEAST_KEPT = 4
_MOST_KEYS = 16  # topology keys of one table; pods say any


class RoomTable:
    """For pods that want the same, and that the same nodes are closed to.

    `by_row` [n]: how many fit there; 0 on rows that are closed or hold no node.
    """

    def __init__(self, fleet: FleetState, levels: DomainLevels, wants: Wants) -> None:
        self._fleet = fleet
        self._levels = levels
        self.wants = wants
        self.by_row: Ints = np.zeros(0, dtype=np.int64)
        # topology key -> [domains + 1], the last of rows without a domain
        self._in_domains: dict[str, Ints] = {}
        self._seen: tuple[object, ...] = ()
        self._changes_at = self._loads_at = -1

    def refresh(self, closed: StaticFilters) -> None:
        """Follow the fleet; `closed` is up to date."""
        fleet = self._fleet
        seen = closed, closed.version
        changed = touched = None
        if seen == self._seen:
            changed = fleet.changes.since(self._changes_at)
            touched = fleet.loads.since(self._loads_at)
        if changed is None or touched is None or len(changed):
            self._in_domains = {}
            self.by_row = self._room(closed, slice(0, fleet.n))
        elif len(touched):
            self._follow(touched, self._room(closed, touched))
        self._seen = seen
        self._changes_at = fleet.changes.position
        self._loads_at = fleet.loads.position

    def _follow(self, rows: RowList, room: Ints) -> None:
        more = room - self.by_row[rows]
        moved = np.flatnonzero(more)
        if not len(moved):
            return
        rows = rows[moved]
        self.by_row[rows] = room[moved]
        for key, sums in self._in_domains.items():
            np.add.at(sums, self._levels.codes(key)[rows], more[moved])

    def _room(self, closed: StaticFilters, rows: Rows) -> Ints:
        room: Ints = self.by_want(rows).min(axis=0, initial=MOST)
        room[closed.refusal_codes[: self._fleet.n][rows] != 0] = 0
        return room

    def by_want(self, rows: Rows) -> Ints:
        """[wants, rows] how many fit by each of `wants` alone."""
        fleet = self._fleet
        count = len(fleet.live[rows])
        found = np.zeros((len(self.wants), count), dtype=np.int64)
        for at, (name, amount) in enumerate(self.wants):
            column = fleet.axis.column(name)
            if column is not None:
                free = fleet.allocatable[column][rows] - fleet.requested[column][rows]
                np.maximum(free, 0, out=free)
                np.floor_divide(free, amount, out=found[at])
        return found

    def in_domains(self, key: str) -> Ints:
        """[domains] how many fit in each domain of a topology key."""
        sums = self._in_domains.get(key)
        if sums is None:
            if len(self._in_domains) >= _MOST_KEYS:
                self._in_domains = {}
            size = self._levels.size(key)
            sums = np.append(summed(self._levels.codes(key), self.by_row, size), 0)
            self._in_domains[key] = sums
        return sums[:-1]


def summed(codes: SmallInts, by_row: Ints, size: int) -> Ints:
    """[domains] the sums over the rows of each; -1: a row is in none."""
    where = np.where(codes < 0, size, codes)
    whole = np.bincount(where, weights=by_row, minlength=size + 1)
    found: Ints = whole[:size].astype(np.int64)
    return found


class RoomTables:
    """Those of the templates that were asked about last."""

    def __init__(self, fleet: FleetState, levels: DomainLevels) -> None:
        self._fleet = fleet
        self._levels = levels
        self._kept: PodCache[Hashable, RoomTable] = PodCache()

    def of(self, closed: StaticFilters, wants: Wants, size: int) -> RoomTable:
        """Up to date, as `closed` is. `size`: bytes of what one of the pods says."""
        key = closed, wants
        found = self._kept.get(key, size)
        if found is None:
            found = RoomTable(self._fleet, self._levels, wants)
            self._kept.most = max(_LEAST_KEPT, _BYTES_KEPT // (8 * max(1, self._fleet.n)))
            self._kept.put(key, found, size)
        found.refresh(closed)
        return found
