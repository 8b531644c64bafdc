"""Pods that wait for an event that may help them, and how many of them one event has tried again.

Pods are *refused alike* if what refuses one of them refuses the others: pods of one template and
home (`Gates.refused_alike`), and pods of one class and priority that quota alone refuses
(`Gates.quota_alike`). They stand in one line, and an event has the first of it tried for all. If
that one is placed, or refused for something else, the next two are tried, then four, and so on up
to `queued.AT_A_TIME`. If it is refused for the same again, the line backs off before its next try,
as a pod does. So an event costs no more with more replicas. Other pods are all tried.

Example: 10,000 replicas wait for room, and a pod ends. The first of them is tried, and takes the
room; the next two are tried, and refused; the other 9,997 are left alone. If a node with room for
100 is added, then 1, 2, 4, 8, 16, 32 and 37 of the next 64 are placed, one batch after the other,
in one go.
"""

from collections.abc import Hashable, Iterator

from dispatcher.scheduling.framework.hints import WakeEvent
from dispatcher.scheduling.queued import QueuedPod, RefusedTogether

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


class ParkedPods:
    """The lines. Those of which a pod is tried are kept apart: an event does not look at them."""

    def __init__(self) -> None:
        self._idle = _Lines()
        self._tried = _Lines()

    def line_of(self, item: QueuedPod, alike: Hashable) -> RefusedTogether:
        """Where a pod that is refused stands, to be entered there."""
        line = self._idle.get(item, alike) or self._tried.get(item, alike)
        if line is None:
            line = RefusedTogether(alike)
            self._idle.put(item, line)
        return line

    def leave(self, item: QueuedPod) -> None:
        """A pod is taken out of its line."""
        line = item.line
        item.line = None
        if line is None:
            return
        del line[item.pod_id]
        if not line and not self._idle.take(item, line):
            self._tried.take(item, line)

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
