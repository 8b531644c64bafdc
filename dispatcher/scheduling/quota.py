"""Tenant quota as short arithmetic; the ledger remembers who was charged what.

All amounts are int64 internal units (milli-CPU, bytes, counts), limits round down. Nothing is lent
or borrowed: what is free is nominal minus usage.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from dispatcher.scheduling.framework import ClusterInfo
from dispatcher.scheduling.unsynced_usage import UnsyncedUsage
from shared.messages.pod_cache import PodCache
from shared.model.pod import Pod, PodId
from shared.model.resources import PODS, Resources, format_quantity
from shared.model.tenant import Share, Tenant

_MEMO_LIMIT = 65_536
_NOTHING: Mapping[str, int] = {}


def limit_of(share: Share, total: int) -> int:
    """A nominal share as an amount: absolute, or a ratio of `total`, rounded down without float
    error.
    """
    if share.absolute is not None:
        return share.absolute
    return _part(share.ratio or 0.0, total)


@lru_cache(_MEMO_LIMIT)
def _part(ratio: float, total: int) -> int:
    # 0.57 is not exactly 57/100 in binary: take the fraction that was meant before rounding down.
    return int(total * Fraction(ratio).limit_denominator(1_000_000))


@dataclass
class QuotaNode:
    """One tenant: what it may use and what it uses."""

    name: str
    nominal: Mapping[str, Share]
    usage: Resources = field(default_factory=dict)

    def limit(self, resource: str, totals: Mapping[str, int]) -> int | None:
        """The nominal amount of a resource when the fleet can allocate `totals`; None: not limited
        here.
        """
        share = self.nominal.get(resource)
        return None if share is None else limit_of(share, totals.get(resource, 0))

    def exceeded(
        self,
        asked: Mapping[str, int],
        totals: Mapping[str, int],
        beside: Mapping[str, int] = _NOTHING,
    ) -> "Exceeded | None":
        """The first limit, by name of resource, that `asked` would break.

        `beside`: what is used beside what is charged here.
        """
        for resource in sorted(asked):
            limit = self.limit(resource, totals)
            used = self._used(resource, beside)
            if limit is not None and asked[resource] > 0 and used + asked[resource] > limit:
                unseen = beside.get(resource, 0)
                return Exceeded(self.name, resource, asked[resource], used, limit, unseen)
        return None

    def times(
        self,
        asked: Mapping[str, int],
        totals: Mapping[str, int],
        beside: Mapping[str, int],
        most: int,
    ) -> int:
        """How often `asked` can be charged before a limit breaks, `most` at most; `beside` as in
        `exceeded`.
        """
        for resource, amount in asked.items():
            limit = self.limit(resource, totals)
            if limit is not None and amount > 0:
                most = min(most, (limit - self._used(resource, beside)) // amount)
        return max(most, 0)

    def _used(self, resource: str, beside: Mapping[str, int]) -> int:
        return self.usage.get(resource, 0) + beside.get(resource, 0)

    def grows(self, before: Mapping[str, int], after: Mapping[str, int]) -> bool:
        """Whether a limit is larger when a node of the fleet can allocate `after`, no more
        `before`.
        """
        ratios = [name for name, share in self.nominal.items() if share.absolute is None]
        return any(after.get(name, 0) > before.get(name, 0) for name in ratios)

    def add(self, amounts: Mapping[str, int], sign: int = 1) -> None:
        """Charge `amounts`; `sign` -1 gives them back. Zero entries are not kept."""
        for resource, amount in amounts.items():
            left = self.usage.get(resource, 0) + sign * amount
            if left:
                self.usage[resource] = left
            else:
                self.usage.pop(resource, None)


@dataclass(frozen=True)
class Exceeded:
    """Why a pod does not fit a quota. `unseen`: how much of `used` is known from an earlier life
    alone.
    """

    tenant: str
    resource: str
    asked: int
    used: int
    limit: int
    unseen: int = 0

    @property
    def text(self) -> str:
        """In words: 'tenant team-a: cpu asked 500m, used 39500m, limit 40'."""
        asked, used, limit = (
            format_quantity(self.resource, n) for n in (self.asked, self.used, self.limit)
        )
        if self.unseen:
            used += (
                f" ({format_quantity(self.resource, self.unseen)} of it in clusters not heard "
                "since the start)"
            )
        return f"tenant {self.tenant}: {self.resource} asked {asked}, used {used}, limit {limit}"


_FIGURES = re.compile(r"used [^,;]+, limit [^\s,;]+")


def without_figures(text: str) -> str:
    """What a refusal for quota says beside the figures that move with every other pod of the
    tenant.
    """
    return _FIGURES.sub("", text)


@dataclass(frozen=True)
class Charge:
    """What one pod is charged, and to whom."""

    tenant: str
    amounts: Mapping[str, int]


def charge_of(pod: Pod) -> Resources:
    """What a pod is charged: its requests and one pod."""
    return {**{name: amount for name, amount in pod.requests.items() if amount}, PODS: 1}


class QuotaLedger:
    """Usage per tenant, charged and given back pod by pod, exactly.

    The first tenant (in the order given) that owns a namespace is charged for it. A namespace that
    nobody owns is free. Each pod is charged at most once, under its fleet-wide id. `unsynced`:
    usage of clusters that have not synced since the start.
    """

    def __init__(
        self, tenants: Sequence[Tenant] = (), unsynced: UnsyncedUsage | None = None
    ) -> None:
        self.tenants = tuple(tenants)
        self.unsynced = unsynced or UnsyncedUsage()
        self.nodes = {tenant.name: QuotaNode(tenant.name, tenant.nominal) for tenant in tenants}
        self._charges: defaultdict[str, dict[str, Charge]] = defaultdict(
            dict
        )  # by cluster of submission and UID
        self._alike: PodCache[tuple[str, frozenset[tuple[str, int]]], Charge] = PodCache(
            _MEMO_LIMIT
        )  # equal ones are kept once
        self._owners: dict[tuple[str, str], str | None] = {}

    def tenant_of(self, cluster: str, namespace: str) -> str | None:
        """Who is charged for pods submitted to a namespace of a cluster, None: nobody."""
        key = (cluster, namespace)
        if key not in self._owners:
            if len(self._owners) >= _MEMO_LIMIT:
                self._owners.clear()
            self._owners[key] = next(
                (one.name for one in self.tenants if one.owns(cluster, namespace)), None
            )
        return self._owners[key]

    def exceeded(
        self, tenant: str, asked: Mapping[str, int], totals: Mapping[str, int]
    ) -> Exceeded | None:
        """The limit that charging `asked` would break, None if it fits; `totals`: what Ready
        clusters can allocate.
        """
        return self.nodes[tenant].exceeded(asked, totals, self.unsynced.unseen(tenant))

    def times(
        self, tenant: str, asked: Mapping[str, int], totals: Mapping[str, int], most: int
    ) -> int:
        """How often `asked` can be charged before a limit breaks, `most` at most."""
        return self.nodes[tenant].times(asked, totals, self.unsynced.unseen(tenant), most)

    def grows(self, tenant: str, before: Mapping[str, int], after: Mapping[str, int]) -> bool:
        """Whether the tenant may use more when a node of the fleet can allocate `after`, no more
        `before`.
        """
        return self.nodes[tenant].grows(before, after)

    def unknown(self, tenant: str, clusters: Sequence[ClusterInfo]) -> str:
        """Why nobody knows what a tenant with quota uses, '' if it is known. `clusters`: the
        fleet's, as they are.
        """
        self.unsynced.refresh(clusters)
        silent = self.unsynced.unknown() if self.nodes[tenant].nominal else ""
        return (
            f"tenant {tenant}: cluster {silent} has not been heard since the start"
            if silent
            else ""
        )

    def charge(self, pod_id: PodId, tenant: str, amounts: Mapping[str, int]) -> None:
        """Charge a pod, fit or not; one that was charged before is charged anew in place of it."""
        self.release(pod_id)
        self.nodes[tenant].add(amounts)
        self.unsynced.note(tenant, pod_id[0], amounts, 1)
        home, uid = pod_id
        self._charges[home][uid] = self._charge(tenant, amounts)

    def charge_all(self, pod_ids: Sequence[PodId], tenant: str, amounts: Mapping[str, int]) -> None:
        """Charge the same for each of these pods, fit or not; none of them is charged yet."""
        charge = self._charge(tenant, amounts)
        by_home = defaultdict[str, list[str]](list)
        for home, uid in pod_ids:
            by_home[home].append(uid)
        for home, uids in by_home.items():
            whole = {resource: len(uids) * amount for resource, amount in amounts.items()}
            self.nodes[tenant].add(whole)
            self.unsynced.note(tenant, home, whole, 1)
            self._charges[home].update(dict.fromkeys(uids, charge))

    def _charge(self, tenant: str, amounts: Mapping[str, int]) -> Charge:
        key = (tenant, frozenset(amounts.items()))
        known = self._alike.get(key)
        if known is None:
            known = Charge(tenant, dict(amounts))
            self._alike.put(key, known)
        return known

    def release(self, pod_id: PodId) -> Charge | None:
        """Give back what a pod was charged, the exact inverse of `charge`; None if it was charged
        nothing.
        """
        home, uid = pod_id
        charge = self._charges[home].pop(uid, None)
        if charge is not None:
            self.nodes[charge.tenant].add(charge.amounts, -1)
            self.unsynced.note(charge.tenant, pod_id[0], charge.amounts, -1)
        return charge

    def put_back(self, pod_id: PodId, charge: Charge | None) -> None:
        """Charge what was released, the exact inverse of `release`."""
        if charge is not None:
            self.charge(pod_id, charge.tenant, charge.amounts)

    def charged(self, pod_id: PodId) -> Charge | None:
        """What a pod is charged now."""
        home, uid = pod_id
        return self._charges[home].get(uid)

    def uncharged(self, pod_ids: Sequence[PodId]) -> int:
        """How many of the first of these are charged nothing now."""
        for at, (home, uid) in enumerate(pod_ids):
            if uid in self._charges[home]:
                return at
        return len(pod_ids)

    def usage(self, tenant: str) -> Resources:
        """What a tenant is charged now, per resource; zeros are left out."""
        return dict(self.nodes[tenant].usage)

    def limits(self, tenant: str, totals: Mapping[str, int]) -> Resources:
        """A tenant's limits per resource that it is limited in."""
        node = self.nodes[tenant]
        return {name: limit_of(share, totals.get(name, 0)) for name, share in node.nominal.items()}
