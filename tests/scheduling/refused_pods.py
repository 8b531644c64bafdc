"""A queue of pods that were tried and refused, for tests of what becomes of them."""

import itertools
from collections.abc import Callable, Hashable, Mapping

from dispatcher.plugins.priority_sort import PrioritySort
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue
from dispatcher.scheduling.queued import NoPlugins
from shared.model.pod import PodId
from shared.model.reasons import Reasons
from tests.builders import pod

FULL = frozenset((Reasons.INSUFFICIENT,))


def own_class(pod_info: PodInfo) -> Hashable:
    return pod_info.pod.name


def refused(
    pods: Mapping[PodId, str], classify: Callable[[PodInfo], Hashable] = own_class, gates: NoPlugins | None = None
) -> SchedulingQueue:
    """Pods of these ids and names, each of a class of its own by default, that were refused at second 0."""
    queue = SchedulingQueue(PrioritySort(), classify, gates=gates)
    for pod_id, name in pods.items():
        queue.add(pod_id, pod(name).placed(), 0)
    for item in popped(queue, 0):
        queue.unschedulable(item, FULL, 0)
    return queue


def popped(queue: SchedulingQueue, now: float) -> list[QueuedPod]:
    """All that are active, in order."""
    return list(itertools.chain(*iter(lambda: queue.pop_class(now, 100), [])))
