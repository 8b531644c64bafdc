"""A pod that names its node (spec.nodeName) goes to a node of that name or nowhere.

Such pods do not come to a scheduler; the rule is here because it is one. Source: kube-scheduler's
NodeName.
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
)
from shared.model.reasons import Reason
from shared.model.wake_events import WakeEvent

NODE_NAME = Reason(
    "node_name",
    "node(s) didn't match the requested node name",
    remedy="`spec.nodeName` or a node affinity by name asks for another node.",
    helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)


class NodeName(Filter[str]):
    """Refuses nodes of another name."""

    name: ClassVar[str] = "NodeName"
    REASONS = (NODE_NAME,)
    keyed_by_template = True
    reads = ("node",)
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The name; None without."""
        return pod_info.pod.node or None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> str | Refuse | Skip:
        """The name; SKIP without."""
        return pod_info.pod.node or SKIP

    def filter(self, state: str, fleet: FleetView, rows: Rows) -> Codes:
        """NODE_NAME everywhere but on nodes of that name, one a cluster at most."""
        codes = np.full(fleet.n, fleet.reasons.code(NODE_NAME), dtype=np.uint16)
        for info in fleet.clusters:
            row = fleet.nodes.row_of(info.name, state)
            if row is not None:
                codes[row] = 0
        return codes[rows]
