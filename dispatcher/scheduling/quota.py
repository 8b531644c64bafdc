"""The ledger of tenant quota: who was charged what, and whether more would break a limit.

All amounts are int64 internal units (milli-CPU, bytes, counts), limits round down. What the limits
of a tree of tenants are, and who has borrowed how much: scheduling/tenants/tree.py. A tenant that
is part of no other borrows nothing: what is free is nominal minus usage.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice

from dispatcher.scheduling.framework import ClusterInfo, PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.quota_claims import QuotaClaims
from dispatcher.scheduling.quota_holds import QuotaHolds
from dispatcher.scheduling.tenants.owners import TenantOwners
from dispatcher.scheduling.tenants.places import TenantPlaces, parts_of
from dispatcher.scheduling.tenants.shares import FairShare
from dispatcher.scheduling.tenants.tree import NOTHING, TenantNode, TenantTree
from dispatcher.scheduling.unsynced_usage import UnsyncedUsage
from shared.messages.pod_cache import PodCache
from shared.model.node import Node
from shared.model.pod import Pod, PodId, Toleration
from shared.model.resources import PODS, Resources, format_quantity
from shared.model.tenant import FleetPart, Tenant, part_of, quota_key, resource_of
from shared.model.wake_events import NODES, WakeEvent

_MEMO_LIMIT = 65_536


@dataclass(frozen=True)
class Exceeded:
    """Why a pod does not fit a quota. `node`: whose limit would break, the tenant or one that it is
    part of, by the `beyond` of what is asked that gets there; `used` and `limit` are that node's.
    `unseen`: how much of `used` is known from an earlier life alone.
    """

    tenant: str
    resource: str
    asked: int
    used: int
    limit: int
    unseen: int = 0
    node: str = ""
    beyond: int = 0
    behind: bool = False  # it would fit if no pod of higher priority of its tenant waited, too

    @property
    def text(self) -> str:
        """In words: 'tenant team-a: cpu asked 500m, used 39500m, limit 40'."""
        asked, used, limit, beyond = (
            format_quota(self.resource, n) for n in (self.asked, self.used, self.limit, self.beyond)
        )
        if self.unseen:
            used += (
                f" ({format_quota(self.resource, self.unseen)} of it in clusters not heard "
                "since the start)"
            )
        part = part_of(self.resource)
        where = f" on {part.words}" if part else ""
        whose = f"tenant {self.tenant}: {resource_of(self.resource)}{where} asked {asked}"
        rest = BEHIND if self.behind else ""
        if self.node in ("", self.tenant):
            return f"{whose}, used {used}, limit {limit}{rest}"
        if self.beyond != self.asked:
            whose += f" ({beyond} more than what is kept for it)"
        above = f"of tenant {self.node}, which it is part of: used {used}, limit {limit}"
        return f"{whose}; {above}{rest}"


BEHIND = "; the rest is for pods of higher priority of the tenant, which wait before it"
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


def owners_of(tenants: Sequence[Tenant]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Who is charged for which namespaces: other owners, other charges."""
    return tuple((tenant.name, tenant.namespaces) for tenant in tenants)


def charge_of(pod: Pod) -> Resources:
    """What a pod is charged: its requests and one pod; so many for members `as_one`."""
    return {PODS: 1, **{name: amount for name, amount in pod.requests.items() if amount}}


def format_quota(key: str, amount: int) -> str:
    """Show an amount of what a quota is of, as kubectl would."""
    return format_quantity(resource_of(key), amount)


def pod_id_of(pod_info: PodInfo) -> PodId:
    """The fleet-wide id under which a pod is charged: a delegate's is its source's."""
    source = pod_info.pod.source
    return (source.cluster, source.uid) if source else (pod_info.home, pod_info.pod.uid)


