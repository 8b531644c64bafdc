"""A pod goes to another cluster only where its namespace exists, too, and is open to pods of others.

A namespace of the same name is the same namespace in all clusters (SIG-Multicluster's position on namespace sameness);
whoever has no such namespace has not agreed to run its pods. Closed are namespaces `kube-*`, and where the target's
admin says so with the label `global-dispatcher.io/accept: "false"`. Of a cluster that shows no namespaces at all (an
agent without the right to list them) nothing is known, and its own agent decides.
"""

from collections.abc import Hashable, Mapping
from typing import ClassVar

import numpy as np

from dispatcher.model.names import ACCEPT
from dispatcher.model.objects import Namespace
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework import SKIP, ClusterFilter, Codes, FleetView, Placed, Refuse, Skip
from dispatcher.scheduling.framework.hints import ClusterEvent, WakeEvent

_SYSTEM = "kube-"


class NamespaceOpen(ClusterFilter):
    """Refuses nodes of other clusters without the pod's namespace, or where that is closed."""

    name: ClassVar[str] = "NamespaceOpen"
    keyed_by_template = True
    EVENTS: ClassVar[Mapping[Reason, WakeEvent]] = dict.fromkeys(
        (Reason.NAMESPACE_ABSENT, Reason.NAMESPACE_CLOSED), WakeEvent.NAMESPACE | WakeEvent.CLUSTER_CHANGED
    )

    def hint(self, event: ClusterEvent, placed: Placed) -> bool:
        """Of namespaces only the pod's own."""
        found = event.after or event.before
        return not isinstance(found, Namespace) or found.name == placed.pod.namespace

    def class_key(self, placed: Placed) -> Hashable:
        """The pod's own cluster and its namespace."""
        return placed.home, placed.pod.namespace

    def away_key(self, placed: Placed, fleet: FleetView) -> Hashable:
        """The namespace alone, where the pod's own cluster would take it from others, too."""
        closed = _closed(placed.home, placed.pod.namespace, fleet)
        return placed.pod.namespace if closed is None else None

    def pre_filter(self, placed: Placed, fleet: FleetView) -> Codes | Refuse | Skip:
        """[clusters] NAMESPACE_ABSENT or NAMESPACE_CLOSED, 0 where its namespace is open; SKIP if it is everywhere."""
        reasons = [_reason(info.name, placed, fleet) for info in fleet.clusters]
        if not any(reasons):
            return SKIP
        return np.array([fleet.reasons.code(one) if one else 0 for one in reasons], dtype=np.uint16)


def _reason(cluster: str, placed: Placed, fleet: FleetView) -> Reason | None:
    return None if cluster == placed.home else _closed(cluster, placed.pod.namespace, fleet)


def _closed(cluster: str, namespace: str, fleet: FleetView) -> Reason | None:
    """Why pods of others are not taken there."""
    if namespace.startswith(_SYSTEM):
        return Reason.NAMESPACE_CLOSED
    shown = fleet.objects.of(cluster, Namespace)
    found = shown.get(namespace)
    if found is None:
        return Reason.NAMESPACE_ABSENT if shown else None
    return Reason.NAMESPACE_CLOSED if found.labels.get(ACCEPT, "").lower() == "false" else None
