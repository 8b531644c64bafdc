"""No tenant uses more of the fleet than its quota.

A pod is refused when  used + asked > limit  for any resource it requests (or the count of pods)
that its tenant's quota names; limits are absolute or a share of what the Ready clusters can
allocate. A tenant that is part of another one may borrow what others of its tree do not use
(scheduling/tenants/tree.py). Charged when a place is reserved, given back when the pod ends or the
place is forgotten. A refused pod waits without holding up others, and is tried again when quota of its tenant comes
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
from dispatcher.scheduling.framework.pod_info import NO_TURN, QuotaTurn
from dispatcher.scheduling.framework.value_columns import Column, Same
from dispatcher.scheduling.quota import (
    QuotaLedger,
    charge_of,
    format_quota,
    pod_id_of,
    quota_may_help,
)
from dispatcher.scheduling.rules.fleet_parts import is_in_part
from shared.model.pod import PodId
from shared.model.reasons import Reason, Reasons
from shared.model.tenant import part_of
from shared.model.wake_events import WakeEvent

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


def _pod_ids(pods: Sequence[PodInfo]) -> list[PodId]:
    return [(one.home, one.pod.uid) if one.pod.source is None else pod_id_of(one) for one in pods]


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

    def _totals(self, fleet: FleetView) -> Mapping[str, int]:
        return fleet.nodes.allocatable_total(self.ledger.tree.of_parts)

    def _tenant(self, pod_info: PodInfo) -> str | None:
        ledger = self.ledger
        return ledger.tenant_of_pod(pod_info) if ledger.tenants else None

    def hint_key(self, pod_info: PodInfo) -> str | None:
        """The tenant."""
        return self._tenant(pod_info)

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """Quota that a pod gives back helps pods of its own tree of tenants; a node, those whose
        share of the fleet it makes larger.
        """
        return quota_may_help(self.ledger, event, key)

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
        return self._refusal(tenant, charge_of(pod_info.pod), pod_info, fleet)

    def _refusal(
        self, tenant: str, asked: Mapping[str, int], pod_info: PodInfo, fleet: FleetView
    ) -> Refuse | None:
        if self.ledger.charged(pod_id_of(pod_info)):
            return None  # it holds its share already
        unknown = self.ledger.unknown(tenant, fleet.clusters)
        if unknown:
            return refuse(QUOTA_UNKNOWN, unknown)
        before = self.ledger.claims.above(tenant, pod_info.pod.priority)
        totals = self._totals(fleet)
        with self.ledger.holds_aside((pod_id_of(pod_info),)):
            exceeded = self.ledger.exceeded(tenant, asked, totals, before)
        return refuse(Reasons.QUOTA, exceeded.text) if exceeded else None

    def reserve(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | None:
        """Charge the pod; a pod that does not fit (any more) is charged nothing."""
        tenant = self._tenant(pod_info)
        if tenant is None:
            return None
        asked = self._charge_at(tenant, charge_of(pod_info.pod), row, fleet)
        refused = self._refusal(tenant, asked, pod_info, fleet)
        if refused is None:
            self.ledger.charge(pod_id_of(pod_info), tenant, asked)
        return refused

    def _charge_at(
        self, tenant: str, asked: Mapping[str, int], row: int, fleet: FleetView
    ) -> Mapping[str, int]:
        """What a pod is charged that asks for so much on this row; -1: nobody knows where it is."""
        parts = self.ledger.parts[tenant]
        if not parts or row < 0:
            return asked
        there = [part for part in parts if is_in_part(part, fleet, row)]
        return self.ledger.in_parts(tenant, asked, there)

    def _tenants(self, pods: Sequence[PodInfo]) -> list[str]:
        """Whose each of these is; '' for nobody's."""
        if len({one.home for one in pods}) == 1 and len({one.pod.namespace for one in pods}) == 1:
            return [self._tenant(pods[0]) or ""] * len(pods)
        return [self._tenant(one) or "" for one in pods]

    def fits(self, state: None, pods: Sequence[PodInfo], fleet: FleetView) -> int:
        """All, for nobody's pods; else as many as the quota of each one's tenant is left for."""
        if self._tenant(pods[0]) is None:
            return len(pods)
        pod_ids = _pod_ids(pods)
        with self.ledger.holds_aside(pod_ids):
            most = self._fit(pods, fleet)
        return self.ledger.uncharged(pod_ids[:most])

    def _fit(self, pods: Sequence[PodInfo], fleet: FleetView) -> int:
        ledger = self.ledger
        most = len(pods)
        asked = charge_of(pods[0].pod)
        totals = self._totals(fleet)
        tenants = self._tenants(pods)
        for tenant in dict.fromkeys(tenants):
            if tenant and ledger.unknown(tenant, fleet.clusters):
                most = min(most, tenants.index(tenant))
        if ledger.claims.of(tenants):
            whose = zip(tenants[:most], [one.pod.priority for one in pods[:most]], strict=True)
            most = ledger.fit_behind(whose, asked, totals)
        else:
            most = ledger.fits(tenants[:most], asked, totals)
        for tenant in dict.fromkeys(tenants[:most]) if ledger.any_parts else ():
            most = min(most, self._fit_parts(tenant, asked, totals, most)) if tenant else most
        return most

    def _fit_parts(
        self, tenant: str, asked: Mapping[str, int], totals: Mapping[str, int], most: int
    ) -> int:
        """How many fit wherever they go, of parts of the fleet that are open now."""
        ledger = self.ledger
        closed = ledger.closed_parts(tenant, asked, totals)
        for part in ledger.parts[tenant]:
            if part not in closed:
                there = ledger.in_parts(tenant, asked, (part,))
                most = min(most, ledger.times(tenant, there, totals, most))
        return most

    def reserve_all(
        self, state: None, pods: Sequence[PodInfo], rows: Sequence[int], fleet: FleetView
    ) -> None:
        """Charge each."""
        asked = charge_of(pods[0].pod)
        tenants = self._tenants(pods)
        charged = defaultdict[tuple[str, int], list[PodId]](list)
        by_row = self.ledger.any_parts
        at = rows if by_row else [-1] * len(pods)
        for tenant, row, pod_id in zip(tenants, at, _pod_ids(pods), strict=True):
            charged[tenant, row].append(pod_id)
        for (tenant, row), pod_ids in charged.items():
            if tenant:
                there = self._charge_at(tenant, asked, row, fleet)
                self.ledger.charge_all(pod_ids, tenant, there)

    def waits(self, pod_info: PodInfo, *, waits: bool) -> bool:
        """A pod that waits for quota goes before those of its tenant of lower priority."""
        tenant = self._tenant(pod_info)
        if waits and tenant is not None:
            pod = pod_info.pod
            if not self.ledger.holds(pod_id_of(pod_info)):
                self.ledger.claim(pod_id_of(pod_info), tenant, pod.priority, charge_of(pod))
            return False
        return self.ledger.claims.drop(pod_id_of(pod_info))

    def quota_turn(self, pod_info: PodInfo) -> QuotaTurn:
        """By priority, then by the share of its tenant. Who is kept some for borrows nothing."""
        tenant = self._tenant(pod_info)
        if tenant is None:
            return NO_TURN
        node = self.ledger.tree.nodes[tenant]
        borrows = not self.ledger.holds(pod_id_of(pod_info)) and bool(
            node.shares(charge_of(pod_info.pod))
        )
        key = (-pod_info.pod.priority, node.shares())
        return QuotaTurn(node.root.name, key, borrows)

    def too_large(self, pod_info: PodInfo, fleet: FleetView) -> Mapping[str, str] | None:
        """Clusters that make the pod larger than what its tenant's quota has left; None for a pod
        that nobody is charged for.
        """
        tenant = self._tenant(pod_info)
        if tenant is None:
            return None
        if self.ledger.charged(pod_id_of(pod_info)):
            return {}
        totals = self._totals(fleet)
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
        pod_id = pod_id_of(pod_info)
        return partial(self.ledger.put_back, pod_id, self.ledger.release(pod_id))

    def restore(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        """Charge a pod that is found bound, whatever the limit: it is there."""
        tenant = self._tenant(pod_info)
        if tenant is not None:
            asked = self._charge_at(tenant, charge_of(pod_info.pod), row, fleet)
            self.ledger.charge(pod_id_of(pod_info), tenant, asked)

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
        charge = self.ledger.charged(pod_id_of(pod_info))
        for name, amount in charge.amounts.items() if charge else ():
            usage[name] = usage.get(name, 0) - amount
        limits = self.ledger.limits(tenant, self._totals(fleet))
        asked = charge_of(pod_info.pod)
        found: dict[str, Any] = {"tenant": tenant}
        for name, limit in limits.items():
            used = usage.get(name, 0)
            after = {"used_after": format_quota(name, used + asked.get(name, 0))}
            part = part_of(name)
            found[name] = {
                "used_before": format_quota(name, used),
                **({} if part else after),  # not every place is in that part of the fleet
                "limit": format_quota(name, limit),
            }
        return found

    def explain_rows(self, state: None, pod_info: PodInfo, fleet: FleetView, rows: Rows) -> Column:
        """The same for each row: it goes by the pod."""
        return Same(self.explain(state, pod_info, fleet, 0))
