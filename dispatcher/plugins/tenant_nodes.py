"""Pods of a tenant go to the clusters and nodes of the tenant; nodes that are kept for a tenant take
no other pods.

`clusters` and `nodes` of the tenants file, of the tenant and of those that it is part of: all of
them hold. It reads who owns the pod's namespace, and nothing that the pod says of itself. No
toleration and no affinity of a pod opens nodes that are kept for others. Pods that run where they
may not (any more) stay.

A pod that is to have `tolerations` of its tenant is held back until its object has them: all that
looks at it from then on, here and in its cluster, goes by that.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    Depends,
    Filter,
    FleetView,
    PodInfo,
    Refuse,
    Rows,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.lifecycle import PreEnqueue
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.rules.eligibility import LabelMasks
from dispatcher.scheduling.rules.fleet_parts import among
from dispatcher.scheduling.tenants.places import Places
from shared.model.reasons import Reason, Reasons
from shared.model.wake_events import NODES, WakeEvent

TENANT_NODES = Reason(
    "tenant_nodes",
    "node(s) were not among those of tenant {}",
    remedy="The tenants file says which `clusters` and `nodes` the tenant's pods go to.",
    helped_by=NODES | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)
KEPT_NODES = Reason(
    "kept_nodes",
    "node(s) were kept for tenant {}",
    remedy="The tenants file says that these `nodes` are `exclusive`.",
    helped_by=NODES | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)


class TenantNodes(Filter[Places], PreEnqueue[Places]):
    """Keeps pods to the nodes of their tenants, and off those of others; holds back those that are
    still to be given their tolerations.
    """

    name: ClassVar[str] = "TenantNodes"
    REASONS = (TENANT_NODES, KEPT_NODES, Reasons.UNGIVEN)
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger
        self._masks = LabelMasks()

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What holds for pods of its tenant; None if nothing does."""
        return self._places(pod_info)

    def _places(self, pod_info: PodInfo) -> Places | None:
        ledger = self._ledger
        if not ledger.places.any:
            return None
        return ledger.places.of(ledger.tenant_of_pod(pod_info))

    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        """UNGIVEN with the tolerations that the pod has not yet."""
        ungiven = self._ledger.ungiven(pod_info)
        return refuse(Reasons.UNGIVEN, ", ".join(one.text for one in ungiven)) if ungiven else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Places | Refuse | Skip:
        """What holds; SKIP if nothing does."""
        return self._places(pod_info) or SKIP

    def filter(self, state: Places, fleet: FleetView, rows: Rows) -> Codes:
        """TENANT_NODES outside of the tenant's own, KEPT_NODES on those of others."""
        codes = np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
        for kept in state.for_others:
            mask = among(kept.labels, kept.clusters, self._masks, fleet, rows)
            codes[mask] = fleet.reasons.code(KEPT_NODES, kept.tenant)
        if state.tenant:
            own = among(state.labels, state.clusters, self._masks, fleet, rows)
            codes[~own] = fleet.reasons.code(TENANT_NODES, state.tenant)
        return codes

    def closed_clusters(self, pod_info: PodInfo, fleet: FleetView) -> Codes | None:
        """[clusters] TENANT_NODES where the tenant may use no node at all."""
        state = self._places(pod_info)
        if state is None or state.clusters is None:
            return None
        closed = [one.name not in state.clusters for one in fleet.clusters]
        code = fleet.reasons.code(TENANT_NODES, state.tenant)
        return np.array(closed, dtype=np.uint16) * np.uint16(code)
