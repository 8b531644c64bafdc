"""Pods that come into the queue, told to those that wait for others to come: members of a gang."""

from dispatcher.scheduling.framework.hints import ClusterEvent, WakeEvent
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue

_POD_ADDED = WakeEvent.POD_ADDED


class Newcomers:
    """`entered`: what was added to the queue since the last `tell`, in order."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self.entered: list[QueuedPod] = []

    def tell(self, now: float) -> None:
        """Who waits for pods to come is tried again; but not the last that came, which was asked after all others."""
        entered, self.entered = self.entered, []
        if not entered or not self._queue.listens(_POD_ADDED):
            return
        came = [one for one in entered if one.queued_at == now]  # others have waited before, as they were then
        if came:
            pod_id, pod = came[-1].pod_id, came[-1].placed.pod
            event = ClusterEvent(_POD_ADDED, pod_id[0], None, pod) if len(came) == 1 else ClusterEvent(_POD_ADDED)
            self._queue.wake(event, now, but=came[-1])
