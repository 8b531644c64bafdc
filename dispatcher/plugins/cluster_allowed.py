"""A pod goes only to the clusters that its annotations allow.

`global-dispatcher.io/clusters: "a,b"` is the allowed set, `global-dispatcher.io/stay: "true"`
allows only the cluster of submission, and so do claims of volumes and inline disks, which are
there. Names of clusters that do not exist are passed over as long as one does; a set without any
known cluster, or an annotation that cannot be read, refuses the pod with the name of the annotation
and the known clusters. So does a `global-dispatcher.io/domain-scope` that is neither "cluster" nor
"fleet".

Nor does a pod go to a cluster whose proxy node in the cluster of submission is cordoned: `kubectl
cordon global-dispatcher-b` keeps new pods of that cluster away from cluster b. No toleration helps.
A NoSchedule or NoExecute taint that somebody has put on that proxy node keeps those pods away that
do not tolerate it.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    ClusterFilter,
    Codes,
    FleetView,
    PodInfo,
    Refuse,
    Skip,
    refuse,
)
from dispatcher.scheduling.rules.eligibility import (
    ClusterChoiceError,
    allowed_clusters,
    clusters_key,
    has_volumes,
    tolerations_key,
    untolerated,
)
from shared.model.reasons import Reason, Reasons
from shared.model.wake_events import WakeEvent

CLUSTER_NOT_ALLOWED = Reason(
    "cluster_not_allowed",
    "node(s) were in a cluster that the pod does not allow (annotation "
    "global-dispatcher.io/clusters or stay)",
    remedy="The pod's `global-dispatcher.io/clusters` or `stay` leaves it out.",
    helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)
PROXY_TAINT = Reason(
    "proxy_taint",
    "node(s) were in cluster {0}, whose proxy node has a taint that the pod does not "
    "tolerate (`kubectl describe node global-dispatcher-{0}`)",
    remedy="Somebody has tainted the proxy node in the pod's own cluster: take the taint "
    "off, or let the pod tolerate it.",
    helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)


class ClusterAllowed(ClusterFilter):
    """Refuses nodes of clusters outside the allowed set."""

    name: ClassVar[str] = "ClusterAllowed"
    REASONS = (
        CLUSTER_NOT_ALLOWED,
        Reasons.CLUSTER_CORDONED,
        PROXY_TAINT,
    )
    keyed_by_template = True

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The two annotations, whether there are volumes, the home of a pod that stays there, and
        the tolerations.
        """
        return clusters_key(pod_info), tolerations_key(pod_info)

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """The clusters that are closed to pods from its home, to all or by taints; None if none is."""
        closed = fleet.closed.get(pod_info.home)
        tainted = fleet.proxy_taints.get(pod_info.home)
        return (closed, tainted) if closed or tainted else None

    def key_without_home(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """The same, and the clusters that are closed to pods from its home: pods queue together if
        these are equal.
        """
        return self.class_key(pod_info), self.fleet_key(pod_info, fleet)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Codes | Refuse | Skip:
        """[clusters] CLUSTER_NOT_ALLOWED outside the allowed set, VOLUMES_ELSEWHERE for a pod with
        volumes; CLUSTER_CORDONED where the cluster is closed to pods from its home, PROXY_TAINT
        where taints close it.

        SKIP if it may go to all; INVALID if the annotations cannot be followed.
        """
        try:
            allowed = allowed_clusters(pod_info, fleet)
        except ClusterChoiceError as error:
            return refuse(Reasons.INVALID, str(error))
        closed = self._closed_to(pod_info, fleet)
        if allowed is None and not closed:
            return SKIP
        if allowed is None:
            allowed = np.ones(len(fleet.clusters), dtype=np.bool_)
        reason = Reasons.VOLUMES_ELSEWHERE if has_volumes(pod_info.pod) else CLUSTER_NOT_ALLOWED
        by_cluster = (closed.get(info.name, 0) for info in fleet.clusters)
        there = np.fromiter(by_cluster, dtype=np.uint16)
        codes = np.where(allowed, there, np.uint16(fleet.reasons.code(reason)))
        return codes.astype(np.uint16, copy=False)

    def _closed_to(self, pod_info: PodInfo, fleet: FleetView) -> dict[str, int]:
        """Cluster -> why it is closed to this pod at its home."""
        codes = {
            one.cluster: fleet.reasons.code(PROXY_TAINT, one.cluster)
            for one in fleet.proxy_taints.get(pod_info.home, ())
            if untolerated(pod_info.pod.tolerations, one.taints) is not None
        }
        for cluster in fleet.closed.get(pod_info.home, ()):
            codes[cluster] = fleet.reasons.code(Reasons.CLUSTER_CORDONED, cluster)
        return codes
