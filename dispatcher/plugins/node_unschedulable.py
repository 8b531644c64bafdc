"""Cordoned nodes (spec.unschedulable) take no new pods, unless the pod tolerates being there.

Source: kube-scheduler's NodeUnschedulable: a toleration of the taint node.kubernetes.io/unschedulable:NoSchedule.
"""

from collections.abc import Hashable, Mapping
from typing import ClassVar

import numpy as np

from dispatcher.model.node import NO_SCHEDULE, Node, Taint
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework import SKIP, Codes, Depends, Filter, Fleet, Placed, Refuse, Rows, Skip
from dispatcher.scheduling.framework.hints import NODES, Happening, WakeEvent

CORDON = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class NodeUnschedulable(Filter[None]):
    """Refuses cordoned nodes."""

    name: ClassVar[str] = "NodeUnschedulable"
    depends: ClassVar[Depends] = Depends.STATIC
    EVENTS: ClassVar[Mapping[Reason, WakeEvent]] = {Reason.UNSCHEDULABLE: NODES}

    def hint(self, happening: Happening, placed: Placed) -> bool:
        """A node that came or changed helps if it is not cordoned."""
        return not (isinstance(happening.after, Node) and happening.after.unschedulable)

    def class_key(self, placed: Placed) -> Hashable:
        """Whether the pod tolerates a cordon."""
        return any(CORDON.tolerated_by(toleration) for toleration in placed.pod.tolerations)

    def pre_filter(self, placed: Placed, fleet: Fleet) -> Refuse | Skip | None:
        """SKIP for a pod that tolerates a cordon."""
        return SKIP if self.class_key(placed) else None

    def filter(self, state: None, fleet: Fleet, rows: Rows) -> Codes:
        """UNSCHEDULABLE where the node is cordoned."""
        code = np.uint16(fleet.reasons.code(Reason.UNSCHEDULABLE))
        codes: Codes = fleet.unschedulable[rows] * code
        return codes
