"""No tenant uses more of a part of the fleet than its quota of that part.

A part is a cluster, nodes with labels (a model of GPUs, say), or both: `quotas` of the tenants
file. A node is out when the pod's requests there would break a limit of a part that it is in;
TenantQuota charges the pod, by where it is placed. What a node is at that moment counts, also if
its labels change later.
"""

from collections.abc import Hashable
from typing import ClassVar, NamedTuple

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
)
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.quota import QuotaLedger, charge_of, pod_id_of, quota_may_help
from dispatcher.scheduling.rules.eligibility import LabelMasks
from dispatcher.scheduling.rules.fleet_parts import in_part
from shared.model.node import Node
from shared.model.reasons import Reason
from shared.model.tenant import FleetPart
from shared.model.wake_events import NODES, WakeEvent

NODE_QUOTA = Reason(
    "node_quota",
    "node(s) were in a part of the fleet of which quota is used up: {}",
    remedy="The tenants file (`quotas`) limits what the tenant uses of such nodes. Wait, delete, "
    "raise the quota, or let the pod go to other nodes.",
    helped_by=WakeEvent.QUOTA_FREED | NODES,
    resolvable=False,
)


class _Closed(NamedTuple):
    tenant: str
    parts: tuple[FleetPart, ...]


class TenantNodeQuota(Filter[_Closed]):
    """Keeps pods off nodes that their tenant has used up its quota of."""

    name: ClassVar[str] = "TenantNodeQuota"
    REASONS = (NODE_QUOTA,)
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger
        self._masks = LabelMasks()

    def _tenant(self, pod_info: PodInfo) -> str | None:
        """Whose the pod is, None if nothing is said of parts of the fleet."""
        ledger = self._ledger
        if not ledger.any_parts:
            return None
        tenant = ledger.tenant_of_pod(pod_info)
        return tenant if tenant is not None and ledger.parts[tenant] else None

    def hint_key(self, pod_info: PodInfo) -> str | None:
        """The tenant."""
        return self._tenant(pod_info)

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """Quota that a pod gives back helps pods of its own tree of tenants; any node may be one of
        another part.
        """
        return isinstance(event.after, Node) or quota_may_help(self._ledger, event, key)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The tenant and what it would be charged; None if it has no quota of parts."""
        tenant = self._tenant(pod_info)
        return (tenant, frozenset(charge_of(pod_info.pod).items())) if tenant else None

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """The parts that it may not go to now."""
        closed = self._closed(pod_info, fleet)
        return closed.parts if closed else None

    def _closed(self, pod_info: PodInfo, fleet: FleetView) -> _Closed | None:
        tenant = self._tenant(pod_info)
        if tenant is None or self._ledger.charged(pod_id_of(pod_info)):
            return None
        totals = fleet.nodes.allocatable_total(self._ledger.tree.of_parts)
        parts = self._ledger.closed_parts(tenant, charge_of(pod_info.pod), totals)
        return _Closed(tenant, parts) if parts else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _Closed | Refuse | Skip:
        """The parts that are closed; SKIP if none is."""
        return self._closed(pod_info, fleet) or SKIP

    def filter(self, state: _Closed, fleet: FleetView, rows: Rows) -> Codes:
        """NODE_QUOTA with the first part that is closed."""
        codes = np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
        for part in reversed(state.parts):
            text = f"tenant {state.tenant}, {part.words}"
            mask = in_part(part, self._masks, fleet, rows)
            codes[mask] = fleet.reasons.code(NODE_QUOTA, text)
        return codes
