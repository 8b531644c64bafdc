"""The part of the observer's watch cache that the executor reads: a protocol, so that it does not
import the cache.

The view may lag behind the API server, never lead it. So it may refuse a write early, but it never
makes one safe: that is done by the UID and version preconditions of the write itself.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from shared.model.node import Node
from shared.model.objects import (
    DaemonSet,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
)
from shared.model.pod import HostPort, Pod, PodRef


class ClusterView(Protocol):
    """Nodes, namespaces and pods of one cluster as last seen by its watch. Quantities in internal
    units.
    """

    @property
    def synced(self) -> bool:
        """Whether all of it was listed once."""

    def node(self, name: str) -> Node | None:
        """The node of this name, proxy nodes included."""

    def nodes(self) -> Iterable[Node]:
        """All nodes, proxy nodes included."""

    def namespace(self, name: str) -> Namespace | None:
        """The Namespace object of this name."""

    def namespaces(self) -> Iterable[Namespace]:
        """All Namespaces; none while that kind is not shown."""

    def budgets(self) -> Iterable[PodDisruptionBudget]:
        """All PodDisruptionBudgets; none while that kind is not shown."""

    def priority_classes(self) -> Sequence[PriorityClass]:
        """All PriorityClasses; none while that kind is not shown."""

    def adopters(self, namespace: str) -> Iterable[ReplicaSet | ReplicationController | DaemonSet]:
        """Those of a namespace that may take a delegate for their own; none while these kinds are
        not shown.
        """

    def pod(self, uid: str) -> Pod | None:
        """The pod with this UID."""

    def pod_version(self, uid: str) -> str:
        """resourceVersion of the pod as seen here, "" if it is not known."""

    def pod_by_name(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now."""

    def foreign_bytes(self, cluster: str, namespace: str = "") -> int:
        """Bytes of JSON of the delegates of a cluster, or of a namespace of it."""

    def unfinished(self) -> Iterable[PodRef]:
        """Delegates by the name of their scheduler that are on no node, and that nobody has signed
        for.
        """

    def pods_on(self, node: str) -> Sequence[Pod]:
        """All pods bound to a node, ended ones included."""

    def ports_on(self, node: str) -> Sequence[HostPort]:
        """Host ports taken by the pods of a node that have not ended."""

    def free(self, node: str) -> dict[str, int]:
        """Allocatable of a node minus the requests of its pods that have not ended; 'pods' counts
        places left.

        Empty for a node that is not known.
        """
