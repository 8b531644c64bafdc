"""Pods whose load the readings of their node do not hold yet: what `recent` and `settling` of the
columns count.

`recent` counts a pod until a reading that was sampled after it was placed; `settling` counts what
the mean of the readings does not hold (`readings.left_to_settle`).
"""

from collections import defaultdict

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, RowStore
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.fleet.readings import left_to_settle
from dispatcher.scheduling.framework import Ints
from dispatcher.scheduling.rules.requests import nonzero_request

# rows of `recent` and `settling`, and of the signals of these names
_CPU = 0
_MEMORY = 1
_SETTLED = (0, 0)  # most pods: one for all


class AwaitedPods:
    """By row the pods of which readings to come will change what is counted."""

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self.by_row: defaultdict[int, list[Occupant]] = defaultdict(list)

    def add(self, occupant: Occupant, row: int) -> None:
        """A pod is on this row from now on; what `recent` holds of it is counted already."""
        self._settle(occupant, row)
        if occupant.is_awaited:
            self.by_row[row].append(occupant)

    def remove(self, occupant: Occupant, row: int) -> None:
        """It is no more: what `settling` counts of it is taken out."""
        cpu, memory = occupant.settling
        occupant.settling = _SETTLED
        self._store.add("settling", self._store.settling, _CPU, row, -cpu)
        self._store.add("settling", self._store.settling, _MEMORY, row, -memory)
        if occupant.is_awaited:
            self.by_row[row].remove(occupant)

    def read(self, row: int) -> None:
        """A reading of this row has come."""
        awaited = self.by_row.get(row)
        if not awaited:
            return
        cpu_at = self._store.used_at[_CPU, row]
        memory_at = self._store.used_at[_MEMORY, row]
        for occupant in awaited:
            self._mark_seen(
                occupant, cpu=occupant.placed_at <= cpu_at, memory=occupant.placed_at <= memory_at
            )
            self._settle(occupant, row)
        left = [one for one in awaited if one.is_awaited]
        if left:
            self.by_row[row] = left
        else:
            del self.by_row[row]

    def _settle(self, occupant: Occupant, row: int) -> None:
        """Count of a pod what the means of its row do not hold."""
        store = self._store
        before = occupant.settling
        left = (0.0, 0.0)
        if occupant.settles:
            since = occupant.placed_at
            times = store.used_at
            left = (
                left_to_settle(since, times.item(_CPU, row)),
                left_to_settle(since, times.item(_MEMORY, row)),
            )
        cpu, memory = occupant.amounts
        now = (_part(cpu, left[_CPU]), _part(memory, left[_MEMORY]))
        occupant.settling, occupant.settles = now if any(now) else _SETTLED, any(left)
        for column in (_CPU, _MEMORY):
            if now[column] != before[column]:
                store.add("settling", store.settling, column, row, now[column] - before[column])

    def requests(self) -> tuple[RowList, Ints]:
        """(rows, ascending; [2, rows]) how much more `settling` would be there if every pod counted
        by its request; for `usual`.
        """
        found = defaultdict[int, list[int]](lambda: [0, 0])
        for row, pods in self.by_row.items():
            for one in pods:
                if one.counts_as is not None:
                    for column, asked in enumerate(nonzero_request(one.pod_info.pod)):
                        counted = one.settling[column]
                        found[row][column] += (
                            round(asked * counted / one.counts_as[column]) - counted
                        )
        rows = sorted(found)
        more = np.asarray([found[row] for row in rows], dtype=np.int64).reshape(-1, 2).T
        return np.asarray(rows, dtype=np.intp), more

    def _mark_seen(self, occupant: Occupant, *, cpu: bool, memory: bool) -> None:
        row = occupant.row
        if row is None:
            return
        amounts = nonzero_request(occupant.pod_info.pod)
        if cpu and occupant.unseen_cpu:
            self._store.add("recent", self._store.recent, _CPU, row, -amounts[_CPU])
            occupant.unseen_cpu = False
        if memory and occupant.unseen_memory:
            self._store.add("recent", self._store.recent, _MEMORY, row, -amounts[_MEMORY])
            occupant.unseen_memory = False


def _part(amount: int, left: float) -> int:
    """That share of an amount; all of it exactly, however large."""
    return amount if left >= 1.0 else int(amount * left)
