"""A pod goes only to the clusters that its annotations allow.

`global-dispatcher.io/clusters: "a,b"` is the allowed set, `global-dispatcher.io/stay: "true"` allows only the cluster
of submission, and so do claims of volumes and inline disks, which are there. Names of clusters that do not exist are
passed over as long as one does; a set without any known cluster, or an annotation that cannot be read, refuses the pod
with the name of the annotation and the known clusters. So does a `global-dispatcher.io/domain-scope` that is neither
"cluster" nor "fleet".
"""

from collections.abc import Hashable
from typing import ClassVar, cast

import numpy as np

from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework import SKIP, Bools, Codes, Depends, Filter, Fleet, Placed, Rows, refuse
from dispatcher.scheduling.rules.eligibility import ClusterChoiceError, allowed_clusters, clusters_key, has_volumes


class ClusterAllowed(Filter):
    """Refuses nodes of clusters outside the allowed set."""

    name: ClassVar[str] = "ClusterAllowed"
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, placed: Placed) -> Hashable:
        """The two annotations, whether there are volumes, and the home of a pod that stays there."""
        return clusters_key(placed)

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """([clusters] which are allowed, the reason at others); SKIP if all are; INVALID if it cannot be followed."""
        try:
            allowed = allowed_clusters(placed, fleet)
        except ClusterChoiceError as error:
            return refuse(Reason.INVALID, str(error))
        if allowed is None:
            return SKIP
        return allowed, Reason.VOLUMES_ELSEWHERE if has_volumes(placed.pod) else Reason.CLUSTER_NOT_ALLOWED

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        """CLUSTER_NOT_ALLOWED outside the allowed set; VOLUMES_ELSEWHERE for a pod with volumes."""
        allowed, reason = cast(tuple[Bools, Reason], state)
        code = np.uint16(fleet.reasons.code(reason))
        codes: Codes = ~allowed[fleet.cluster[rows]] * code
        return codes
