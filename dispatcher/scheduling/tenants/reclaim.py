"""Which pods give back what their tenants have borrowed, so that a pod of another tenant fits.

Arithmetic on the tree of tenants alone; it is as before at the end. Victims are chosen greedily:
of the branches that have borrowed what is missing the one with the highest share gives first, in it
the least important pod that started last, rather one no larger than what was borrowed. A pod may be
taken if the claimant's policy lets it be, and if it stays fair:

- where the claimant's branch borrows none of what is missing with its pod, whatever the other has;
- else by the strategies in order (Kueue's preemptionStrategies): `LessThanOrEqualToFinalShare`, the
  claimant's share with its pod is no more than the victim's without (S2-a); `LessThanInitialShare`,
  it is less than the victim's as it is (S2-b), and the victim is no larger than what was borrowed.

Branches are those below the lowest node that claimant and victim are both part of. Pods of a lower
priority of the claimant's own tenant may go in any case. At the end all that can stay do: victims
are put back in the reverse order, each if the claimant fits still. Of a group that is evicted whole
all members count as one.

Where nodes are full, the same is asked of the pods of one node, for what is missing there (`room`)
and not for quota: of tenants that have borrowed anything, for one whose branch borrows nothing with
its pod, or by `LessThanOrEqualToFinalShare`. So a tenant that was given GPUs alone gets the CPUs for
its pods, too.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher.scheduling.tenants.shares import NO_SHARE, FairShare
from dispatcher.scheduling.tenants.tree import TenantNode, TenantTree
from shared.model.bounds import MAX_AMOUNT
from shared.model.pod import PodId
from shared.model.tenant import (
    ANY_PRIORITY,
    FINAL_SHARE,
    INITIAL_SHARE,
    NEVER,
    RECLAIM_STRATEGIES,
    Tenant,
)

_MOST = 256  # units that are taken for one claimant
MOST_COMPARED = 64  # of a tenant's units of equal priority, to find one no larger than was borrowed


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be asked to go. `group`: pods of equal ones go together; None: it goes alone."""

    pod_id: PodId
    tenant: str
    priority: int
    started: float  # unix seconds; 0: it has not
    amounts: Mapping[str, int]
    group: Hashable = None
    row: int = -1  # of its node

    @property
    def unit(self) -> tuple[str, Hashable]:
        """Pods of equal ones go together, or not at all."""
        return ("pod", self.pod_id) if self.group is None else ("group", self.group)


def goes_first(one: Candidate) -> tuple[int, float, PodId]:
    """The least important pod that started last is the smallest."""
    return one.priority, -(one.started or float("inf")), one.pod_id


@dataclass(frozen=True, slots=True)
class Claimant:
    """The pod that wants its quota back. `room`: what is missing for it on the node of `row`, where
    that alone is asked for.
    """

    tenant: str
    priority: int
    asked: Mapping[str, int]
    room: Mapping[str, int] = field(default_factory=dict)
    row: int = -1


@dataclass(slots=True)
class _Unit:
    """Pods that go together, all of one tenant."""

    tenant: str
    pods: list[Candidate]

    @property
    def importance(self) -> tuple[int, float]:
        """The less, the sooner it goes: of the most important member, and of the first that started."""
        started = min((one.started for one in self.pods if one.started), default=float("inf"))
        return max(one.priority for one in self.pods), -started

    @property
    def last(self) -> PodId:
        return max(one.pod_id for one in self.pods)


def policy_of(node: TenantNode) -> tuple[str, Sequence[str]]:
    """Whether a tenant reclaims, and by which strategies: what it says itself, else who it is part
    of.
    """
    said = [one.tenant for one in reversed(node.path)]
    policy = next((one.reclaim for one in said if one.reclaim), NEVER)
    strategies = next((one.reclaim_strategies for one in said if one.reclaim_strategies), ())
    return policy, strategies or RECLAIM_STRATEGIES


def min_runtime_of(node: TenantNode) -> float:
    """How long pods of a tenant run at least before they are asked to go, in seconds."""
    said: Iterable[Tenant] = (one.tenant for one in reversed(node.path))
    return next((one.min_runtime_s for one in said if one.min_runtime_s is not None), 0.0)


