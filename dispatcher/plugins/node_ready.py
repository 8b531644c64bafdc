"""Only Ready nodes of Ready clusters take new pods.

A cluster is not ready while its agent is silent, its API server does not answer, or it has not been listed once: what
is known of its nodes may be old. A node is not ready while its Ready condition is not True. No toleration helps: the
taints that Kubernetes puts on such nodes are judged by TaintToleration, this rule protects from stale knowledge.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework import Codes, Depends, Filter, Fleet, Placed, Rows


class NodeReady(Filter):
    """Refuses nodes of clusters that are not ready, then nodes that are not."""

    name: ClassVar[str] = "NodeReady"
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, placed: Placed) -> Hashable:
        """Nothing of the pod matters."""
        return None

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        """CLUSTER_NOT_READY before NOT_READY."""
        usable = np.fromiter((info.ready and info.synced for info in fleet.clusters), dtype=np.bool_)
        clusters = fleet.cluster[rows]
        node_code = np.where(fleet.ready[rows], 0, fleet.reasons.code(Reason.NOT_READY))
        if not len(usable):
            return node_code.astype(np.uint16)
        codes: Codes = np.where(usable[clusters], node_code, fleet.reasons.code(Reason.CLUSTER_NOT_READY))
        return codes.astype(np.uint16)
