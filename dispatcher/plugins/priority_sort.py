"""Order of the queue: higher spec.priority first, then who has waited longer.

Pods of equal priority that were queued in the same second are one turn: the queue decides them
class by class (what it promises is in scheduling/queue.py). Source: kube-scheduler's PrioritySort.
Unit: priority is Kubernetes' integer, time is seconds on the core's clock.
"""

from collections.abc import Hashable
from typing import Any, ClassVar

from dispatcher.scheduling.framework import Depends, Plugin, PodInfo

# far below what a user can tell; long enough that a burst of several Deployments is in one turn or
# two
TURN_S = 1.0


class PrioritySort(Plugin[None]):
    """QueueSort by (-priority, second of queueing)."""

    name: ClassVar[str] = "PrioritySort"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def sort_key(self, pod_info: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Smallest first; in a turn the queue goes by class, then by time and id, so that ties are
        deterministic.
        """
        return -pod_info.pod.priority, queued_at // TURN_S

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Order in the queue has no part in where a pod may go."""
        return None
