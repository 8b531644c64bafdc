"""When what is due: the next ones are found without a look at the others."""

import heapq
from typing import Generic, TypeVar

from shared.model.pod import PodId

Key = TypeVar("Key", PodId, tuple[int, str])

# of a cluster: what failed together, with the call or the cluster, is sent again by so many a Tick
AT_ONCE = 1_000
_VOID = 1_000  # entries that are over, beside as many as hold, are few


class DueTimes(Generic[Key]):
    """Keys, each due at one time. All operations are O(log n), spread over many."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []  # soonest first; some are over

    def __len__(self) -> int:
        return len(self._at)

    def put(self, key: Key, at: float) -> None:
        """It is due then, and at no other time."""
        self._at[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._at) + _VOID:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)

    def drop(self, key: Key) -> None:
        """It is not due any more."""
        self._at.pop(key, None)

    def take(self, now: float, most: int) -> list[Key]:
        """Take out those that are due, `most` at once, those first that have been for longest."""
        taken: list[Key] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < most:
            at, key = heapq.heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                taken.append(key)
        return taken
