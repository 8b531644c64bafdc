"""Warning events about delegates, told with their status: `kubectl describe` shows them where a pod
was submitted.

They go with the status (shared/model/delegate_events.py), so they are numbered, resumed and
repeated like any other change of the pod. Of each delegate the last MAX_EVENTS of different reason
and message are kept.
"""

from collections.abc import Callable, Iterable

import msgspec

from agents.observer.seen import EventSeen, Seen
from shared.model.copy_names import as_at_home
from shared.model.delegate_events import (
    MAX_EVENTS,
    DelegateEvent,
    goes_on,
    with_events,
    without_events,
)
from shared.model.names import FOLLOWERS
from shared.model.pod import Pod

MAX_PODS = 10_000  # that have events; those of whom something was told longest ago are forgotten

Happened = tuple[str, str]  # reason and message


class DelegateEvents:
    """The sink of a watch of events. `pod`: of a UID as it is known here; `tell`: a pod is to be
    shown otherwise.
    """

    def __init__(self, pod: Callable[[str], Pod | None], tell: Callable[[Pod], None]) -> None:
        self._pod = pod
        self._tell = tell
        self._events: dict[str, dict[Happened, DelegateEvent]] = {}  # by UID, and the latest last
        self._seen = 0

    def with_own_events(self, pod: Pod) -> Pod:
        """The pod with its events in its status, if it is a delegate that has any."""
        events = self._events.get(pod.uid)
        if not events or pod.source is None:
            return pod
        return msgspec.structs.replace(pod, status=with_events(pod.status, events.values()))

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
        events = self._events.get(pod.uid, {})
        message = as_at_home(seen.event.message, pod.source, pod.annotations.get(FOLLOWERS, ""))
        event = msgspec.structs.replace(seen.event, message=message)
        what = event.reason, message
        known = events.get(what)
        if known is not None and not goes_on(event, known.count, known.at):
            return
        self._events.pop(pod.uid, None)
        events.pop(what, None)
        self._events[pod.uid] = events
        events[what] = event
        if len(events) > MAX_EVENTS:
            del events[next(iter(events))]
        if len(self._events) > MAX_PODS:
            del self._events[next(iter(self._events))]
        self._tell(
            self.with_own_events(msgspec.structs.replace(pod, status=without_events(pod.status)))
        )
