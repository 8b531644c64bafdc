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
from typing import Any, NamedTuple

import msgspec

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.pod_info import QuotaTurn
from dispatcher.scheduling.queued import (
    AT_A_TIME,
    QUOTA,
    Cause,
    Gates,
    QueuedPod,
    RefusedTogether,
    State,
)
from shared.model.backoff import Backoff
from shared.model.reasons import Reason
from shared.model.wake_events import WakeEvent

_QUOTA_S = 0.1
_QUOTA_TRIES_PER_S = 250
_OfKind = dict[
    Hashable, dict[Hashable, RefusedTogether]
]  # class -> what is alike about its pods -> line


class _Lines:
    """Lines by the events that may help their pods, by the kind of what these wait for (which says
    for what they were refused), by class, and by what is alike about them.
    """

    def __init__(self) -> None:
        self.by_events: dict[WakeEvent, dict[Hashable, _OfKind]] = {}

    def get(self, item: QueuedPod, alike: Hashable) -> RefusedTogether | None:
        kinds = self.by_events.get(item.helped_by, {})
        return kinds.get(item.kind, {}).get(item.class_key, {}).get(alike)

    def put(self, item: QueuedPod, line: RefusedTogether) -> None:
        kinds = self.by_events.setdefault(item.helped_by, {})
        kinds.setdefault(item.kind, {}).setdefault(item.class_key, {})[line.alike] = line

    def take(self, item: QueuedPod, line: RefusedTogether) -> bool:
        """Remove the line; whether it was here."""
        if self.get(item, line.alike) is not line:
            return False
        kinds = self.by_events[item.helped_by]
        classes = kinds[item.kind]
        lines = classes[item.class_key]
        del lines[line.alike]
        if not lines:
            del classes[item.class_key]
        if not classes:
            del kinds[item.kind]
        if not kinds:
            del self.by_events[item.helped_by]
        return True


class _QuotaRound(msgspec.Struct):
    """When all that one quota has refused are tried again, in fair order; tries in vain since that
    was set; the first turn of those that wait for it.
    """

    at: float = float("-inf")
    tries: int = 0
    first: tuple[Any, ...] | None = None


