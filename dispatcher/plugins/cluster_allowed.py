"""A pod goes only to the clusters that its annotations allow.

`global-dispatcher.io/clusters: "a,b"` is the allowed set, `global-dispatcher.io/stay: "true"` allows only the cluster
of submission. Names of clusters that do not exist are passed over as long as one does; a set without any known cluster,
or an annotation that cannot be read, refuses the pod with the name of the annotation and the known clusters.
So does a `global-dispatcher.io/domain-scope` that is neither "cluster" nor "fleet".
"""

from collections.abc import Hashable
from typing import ClassVar, cast

import numpy as np

from dispatcher.model.reasons import Reason
from dispatcher.scheduling.eligibility import ClusterChoiceError, allowed_clusters, clusters_key
from dispatcher.scheduling.framework import SKIP, Bools, Codes, Depends, Filter, Fleet, Placed, Rows, refuse


class ClusterAllowed(Filter):
    """Refuses nodes of clusters outside the allowed set."""

    name: ClassVar[str] = "ClusterAllowed"
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, placed: Placed) -> Hashable:
        """The two annotations, and the home of a pod that stays there."""
        return clusters_key(placed)

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """[clusters] which are allowed; SKIP if all are; INVALID for annotations that cannot be followed."""
        try:
            allowed = allowed_clusters(placed, fleet)
        except ClusterChoiceError as error:
            return refuse(Reason.INVALID, str(error))
        return SKIP if allowed is None else allowed

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        """CLUSTER_NOT_ALLOWED outside the allowed set."""
        allowed = cast(Bools, state)
        code = np.uint16(fleet.reasons.code(Reason.CLUSTER_NOT_ALLOWED))
        codes: Codes = ~allowed[fleet.cluster[rows]] * code
        return codes
