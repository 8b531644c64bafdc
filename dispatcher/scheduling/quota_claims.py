"""Pods that wait for quota of their tenant alone, and so come before its pods of lower priority.

What such a pod asks for counts as used for those: else small pods would take each piece of quota
that comes free before a large one of higher priority can be tried, or while it backs off. A pod
that asks for more than its tenant was given holds up nobody: it waits for what others may lend.
Who stands for a group asks for as many members as have to start together.

Example: a tenant uses all of its 10 CPUs, a pod of priority 1000 waits for 4, and others of
priority 0 for 1 each. Whatever ends, the first 4 that come free go to the first pod. If it is
removed, or refused for something else, the others are tried.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from shared.model.pod import PodId
from shared.model.resources import Resources

_Claim = tuple[str, int, Mapping[str, int]]  # tenant, priority, amounts


class QuotaClaims:
    """Claims by pod; sums of them by tenant and priority."""

    def __init__(self) -> None:
        self._claims: dict[PodId, _Claim] = {}
        self._sums: dict[str, dict[int, Counter[str]]] = {}

    def __contains__(self, pod_id: PodId) -> bool:
        return pod_id in self._claims

    def of(self, tenants: Iterable[str]) -> bool:
        """Whether a pod of one of these tenants waits."""
        return bool(self._sums) and not self._sums.keys().isdisjoint(tenants)

    def put(self, pod_id: PodId, tenant: str, priority: int, amounts: Mapping[str, int]) -> None:
        """The pod waits for so much."""
        self.drop(pod_id)
        self._claims[pod_id] = (tenant, priority, amounts)
        self._sums.setdefault(tenant, {}).setdefault(priority, Counter()).update(amounts)

    def drop(self, pod_id: PodId) -> bool:
        """It waits no more; whether it did."""
        claim = self._claims.pop(pod_id, None)
        if claim is None:
            return False
        tenant, priority, amounts = claim
        sums = self._sums[tenant]
        left = sums[priority]
        left.subtract(amounts)
        for resource in amounts:
            if not left[resource]:  # whatever the pod called it
                del left[resource]
        if not left:
            del sums[priority]
        if not sums:
            del self._sums[tenant]
        return True

    def drop_all(self, pod_ids: Iterable[PodId]) -> None:
        """`drop` each."""
        for pod_id in pod_ids if self._claims else ():
            self.drop(pod_id)

    def clear(self) -> None:
        """Nobody waits."""
        self._claims.clear()
        self._sums.clear()

    def above(self, tenant: str, priority: int) -> Resources:
        """What pods of a tenant wait for that are of higher priority."""
        found: Resources = {}
        for other, amounts in self._sums.get(tenant, {}).items():
            if other > priority:
                for resource, amount in amounts.items():
                    found[resource] = found.get(resource, 0) + amount
        return found
