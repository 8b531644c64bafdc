"""What each tenant has, uses, lends and borrows, who waits, and what would free quota, as plain
JSON-ready rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.queued import QueuedPod, State
from dispatcher.scheduling.quota import QuotaLedger, charge_of, format_quota
from dispatcher.scheduling.tenants.lending import Missing, lent, missing
from dispatcher.scheduling.tenants.shares import FairShare
from dispatcher.scheduling.tenants.tree import TenantNode, said_amount
from dispatcher.scheduling.views.pieces import Row
from dispatcher.scheduling.waiting_groups import WaitingGroup
from shared.model.pod import Pod
from shared.model.reasons import Reasons
from shared.model.resources import Resources
from shared.model.tenant import WEIGHT_ONE, Share, part_of, resource_of

MOST_BORROWERS = 20


class TenantRows:
    """The rows as things are now. `core`: whose queue and fleet; `ledger`: who is charged."""

    def __init__(self, core: SchedulerCore, ledger: QuotaLedger) -> None:
        self._core = core
        self._ledger = ledger
        self._totals = core.fleet.allocatable_total(ledger.tree.of_parts)
        self._lent: dict[tuple[str, str], Mapping[str, int]] = {}  # by parent and resource

    def nodes(self) -> list[TenantNode]:
        """All tenants, each tree from the top down, as they stand now."""
        return [
            self._settled(node.name) for root in self._ledger.tree.roots for node in root.subtree()
        ]

    def all(self) -> list[Row]:
        """Each tree from the top down, one row for each tenant and resource that it is limited in;
        one row for a tenant without limits.
        """
        waiting = self.waiting()
        return [
            {**row, "waiting": waiting[node.name]}
            for node in self.nodes()
            for row in self._rows(node)
        ]

    def _settled(self, name: str) -> TenantNode:
        return self._ledger.node(name, self._totals)

    def _rows(self, node: TenantNode) -> Iterator[Row]:
        amounts = self.amounts(node)
        for resource in sorted(node.quota) or [""]:
            told = amounts.get(resource, {})
            yield {
                "tenant": node.name,
                "parent": node.tenant.parent,
                "level": len(node.path) - 1,
                "resource": resource,
                **{key: format_quota(resource, amount) for key, amount in told.items()},
                "share": share_number(node.share()),
            }

    def amounts(self, node: TenantNode) -> dict[str, dict[str, int]]:
        """Resource that it is limited in -> what it was given, uses, has borrowed and lent. What its
        parts use of what they keep for themselves is none of what it uses: no limit of its own
        counts that.
        """
        return {
            resource: {
                "nominal": self._said(node.tenant.nominal, resource) or 0,
                "used": node.usage.get(resource, 0),
                "borrowed": node.borrowed(resource),
                "lent": self._lent_by(node, resource),
                "limit": node.potential[resource],
            }
            for resource in node.quota
        }

    def _lent_by(self, node: TenantNode, resource: str) -> int:
        if node.parent is None:
            return 0
        key = (node.parent.name, resource)
        if key not in self._lent:
            self._lent[key] = lent(node.parent, resource)
        return self._lent[key][node.name]

    def _said(self, shares: Mapping[str, Share], resource: str) -> int | None:
        return said_amount(shares, resource, self._totals)

    def waiting(self) -> Counter[str]:
        """Tenant -> pods of it, or of those that are part of it, that found no place or are gated."""
        found = Counter[str]()
        for tenant, _, count in self._parked():
            for node in self._ledger.tree.nodes[tenant].path:
                found[node.name] += count
        for tenant, group in self._waiting_groups():
            for node in self._ledger.tree.nodes[tenant].path:
                found[node.name] += len(group.beside_lead)
        return found

    def starved(self) -> Counter[str]:
        """Tenant -> its pods that wait for quota, though with them it would use no more than it was
        given: others have borrowed it.
        """
        found = Counter[str]()
        for tenant, one, count in self._parked():
            if Reasons.QUOTA in one.reasons:
                short = missing(self._settled(tenant), charge_of(one.pod_info.pod))
                found[tenant] += count if short is not None and short.within else 0
        for tenant, group in self._waiting_groups():
            if group.lead is not None and Reasons.QUOTA in group.lead.reasons:
                short = missing(self._settled(tenant), _charge_of(group))
                if short is not None and short.within:
                    found[tenant] += len(group.beside_lead)
        return found

    def _waiting_groups(self) -> Iterator[tuple[str, WaitingGroup]]:
        """By tenant, groups that lack members or found no place."""
        for group in self._core.queue.groups if self._ledger.tenants else ():
            tenant = self._ledger.tenant_of(group.group_id[0], group.group_id[1])
            tried = group.lead is None or group.lead.state is State.UNSCHEDULABLE
            if tenant is not None and tried and group.members:
                yield tenant, group

    def _parked(self) -> Iterator[tuple[str, QueuedPod, int]]:
        if not self._ledger.tenants:
            return
        for one, count in self._core.queue.parked():
            info = one.pod_info
            tenant = self._ledger.tenant_of_pod(info)
            if tenant is not None:
                yield tenant, one, count

    def one(self, name: str) -> Row | None:
        """All about one tenant, with the arithmetic of each resource; None if there is none."""
        if name not in self._ledger.tree.nodes:
            return None
        node = self._settled(name)
        waiting = self.waiting()
        return {
            "tenant": name,
            "path": [one.name for one in node.path],
            "children": [one.name for one in node.children],
            "namespaces": list(node.tenant.namespaces),
            "waiting": waiting[name],
            "starved": self.starved()[name],
            "weight": node.tenant.weight / WEIGHT_ONE,
            "share": share_number(node.share()),
            "dominant": node.dominant(),
            "shares": [share_number(one) for one in node.shares()],
            "rules": _rules(node),
            "resources": [self._arithmetic(node, key) for key in sorted(node.quota)],
            "not_limited": self._not_limited(node),
        }

    def _not_limited(self, node: TenantNode) -> Row:
        used = node.whole()
        rest = sorted(key for key in used if key not in node.quota)
        return {key: format_quota(key, used[key]) for key in rest}

    def _arithmetic(self, node: TenantNode, key: str) -> Row:
        def shown(amount: int | None) -> str | None:
            return None if amount is None else format_quota(key, amount)

        borrowing = self._said(node.tenant.borrowing_limit, key)
        lending = self._said(node.tenant.lending_limit, key)
        own = self._said(node.tenant.nominal, key) or 0
        available = node.available(key)
        found = node.binding(key, max(0, available or 0) + 1)
        part = part_of(key)
        return {
            "resource": resource_of(key),
            "of": part.words if part else "the fleet",
            "nominal": shown(own),
            "said": _said(node.tenant.nominal.get(key)),
            "of_children": shown(node.quota[key] - own),
            "quota": shown(node.quota[key]),
            "lending_limit": shown(lending),
            "kept": shown(node.kept[key]),
            "borrowing_limit": shown(borrowing),
            "used": shown(node.whole().get(key, 0)),
            "usage": shown(node.usage.get(key, 0)),
            "borrowed": shown(node.borrowed(key)),
            "lent": shown(self._lent_by(node, key)),
            "available": shown(available),
            "limited_by": found[0].name if found else None,
            "limit": shown(node.potential[key]),
            "share": share_number(node.share_of(key)),
        }

    def check(self, cluster: str, pod: Pod, replicas: int) -> Row:
        """Whether pods like this, submitted to its namespace in a cluster, are let pass by what the
        tenants file says now. `borrows`: each of them; `why`, `frees`: of all `replicas` together.
        """
        tenant = self._ledger.tenant_of(cluster, pod.namespace)
        if tenant is None:
            return {"tenant": None, "fits": replicas, "replicas": replicas, "why": ""}
        asked = charge_of(pod)
        ceiling = self._ledger.places.ceiling(tenant)
        why = self._ledger.unknown(tenant, self._core.fleet.clusters)
        if ceiling is not None and pod.priority > ceiling[0]:
            why = (
                f"priority {pod.priority} is above max_priority {ceiling[0]} of tenant {ceiling[1]}"
            )
        fits = 0 if why else self._ledger.times(tenant, asked, self._totals, replicas)
        node = self._settled(tenant)
        together = {key: amount * replicas for key, amount in asked.items()}
        exceeded = self._ledger.exceeded(tenant, together, self._totals) if not why else None
        short = missing(node, together)
        closed = self._ledger.closed_parts(tenant, asked, self._totals)
        return {
            "tenant": tenant,
            "path": [one.name for one in node.path],
            "asks": {key: format_quota(key, amount) for key, amount in sorted(asked.items())},
            "replicas": replicas,
            "fits": fits,
            "why": why or (exceeded.text if exceeded else ""),
            "closed": [part.words for part in closed],
            "borrows": _borrows(node, asked),
            "frees": None if short is None else _frees(short),
        }

    def frees(self, pod_info: PodInfo) -> Row | None:
        """What would free quota for a pod; None for one that fits, or that nobody is charged for."""
        tenant = self._ledger.tenant_of_pod(pod_info)
        if tenant is None:
            return None
        group = self._core.queue.groups.of(pod_info)
        whole = _charge_of(group) if group is not None and group.is_whole else {}
        asked = whole or charge_of(pod_info.pod)
        short = missing(self._settled(tenant), asked)
        return None if short is None else _frees(short)


def _charge_of(group: WaitingGroup) -> Resources:
    """What as many members ask for as have to start together."""
    needed = max(1, group.group.min_count - len(group.placed))
    found: Resources = {}
    for item in list(group.members.values())[:needed]:
        for resource, amount in charge_of(item.pod_info.pod).items():
            found[resource] = found.get(resource, 0) + amount
    return found


def _frees(short: Missing) -> Row:
    amount = format_quota(short.resource, short.amount)
    part = part_of(short.resource)
    what = f"{resource_of(short.resource)}{f' on {part.words}' if part else ''}"
    said = [
        f"{amount} of {what} has to come free in tenant {short.node}"
        if short.node != short.tenant
        else f"pods of tenant {short.tenant} that have {amount} of {what} have to end"
    ]
    if short.borrowers:
        most = ", ".join(
            f"{name} ({format_quota(short.resource, borrowed)})"
            for name, borrowed in short.borrowers[:MOST_BORROWERS]
        )
        said.append(f"borrowed of it: {most}")
    if short.within:
        said.append("it is within what the tenant was given: others use it")
    return {
        "tenant": short.tenant,
        "node": short.node,
        "resource": short.resource,
        "missing": amount,
        "within_own": short.within,
        "borrowers": [
            {"tenant": name, "borrowed": format_quota(short.resource, borrowed)}
            for name, borrowed in short.borrowers[:MOST_BORROWERS]
        ],
        "text": "; ".join(said),
    }


def _borrows(node: TenantNode, asked: Mapping[str, int]) -> Row:
    """Of each resource that such a pod would borrow, how much."""
    more = {
        key: node.borrowed(key, amount) - node.borrowed(key)
        for key, amount in asked.items()
        if key in node.quota
    }
    return {key: format_quota(key, amount) for key, amount in sorted(more.items()) if amount}


def _rules(node: TenantNode) -> Row:
    """What is said of it, and of those that it is part of, beside amounts."""
    said: dict[str, Any] = {}
    for one in node.path:
        tenant = one.tenant
        rules: Sequence[tuple[str, Any]] = (
            ("clusters", list(tenant.clusters)),
            ("nodes", dict(tenant.selector)),
            ("exclusive", tenant.exclusive),
            ("tolerations", [one.text for one in tenant.tolerations]),
            ("max_priority", tenant.max_priority),
            ("spread", tenant.spread),
            ("reclaim", tenant.reclaim),
            ("reclaim_strategies", list(tenant.reclaim_strategies)),
            ("min_runtime_s", tenant.min_runtime_s),
        )
        told = {key: value for key, value in rules if value not in ([], {}, False, None, "")}
        if told:
            said[one.name] = told
    return said


def _said(share: Share | None) -> str | None:
    if share is None or share.ratio is None:
        return None
    return f"{share.ratio * 100:g}%"


def share_number(share: FairShare) -> float | str:
    """As a fraction per weight, or 'endless'."""
    return "endless" if share.endless else round(share.number, 6)
