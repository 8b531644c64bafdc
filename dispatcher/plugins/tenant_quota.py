"""No tenant uses more of the fleet than its quota.

A pod is refused when  used + asked > limit  for any resource it requests (or the count of pods)
that its tenant's quota names; limits are absolute or a share of what the Ready clusters can
allocate. Charged when a place is reserved, given back when the pod ends or the place is forgotten.
A refused pod waits without holding up others, and is tried again when quota of its tenant comes
free. After a start a tenant with quota waits for clusters that were not heard yet, unless what they
charge is stored (unsynced_usage.py). A pod is charged the size that it has in the cluster of its
place: what a webhook there adds is asked for before the pod is bound, and clusters for whose size
no quota is left are passed over. Pods of namespaces that belong to no tenant are not limited.
Internal units (see quota.py).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from dispatcher.scheduling.framework import (
    SKIP,
    CycleState,
    Depends,
    FleetView,
    PodInfo,
    Refuse,
    Reserve,
    Rows,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.value_columns import Column, Same
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from shared.model.node import Node
from shared.model.pod import Pod, PodId
from shared.model.reasons import Reason, Reasons
from shared.model.resources import format_quantity
from shared.model.wake_events import NODES, WakeEvent

QUOTA_UNKNOWN = Reason(
    "quota_unknown",
    "what the tenant uses of its quota is unknown: {}",
    remedy="A cluster was not heard since the dispatcher started, so nobody knows what the"
    " tenant uses there. Mend the cluster, or set `quota.unheard: ignore`.",
    helped_by=WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
    nodes_help=False,
    verbatim=True,
)


def _pod_id(pod_info: PodInfo) -> PodId:
    source = pod_info.pod.source
    return (source.cluster, source.uid) if source else (pod_info.home, pod_info.pod.uid)


def _pod_ids(pods: Sequence[PodInfo]) -> list[PodId]:
    return [(one.home, one.pod.uid) if one.pod.source is None else _pod_id(one) for one in pods]


class TenantQuota(Reserve[None]):
    """Gate and bookkeeping of tenant quota, on a ledger that others may read."""

    name: ClassVar[str] = "TenantQuota"
    REASONS = (
        Reasons.QUOTA,
        QUOTA_UNKNOWN,
    )
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self, ledger: QuotaLedger) -> None:
        self.ledger = ledger

    def _tenant(self, pod_info: PodInfo) -> str | None:
        ledger = self.ledger
        return ledger.tenant_of(pod_info.home, pod_info.pod.namespace) if ledger.tenants else None

    def hint_key(self, pod_info: PodInfo) -> str | None:
        """The tenant."""
        return self._tenant(pod_info)

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """Quota that a pod gives back helps pods of its own tree of tenants; a node, those whose
        share of the fleet it makes larger.
        """
        before = event.before
        after = event.after
        tenant = key
        if isinstance(after, Node) and isinstance(tenant, str):
            had = before.allocatable if isinstance(before, Node) else {}
            return self.ledger.grows(tenant, had, after.allocatable)
        if (
            not event.kind & WakeEvent.QUOTA_FREED
            or event.kind & NODES
            or not isinstance(before, Pod)
        ):
            return True
        freed = self.ledger.tenant_of(event.cluster, before.namespace)
        return freed is not None and self.ledger.related(str(tenant), freed)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The tenant and what it would be charged; None for a pod that nobody is charged for."""
        tenant = self._tenant(pod_info)
        return (tenant, frozenset(charge_of(pod_info.pod).items())) if tenant else None

    def batch_key(self, key: Hashable) -> Hashable:
        """What a tenant would be charged, whichever it is; None for nobody."""
        return key[1] if isinstance(key, tuple) else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Refuse | Skip | None:
        """SKIP for a pod that nobody is charged for; QUOTA with the numbers for one that does not
        fit.
        """
        tenant = self._tenant(pod_info)
        if tenant is None:
            return SKIP
        return self._refusal(tenant, pod_info, fleet)

    def _refusal(self, tenant: str, pod_info: PodInfo, fleet: FleetView) -> Refuse | None:
        if self.ledger.charged(_pod_id(pod_info)):
            return None  # it holds its share already
        unknown = self.ledger.unknown(tenant, fleet.clusters)
        if unknown:
            return refuse(QUOTA_UNKNOWN, unknown)
        before = self.ledger.claims.above(tenant, pod_info.pod.priority)
        exceeded = self.ledger.exceeded(
            tenant, charge_of(pod_info.pod), fleet.nodes.allocatable_total(), before
        )
        return refuse(Reasons.QUOTA, exceeded.text) if exceeded else None

    def reserve(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | None:
        """Charge the pod; a pod that does not fit (any more) is charged nothing."""
        tenant = self._tenant(pod_info)
        if tenant is None:
            return None
        refused = self._refusal(tenant, pod_info, fleet)
        if refused is None:
            self.ledger.charge(_pod_id(pod_info), tenant, charge_of(pod_info.pod))
        return refused

    def _tenants(self, pods: Sequence[PodInfo]) -> list[str]:
        """Whose each of these is; '' for nobody's."""
        if len({one.home for one in pods}) == 1 and len({one.pod.namespace for one in pods}) == 1:
            return [self._tenant(pods[0]) or ""] * len(pods)
        return [self._tenant(one) or "" for one in pods]

    def fits(self, state: None, pods: Sequence[PodInfo], fleet: FleetView) -> int:
        """All, for nobody's pods; else as many as the quota of each one's tenant is left for."""
        ledger = self.ledger
        most = len(pods)
        if self._tenant(pods[0]) is None:
            return most
        asked = charge_of(pods[0].pod)
        totals = fleet.nodes.allocatable_total()
        tenants = self._tenants(pods)
        for tenant in dict.fromkeys(tenants):
            if tenant and ledger.unknown(tenant, fleet.clusters):
                most = min(most, tenants.index(tenant))
        if ledger.claims.of(tenants):
            whose = zip(tenants[:most], [one.pod.priority for one in pods[:most]], strict=True)
            most = ledger.fit_behind(whose, asked, totals)
        else:
            most = ledger.fits(tenants[:most], asked, totals)
        return ledger.uncharged(_pod_ids(pods[:most]))

    def reserve_all(
        self, state: None, pods: Sequence[PodInfo], rows: Sequence[int], fleet: FleetView
    ) -> None:
        """Charge each."""
        asked = charge_of(pods[0].pod)
        charged = defaultdict[str, list[PodId]](list)
        for tenant, pod_id in zip(self._tenants(pods), _pod_ids(pods), strict=True):
            charged[tenant].append(pod_id)
        for tenant, pod_ids in charged.items():
            if tenant:
                self.ledger.charge_all(pod_ids, tenant, asked)

    def waits(self, pod_info: PodInfo, *, waits: bool) -> bool:
        """A pod that waits for quota goes before those of its tenant of lower priority."""
        tenant = self._tenant(pod_info)
        if waits and tenant is not None:
            pod = pod_info.pod
            self.ledger.claim(_pod_id(pod_info), tenant, pod.priority, charge_of(pod))
            return False
        return self.ledger.claims.drop(_pod_id(pod_info))

    def too_large(self, pod_info: PodInfo, fleet: FleetView) -> Mapping[str, str] | None:
        """Clusters that make the pod larger than what its tenant's quota has left; None for a pod
        that nobody is charged for.
        """
        tenant = self._tenant(pod_info)
        if tenant is None:
            return None
        if self.ledger.charged(_pod_id(pod_info)):
            return {}
        totals = fleet.nodes.allocatable_total()
        clusters = [one.cluster for one in pod_info.sizes]
        found = {
            name: self.ledger.exceeded(tenant, charge_of(pod_info.at(name).pod), totals)
            for name in clusters
        }
        return {
            name: f"quota exceeded: {one.text}" for name, one in found.items() if one is not None
        }

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> Callable[[], None]:
        """Give back what the pod is charged, if anything; what charges it the same again."""
        pod_id = _pod_id(pod_info)
        return partial(self.ledger.put_back, pod_id, self.ledger.release(pod_id))

    def restore(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        """Charge a pod that is found bound, whatever the limit: it is there."""
        tenant = self._tenant(pod_info)
        if tenant is not None:
            self.ledger.charge(_pod_id(pod_info), tenant, charge_of(pod_info.pod))

    def explain(
        self, state: None, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """The tenant, and per limited resource what was used before and after this pod, and the
        limit.
        """
        tenant = self._tenant(pod_info)
        if tenant is None:
            return {}
        usage = self.ledger.usage(tenant)
        charge = self.ledger.charged(_pod_id(pod_info))
        for name, amount in charge.amounts.items() if charge else ():
            usage[name] = usage.get(name, 0) - amount
        limits = self.ledger.limits(tenant, fleet.nodes.allocatable_total())
        asked = charge_of(pod_info.pod)
        found: dict[str, Any] = {"tenant": tenant}
        for name, limit in limits.items():
            used = usage.get(name, 0)
            found[name] = {
                "used_before": format_quantity(name, used),
                "used_after": format_quantity(name, used + asked.get(name, 0)),
                "limit": format_quantity(name, limit),
            }
        return found

    def explain_rows(self, state: None, pod_info: PodInfo, fleet: FleetView, rows: Rows) -> Column:
        """The same for each row: it goes by the pod."""
        return Same(self.explain(state, pod_info, fleet, 0))
