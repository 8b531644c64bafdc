"""Tenants for tests of who goes first: a tree of names, weights, and what each is charged of a fleet of `TOTAL`."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from fractions import Fraction

from dispatcher.plugins.priority_sort import PrioritySort
from dispatcher.scheduling.fair_order import Turns
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue
from dispatcher.scheduling.quota import charge_of
from shared.model.pod import PodId
from tests.builders import PodBuilder

TOTAL = {"cpu": 1_000_000, "memory": 2**40, "pods": 100_000}


class FakeShares:
    """`weights`: of each node, 1 if not named. A tenant's name is its path: `org/team`."""

    def __init__(self, weights: Mapping[str, int] | None = None) -> None:
        self.weights = dict(weights or {})
        self.used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.changed: set[str] | None = set()
        self.asked = 0

    def path_of(self, tenant: str) -> tuple[Hashable, ...]:
        parts = tenant.split("/")
        return tuple("/".join(parts[: at + 1]) for at in range(len(parts)))

    def share_of(self, node: Hashable) -> Fraction:
        self.asked += 1
        used = self.used[str(node)]
        dominant = max((Fraction(used[name], total) for name, total in TOTAL.items()), default=Fraction(0))
        return dominant / max(self.weights.get(str(node), 1), 1)

    def tenant_of(self, pod_info: PodInfo) -> str | None:
        return tenant_of(pod_info)

    def weight_of(self, node: Hashable) -> int:
        return 1000 * self.weights.get(str(node), 1)

    def row(self, tenant: str, pod_info: PodInfo, most: int) -> int:
        """As many as 1/32 of what it has placed."""
        return min(most, 64, max(1, self.pods_of(tenant) // 32))

    def pods_of(self, tenant: str) -> int:
        return self.used[tenant]["pods"]

    def take_changed(self) -> Collection[str] | None:
        taken = self.changed
        self.changed = set()
        return taken

    def at(self, now: float) -> None:
        """Nothing changes by that."""

    def suppose(self, tenant: str, pod_info: PodInfo, times: int) -> None:
        self._add(tenant, charge_of(pod_info.pod), times)

    def _add(self, tenant: str, amounts: Mapping[str, int], times: int) -> None:
        for node in map(str, self.path_of(tenant)):
            for name, amount in amounts.items():
                self.used[node][name] += times * amount

    def charge(self, tenant: str, amounts: Mapping[str, int], times: int = 1) -> None:
        """As the ledger would; negative: given back."""
        self._add(tenant, amounts, times)
        if self.changed is not None:
            self.changed.add(tenant)


def tenant_of(pod_info: PodInfo) -> str | None:
    """That of the label."""
    return pod_info.pod.labels.get("tenant")


class FairSort(PrioritySort):
    """By priority, then share; or by share alone, and in a tenant by priority."""

    def __init__(self, shares: FakeShares, *, share_first: bool = False) -> None:
        super().__init__()
        self.shares = shares
        self.share_first = share_first

    def turns(self) -> Turns:
        return Turns(self.shares, lambda one: () if self.share_first else (-one.pod.priority,))


class SharedQueue(SchedulingQueue):
    """A queue of pods whose class is their label `app`."""

    def __init__(self, shares: FakeShares, *, share_first: bool = False) -> None:
        super().__init__(FairSort(shares, share_first=share_first), by_app)
        self.shares = shares

    def come(self, *pods: PodBuilder, now: float = 0.0) -> list[PodId]:
        """They wait from now on."""
        found = []
        for one in pods:
            placed = one.placed()
            found.append(("a", placed.pod.uid))
            self.add(found[-1], placed, now)
        return found

    def place(self, items: list[QueuedPod]) -> list[str]:
        """All find a place: their tenants, in order."""
        for item in items:
            if (tenant := tenant_of(item.pod_info)) is not None:
                self.shares.charge(tenant, charge_of(item.pod_info.pod))
        return [tenant_of(item.pod_info) or "" for item in items]


def by_app(pod_info: PodInfo) -> Hashable:
    """The class of a pod."""
    return pod_info.pod.labels.get("app")
