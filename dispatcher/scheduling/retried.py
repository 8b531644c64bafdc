"""Pods that failed before: when they come back to be tried whatever happens, and how many are tried at a time."""

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Any

from dispatcher.scheduling.queued import QueuedPod, State

RETRIED = 256  # pods


class RetriedPods:
    """Those that back off, in the order in which they come back; `active`: how many are to be decided now.

    At most RETRIED are, so that pods that find no place, however many, do not keep others from being decided. Example:
    10,000 such pods are woken at 7.0, and a pod comes at 7.5: it follows those alone that came back by 8.0.
    """

    def __init__(self) -> None:
        self.active = 0
        # Entries of pods whose ticket is not their pod's any more are void; these are dropped when they come up.
        self._backoff: list[tuple[float, tuple[Any, ...], int, QueuedPod]] = []

    def may_be_tried(self, item: QueuedPod, now: float) -> bool:
        """Whether its back-off has ended and there is room for one more."""
        return item.ready_at <= now and self.active < RETRIED

    def back_off(self, item: QueuedPod) -> None:
        """Until `ready_at`, or until there is room."""
        heapq.heappush(self._backoff, (item.ready_at, item.order, item.ticket, item))

    def next(self, now: float) -> QueuedPod | None:
        """The first that may be tried now, None if there is none."""
        while self._backoff and self._backoff[0][0] <= now and self.active < RETRIED:
            _, _, ticket, item = heapq.heappop(self._backoff)
            if item.state is State.BACKOFF and item.ticket == ticket:
                return item
        return None


def _waits(item: QueuedPod, ticket: int) -> bool:
    """Whether it was neither moved on nor taken out since it was refused."""
    return item.ticket == ticket and item.state is State.UNSCHEDULABLE


class RefusedPods:
    """Pods that wait for an event, in the order in which they were refused (`since`)."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, int, QueuedPod]] = deque()  # void ones as of RetriedPods

    def __len__(self) -> int:
        """Void ones, too."""
        return len(self._entries)

    def add(self, item: QueuedPod) -> None:
        """Refused just now."""
        self._entries.append((item.since, item.ticket, item))

    def forget_void(self, pods: int) -> None:
        """Never more entries than twice the `pods` that wait, about."""
        if len(self._entries) > 2 * pods + 64:
            self._entries = deque(entry for entry in self._entries if _waits(entry[2], entry[1]))

    def refused_before(self, then: float) -> Iterator[QueuedPod]:
        """Those that have waited since then or longer; they are let go."""
        while self._entries and self._entries[0][0] <= then:
            _, ticket, item = self._entries.popleft()
            if _waits(item, ticket):
                yield item