def victims(
    tree: TenantTree,
    claimant: Claimant,
    candidates: Iterable[Candidate],
) -> list[Candidate] | None:
    """Who has to go so that the claimant's quota is not exceeded, none if it is not; None if there
    is no way. The tree is as of what Ready clusters can allocate now. Where room is missing on a
    node, all candidates are there, or others of their group.
    """
    node = tree.nodes[claimant.tenant]
    policy, strategies = policy_of(node)
    if policy == NEVER:
        return None
    units = _units(tree, node, claimant, policy, candidates)
    for strategy in strategies:
        found = _Search(tree, node, claimant, strategy, units).run()
        if found is not None:
            return found
    return None


def first_of(
    tree: TenantTree, claimant: str, resource: str, candidates: Iterable[Candidate]
) -> list[Candidate] | None:
    """Who would go first if a tenant asked for a little of a resource of which nothing is left, for
    a pod as important as can be; None: nobody.
    """
    node = tree.nodes[claimant]
    policy, strategies = policy_of(node)
    if policy == NEVER:
        return None
    asking = Claimant(claimant, MAX_AMOUNT, {resource: 1})
    units = _units(tree, node, asking, policy, candidates)
    for strategy in strategies:
        unit = _Search(tree, node, asking, strategy, units).next_of([resource])
        if unit is not None:
            return unit.pods
    return None


def _units(
    tree: TenantTree,
    node: TenantNode,
    claimant: Claimant,
    policy: str,
    candidates: Iterable[Candidate],
) -> dict[str, list[_Unit]]:
    """Those that the policy lets go, by tenant, who goes last first."""
    root = node.root
    units: dict[Hashable, _Unit] = {}
    for one in candidates:
        if one.tenant not in tree.nodes or tree.nodes[one.tenant].root is not root:
            continue
        units.setdefault((one.tenant, one.unit), _Unit(one.tenant, [])).pods.append(one)
    found: dict[str, list[_Unit]] = {}
    for unit in units.values():
        lower = unit.importance[0] < claimant.priority
        if lower or (policy == ANY_PRIORITY and unit.tenant != claimant.tenant):
            found.setdefault(unit.tenant, []).append(unit)
    for some in found.values():
        some.sort(key=lambda one: (one.importance, one.last), reverse=True)
    return found


