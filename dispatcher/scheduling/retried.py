"""Pods that failed before: when they come back to be tried whatever happens, and how many are tried
at a time.
"""

import heapq
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from dispatcher.scheduling.framework.class_keys import batch_key
from dispatcher.scheduling.queued import QueuedPod, State

RETRIED = 256  # classes
_ENDED = 4096  # back-offs that are seen to have ended, at a time


class RetriedPods:
    """Those that back off, in the order in which they come back, and the classes of which some are
    active.

    Pods of at most RETRIED classes are, so that pods that find no place, however many, do not keep
    others from being decided; a class comes back with all its pods, as these cost next to nothing
    more. Example: 10,000 such pods, each of its own class, are woken at 7.0, and a pod comes at
    7.5: it follows those alone that came back by 8.0.
    """

    def __init__(self) -> None:
        self._active = Counter[
            Hashable
        ]()  # class -> its pods that are to be decided now, and failed before
        # Entries of pods whose ticket is not their pod's any more are void; these are dropped when
        # they come up.
        self._backoff: list[tuple[float, tuple[Any, ...], int, QueuedPod]] = []
        self._ended: dict[
            Hashable, list[tuple[int, QueuedPod]]
        ] = {}  # by class: they wait for room alone

    def may_be_tried(self, item: QueuedPod, now: float) -> bool:
        """Whether its back-off has ended and there is room for its class."""
        has_room = len(self._active) < RETRIED or batch_key(item.class_key) in self._active
        return item.ready_at <= now and has_room

    def back_off(self, item: QueuedPod) -> None:
        """Until `ready_at`, or until there is room."""
        heapq.heappush(self._backoff, (item.ready_at, item.order, item.ticket, item))

    def enter(self, item: QueuedPod) -> None:
        """It is active now; one that never failed is not counted."""
        if item.attempts:
            self._active[batch_key(item.class_key)] += 1

    def leave(self, items: Iterable[QueuedPod]) -> None:
        """They are active no more."""
        for item in items if self._active else ():
            if item.attempts:
                key = batch_key(item.class_key)
                self._active[key] -= 1
                if not self._active[key]:
                    del self._active[key]

    def due(self, now: float) -> list[QueuedPod]:
        """Those that may be tried now, class by class."""
        for _ in range(_ENDED):
            if not self._backoff or self._backoff[0][0] > now:
                break
            _, _, ticket, item = heapq.heappop(self._backoff)
            self._ended.setdefault(batch_key(item.class_key), []).append((ticket, item))
        found = list[QueuedPod]()
        room = RETRIED - len(self._active)
        while self._ended and room > 0:
            key = next(iter(self._ended))
            entries = self._ended.pop(key)
            some = [
                item
                for ticket, item in entries
                if item.state is State.BACKOFF and item.ticket == ticket
            ]
            room -= bool(some) and key not in self._active
            found += some
        return found


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
