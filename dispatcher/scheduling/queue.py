"""The scheduling queue: pods that wait for a decision, in which order, and what wakes those that found no place.

A pod is active (to be decided, in the order of the QueueSort plugin), backing off (until a time), unschedulable (until
an event that may help, or for `flush_s` at most) or gated (until its gates go). Order rests on no hash and no clock.
"""

import enum
import heapq
import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from dispatcher.model.reasons import Reason
from dispatcher.scheduling.fleet_occupants import PodId
from dispatcher.scheduling.framework import Placed, QueueSort
from dispatcher.scheduling.hints import HELPED_BY, NEVER, NODES, WakeEvent

__all__ = ["HELPED_BY", "QueuedPod", "SchedulingQueue", "WakeEvent"]


class _State(enum.Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    POPPED = "popped"


@dataclass(eq=False, slots=True)
class QueuedPod:
    """A pod in the queue. `attempts` counts decisions that failed; `ready_at` is the end of its back-off."""

    pod_id: PodId
    placed: Placed
    class_key: Hashable
    queued_at: float
    order: tuple[Any, ...]
    attempts: int = 0
    ready_at: float = float("-inf")
    since: float = float("-inf")
    helped_by: WakeEvent = NEVER
    state: _State = _State.POPPED
    ticket: int = 0


class SchedulingQueue:
    """Holds every pod that waits. `classify` names the class of a pod: equal names are decided together.

    Back-off starts at `first_s` and doubles to `longest_s`. All operations are O(log n), `wake` per pod it wakes.
    """

    def __init__(
        self,
        sort: QueueSort,
        classify: Callable[[Placed], Hashable],
        *,
        first_s: float = 1.0,
        longest_s: float = 10.0,
        flush_s: float = 300.0,
    ) -> None:
        self._sort, self._classify = sort, classify
        self._first_s, self._longest_s, self._flush_s = first_s, longest_s, flush_s
        self._pods: dict[PodId, QueuedPod] = {}
        self._counts = dict.fromkeys(_State, 0)
        # Entries whose ticket is not their pod's any more are void; they are dropped when they come up.
        self._active: list[tuple[tuple[Any, ...], int, QueuedPod]] = []
        self._backoff: list[tuple[float, tuple[Any, ...], int, QueuedPod]] = []
        self._parked: dict[WakeEvent, dict[PodId, QueuedPod]] = {}
        self._tickets = itertools.count(1)

    # --- in and out --------------------------------------------------------------------------------------------------

    def add(self, pod_id: PodId, placed: Placed, now: float) -> None:
        """Enter a pod, or its new version: one that changed is tried again, one that did not keeps its place."""
        known = self._pods.get(pod_id)
        if known is not None and known.placed == placed:
            return
        queued_at = known.queued_at if known else now
        item = QueuedPod(pod_id, placed, self._classify(placed), queued_at, self._order(pod_id, placed, queued_at))
        if known is not None:
            item.attempts, item.ready_at = known.attempts, known.ready_at
            self.remove(pod_id)
        self._pods[pod_id] = item
        if placed.pod.gated:
            self._move(item, _State.GATED)
        else:
            self._ready(item, now)

    def _order(self, pod_id: PodId, placed: Placed, queued_at: float) -> tuple[Any, ...]:
        try:
            key = (0, *self._sort.sort_key(placed, queued_at))
        except Exception:  # a broken policy must not stop the queue: such pods come last, oldest first
            key = (1, queued_at)
        return (key, pod_id)

    def remove(self, pod_id: PodId) -> None:
        """Take a pod out, wherever it waits; unknown pods are ignored."""
        item = self._pods.pop(pod_id, None)
        if item is not None:
            self._leave(item)
            item.state = _State.POPPED

    def get(self, pod_id: PodId) -> QueuedPod | None:
        """The waiting pod, None if it does not wait here."""
        return self._pods.get(pod_id)

    def counts(self) -> dict[str, int]:
        """How many pods wait in each state."""
        return {state.value: count for state, count in self._counts.items() if state is not _State.POPPED}

    def state_of(self, pod_id: PodId) -> str | None:
        """active, backoff, unschedulable or gated; None if the pod does not wait here."""
        item = self._pods.get(pod_id)
        return item.state.value if item else None

    # --- deciding ----------------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """Take out the first pod to be decided, None if there is none."""
        item = self._first(now)
        if item is not None:
            self.remove(item.pod_id)
        return item

    def pop_class(self, now: float, limit: int) -> list[QueuedPod]:
        """Take out the first pod and those right behind it that are of its class, `limit` at most, in order."""
        batch: list[QueuedPod] = []
        item = self._first(now)
        while item is not None and len(batch) < limit and (not batch or item.class_key == batch[0].class_key):
            self.remove(item.pod_id)
            batch.append(item)
            item = self._first(now)
        return batch

    def _first(self, now: float) -> QueuedPod | None:
        self._end_backoffs(now)
        while self._active:
            _, ticket, item = self._active[0]
            if item.state is _State.ACTIVE and item.ticket == ticket:
                return item
            heapq.heappop(self._active)
        return None

    def _end_backoffs(self, now: float) -> None:
        while self._backoff and self._backoff[0][0] <= now:
            _, _, ticket, item = heapq.heappop(self._backoff)
            if item.state is _State.BACKOFF and item.ticket == ticket:
                self._move(item, _State.ACTIVE)

    def unschedulable(self, item: QueuedPod, reasons: frozenset[Reason], now: float) -> None:
        """A popped pod found no place for `reasons`: it waits for an event that may help."""
        self._failed(item, now)
        item.helped_by = NEVER if reasons else NODES  # without a single node there was nothing to refuse it
        for reason in reasons:
            item.helped_by |= HELPED_BY[reason]
        item.since = now
        self._return(item, _State.UNSCHEDULABLE)

    def retry(self, item: QueuedPod, now: float) -> None:
        """A popped pod had a place that came to nothing: it is decided anew after its back-off."""
        self._failed(item, now)
        self._return(item, _State.BACKOFF)

    def _failed(self, item: QueuedPod, now: float) -> None:
        item.attempts += 1
        # The exponent is bounded first: two to the power of a large count must never be computed.
        pause = min(self._first_s * 2.0 ** min(item.attempts - 1, 30), self._longest_s)
        item.ready_at = now + pause

    def _return(self, item: QueuedPod, state: _State) -> None:
        self.remove(item.pod_id)
        self._pods[item.pod_id] = item
        self._move(item, state)

    # --- waking ------------------------------------------------------------------------------------------------------

    def wake(self, event: WakeEvent, now: float) -> None:
        """Something happened: pods that it may help are decided again, after what is left of their back-off."""
        for helped_by in [mask for mask in self._parked if mask & event]:
            for item in list(self._parked[helped_by].values()):
                self._ready(item, now)

    def flush(self, now: float) -> None:
        """Time passed: back-offs end, and all that is unschedulable for `flush_s` is tried again."""
        self._end_backoffs(now)
        for parked in list(self._parked.values()):
            for item in list(parked.values()):
                if now - item.since < self._flush_s:
                    break  # parked in the order of time
                self._ready(item, now)

    # --- states ------------------------------------------------------------------------------------------------------

    def _ready(self, item: QueuedPod, now: float) -> None:
        self._move(item, _State.ACTIVE if item.ready_at <= now else _State.BACKOFF)

    def _leave(self, item: QueuedPod) -> None:
        if item.state is not _State.POPPED:
            self._counts[item.state] -= 1
        if item.state is _State.UNSCHEDULABLE:
            parked = self._parked[item.helped_by]
            del parked[item.pod_id]
            if not parked:
                del self._parked[item.helped_by]

    def _move(self, item: QueuedPod, state: _State) -> None:
        self._leave(item)
        item.state = state
        item.ticket = next(self._tickets)
        self._counts[state] += 1
        if state is _State.ACTIVE:
            self._compact()
            heapq.heappush(self._active, (item.order, item.ticket, item))
        elif state is _State.BACKOFF:
            heapq.heappush(self._backoff, (item.ready_at, item.order, item.ticket, item))
        elif state is _State.UNSCHEDULABLE:
            self._parked.setdefault(item.helped_by, {})[item.pod_id] = item

    def _compact(self) -> None:
        # Pods that change all the time leave void entries behind: never more of them than pods that wait.
        if len(self._active) > 2 * len(self._pods) + 64:
            self._active = [entry for entry in self._active if entry[1] == entry[2].ticket and _is_active(entry[2])]
            heapq.heapify(self._active)


def _is_active(item: QueuedPod) -> bool:
    return item.state is _State.ACTIVE
