"""Only Ready nodes of Ready clusters take new pods.

A cluster is not ready while its agent is silent, its API server does not answer, or it has not been
listed once: what is known of its nodes may be old: no toleration helps. A node is not ready while
it says so (a Ready condition that is not True); a pod that tolerates the taints which Kubernetes
puts on such nodes may go there. This rule holds from the moment that the node says so until those
taints are there, and TaintToleration takes over.
"""

from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import Codes, Depends, Filter, FleetView, PodInfo, Rows
from dispatcher.scheduling.rules.eligibility import tolerates
from shared.model.node import NO_SCHEDULE, Taint
from shared.model.reasons import Reasons

TAINTS = tuple(
    Taint(f"node.kubernetes.io/{name}", "", NO_SCHEDULE) for name in ("not-ready", "unreachable")
)


class NodeReady(Filter[bool]):
    """Refuses nodes of clusters that are not ready, then nodes that are not."""

    name: ClassVar[str] = "NodeReady"
    REASONS = (
        Reasons.NOT_READY,
        Reasons.CLUSTER_NOT_READY,
    )
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> bool:
        """Whether the pod tolerates nodes that are not ready."""
        tolerations = pod_info.pod.tolerations
        return bool(tolerations) and all(tolerates(tolerations, taint) for taint in TAINTS)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> bool:
        """The same."""
        return self.class_key(pod_info)

    def filter(self, state: bool, fleet: FleetView, rows: Rows) -> Codes:
        """CLUSTER_NOT_READY before NOT_READY."""
        usable = np.fromiter(
            (info.ready and info.synced for info in fleet.clusters), dtype=np.bool_
        )
        clusters = fleet.nodes.cluster[rows]
        node_code = np.where(
            fleet.nodes.ready[rows] | state, 0, fleet.reasons.code(Reasons.NOT_READY)
        )
        if not len(usable):
            return node_code.astype(np.uint16)
        codes: Codes = np.where(
            usable[clusters], node_code, fleet.reasons.code(Reasons.CLUSTER_NOT_READY)
        )
        return codes.astype(np.uint16)