class QuotaLedger:
    """Usage per tenant, charged and given back pod by pod, exactly.

    The first tenant (in the order given) that owns a namespace is charged for it. A namespace that
    nobody owns is free. Each pod is charged at most once, under its fleet-wide id. `unsynced`:
    usage of clusters that have not synced since the start.
    """

    def __init__(
        self, tenants: Sequence[Tenant] = (), unsynced: UnsyncedUsage | None = None
    ) -> None:
        self.unsynced = unsynced or UnsyncedUsage()
        self.generation = -1  # grows with each change of tenants
        self._hold(tenants, TenantTree(tenants))
        self._charges: defaultdict[str, dict[str, Charge]] = defaultdict(
            dict
        )  # by cluster of submission and UID
        self._alike: PodCache[tuple[str, frozenset[tuple[str, int]]], Charge] = PodCache(
            _MEMO_LIMIT
        )  # equal ones are kept once
        self.claims = QuotaClaims()
        self._holds = QuotaHolds()
        # of a tenant: its mean share of late, its share, and since when (`fair_shares`)
        self.past: dict[str, tuple[float, float, float]] = {}
        # tenants that were charged, or given back to, since somebody emptied it
        self.charged_since: set[str] = set()

    def tenant_of(self, cluster: str, namespace: str) -> str | None:
        """Who is charged for pods submitted to a namespace of a cluster, None: nobody."""
        return self.owners.of(cluster, namespace)

    def tenant_of_pod(self, pod_info: PodInfo) -> str | None:
        """Who is charged for a pod, None: nobody."""
        return self.owners.of(pod_info.home, pod_info.pod.namespace)

    def ungiven(self, pod_info: PodInfo) -> tuple[Toleration, ...]:
        """The tolerations that a pod is to be given by its tenant and has not."""
        if not self.places.any_tolerations:
            return ()
        tenant = self.tenant_of_pod(pod_info)
        wanted = () if tenant is None else self.places.tolerations(tenant)
        own = pod_info.pod.tolerations
        return tuple(one for one in wanted if one not in own)

    def take(self, tenants: Sequence[Tenant]) -> None:
        """From now on these tenants hold; who is named as before keeps its charges, those of others
        are given back. Where namespaces move, the places of pods have to be booked anew (as
        `core.reload` does), and what is remembered of clusters that are not heard means nothing.
        """
        tree = TenantTree(tenants)
        if owners_of(tenants) != owners_of(self.tenants):
            self.unsynced.forget()
        for home, charges in self._charges.items():
            for uid, charge in list(charges.items()):
                if charge.tenant in tree.nodes:
                    tree.nodes[charge.tenant].charge(charge.amounts)
                else:
                    self.unsynced.note(charge.tenant, home, charge.amounts, -1)
                    del charges[uid]
        self._hold(tenants, tree)
        self.claims.clear()  # all that wait are tried again, and say so
        self._holds = QuotaHolds()

    def _hold(self, tenants: Sequence[Tenant], tree: TenantTree) -> None:
        self.tenants = tuple(tenants)
        self.owners = TenantOwners(tenants)
        self.tree = tree
        self.places = TenantPlaces(tree)
        self.parts = parts_of(tree)
        self.any_parts = any(self.parts.values())
        self.generation += 1
        self._counted = -1  # the state of `unsynced` that the tree counts

    def node(self, tenant: str, totals: Mapping[str, int] | None) -> TenantNode:
        """A tenant's place in the tree, with all that counts there; `totals`: what Ready clusters
        can allocate, None: what that was when it was last told. It holds until something is
        charged, heard or changed.
        """
        if self._counted != self.unsynced.version:
            self._counted = self.unsynced.version
            self.tree.count_beside(
                {one.name: self.unsynced.unseen(one.name) for one in self.tenants}
            )
        if totals is not None:
            self.tree.settle(totals)
        return self.tree.nodes[tenant]

    def exceeded(
        self,
        tenant: str,
        asked: Mapping[str, int],
        totals: Mapping[str, int] | None,
        before: Mapping[str, int] = NOTHING,
    ) -> Exceeded | None:
        """The first limit, by name of resource, that charging `asked` would break, None if it fits;
        `totals` as of `node`. `before`: what goes before it (`claims.above`).
        """
        node = self.node(tenant, totals)
        for resource in sorted(asked):
            amount = asked[resource]
            if amount <= 0:
                continue
            found = node.binding(resource, amount)
            if found is not None:
                return _exceeded(tenant, resource, amount, *found)
            found = node.binding(resource, amount + before.get(resource, 0))
            if found is not None:
                exceeded = _exceeded(tenant, resource, amount, found[0], amount)
                return replace(exceeded, behind=True)
        return None

    def fit_behind(
        self,
        pods: Iterable[tuple[str, int]],
        asked: Mapping[str, int],
        totals: Mapping[str, int],
    ) -> int:
        """How many of these (tenant, priority), one after the other, can be charged `asked` before
        one has to wait for a limit, or for pods of higher priority.
        """
        charged: list[str] = []
        for tenant, priority in pods:
            if tenant:
                before = self.claims.above(tenant, priority)
                if self.exceeded(tenant, asked, totals, before) is not None:
                    break
                self.tree.nodes[tenant].charge(asked)
            charged.append(tenant)
        for tenant in filter(None, charged):
            self.tree.nodes[tenant].charge(asked, -1)
        return len(charged)

    def claim(self, pod_id: PodId, tenant: str, priority: int, amounts: Mapping[str, int]) -> None:
        """A pod waits for quota alone: it goes before pods of its tenant of lower priority, unless
        it asks for more than that was given (of what it was given nothing of: than it could ever
        use).
        """
        node = self.tree.nodes[tenant]
        limits = {name: given or node.potential[name] for name, given in node.quota.items()}
        if all(amount <= limits.get(name, amount) for name, amount in amounts.items()):
            self.claims.put(pod_id, tenant, priority, self._charge(tenant, amounts).amounts)

    def hold(
        self,
        pod_id: PodId,
        tenant: str,
        amounts: Mapping[str, int],
        leaving: Iterable[PodId] = (),
    ) -> list[PodId]:
        """Keep so much for a pod that waits, above the limit if need be, until it is charged or
        this is taken back: nobody else is charged for it then. Who of those that leave gives some
        of it back (`quota_holds`).
        """
        self.drop_hold(pod_id)
        self.claims.drop(pod_id)
        self.charged_since.add(tenant)
        nodes = self.tree.nodes
        charged = ((one, self.charged(one)) for one in leaving)
        given = ((one, nodes[its.tenant], its.amounts) for one, its in charged if its is not None)
        return self._holds.put(pod_id, nodes[tenant], self._charge(tenant, amounts).amounts, given)

    def drop_hold(self, pod_id: PodId) -> bool:
        """Nothing is kept for the pod any more; whether anything was."""
        whose = self._holds.drop(pod_id)
        if whose is not None:
            self.charged_since.add(whose.name)
        return whose is not None

    def holds(self, pod_id: PodId) -> bool:
        """Whether quota is kept for the pod."""
        return pod_id in self._holds

    def holds_aside(self, pod_ids: Iterable[PodId]) -> AbstractContextManager[None]:
        """While these pods themselves are looked at."""
        return self._holds.aside(pod_ids)

    def charges(self) -> Iterator[tuple[PodId, Charge]]:
        """What each pod is charged."""
        for home, charges in self._charges.items():
            for uid, charge in charges.items():
                yield (home, uid), charge

    def charges_of(self, tenant: str, at_once: int) -> Iterator[list[tuple[PodId, Charge]]]:
        """The same of one tenant, of so many charges at a time, whatever is charged meanwhile."""
        for home, charges in list(self._charges.items()):
            known = iter(list(charges.items()))
            while some := list(islice(known, at_once)):
                yield [((home, uid), charge) for uid, charge in some if charge.tenant == tenant]

    def times(
        self, tenant: str, asked: Mapping[str, int], totals: Mapping[str, int], most: int
    ) -> int:
        """How often `asked` can be charged before a limit breaks, `most` at most."""
        node = self.node(tenant, totals)
        for resource, amount in asked.items():
            left = node.available(resource) if amount > 0 else None
            if left is not None:
                most = min(most, left // amount)
        return max(most, 0)

    def fits(
        self, tenants: Sequence[str], asked: Mapping[str, int], totals: Mapping[str, int]
    ) -> int:
        """How many of these tenants, one after the other, can be charged `asked` before a limit
        breaks; '' is nobody, who has none.
        """

        def breaks(at: int) -> bool:
            return not self._all_fit(Counter(tenants[: at + 1]), asked, totals)

        if self._all_fit(Counter(tenants), asked, totals):
            return len(tenants)
        return bisect_left(range(len(tenants)), True, key=breaks)

    def _all_fit(
        self, wanted: Mapping[str, int], asked: Mapping[str, int], totals: Mapping[str, int]
    ) -> bool:
        """Whether each tenant can be charged so often; the order makes no difference to that."""
        tried: list[tuple[TenantNode, int]] = []
        fit = True
        for tenant, times in wanted.items():
            if tenant and fit:
                fit = self.times(tenant, asked, totals, times) == times
                node = self.tree.nodes[tenant]
                node.charge(asked, times)
                tried.append((node, times))
        for node, times in tried:
            node.charge(asked, -times)
        return fit

    def in_parts(
        self, tenant: str, asked: Mapping[str, int], parts: Iterable[FleetPart]
    ) -> Mapping[str, int]:
        """What a pod is charged that asks for so much on a node in these parts of the fleet."""
        limited = self.tree.nodes[tenant].quota
        keys = ((quota_key(name, part), amount) for part in parts for name, amount in asked.items())
        more = {key: amount for key, amount in keys if key in limited}
        return {**asked, **more} if more else asked

    def closed_parts(
        self, tenant: str, asked: Mapping[str, int], totals: Mapping[str, int]
    ) -> tuple[FleetPart, ...]:
        """The parts of the fleet in which nothing is left of a quota for a pod that asks for so
        much.
        """
        found = [
            part
            for part in self.parts[tenant]
            for there in (self.in_parts(tenant, asked, (part,)),)
            for more in ({key: amount for key, amount in there.items() if key not in asked},)
            if self.exceeded(tenant, more, totals)
        ]
        return tuple(found)

    def share(
        self, tenant: str, totals: Mapping[str, int], more: Mapping[str, int] = NOTHING
    ) -> FairShare:
        """A tenant's weighted dominant share, if it used `more` (negative: less) than it does: zero
        if and only if it has borrowed nothing.
        """
        return self.node(tenant, totals).share(more)

    def shares(
        self, tenant: str, totals: Mapping[str, int], more: Mapping[str, int] = NOTHING
    ) -> tuple[FairShare, ...]:
        """The same from below the top of its tree down to it: what two tenants compare by."""
        return self.node(tenant, totals).shares(more)

    def related(self, one: str, other: str) -> bool:
        """Whether what one tenant gives back may help the other."""
        nodes = self.tree.nodes
        return one in nodes and other in nodes and nodes[one].root is nodes[other].root

    def grows(self, tenant: str, before: Mapping[str, int], after: Mapping[str, int]) -> bool:
        """Whether the tenant may use more when a node of the fleet can allocate `after`, no more
        `before`, as far as that says it: it may have come to another part.
        """
        ratios = {resource_of(key) for key in self.tree.nodes[tenant].root.ratios()}
        return bool(self.tree.of_parts) or any(
            after.get(name, 0) > before.get(name, 0) for name in ratios
        )

    def unknown(self, tenant: str, clusters: Sequence[ClusterInfo]) -> str:
        """Why nobody knows what a tenant with quota uses, '' if it is known. `clusters`: the
        fleet's, as they are.
        """
        self.unsynced.refresh(clusters)
        silent = self.unsynced.unknown() if self.tree.nodes[tenant].root.quota else ""
        return (
            f"tenant {tenant}: cluster {silent} has not been heard since the start"
            if silent
            else ""
        )

    def charge(self, pod_id: PodId, tenant: str, amounts: Mapping[str, int]) -> None:
        """Charge a pod, fit or not; one that was charged before is charged anew in place of it."""
        self.release(pod_id)
        self.claims.drop(pod_id)
        self.drop_hold(pod_id)
        self.tree.nodes[tenant].charge(amounts)
        self.charged_since.add(tenant)
        self.unsynced.note(tenant, pod_id[0], amounts, 1)
        home, uid = pod_id
        self._charges[home][uid] = self._charge(tenant, amounts)

    def charge_all(self, pod_ids: Sequence[PodId], tenant: str, amounts: Mapping[str, int]) -> None:
        """Charge the same for each of these pods, fit or not; none of them is charged yet."""
        charge = self._charge(tenant, amounts)
        self.charged_since.add(tenant)
        self.claims.drop_all(pod_ids)
        for pod_id in pod_ids if self._holds else ():
            self.drop_hold(pod_id)
        by_home = defaultdict[str, list[str]](list)
        for home, uid in pod_ids:
            by_home[home].append(uid)
        for home, uids in by_home.items():
            whole = {resource: len(uids) * amount for resource, amount in amounts.items()}
            self.tree.nodes[tenant].charge(amounts, len(uids))
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
            self.tree.nodes[charge.tenant].charge(charge.amounts, -1)
            self.charged_since.add(charge.tenant)
            self.unsynced.note(charge.tenant, pod_id[0], charge.amounts, -1)
            self._holds.left(pod_id)
        return charge

    def put_back(self, pod_id: PodId, charge: Charge | None) -> None:
        """Charge what was released, the exact inverse of `release`."""
        if charge is not None:
            self.charge(pod_id, charge.tenant, charge.amounts)
            self._holds.back(pod_id)

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
        """What a tenant itself is charged now, per resource; zeros are left out."""
        return dict(self.tree.nodes[tenant].own)

    def limits(self, tenant: str, totals: Mapping[str, int]) -> Resources:
        """What a tenant could use if nobody else in its tree used anything, per resource that it is
        limited in.
        """
        return dict(self.node(tenant, totals).potential)


def quota_may_help(ledger: QuotaLedger, event: ClusterEvent, tenant: Hashable) -> bool:
    """Whether an event may help pods of a tenant that wait for quota: what a pod gives back helps
    its own tree of tenants; a node, those whose share of the fleet it makes larger.
    """
    before = event.before
    after = event.after
    if isinstance(after, Node) and isinstance(tenant, str):
        had = before.allocatable if isinstance(before, Node) else {}
        return ledger.grows(tenant, had, after.allocatable)
    if not event.kind & WakeEvent.QUOTA_FREED or event.kind & NODES or not isinstance(before, Pod):
        return True
    freed = ledger.tenant_of(event.cluster, before.namespace)
    return freed is not None and ledger.related(str(tenant), freed)


def _exceeded(tenant: str, resource: str, asked: int, node: TenantNode, beyond: int) -> Exceeded:
    limit = node.quota[resource] if node.parent is None else node.ceiling[resource]
    unseen = sum(one.beside.get(resource, 0) for one in node.subtree())
    used = node.usage.get(resource, 0)
    return Exceeded(tenant, resource, asked, used, limit, min(unseen, used), node.name, beyond)