class ParkedPods:
    """Pods that wait for an event that may help them, and how many of them one event has tried again.

    Pods are *refused alike* if what refuses one of them refuses the others: pods of one template
    and home (`Gates.refused_alike`), and pods of one class and priority that quota alone refuses
    (`Gates.quota_alike`). They stand in one line, and an event has the first of it tried for all.
    If that one is placed, or refused for something else, the next two are tried, then four, and so
    on up to `queued.AT_A_TIME`. If it is refused for the same again, the line backs off before its
    next try, as a pod does. So an event costs no more with more replicas. Other pods are all tried.
    Lines of which a pod is tried are kept apart: an event does not look at them.

    Example: 10,000 replicas wait for room, and a pod ends. The first of them is tried, and takes
    the room; the next two are tried, and refused; the other 9,997 are left alone. If a node with
    room for 100 is added, then 1, 2, 4, 8, 16, 32 and 37 of the next 64 are placed, one batch after
    the other, in one go.
    """

    def __init__(self) -> None:
        self._idle = _Lines()
        self._tried = _Lines()
        self._of_quota: set[Hashable] = set()  # `_quota_key` of those that one quota refuses alike
        self._rounds: dict[Hashable, _QuotaRound] = {}  # by whose quota it is
        self.quota_at = float("-inf")  # the end of the last of these

    def quota_pause(self, turn: QuotaTurn, now: float, most_s: float) -> Backoff:
        """How long pods that quota refused just now back off: until the end of its round, all of
        them, and no longer than their tries cost. Else quota that comes free meanwhile goes to
        whoever does not back off, whatever the shares.
        """
        known = self._rounds.setdefault(turn.whose, _QuotaRound())
        if now >= known.at:
            pause_s = max(_QUOTA_S, known.tries / _QUOTA_TRIES_PER_S)
            known.at = now + min(pause_s, most_s)
            known.tries = 0
            known.first = None
            self.quota_at = max(self.quota_at, known.at)
        known.tries += 1
        left_s = self.wait_for_round(turn) - now
        return Backoff(left_s, left_s)

    def wait_for_round(self, turn: QuotaTurn) -> float:
        """Pods whose turn is this wait for the end of the round; when that is."""
        known = self._rounds.get(turn.whose)
        if known is None:
            return float("-inf")
        known.first = turn.key if known.first is None else min(known.first, turn.key)
        return known.at

    def waits_behind(self, item: QueuedPod, pod_info: PodInfo, gates: Gates, now: float) -> float:
        """Until when a pod (of a group: `pod_info`, all that start with it) waits that was not
        refused for quota: if pods like it wait for that, or it would borrow what others wait for
        whose turn is not after its own.
        """
        turn = gates.quota_turn(pod_info)
        known = self._rounds.get(turn.whose)
        if known is None or now >= known.at:
            return now
        item.kind = gates.kind_of(item.pod_info, QUOTA)
        alike = _quota_key(item) in self._of_quota
        behind = turn.borrows and known.first is not None and known.first <= turn.key
        return known.at if alike or behind else now

    def line_of(self, item: QueuedPod, alike: Hashable) -> RefusedTogether:
        """Where a pod that is refused stands, to be entered there."""
        line = self._idle.get(item, alike) or self._tried.get(item, alike)
        if line is None:
            line = RefusedTogether(alike)
            self._idle.put(item, line)
            if line.is_of_quota:
                self._of_quota.add(_quota_key(item))
        return line

    def leave(self, item: QueuedPod) -> None:
        """A pod is taken out of its line."""
        line = item.line
        item.line = None
        if line is None:
            return
        del line[item.pod_id]
        if line:
            return
        was_here = self._idle.take(item, line) or self._tried.take(item, line)
        if was_here and line.is_of_quota:
            self._of_quota.discard(_quota_key(item))

    def popped(self, item: QueuedPod) -> None:
        """A pod that is tried for its line is decided now: the next event looks at the line again."""
        if item.line is not None and self._tried.take(item, item.line):
            self._idle.put(item, item.line)

    def waiting_for(self, event: WakeEvent) -> Iterator[tuple[Hashable, _OfKind]]:
        """The classes whose pods wait for such an event, kind by kind; lines that are kept apart
        are left out.
        """
        for kinds in [kinds for mask, kinds in self._idle.by_events.items() if mask & event]:
            yield from list(kinds.items())

    def set_apart(self, line: RefusedTogether) -> bool:
        """Whether a pod is tried for the line: then no event looks at it from now on, until that
        pod is `popped`.
        """
        if not line.is_tried():
            return False
        first = next(iter(line.values()))
        if self._idle.take(first, line):
            self._tried.put(first, line)
        return True

    def listens(self, event: WakeEvent) -> bool:
        """Whether such an event may help anybody: if not, there is no use in telling of it."""
        return any(mask & event for mask in self._idle.by_events)

    def refused(self) -> Iterator[tuple[RefusedTogether, frozenset[Reason]]]:
        """All lines of refused pods, and what the first of each was refused for."""
        for some in (self._idle, self._tried):
            for kinds in some.by_events.values():
                for classes in kinds.values():
                    for lines in classes.values():
                        for line in lines.values():
                            first = next(iter(line.values()), None)
                            if first is not None and first.state is State.UNSCHEDULABLE:
                                yield line, first.reasons

    def counts(self) -> Iterator[tuple[QueuedPod, int]]:
        """Of each class that was refused for the same, or is gated: a pod, and how many there are."""
        alike = dict[tuple[WakeEvent, Hashable, Hashable], list[RefusedTogether]]()
        for some in (self._idle, self._tried):
            for mask, kinds in some.by_events.items():
                for kind, classes in kinds.items():
                    for name, lines in classes.items():
                        alike.setdefault((mask, kind, name), []).extend(lines.values())
        for found in alike.values():
            yield next(iter(found[0].values())), sum(map(len, found))


def _quota_key(item: QueuedPod) -> Hashable:
    """What pods have in common that stand in one line for quota."""
    return item.class_key, item.pod_info.pod.priority, item.kind


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
            is_helped = is_helped or gates.worth(event, first.pod_info, first.reasons)
            if line.is_of_quota:
                ends_at = self._parked.wait_for_round(gates.quota_turn(first.pod_info))
                line.ready_at = max(line.ready_at, ends_at)
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
