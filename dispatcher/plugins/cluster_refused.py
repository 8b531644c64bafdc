"""A pod does not go again, for a while, to a cluster that has refused it.

The core remembers refusals that are about a cluster (a quota, Pod Security, a webhook, its policy)
or about the pod (a field that cannot travel), and for how long they hold; the pod brings them along
(`PodInfo.refused`). So the next best cluster, the pod's own included, is decided at once. A cluster
whose server only makes the pod larger is not passed over: NodeResourcesFit asks for its true size
there.
"""

from collections.abc import Hashable, Sequence
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
)
from shared.model.reasons import Reason
from shared.model.refusal import ClusterRefusal
from shared.model.wake_events import WakeEvent

CLUSTER_REFUSED = Reason(
    "cluster_refused",
    "node(s) were in a cluster that refused the pod a while ago",
    remedy="`explain` says what that cluster answered and when it is tried again. Mend the"
    " cause there. To have it tried at once, change a label of the Namespace there.",
    # else time alone, or a change of the namespace there: see the core
    helped_by=WakeEvent.NODE_ADDED,
    resolvable=False,
)


class ClusterRefused(ClusterFilter):
    """Refuses nodes of clusters that have refused the pod."""

    name: ClassVar[str] = "ClusterRefused"
    REASONS = (CLUSTER_REFUSED,)
    keyed_by_template = True
    reads = ("refused",)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """None for a pod that nobody has refused; else its home and those that have."""
        barring = _barring(pod_info)
        return (pod_info.home, barring) if barring else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Codes | Refuse | Skip:
        """[clusters] CLUSTER_REFUSED where it is passed over; SKIP if none is."""
        barring = _barring(pod_info)
        return self._codes(barring, pod_info, fleet) if barring else SKIP

    def closed_clusters(self, pod_info: PodInfo, fleet: FleetView) -> Codes | None:
        """The same, but for failures that pass: hard spread waits for these clusters, and keeps its
        skew.
        """
        lasting = [one for one in _barring(pod_info) if not one.passing]
        return self._codes(lasting, pod_info, fleet) if lasting else None

    def _codes(
        self, barring: Sequence[ClusterRefusal], pod_info: PodInfo, fleet: FleetView
    ) -> Codes:
        barred = [
            any(one.bars(info.name, pod_info.home) for one in barring) for info in fleet.clusters
        ]
        return np.array(barred, dtype=np.uint16) * np.uint16(fleet.reasons.code(CLUSTER_REFUSED))


def _barring(pod_info: PodInfo) -> tuple[ClusterRefusal, ...]:
    return tuple([one for one in pod_info.refused if one.holds]) if pod_info.refused else ()