class _Search:
    """One strategy. What it takes is charged again at the end."""

    def __init__(
        self,
        tree: TenantTree,
        node: TenantNode,
        claimant: Claimant,
        strategy: str,
        units: Mapping[str, Sequence[_Unit]],
    ) -> None:
        self._tree = tree
        self._node = node
        self._claimant = claimant
        self._strategy = strategy
        self._left = {tenant: list(some) for tenant, some in units.items()}
        self._taken: list[_Unit] = []
        self._room = dict(claimant.room)

    def run(self) -> list[Candidate] | None:
        """The pods that have to go; None: they would not do."""
        try:
            while not self._fits():
                unit = self.next_of(self._missing()) if len(self._taken) < _MOST else None
                if unit is None:
                    return None
                self._charge(unit, -1)
                self._taken.append(unit)
            self._put_back()
            return [pod for unit in self._taken for pod in unit.pods]
        finally:
            for unit in reversed(self._taken):
                self._charge(unit, 1)

    def _put_back(self) -> None:
        """Whoever can stay after all."""
        for unit in list(reversed(self._taken)):
            self._charge(unit, 1)
            if self._fits():
                self._taken.remove(unit)
            else:
                self._charge(unit, -1)

    def _charge(self, unit: _Unit, times: int) -> None:
        node = self._tree.nodes[unit.tenant]
        for one in unit.pods:
            node.charge(one.amounts, times)
            for name in self._room if one.row == self._claimant.row else ():
                self._room[name] += times * one.amounts.get(name, 0)

    def _missing(self) -> list[str]:
        """Resources of which the node has too few now, or whose quota the claimant would exceed."""
        if self._room:
            return [name for name, amount in self._room.items() if amount > 0]
        asked = self._claimant.asked.items()
        binding = self._node.binding
        return [name for name, amount in asked if amount > 0 and binding(name, amount) is not None]

    def _fits(self) -> bool:
        return not self._missing()

    def next_of(self, missing: Sequence[str]) -> _Unit | None:
        """Who has some of what is missing goes next: of the tenants that may give the one with the
        highest share, from the branches down.
        """
        best: tuple[list[FairShare], str, int] | None = None
        for tenant, units in self._left.items():
            while units and not _has_any(units[-1], missing):
                units.pop()  # what it has is not missing, and will not be
            if not units:
                continue
            at = self._least_harm(tenant, units, missing)
            if not self._may_take(tenant, units[at], missing):
                continue
            shares = [one.share() for one in self._chain(tenant)]
            if best is None or (shares, tenant, at) > best:
                best = (shares, tenant, at)
        return self._left[best[1]].pop(best[2]) if best is not None else None

    def _least_harm(self, tenant: str, units: Sequence[_Unit], missing: Sequence[str]) -> int:
        """The last of the least important that leaves its tenant what that was given, else the
        last: who loses more than it has borrowed takes it back from others.
        """
        last = len(units) - 1
        lowest = units[last].importance[0]
        for at in range(last, max(last - MOST_COMPARED, -1), -1):
            if units[at].importance[0] != lowest:
                break
            if _has_any(units[at], missing) and self._leaves_own(tenant, units[at], missing):
                return at
        return last

    def _leaves_own(self, tenant: str, unit: _Unit, missing: Sequence[str]) -> bool:
        """Whether its tenant has borrowed as much of what is missing as it has."""
        if tenant == self._claimant.tenant or self._room:
            return True
        return all(
            node.borrowed(name) >= sum(one.amounts.get(name, 0) for one in unit.pods)
            for node in self._chain(tenant)
            for name in missing
        )

    def _may_take(self, tenant: str, unit: _Unit, missing: Sequence[str]) -> bool:
        if tenant == self._claimant.tenant:
            return True  # of a lower priority, or it were none of the units
        mine, other = self._branches(tenant)
        chain = () if other is mine else self._chain(tenant)
        if not chain or not all(self._gives(one, missing) for one in chain):
            return False
        wanted, keeps = self._share_with_pod(mine, missing)
        if (wanted == NO_SHARE) if self._room else keeps:
            return True
        if self._strategy == INITIAL_SHARE:
            less = wanted < other.share() and not self._room
            return less and self._leaves_own(tenant, unit, missing)
        self._charge(unit, -1)
        left = other.share()
        self._charge(unit, 1)
        return self._strategy == FINAL_SHARE and wanted <= left

    def _gives(self, node: TenantNode, missing: Sequence[str]) -> bool:
        return node.share() > NO_SHARE if self._room else any(map(node.borrowed, missing))

    def _share_with_pod(self, mine: TenantNode, missing: Sequence[str]) -> tuple[FairShare, bool]:
        """The share of the claimant's branch with the pod; whether it borrows none of what is
        missing then, whatever else (Kueue's queueUnderNominalInResourcesNeedingPreemption).
        """
        self._node.charge(self._claimant.asked)
        share = mine.share()
        keeps = not any(map(mine.borrowed, missing))
        self._node.charge(self._claimant.asked, -1)
        return share, keeps

    def _chain(self, tenant: str) -> Sequence[TenantNode]:
        """From the other's branch down to it."""
        path = self._tree.nodes[tenant].path
        return path[path.index(self._branches(tenant)[1]) :]

    def _branches(self, tenant: str) -> tuple[TenantNode, TenantNode]:
        """Of the claimant and of another tenant: the nodes below the lowest that both are part of;
        one of these itself where the other is part of it.
        """
        mine, other = self._node.path, self._tree.nodes[tenant].path
        depth = 0
        while depth + 1 < min(len(mine), len(other)) and mine[depth] is other[depth]:
            depth += 1
        return mine[depth], other[depth]


def _has_any(unit: _Unit, names: Sequence[str]) -> bool:
    return any(one.amounts.get(name, 0) > 0 for one in unit.pods for name in names)
