"""Pods that wait for an event that may help them, and how many of them one event has tried again.

Pods are *refused alike* if what refuses one of them refuses the others: pods of one template and home (see
`Gates.refused_alike`), and pods of one class that quota alone refuses. They stand in one line, and an event tries the
first of it for all. Only if that one is not refused for the same again are the next two tried, then four, and so on up
to `queued.AT_A_TIME`. A line whose first was refused for the same waits before its next try, longer each time, as one
pod does. So what it costs that pods wait does not grow with their number. Others are all tried with each event.

Example: 10,000 replicas wait for room, and a pod ends. The first of them is tried, and takes the room; the next two are
tried, and refused; the other 9,997 are left alone. Is a node added that has room for 100, then 1, 2, 4, 8, 16, 32 and
37 of the next 64 are placed, one batch after the other, in one go.
"""

from collections.abc import Hashable, Iterator

from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework.hints import WakeEvent
from dispatcher.scheduling.queued import Line, QueuedPod

_Alike = tuple[Hashable, frozenset[Reason]]  # a class, and for what pods of it were refused


class ParkedPods:
    """The lines, by the events that may help their pods, and by class and reasons."""

    def __init__(self) -> None:
        self._lines: dict[WakeEvent, dict[_Alike, dict[Hashable, Line]]] = {}

    def line_of(self, item: QueuedPod, alike: Hashable) -> Line:
        """Where a pod that is refused stands, to be entered there."""
        groups = self._lines.setdefault(item.helped_by, {})
        lines = groups.setdefault((item.class_key, item.reasons), {})
        line = lines.get(alike)
        if line is None:
            line = lines[alike] = Line(alike)
        return line

    def leave(self, item: QueuedPod) -> None:
        """A pod is taken out of its line."""
        line, item.line = item.line, None
        if line is None:
            return
        del line[item.pod_id]
        if not line:
            groups = self._lines[item.helped_by]
            lines = groups[item.class_key, item.reasons]
            del lines[line.alike]
            if not lines:
                del groups[item.class_key, item.reasons]
            if not groups:
                del self._lines[item.helped_by]

    def helped_by(self, kind: WakeEvent) -> Iterator[tuple[QueuedPod, list[Line]]]:
        """Of each class and reasons that such an event may help: a pod, and the lines of which none is tried now."""
        for helped_by in [mask for mask in self._lines if mask & kind]:
            for lines in list(self._lines[helped_by].values()):
                if idle := [line for line in lines.values() if not line.is_tried()]:
                    yield next(iter(idle[0].values())), idle

    def listens(self, kind: WakeEvent) -> bool:
        """Whether such an event may help anybody."""
        return any(mask & kind for mask in self._lines)

    def counts(self) -> Iterator[tuple[QueuedPod, int]]:
        """Of each class that was refused for the same, or is gated: a pod, and how many there are."""
        for groups in self._lines.values():
            for lines in groups.values():
                first = next(iter(lines.values()))
                yield next(iter(first.values())), sum(map(len, lines.values()))
