"""Pods that failed before: when they come back to be tried whatever happens, and how many are tried
at a time.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from dispatcher.scheduling.framework.class_keys import batch_key
from dispatcher.scheduling.queued import QueuedPod, State

RETRIED = 256  # classes of one priority and tenant
_ENDED = 4096  # back-offs that are seen to have ended, at a time


class RetriedPods:
    """Those that back off, in the order in which they come back, and the classes of which some are
    active.

    Pods of at most RETRIED classes of one priority and tenant are, so that pods that find no place,
    however many, do not keep others from being decided; a class comes back with all its pods, as
    these cost next to nothing more. Example: 10,000 such pods, each of its own class, are woken at
    7.0, and another one comes at 7.5: it follows those alone that came back by 8.0.
    """

    def __init__(self, whose: Callable[[QueuedPod], Hashable]) -> None:
        """`whose`: the tenant of a pod, the same as long as this lives."""
        self._whose = whose
        # line -> class -> its pods that are to be decided now, and failed before
        self._active = defaultdict[Hashable, Counter[Hashable]](Counter)
        # Entries of pods whose ticket is not their pod's any more are void; these are dropped when
        # they come up.
        self._backoff: list[tuple[float, tuple[Any, ...], int, QueuedPod]] = []
        # By line and class: they wait for room alone.
        self._ended = defaultdict[Hashable, dict[Hashable, list[tuple[int, QueuedPod]]]](dict)
        # of these lines: there may be room for them
        self._may_have_room: dict[Hashable, None] = {}

    def _line_of(self, item: QueuedPod) -> Hashable:
        """Those of one line have room together."""
        return self._whose(item), item.pod_info.pod.priority

    def may_be_tried(self, item: QueuedPod, now: float) -> bool:
        """Whether its back-off has ended and there is room for its class."""
        if item.ready_at > now:
            return False
        active = self._active.get(self._line_of(item), ())
        return len(active) < RETRIED or batch_key(item.class_key) in active

    def back_off(self, item: QueuedPod) -> None:
        """Until `ready_at`, or until there is room."""
        heapq.heappush(self._backoff, (item.ready_at, item.order, item.ticket, item))

    def enter(self, item: QueuedPod) -> None:
        """It is active now; one that never failed is not counted."""
        if item.attempts:
            self._active[self._line_of(item)][batch_key(item.class_key)] += 1

    def leave(self, items: Iterable[QueuedPod]) -> None:
        """They are active no more."""
        for item in items if self._active else ():
            if item.attempts:
                line = self._line_of(item)
                active = self._active[line]
                key = batch_key(item.class_key)
                active[key] -= 1
                if not active[key]:
                    del active[key]
                    if line in self._ended:
                        self._may_have_room[line] = None
                if not active:
                    del self._active[line]

    def due(self, now: float) -> list[QueuedPod]:
        """Those that may be tried now, class by class."""
        for _ in range(_ENDED):
            if not self._backoff or self._backoff[0][0] > now:
                break
            _, _, ticket, item = heapq.heappop(self._backoff)
            line = self._line_of(item)
            self._ended[line].setdefault(batch_key(item.class_key), []).append((ticket, item))
            self._may_have_room[line] = None
        found = list[QueuedPod]()
        for line in self._may_have_room:
            found += self._let_in(line)
        self._may_have_room.clear()
        return found

    def _let_in(self, line: Hashable) -> Iterator[QueuedPod]:
        """Of one line, as many classes as there is room for."""
        ended = self._ended[line]
        active = self._active.get(line, ())
        room = RETRIED - len(active)
        while ended and room > 0:
            key = next(iter(ended))
            some = [
                item
                for ticket, item in ended.pop(key)
                if item.state is State.BACKOFF and item.ticket == ticket
            ]
            room -= bool(some) and key not in active
            yield from some
        if not ended:
            del self._ended[line]


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
