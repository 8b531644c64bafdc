"""A pod that needs features of kubelet and runtime goes where a node declares them
(status.declaredFeatures).

Which ones a pod needs, its agent infers (agents/kube/features.py). Source: kube-scheduler's
NodeDeclaredFeatures.
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
from dispatcher.scheduling.framework.hints import ClusterEvent
from shared.model.node import Node
from shared.model.reasons import Reason
from shared.model.wake_events import NODES

NODE_FEATURES = Reason(
    "node_features",
    "node(s) didn't match Pod's required features",
    remedy="The pod needs a feature of kubelet or runtime that the node does not list in "
    "`status.declaredFeatures`, of restartPolicyRules with RestartAllContainers, "
    "bindMountOptions, or hostNetwork with hostUsers false. Turn it on there, or "
    "take the field out.",
    helped_by=NODES,
    resolvable=False,
)


class NodeDeclaredFeatures(Filter[tuple[str, ...]]):
    """Refuses nodes that do not declare all features that the pod needs."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    REASONS = (NODE_FEATURES,)
    keyed_by_template = True
    reads = ("features",)
    depends: ClassVar[Depends] = Depends.STATIC

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """A node that came or changed helps if it declares what the pod needs."""
        return not isinstance(event.after, Node) or set(pod_info.pod.features) <= set(
            event.after.features
        )

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The features; None without."""
        return pod_info.pod.features or None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> tuple[str, ...] | Refuse | Skip:
        """The features; SKIP without any."""
        return pod_info.pod.features or SKIP

    def filter(self, state: tuple[str, ...], fleet: FleetView, rows: Rows) -> Codes:
        """NODE_FEATURES where one of them is not declared."""
        declared = np.logical_and.reduce([fleet.nodes.declares(feature)[rows] for feature in state])
        codes: Codes = ~declared * np.uint16(fleet.reasons.code(NODE_FEATURES))
        return codes
