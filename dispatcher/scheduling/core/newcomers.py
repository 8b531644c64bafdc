"""Wakes pods that wait for others to come into the queue: members of a gang."""

from dispatcher.scheduling.framework.hints import ClusterEvent, WakeEvent
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue

_POD_ADDED = WakeEvent.POD_ADDED


class Newcomers:
    """`entered`: what was added to the queue since the last `wake_waiting`, in order."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self.entered: list[QueuedPod] = []

    def wake_waiting(self, now: float) -> None:
        """Retry pods that wait for others to come; but not the last that came, as it was decided
        after all others.
        """
        entered = self.entered
        self.entered = []
        if not entered or not self._queue.listens(_POD_ADDED):
            return
        came = [
            one for one in entered if one.queued_at == now
        ]  # others have waited before, as they were then
        if came:
            pod_id = came[-1].pod_id
            pod = came[-1].placed.pod
            event = (
                ClusterEvent(_POD_ADDED, pod_id[0], None, pod)
                if len(came) == 1
                else ClusterEvent(_POD_ADDED)
            )
            self._queue.wake(event, now, but=came[-1])
