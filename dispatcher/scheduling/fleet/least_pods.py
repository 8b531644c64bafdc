"""What the pods of each row come to, by which preemption knows without a try what victims there
come to at least.
"""

import numpy as np

from dispatcher.scheduling.fleet.columns import distinct, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats, Ints
from shared.model.resources import CPU, MAX_QUANTITY, MEMORY

_NOBODY = np.iinfo(np.int64).max
ROOM = (CPU, MEMORY)
STARTS = 8  # of pods on a row that are told apart


class LeastPods:
    """Of the pods on each row: `priority` [n], the least, and `second` [n], the next above it, more
    than any without pods; `starts` [n, 8], of those of the least priority the latest starts,
    falling, infinite for those that have not started; `largest` and `total` [2, 2, n], the most CPU
    and memory that any requests and what they request together, first of those of the least
    priority, then of all. Brought up to date where something changed.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self.priority: Ints = np.zeros(0, dtype=np.int64)
        self.second: Ints = np.zeros(0, dtype=np.int64)
        self.starts: Floats = np.zeros((0, STARTS))
        self.largest: Ints = np.zeros((2, len(ROOM), 0), dtype=np.int64)
        self.total: Ints = np.zeros((2, len(ROOM), 0), dtype=np.int64)
        self._loads_at = self._changes_at = self._starts_at = -1

    def refresh(self) -> "LeastPods":
        """Bring it up to date; itself."""
        fleet = self._fleet
        touched = fleet.loads.since(self._loads_at)
        changed = fleet.changes.since(self._changes_at)
        started = fleet.starts.since(self._starts_at)
        if self._loads_at < 0 or touched is None or changed is None or started is None:
            due = range(fleet.n)
        else:
            due = distinct(np.concatenate([touched, changed, started])).tolist()
        if fleet.n > len(self.priority):
            known = len(self.priority)
            self.priority = grown(self.priority, fleet.n, _NOBODY)
            self.second = grown(self.second, fleet.n, _NOBODY)
            more = len(self.priority) - known
            self.starts = np.concatenate([self.starts, np.zeros((more, STARTS))])
            blank = np.zeros((2, len(ROOM), more), dtype=np.int64)
            self.largest = np.concatenate([self.largest, blank], axis=2)
            self.total = np.concatenate([self.total, blank], axis=2)
        for row in due:
            if fleet.live[row]:
                self._look(row)
        self._loads_at = fleet.loads.position
        self._changes_at = fleet.changes.position
        self._starts_at = fleet.starts.position
        return self

    def _look(self, row: int) -> None:
        pods = [one.pod_info.pod for one in self._fleet.occupants_on(*self._fleet.name_of(row))]
        if not pods and self.priority[row] == _NOBODY:
            return  # as for most rows of a fleet that is new
        self.priority[row] = least = min([pod.priority for pod in pods], default=_NOBODY)
        self.second[row] = min(
            [pod.priority for pod in pods if pod.priority > least], default=_NOBODY
        )
        lowest = [pod for pod in pods if pod.priority == least]
        starts = sorted([pod.started or np.inf for pod in lowest], reverse=True)[:STARTS]
        self.starts[row] = [*starts, *[0.0] * (STARTS - len(starts))]
        for of, some in enumerate((lowest, pods)):
            for at, name in enumerate(ROOM):
                amounts = [pod.requests.get(name, 0) for pod in some]
                self.largest[of, at, row] = max(amounts, default=0)
                self.total[of, at, row] = min(sum(amounts), MAX_QUANTITY)
