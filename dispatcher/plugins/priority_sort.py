"""Order of the queue: higher spec.priority first, then who has waited longer.

Source: kube-scheduler's PrioritySort. Unit: priority is Kubernetes' integer, time is seconds on the core's clock.
"""

from collections.abc import Hashable
from typing import Any, ClassVar

from dispatcher.scheduling.framework import Depends, Placed, Plugin


class PrioritySort(Plugin[None]):
    """QueueSort by (-priority, queued at)."""

    name: ClassVar[str] = "PrioritySort"
    depends: ClassVar[Depends] = Depends.STATIC

    def sort_key(self, placed: Placed, queued_at: float) -> tuple[Any, ...]:
        """Smallest first; the queue appends the pod's id so that ties are deterministic."""
        return -placed.pod.priority, queued_at

    def class_key(self, placed: Placed) -> Hashable:
        """Order in the queue has no part in where a pod may go."""
        return None
