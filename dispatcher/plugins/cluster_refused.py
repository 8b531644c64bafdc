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


class ClusterRefused(ClusterFilter):
    """Refuses nodes of clusters that have refused the pod."""

    name: ClassVar[str] = "ClusterRefused"
    keyed_by_template = True

    def class_key(self, placed: PodInfo) -> Hashable:
        """None for a pod that nobody has refused; else its home and those that have."""
        barring = _barring(placed)
        return (placed.home, barring) if barring else None

    def pre_filter(self, placed: PodInfo, fleet: FleetView) -> Codes | Refuse | Skip:
        """[clusters] CLUSTER_REFUSED where it is passed over; SKIP if none is."""
        barring = _barring(placed)
        return self._codes(barring, placed, fleet) if barring else SKIP

    def closed_clusters(self, placed: PodInfo, fleet: FleetView) -> Codes | None:
        """The same, but for failures that pass: hard spread waits for these clusters, and keeps its
        skew.
        """
        lasting = [one for one in _barring(placed) if not one.passing]
        return self._codes(lasting, placed, fleet) if lasting else None

    def _codes(self, barring: Sequence[ClusterRefusal], placed: PodInfo, fleet: FleetView) -> Codes:
        barred = [
            any(one.bars(info.name, placed.home) for one in barring) for info in fleet.clusters
        ]
        return np.array(barred, dtype=np.uint16) * np.uint16(
            fleet.reasons.code(Reason.CLUSTER_REFUSED)
        )


def _barring(placed: PodInfo) -> tuple[ClusterRefusal, ...]:
    return tuple([one for one in placed.refused if one.holds]) if placed.refused else ()
