"""What the queue asks of tenants to let them take turns (`fair_order.Shares`), answered by the
ledger.

Shares are what `TenantNode.share` says: zero up to what a tenant was given, then by what it has
borrowed of what it could. Pods of a tenant that has others below it take turns with those of all
below together, as pods of nobody do with all tenants'.
"""

from collections.abc import Collection, Hashable

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from dispatcher.scheduling.tenants.shares import NO_SHARE, WHOLE, FairShare
from dispatcher.scheduling.tenants.tree import TenantNode
from shared.model.tenant import WEIGHT_ONE

_AHEAD = WHOLE // 200


class LedgerShares:
    """The tenants of a ledger, and what they are charged now."""

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger
        self._seen: tuple[int, int] | None = None

    def tenant_of(self, pod_info: PodInfo) -> str | None:
        """Whose pod it is; None: nobody's."""
        return self._ledger.tenant_of(pod_info.home, pod_info.pod.namespace)

    def path_of(self, tenant: str) -> tuple[Hashable, ...]:
        """The tenants that it is part of, and itself."""
        path: list[Hashable] = []
        nodes = self._ledger.tree.nodes[tenant].path
        for node in nodes:
            path.append(node.name)
            if node.tenant.namespaces and node.children:
                path.append(("pods of", node.name) if node is nodes[-1] else ("below", node.name))
        return tuple(path)

    def share_of(self, node: Hashable) -> FairShare:
        """The weighted dominant share of a tenant; none of what stands beside them in a path."""
        found = self._ledger.tree.nodes.get(node) if isinstance(node, str) else None
        return NO_SHARE if found is None else found.share()

    def weight_of(self, node: Hashable) -> int:
        """In thousandths."""
        found = self._ledger.tree.nodes.get(node) if isinstance(node, str) else None
        return WEIGHT_ONE if found is None else found.tenant.weight

    def row(self, tenant: str, pod_info: PodInfo, most: int) -> int:
        """How many pods like this it may take before others are looked at, 1 to `most`: with them
        it borrows no more than 0.5 % more of what it could than before, nor does one that it is
        part of. So who borrows nothing is not held up.
        """
        node = self._ledger.tree.nodes[tenant]
        amounts = charge_of(pod_info.pod)
        before = _borrowed(node)
        pods = most
        while pods > 1:
            node.charge(amounts, pods)
            after = _borrowed(node)
            node.charge(amounts, -pods)
            if all(now <= was + _AHEAD for now, was in zip(after, before, strict=True)):
                break
            pods = max(pods // 4, 1)
        return pods

    def take_changed(self) -> Collection[str] | None:
        """Who was charged, or given back to, since this was asked last; None: all may have
        changed.
        """
        ledger = self._ledger
        changed = ledger.charged_since
        seen = (ledger.generation, ledger.tree.settlings)
        if changed:
            ledger.charged_since = set()
        if seen != self._seen:
            self._seen = seen
            return None
        return changed

    def suppose(self, tenant: str, pod_info: PodInfo, times: int) -> None:
        """So many pods like this count as charged; negative: no more."""
        self._ledger.tree.nodes[tenant].charge(charge_of(pod_info.pod), times)


def _borrowed(node: TenantNode) -> list[int]:
    """How much of what it could borrow it has borrowed, in billionths, whatever its weight; then
    the same of those that it is part of.
    """
    found = []
    above: TenantNode | None = node
    while above is not None:
        weight = above.tenant.weight or WEIGHT_ONE
        found.append(above.share().billionths * weight // WEIGHT_ONE)
        above = above.parent
    return found
