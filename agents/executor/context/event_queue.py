"""Events that wait to be written, of each namespace in turn: whoever has many keeps no other
namespace's waiting.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from shared.kube.http import Request

MAX_EVENTS = 20_000  # waiting to be written; beyond, the namespace that has most loses its oldest


class EventQueue:
    """Oldest first within a namespace, which is told by where its events are written."""

    def __init__(self, most: int = MAX_EVENTS) -> None:
        self._most = most
        self._waiting: dict[str, deque[Request]] = {}  # by path; whose turn is next first
        self._length = 0

    @property
    def has_room(self) -> bool:
        """Whether what may be left out pushes out no other: half of it is free."""
        return 2 * self._length < self._most

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Request]:
        return chain.from_iterable(self._waiting.values())

    def append(self, event: Request) -> None:
        """One more."""
        self._waiting.setdefault(event.path, deque()).append(event)
        self._length += 1
        if self._length > self._most:
            self._take(max(self._waiting, key=lambda path: len(self._waiting[path])))

    def popleft(self) -> Request:
        """The next one, which must be there."""
        path = next(iter(self._waiting))
        event = self._take(path)
        if path in self._waiting:
            self._waiting[path] = self._waiting.pop(path)
        return event

    def extendleft(self, events: Iterable[Request]) -> None:
        """Put some back, each before the others of its namespace."""
        for event in events:
            self._waiting.setdefault(event.path, deque()).appendleft(event)
            self._length += 1

    def clear(self) -> None:
        """None waits any more."""
        self._waiting.clear()
        self._length = 0

    def _take(self, path: str) -> Request:
        waiting = self._waiting[path]
        event = waiting.popleft()
        self._length -= 1
        if not waiting:
            del self._waiting[path]
        return event
