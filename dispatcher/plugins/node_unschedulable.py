"""Cordoned nodes (spec.unschedulable) take no new pods, unless the pod tolerates being there.

Source: kube-scheduler's NodeUnschedulable: a toleration of the taint
node.kubernetes.io/unschedulable:NoSchedule.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Bools,
    Codes,
    Depends,
    Filter,
    FleetView,
    PodInfo,
    Refuse,
    Rows,
    Skip,
)
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.rules.eligibility import Tolerance, tolerates, tolerations_key
from shared.model.node import NO_SCHEDULE, Node, Taint
from shared.model.reasons import Reasons

CORDON = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class NodeUnschedulable(Filter[Bools]):
    """Refuses cordoned nodes."""

    name: ClassVar[str] = "NodeUnschedulable"
    REASONS = (Reasons.UNSCHEDULABLE,)
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """A node that came or changed helps if it is not cordoned."""
        return not (isinstance(event.after, Node) and event.after.unschedulable)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Whether the pod tolerates a cordon, and if so, where."""
        tolerations = pod_info.pod.tolerations
        return tolerations_key(pod_info) if tolerations and tolerates(tolerations, CORDON) else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Bools | Refuse | Skip:
        """[clusters] whether the pod tolerates no cordon there; SKIP for one that does everywhere."""
        kinds, of = Tolerance.read(pod_info, fleet)
        refused = np.array([not tolerates(kind, CORDON) for kind in kinds])[of]
        return refused if refused.any() else SKIP

    def filter(self, state: Bools, fleet: FleetView, rows: Rows) -> Codes:
        """UNSCHEDULABLE where the node is cordoned."""
        code = np.uint16(fleet.reasons.code(Reasons.UNSCHEDULABLE))
        codes: Codes = (fleet.nodes.unschedulable[rows] & state[fleet.nodes.cluster[rows]]) * code
        return codes
