"""Whom events wake, part by part: however many pods wait for one, others are decided in between.

An event is asked about class by class, and those that it may help are woken, until the part is as
large as it may be (`AT_ONCE`). The rest is left, and each turn of decisions goes on with it by a
part (`A_TURN`). Events are served in the order in which they came, each for all whom it found
waiting; who is refused after it knows of it. Where more than `MOST_EVENTS` are left, the last two
become one of which is known only what kinds of things happened: it wakes those whom either would,
and perhaps others.

Example: 10,000 pods, each of a class of its own, wait for room, and a pod ends. 1,000 of them are
woken at once, 500 at the beginning of each of the next 18 turns. If more pods end meanwhile, each
of those who wait again is asked about them, too, after that.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.parked import ParkedPods
from dispatcher.scheduling.queued import AT_A_TIME, Cause, Gates, QueuedPod, RefusedTogether

# What waking costs, in the time that it takes to ask about a line: about 3 us, so 9 ms are the most
# at once.
_ASKED = 1
_WOKEN = 2
AT_ONCE = 3000
A_TURN = 1500
MOST_EVENTS = 64


class ToActivate(NamedTuple):
    """Pods of a line that are to be tried."""

    line: RefusedTogether
    pods: list[QueuedPod]
    cause: str

    @classmethod
    def next_of(cls, line: RefusedTogether) -> "ToActivate":
        """The next of a line, as those that were tried for it were not refused for the same again."""
        return cls(line, line.due(more=True), Cause.ALIKE)


class PendingEvent(NamedTuple):
    """An event of which somebody is still to be asked about."""

    event: ClusterEvent
    but: QueuedPod | None
    cause: str

    def joined(self, other: "PendingEvent") -> "PendingEvent":
        """Both as one."""
        kind = self.event.kind | other.event.kind
        but = self.but if self.but is other.but else None
        return PendingEvent(
            ClusterEvent(kind), but, self.cause if self.cause == other.cause else Cause.SEVERAL
        )


class Waking:
    """Events, the first of which is being asked about."""

    def __init__(self, parked: ParkedPods) -> None:
        self._parked = parked
        self._events: deque[PendingEvent] = deque()
        self._found: Iterator[ToActivate | None] | None = None  # what is left of the first event
        self._left = AT_ONCE

    @property
    def is_left(self) -> bool:
        """Whether anybody is still to be asked about."""
        return bool(self._events)

    def on_event(
        self, event: ClusterEvent, but: QueuedPod | None, gates: Gates
    ) -> Iterator[ToActivate]:
        """Whom a new event wakes at once: nobody while there is something left of earlier ones."""
        if not self._parked.listens(event.kind):
            return
        self._events.append(PendingEvent(event, but, event.kind.name or ""))
        if len(self._events) > MOST_EVENTS:
            last = self._events.pop()
            self._events.append(self._events.pop().joined(last))
        if len(self._events) == 1:
            yield from self._part(gates)

    def rest(self, gates: Gates) -> Iterator[ToActivate]:
        """The next of those who are left."""
        self._left = A_TURN
        yield from self._part(gates)

    def renew(self) -> None:
        """Pods are decided: new events may wake as many at once again."""
        self._left = AT_ONCE

    def forget(self) -> None:
        """All that wait are woken anyway."""
        self._events.clear()
        self._found = None

    def _part(self, gates: Gates) -> Iterator[ToActivate]:
        while self._events and self._left > 0:
            self._found = self._found or self._all_of(self._events[0], gates)
            for found in self._found:
                if found is None:
                    self._left -= _ASKED
                else:
                    self._left -= _ASKED + _WOKEN * len(found.pods)
                    yield found
                if self._left <= 0:
                    return
            self._events.popleft()
            self._found = None

    def _all_of(self, told: PendingEvent, gates: Gates) -> Iterator[ToActivate | None]:
        """Whom an event wakes; None: somebody was asked about in vain."""
        event, but, cause = told
        for kind, classes in self._parked.waiting_for(event.kind):
            yield None
            for lines in list(classes.values()) if gates.worth_any(event, kind) else ():
                for line in self._helped(lines, event, gates):
                    if line is None:
                        yield None
                        continue
                    for pods in _parts(line):
                        yield ToActivate(
                            line,
                            pods if but is None else [item for item in pods if item is not but],
                            cause,
                        )

    def _helped(
        self, lines: Mapping[Hashable, RefusedTogether], event: ClusterEvent, gates: Gates
    ) -> Iterator[RefusedTogether | None]:
        """Of a class, if it may help its pods: lines of which none is tried now. None: it does not
        help one.
        """
        is_helped = False
        for line in list(lines.values()):
            if not line or self._parked.set_apart(line):
                yield None
                continue
            first = next(iter(line.values()))
            is_helped = is_helped or gates.worth(event, first.placed, first.reasons)
            yield line if is_helped else None
            if not is_helped:
                return


def _parts(line: RefusedTogether) -> Iterable[list[QueuedPod]]:
    """The pods that are to be tried: of those that are refused alike the first, else all, some at a
    time.
    """
    return _some_of(line) if line.alike is None else (line.due(more=False),)


def _some_of(line: RefusedTogether) -> Iterator[list[QueuedPod]]:
    pods = list(line.values())
    for at in range(0, len(pods), AT_A_TIME):
        yield [item for item in pods[at : at + AT_A_TIME] if item.line is line]
