"""Devices that are claimed (spec.resourceClaims) are not allocated here: such a pod waits and is
told so.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    Depends,
    Filter,
    FleetView,
    PodInfo,
    Refuse,
    Rows,
    Skip,
    refuse,
)
from shared.model.reasons import Reason
from shared.model.wake_events import NEVER

DEVICES = Reason(
    "devices",
    "spec.resourceClaims ({}) are not supported: request an extended resource instead, or"
    " name the scheduler of the pod's own cluster in spec.schedulerName",
    remedy="Ask for an extended resource instead (`resources.limits`), or leave the pod to"
    " kube-scheduler.",
    helped_by=NEVER,
    resolvable=False,
    nodes_help=False,
)


class DynamicResources(Filter[None]):
    """Refuses pods with resource claims."""

    name: ClassVar[str] = "DynamicResources"
    REASONS = (DEVICES,)
    keyed_by_template = True
    reads = ("resource_claims",)
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The names of the claims; None without."""
        return pod_info.pod.resource_claims or None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Refuse | Skip | None:
        """DEVICES with the names of the claims; SKIP without any."""
        claims = pod_info.pod.resource_claims
        return refuse(DEVICES, ", ".join(claims)[:200]) if claims else SKIP

    def filter(self, state: None, fleet: FleetView, rows: Rows) -> Codes:
        """No node is refused: the pod as a whole is."""
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
