"""What the queue asks of tenants to let them take turns (`fair_order.Shares`), answered by the
ledger.

Shares are what `TenantNode.share` says: zero up to what a tenant was given, then by what it has
borrowed of what it could. Pods of a tenant that has others below it, and those of all below
together, are as two tenants below it (`share_of_own`, `share_below`).
"""

from collections.abc import Collection, Hashable, Mapping
from itertools import zip_longest
from math import ceil

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from dispatcher.scheduling.tenants.shares import NO_SHARE, WHOLE, FairShare
from dispatcher.scheduling.tenants.tree import NOTHING, TenantNode
from shared.model.tenant import WEIGHT_ONE

_AHEAD = WHOLE // 200
_OWN = "pods of"
_BELOW = "below"
_LOOKED_AHEAD = 0.1  # half-lives
_LEAST_S = 1.0


class LedgerShares:
    """The tenants of a ledger, and what they are charged now."""

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger
        self._seen: tuple[int, int] | None = None

    def tenant_of(self, pod_info: PodInfo) -> str | None:
        """Whose pod it is; None: nobody's."""
        return self._ledger.tenant_of_pod(pod_info)

    def path_of(self, tenant: str) -> tuple[Hashable, ...]:
        """The tenants that it is part of, and itself."""
        path: list[Hashable] = []
        nodes = self._ledger.tree.nodes[tenant].path
        for node in nodes:
            path.append(node.name)
            if node.tenant.namespaces and node.children:
                path.append((_OWN if node is nodes[-1] else _BELOW, node.name))
        return tuple(path)

    def share_of(self, node: Hashable) -> FairShare:
        """The weighted dominant share of a tenant, or of a part of what is below it."""
        part, name = node if isinstance(node, tuple) else ("", node)
        found = self._ledger.tree.nodes.get(name)
        if found is None:
            return NO_SHARE
        if part:
            return found.share_of_own() if part == _OWN else found.share_below()
        return found.share()

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
        before = _borrowed(node, NOTHING)
        pods = most
        while pods > 1:
            after = _borrowed(node, {name: pods * amount for name, amount in amounts.items()})
            if all(now <= was + _AHEAD for now, was in zip_longest(after, before, fillvalue=0)):
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

    def at(self, now: float) -> None:
        """Only what is so now counts."""

    def suppose(self, tenant: str, pod_info: PodInfo, times: int) -> None:
        """So many pods like this count as charged; negative: no more."""
        self._ledger.tree.nodes[tenant].charge(charge_of(pod_info.pod), times)


class DecayedShares(LedgerShares):
    """The same by what was used lately, not by what is used now alone.

    The past of a node is the mean of its share with weights that halve each `half_life_s`: after a
    time dt with share s it is  d past + (1 - d) s, d = 0.5^(dt / half_life_s).  It is kept exactly,
    change by change, in the ledger, so that it outlasts a reload; a restart begins with none. A
    node is compared by what its past will be in a tenth of a half-life if its use stays: so what a
    pod takes counts at once, by as much as it will have counted then. (Kueue's
    AdmissionFairSharing adds a penalty for that, which has to be settled later.)
    """

    def __init__(self, ledger: QuotaLedger, half_life_s: float) -> None:
        super().__init__(ledger)
        self._half_life_s = half_life_s
        self._now = 0.0
        self._all_at = float("-inf")

    def at(self, now: float) -> None:
        """The past moves on."""
        self._now = now

    def share_of(self, node: Hashable) -> FairShare:
        """As of the class, rounded up: what is not nothing stays more. Endless shares stay last."""
        share = super().share_of(node)
        ahead = 0.5**_LOOKED_AHEAD
        past = self._past_of(node) if isinstance(node, str) else 0.0
        return FairShare(share.endless, ceil(ahead * past + (1 - ahead) * share.billionths))

    def _past_of(self, node: str) -> float:
        past, share, since = self._ledger.past.get(node, (0.0, 0.0, self._now))
        kept: float = 0.5 ** (max(0.0, self._now - since) / self._half_life_s)
        return kept * past + (1 - kept) * share

    def take_changed(self) -> Collection[str] | None:
        """Time changes all shares, so they are looked at again after each hundredth of a half-life."""
        changed = super().take_changed()
        nodes = self._ledger.tree.nodes
        if self._now - self._all_at >= max(self._half_life_s / 100, _LEAST_S):
            changed = None
        if changed is None:
            self._all_at = self._now
        for node in self._touched(changed):
            self._ledger.past[node] = (
                self._past_of(node),
                float(nodes[node].share().billionths),
                self._now,
            )
        return changed

    def _touched(self, changed: Collection[str] | None) -> Collection[str]:
        nodes = self._ledger.tree.nodes
        if changed is None:
            for gone in self._ledger.past.keys() - nodes.keys():
                del self._ledger.past[gone]
            return nodes.keys()
        return {above.name for one in changed if one in nodes for above in nodes[one].path}


def _borrowed(node: TenantNode, more: Mapping[str, int]) -> list[int]:
    """How much of what it could borrow it has borrowed if it used `more`, in billionths, whatever
    its weight; before that the same of those that it is part of. Zeros at the end are left out.
    First of all its own pods, where others are part of it.
    """
    found = [node.share_of_own(more).billionths] if node.children else []
    for one, share in zip(node.path[1:], node.shares(more), strict=False):
        found.append(share.billionths * (one.tenant.weight or WEIGHT_ONE) // WEIGHT_ONE)
    return found
