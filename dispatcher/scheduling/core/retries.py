"""Refused places: a pod is not sent again for a while to where it was refused, and the next best
place is tried.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation.in_flight import InFlightIntent
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queue import QueuedPod
from shared.messages import REFUSED, Outcome
from shared.model.objects import Namespace
from shared.model.pod import Pod
from shared.model.reasons import Reasons, Why
from shared.model.refusal import ClusterRefusal


class Retries:
    """Remembers refusals in the core's state, and queues pods by them."""

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def note_refused(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """The pod lost its place: remember why, and what its cluster has refused."""
        tracked.refused = outcome.message or outcome.verdict
        if outcome.verdict == REFUSED and tracked.source is not None:
            placed_by = tracked.item.pod_info.refused if tracked.item is not None else ()
            self._state.refusals.note(
                tracked.pod_id, tracked.source, in_flight, outcome, now, placed_by
            )

    def pod_info(self, tracked: Tracked, pod: Pod, now: float) -> PodInfo:
        """A pod of ours as the cycle is handed it, with the refusals that hold now."""
        pod_id = tracked.pod_id
        state = self._state
        if not (state.refusals or state.fleet.uses):  # nothing is known beside the pod
            return PodInfo(pod, pod_id[0])
        return state.fleet.with_use(PodInfo(pod, pod_id[0], state.refusals.about(pod_id, pod, now)))

    def pod_infos(self, pods: Iterable[tuple[Tracked, Pod]], now: float) -> list[PodInfo]:
        """The same of each."""
        if not (self._state.refusals or self._state.fleet.uses):
            return [PodInfo(pod, tracked.pod_id[0]) for tracked, pod in pods]
        return [self.pod_info(tracked, pod, now) for tracked, pod in pods]

    def known(self, tracked: Tracked, pod: Pod, now: float) -> tuple[ClusterRefusal, ...]:
        """Refusals that hold for a pod that is not queued."""
        return tuple(self._state.refusals.known(tracked.pod_id, pod, now))

    def again(self, tracked: Tracked, pod_info: PodInfo, now: float) -> bool:
        """Queue a pod anew whose place came to nothing; False if none did.

        At once where a cluster is passed over from now on: another one is decided. Else after a
        back-off, also under a profile that has no use for refusals.
        """
        item = tracked.item
        given_back = tracked.given_back
        words = tracked.refused
        if item is None or not (words or given_back):
            return False
        tracked.refused = ""
        tracked.given_back = ""
        if _effective(pod_info.refused) != _effective(item.pod_info.refused):
            self._state.queue.anew(item, pod_info, now)
        else:
            self._state.queue.retry(item, now, pod_info)
            told = Why(Reasons.REFUSED, words).text if words else given_back
            self._state.report(tracked, told, now)
        return True

    def requeue_changed(self, batch: Sequence[QueuedPod], now: float) -> list[QueuedPod]:
        """The pods of a popped batch that are known as they were queued; others are queued again,
        as they are now.
        """
        state = self._state
        ready = []
        for item in batch:
            pod_info = item.pod_info
            refused = state.refusals.about(item.pod_id, item.pod_info.pod, now)
            if refused != pod_info.refused:
                pod_info = msgspec.structs.replace(pod_info, refused=refused)
            pod_info = state.fleet.with_use(pod_info)
            if pod_info is item.pod_info:
                ready.append(item)
            else:
                state.queue.anew(item, pod_info, now)
        return ready

    def refresh(self, items: Iterable[QueuedPod], now: float) -> None:
        """Popped pods are handed on as they are known now."""
        state = self._state
        if not (state.refusals or state.fleet.uses):
            return
        for item in items:
            pod_info = item.pod_info
            refused = state.refusals.about(item.pod_id, pod_info.pod, now)
            if refused != pod_info.refused:
                pod_info = msgspec.structs.replace(pod_info, refused=refused)
            pod_info = state.fleet.with_use(pod_info)
            if pod_info is not item.pod_info:
                state.queue.update(item, pod_info)

    def time_passed(self, now: float) -> None:
        """Pods that waited for the end of a refusal are tried again."""
        if self._state.refusals:
            self._requeue(self._state.refusals.ended(now), now)

    def object_changed(self, event: ClusterEvent, now: float) -> None:
        """A namespace that came, changed or went may take what it refused before."""
        changed = event.after or event.before
        if self._state.refusals and isinstance(changed, Namespace):
            self._requeue(self._state.refusals.namespace_changed(event.cluster, changed.name), now)

    def _requeue(self, pod_ids: Iterable[tuple[str, str]], now: float) -> None:
        for pod_id in pod_ids:
            tracked = self._state.tracked.get(pod_id)
            item = self._state.queue.get(pod_id)
            if tracked is not None and item is not None:
                self._state.queue.add(pod_id, self.pod_info(tracked, item.pod_info.pod, now), now)


def _effective(refusals: Iterable[ClusterRefusal]) -> set[ClusterRefusal]:
    """Those that may change where a pod goes: a size does not while its cluster is passed over."""
    current = [one for one in refusals if not one.over]
    barred = {one.cluster for one in current if not one.requests}
    return {one for one in current if not one.requests or one.cluster not in barred}
