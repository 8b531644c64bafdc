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

from collections import Counter
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
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.domain_counts import ExplainPods
from dispatcher.scheduling.framework.hints import NODES, ClusterEvent, WakeEvent
from dispatcher.scheduling.framework.value_columns import Column, each, fields, picked
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from shared.model.node import Node
from shared.model.pod import Pod, PodId
from shared.model.reasons import Reason
from shared.model.resources import format_quantity


def _pod_id(pod_info: PodInfo) -> PodId:
    source = pod_info.pod.source
    return (source.cluster, source.uid) if source else (pod_info.home, pod_info.pod.uid)


def _pod_ids(pods: Sequence[PodInfo]) -> list[PodId]:
    return [(one.home, one.pod.uid) if one.pod.source is None else _pod_id(one) for one in pods]


class TenantQuota(Reserve[None]):
    """Gate and bookkeeping of tenant quota, on a ledger that others may read."""

    name: ClassVar[str] = "TenantQuota"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC
    EVENTS: ClassVar[Mapping[Reason, WakeEvent]] = {Reason.QUOTA: WakeEvent.QUOTA_FREED | NODES}

    def __init__(self, ledger: QuotaLedger) -> None:
        self.ledger = ledger

    def _tenant(self, pod_info: PodInfo) -> str | None:
        ledger = self.ledger
        return ledger.tenant_of(pod_info.home, pod_info.pod.namespace) if ledger.tenants else None

    def hint_key(self, pod_info: PodInfo) -> str | None:
        """The tenant."""
        return self._tenant(pod_info)

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """Quota that a pod gives back helps pods of its own tenant; a node, those whose share of
        the fleet it makes larger.
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
        return tenant == self.ledger.tenant_of(event.cluster, before.namespace)

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
            return refuse(Reason.QUOTA_UNKNOWN, unknown)
        exceeded = self.ledger.exceeded(
            tenant, charge_of(pod_info.pod), fleet.nodes.allocatable_total()
        )
        return refuse(Reason.QUOTA, exceeded.text) if exceeded else None

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

    def fits(self, pods: Sequence[PodInfo], fleet: FleetView) -> int:
        """All, for nobody's pods; else as many as the quota of each one's tenant is left for."""
        ledger = self.ledger
        most = len(pods)
        if self._tenant(pods[0]) is None:
            return most
        asked = charge_of(pods[0].pod)
        totals = fleet.nodes.allocatable_total()
        tenants = self._tenants(pods)
        for tenant in dict.fromkeys(tenants):
            unknown = ledger.unknown(tenant, fleet.clusters)
            left = 0 if unknown else ledger.times(tenant, asked, totals, len(pods))
            if left < tenants.count(tenant):
                most = min(most, [at for at, one in enumerate(tenants) if one == tenant][left])
        return ledger.uncharged(_pod_ids(pods[:most]))

    def reserve_all(self, pods: Sequence[PodInfo], fleet: FleetView) -> ExplainPods | None:
        """Charge each; what is told of each are figures that moved with those before it."""
        if self._tenant(pods[0]) is None:
            return None
        ledger = self.ledger
        tenants = self._tenants(pods)
        totals = fleet.nodes.allocatable_total()
        asked = charge_of(pods[0].pod)
        pod_ids = _pod_ids(pods)
        known = {
            one: (ledger.usage(one), ledger.limits(one, totals)) for one in dict.fromkeys(tenants)
        }
        charged = {one: list[PodId]() for one in known} if len(known) > 1 else {tenants[0]: pod_ids}
        for tenant, pod_id in zip(tenants, pod_ids, strict=True) if len(known) > 1 else ():
            charged[tenant].append(pod_id)
        for tenant, own in charged.items():
            ledger.charge_all(own, tenant, asked)
        return partial(_figures_of, tenants, asked, known)

    def too_large(self, pod_info: PodInfo, fleet: FleetView) -> Mapping[str, str]:
        """Clusters that make the pod larger than what its tenant's quota has left."""
        tenant = self._tenant(pod_info)
        if tenant is None or self.ledger.charged(_pod_id(pod_info)):
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

    def holds_to_size(self, pod_info: PodInfo) -> bool:
        """Whether anybody is charged for the pod."""
        return self._tenant(pod_info) is not None

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
        return _figures(tenant, usage, charge_of(pod_info.pod), limits)


def _figures(
    tenant: str, usage: Mapping[str, int], asked: Mapping[str, int], limits: Mapping[str, int]
) -> dict[str, Any]:
    """What is told of a pod that comes after all that `usage` counts."""
    found: dict[str, Any] = _figures_of([tenant], asked, {tenant: (usage, limits)}, [0]).values(1)[
        0
    ]
    return found


def _figures_of(
    tenants: Sequence[str],
    asked: Mapping[str, int],
    known: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]],
    ats: Sequence[int],
) -> Column:
    """What is told of the pods of these numbers: each came after those of its own tenant among the
    ones before it.

    `known`: usage before them all and limits, by tenant.
    """
    of = [tenants[at] for at in ats]
    before = _before(tenants, ats)
    limits = {one: known[one][1] for one in dict.fromkeys(of)}
    limited = [tuple(told) for told in limits.values()]
    if limited.count(limited[0]) < len(limited):
        rows = [_figures_of(tenants, asked, known, [at]).values(1)[0] for at in ats]
        return each(rows)
    columns = {"tenant": picked(of)}
    for name in limited[0]:
        more = asked.get(name, 0)
        begun = {one: known[one][0].get(name, 0) for one in limits}
        used = [begun[one] + count * more for one, count in zip(of, before, strict=True)]
        after = [one + more for one in used]
        texts = {
            one: format_quantity(name, one) for one in dict.fromkeys(used + after)
        }  # mostly two pods have one
        limit = {one: format_quantity(name, told[name]) for one, told in limits.items()}
        columns[name] = fields(
            {
                "used_before": each([texts[one] for one in used]),
                "used_after": each([texts[one] for one in after]),
                "limit": picked([limit[one] for one in of]),
            }
        )
    return fields(columns)


def _before(tenants: Sequence[str], ats: Sequence[int]) -> Sequence[int]:
    """How many pods of its own tenant came before each of these."""
    if tenants.count(tenants[0]) == len(tenants):
        return ats
    counts = Counter[str]()
    found = list[int]()
    for tenant in tenants:
        found.append(counts[tenant])
        counts[tenant] += 1
    return [found[at] for at in ats]
