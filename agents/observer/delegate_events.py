"""Events about delegates, told with their status: `kubectl describe` shows them where a pod was
submitted.

They go with the status (shared/model/delegate_events.py), so they are numbered, resumed and
repeated like any other change of the pod. Of each delegate the last MAX_EVENTS Warnings of
different reason and message are kept, and of what else its kubelet says the last MAX_NORMAL.

A Warning is told at once. What is normal comes with a change of the status nearly always, and waits
for that: who calls `tell_late` has what came alone told.
"""

from collections.abc import Callable, Iterable

import msgspec

from agents.observer.seen import EventSeen, Seen
from shared.model.copy_names import as_at_home
from shared.model.delegate_events import (
    MAX_EVENTS,
    MAX_NORMAL,
    NORMAL,
    DelegateEvent,
    goes_on,
    with_events,
    without_events,
)
from shared.model.names import FOLLOWERS
from shared.model.pod import Pod

# that have events, Warnings or others; those of whom something was told longest ago are forgotten
MAX_PODS = 10_000

Happened = tuple[str, str]  # reason and message


class _Events:
    """Those of one type, by the UID of their pod, and the latest last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._events: dict[str, dict[Happened, DelegateEvent]] = {}

    def of(self, uid: str) -> Iterable[DelegateEvent]:
        return self._events.get(uid, {}).values()

    def put(self, uid: str, event: DelegateEvent) -> bool:
        """Whether it is more than was known."""
        what = event.reason, event.message
        events = self._events.get(uid, {})
        known = events.get(what)
        if known is not None and not goes_on(event, known.count, known.at):
            return False
        self._events.pop(uid, None)
        events.pop(what, None)
        self._events[uid] = events
        events[what] = event
        if len(events) > self._most:
            del events[next(iter(events))]
        if len(self._events) > MAX_PODS:
            del self._events[next(iter(self._events))]
        return True


class DelegateEvents:
    """The sink of watches of events. `pod`: of a UID as it is known here; `tell`: a pod is to be
    shown otherwise.
    """

    def __init__(self, pod: Callable[[str], Pod | None], tell: Callable[[Pod], None]) -> None:
        self._pod = pod
        self._tell = tell
        self._warnings = _Events(MAX_EVENTS)
        self._normal = _Events(MAX_NORMAL)
        self._waiting: dict[str, bool] = {}  # UIDs; whether `tell_late` has seen it already
        self._seen = 0
        self.any_delegate = False

    def with_own_events(self, pod: Pod) -> Pod:
        """The pod with its events in its status, if it is a delegate that has any."""
        if pod.source is None:
            return pod
        self.any_delegate = True
        self._waiting.pop(pod.uid, None)
        events = [*self._warnings.of(pod.uid), *self._normal.of(pod.uid)]
        if not events:
            return pod
        return msgspec.structs.replace(pod, status=with_events(pod.status, events))

    def tell_late(self) -> None:
        """Tell of pods that the last call saw waiting, too: no status has come meanwhile."""
        late = [uid for uid, seen in self._waiting.items() if seen]
        self._waiting = {uid: True for uid, seen in self._waiting.items() if not seen}
        for pod in filter(None, map(self._pod, late)):
            self._show(pod)

    def begin(self, kind: str, *, forget_versions: bool = False) -> None:
        """A list starts."""

    def page(self, kind: str, items: Iterable[Seen]) -> tuple[int, int] | None:
        """Part of the list."""
        for seen in items:
            self.apply(seen)
        return None

    def end(self, kind: str) -> None:
        """The list is complete. What has happened stays, though the server forgets it after an
        hour.
        """

    def absent(self, kind: str) -> None:
        """The server does not show events."""

    def forget(self, kind: str, key: str) -> None:
        """The server has forgotten an event."""

    def count(self, kind: str) -> int:
        """Events that were taken."""
        return self._seen

    def apply(self, seen: Seen) -> None:
        """An event happened, or once more."""
        if not isinstance(seen, EventSeen):
            return
        self._seen += 1
        pod = self._pod(seen.pod_uid)
        if (
            pod is None
            or pod.source is None
            or (seen.namespace, seen.name) != (pod.namespace, pod.name)
        ):
            return
        normal = seen.event.normal
        if normal and seen.event.reason not in NORMAL:
            return
        message = as_at_home(seen.event.message, pod.source, pod.annotations.get(FOLLOWERS, ""))
        event = msgspec.structs.replace(seen.event, message=message)
        if not (self._normal if normal else self._warnings).put(pod.uid, event):
            return
        if normal:
            self._waiting.setdefault(pod.uid, False)
        else:
            self._show(pod)

    def _show(self, pod: Pod) -> None:
        bare = msgspec.structs.replace(pod, status=without_events(pod.status))
        self._tell(self.with_own_events(bare))
