"""A pod with scheduling gates does not enter the queue before all of them are gone.

Source: kube-scheduler's SchedulingGates.
"""

from collections.abc import Hashable
from typing import ClassVar

from dispatcher.scheduling.framework import Depends, PodInfo, Refuse, refuse
from dispatcher.scheduling.framework.lifecycle import PreEnqueue
from shared.model.reasons import Reasons


class SchedulingGates(PreEnqueue[None]):
    """Gates pods with spec.schedulingGates."""

    name: ClassVar[str] = "SchedulingGates"
    REASONS = (Reasons.GATED,)
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """A pod without gates is judged without them."""
        return None

    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        """GATED with the names of the gates."""
        pod = pod_info.pod
        return refuse(Reasons.GATED, ", ".join(pod.gates)) if pod.gates or pod.gated else None
