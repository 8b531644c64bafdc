"""Among equal places the cluster of submission is the better one: no delegate is needed, and its
data is near.

score = 100 on nodes of the home cluster, else 0. Keep its weight small (0.01 by default, so 1 point
of a total of several hundred): it is meant to break ties, not to hold pods at home while the rest
of the fleet idles.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    MAX_SCORE,
    ClusterScore,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Skip,
)


class HomeCluster(ClusterScore):
    """Prefers the cluster of submission."""

    name: ClassVar[str] = "HomeCluster"
    keyed_by_template = True

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The cluster of submission."""
        return pod_info.home

    def key_without_home(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """Nothing: it says the same of all nodes that the pod may go to."""
        return ()

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Floats | Refuse | Skip:
        """100 at home, 0 elsewhere."""
        return np.array(
            [MAX_SCORE if info.name == pod_info.home else 0.0 for info in fleet.clusters]
        )
