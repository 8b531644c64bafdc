"""Quota that is kept for pods that wait while others give it back.

It counts as used by the pod's own tenant from the start, above the limit if need be: nobody else is
charged for it. What gives it back counts as well until it is gone. In the lowest node of which both
tenants are part, and above, the same quota would count twice: there it is taken off once
(`TenantNode.count_once`), of each pod that leaves no more than what it is charged, for all that
wait for it together. Where a tenant between keeps some for itself (`lending_limit`) nobody can say
how much is counted twice there; then all counts. What one waits for no other one waits for, there
neither.

Example: 6 CPUs are all used by blue. 3 are kept for a pod of red, for which 3 of blue's pods leave:
6 + 3 - 3. One of these has gone: 5 + 3 - 2. Another pod of blue ends by itself: 4 + 3 - 2, and one
is free, though red's pod waits still.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from dispatcher.scheduling.tenants.tree import TenantNode
from shared.model.pod import PodId

_Amounts = Mapping[str, int]


@dataclass(slots=True)
class _Hold:
    """What is kept; what each pod that leaves gives of it, and what of that counts once, and where."""

    node: TenantNode
    amounts: _Amounts
    given: dict[PodId, _Amounts] = field(default_factory=dict)
    once: dict[PodId, tuple[TenantNode, _Amounts]] = field(default_factory=dict)


class QuotaHolds:
    """By pod that waits, and by pod that leaves for it."""

    def __init__(self) -> None:
        self._holds: dict[PodId, _Hold] = {}
        self._for: dict[PodId, dict[PodId, _Hold]] = {}  # a pod that leaves -> who waits for it
        self._gone: set[PodId] = set()  # of those that leave

    def __contains__(self, pod_id: PodId) -> bool:
        return pod_id in self._holds

    def __bool__(self) -> bool:
        return bool(self._holds)

    def put(
        self,
        pod_id: PodId,
        node: TenantNode,
        amounts: _Amounts,
        leaving: Iterable[tuple[PodId, TenantNode, _Amounts]] = (),
    ) -> list[PodId]:
        """Keep so much for the pod; who of those that leave, each with what it is charged, gives
        some of that back.
        """
        hold = self._holds[pod_id] = _Hold(node, amounts)
        node.charge(amounts)
        wanted = {name: amount for name, amount in amounts.items() if amount > 0}
        for one, whose, charged in leaving:
            given = self._left_of(one, charged)
            some = {name: min(wanted[name], given[name]) for name in wanted if given.get(name)}
            if not some:
                continue
            wanted = {name: more for name in wanted if (more := wanted[name] - some.get(name, 0))}
            hold.given[one] = some
            at = _lowest_of_both(node, whose)
            hold.once[one] = (
                at,
                {name: amount for name, amount in some.items() if _passes(name, node, whose, at)},
            )
            self._for.setdefault(one, {})[pod_id] = hold
            at.count_once(hold.once[one][1])
        return list(hold.once)

    def _left_of(self, leaving: PodId, charged: _Amounts) -> dict[str, int]:
        """What of it nobody waits for yet."""
        left = dict(charged)
        for hold in self._for.get(leaving, {}).values():
            for name, amount in hold.given[leaving].items():
                left[name] -= amount
        return left

    def drop(self, pod_id: PodId) -> TenantNode | None:
        """Nothing is kept for the pod any more; for whom it was, None if nothing was."""
        hold = self._holds.pop(pod_id, None)
        if hold is None:
            return None
        self._count(hold, -1)
        for one in hold.once:
            del self._for[one][pod_id]
            if not self._for[one]:
                del self._for[one]
                self._gone.discard(one)
        return hold.node

    def left(self, pod_id: PodId) -> None:
        """A pod is charged nothing any more."""
        if pod_id in self._for and pod_id not in self._gone:
            self._gone.add(pod_id)
            for hold in self._for[pod_id].values():
                at, amounts = hold.once[pod_id]
                at.count_once(amounts, -1)

    def back(self, pod_id: PodId) -> None:
        """The exact inverse of `left`."""
        if pod_id in self._gone:
            self._gone.remove(pod_id)
            for hold in self._for[pod_id].values():
                at, amounts = hold.once[pod_id]
                at.count_once(amounts)

    @contextmanager
    def aside(self, pod_ids: Iterable[PodId]) -> Iterator[None]:
        """As if nothing were kept for these, and nobody left for them."""
        holds = self._holds
        aside = [holds[pod_id] for pod_id in pod_ids if pod_id in holds] if holds else ()
        for hold in aside:
            self._count(hold, -1)
        try:
            yield
        finally:
            for hold in aside:
                self._count(hold, 1)

    def _count(self, hold: _Hold, times: int) -> None:
        hold.node.charge(hold.amounts, times)
        for one, (at, amounts) in hold.once.items():
            if one not in self._gone:
                at.count_once(amounts, times)


def _lowest_of_both(one: TenantNode, other: TenantNode) -> TenantNode:
    both = [node for node, its in zip(one.path, other.path, strict=False) if node is its]
    return both[-1]


def _passes(resource: str, one: TenantNode, other: TenantNode, above: TenantNode) -> bool:
    """Whether all that is charged to one or the other counts in a node of which both are part."""
    depth = len(above.path)
    between = (*one.path[depth:], *other.path[depth:])
    return not any(resource in node.tenant.lending_limit for node in between)
