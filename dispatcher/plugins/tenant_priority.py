"""Pods above the highest priority of their tenant do not enter the queue.

`max_priority` of the tenants file, of the tenant or of one that it is part of, whichever is lowest.
The pod keeps its priority, and waits until it has another one or the file allows it: to place it as
a pod of less priority would let it be evicted where its owner does not expect it. Pods that run
stay.
"""

from collections.abc import Hashable
from typing import ClassVar

from dispatcher.scheduling.framework import Depends, PodInfo, Refuse, refuse
from dispatcher.scheduling.framework.lifecycle import PreEnqueue
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.reasons import Reason
from shared.model.wake_events import NEVER

TENANT_PRIORITY = Reason(
    "tenant_priority",
    "priority is above what the tenant may use: {}",
    remedy="Use a lower `spec.priorityClassName`, or raise `max_priority` in the tenants file.",
    helped_by=NEVER,
    resolvable=False,
    nodes_help=False,
    verbatim=True,
)


class TenantPriority(PreEnqueue[None]):
    """Gates pods above the ceiling of their tenant."""

    name: ClassVar[str] = "TenantPriority"
    REASONS = (TENANT_PRIORITY,)
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """A pod in the queue is judged without it."""
        return None

    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        """TENANT_PRIORITY with both numbers."""
        places = self._ledger.places
        pod = pod_info.pod
        if not places.any_ceiling:
            return None
        tenant = self._ledger.tenant_of_pod(pod_info)
        ceiling = None if tenant is None else places.ceiling(tenant)
        if ceiling is None or pod.priority <= ceiling[0]:
            return None
        text = f"{pod.priority}, max_priority of tenant {ceiling[1]} is {ceiling[0]}"
        return refuse(TENANT_PRIORITY, text)
