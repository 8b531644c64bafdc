"""Quota in a tree of tenants: short arithmetic on integers over one kind of node with a parent.

Per node and resource (Kueue's resource_node.go and fair_sharing.go, in pkg/cache/scheduler):

    quota     = nominal + sum over children (quota - kept)     what its subtree was given
    kept      = max(0, quota - lendingLimit); 0 without one    what of it is lent to nobody outside
    usage     = own charges + sum over children max(0, usage - kept), each amount once
    available = max(0, kept - usage) + available of the parent, but no more than
                quota + borrowingLimit - usage; quota - usage where there is no parent
    potential = available in a tree of which nothing is used
    share     = the largest over resources of max(0, usage - quota) / potential of the parent,
                by weight

A resource is limited in a tree if some node of it has a nominal amount; a node that has none was
given nothing, and borrows. Ratios are of what Ready clusters can allocate, at any depth. Limits
saturate at 2**62, usage is exact: taking off is always the inverse of adding.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher.scheduling.tenants.shares import NO_SHARE, FairShare, fair_share, limit_of
from shared.model.bounds import MAX_AMOUNT
from shared.model.resources import Resources
from shared.model.tenant import WEIGHT_ONE, FleetPart, Share, Tenant, part_of

NOTHING: Mapping[str, int] = {}


@dataclass(eq=False)
class TenantNode:
    """One node: what was said of it, what follows from the fleet, and what is used.

    `own`: what is charged to it itself; `beside`: what counts besides, though nobody saw it in this
    life; `once`: what would count twice (`quota_holds`). `version` grows with each change of what its
    subtree uses or was given.
    """

    tenant: Tenant
    parent: "TenantNode | None" = None
    children: "list[TenantNode]" = field(default_factory=list)
    own: Resources = field(default_factory=dict)
    beside: Mapping[str, int] = field(default_factory=dict)
    once: Resources = field(default_factory=dict)
    usage: Resources = field(default_factory=dict)
    given: Resources = field(default_factory=dict)  # nominal, of each that is limited in the tree
    quota: Resources = field(default_factory=dict)  # of the same
    kept: Resources = field(default_factory=dict)
    potential: Resources = field(default_factory=dict)
    ceiling: Resources = field(default_factory=dict)  # quota and what may be borrowed, if bounded
    version: int = 0
    _share: FairShare | None = None

    @property
    def name(self) -> str:
        """The tenant's."""
        return self.tenant.name

    @property
    def root(self) -> "TenantNode":
        """The top of its tree."""
        return self if self.parent is None else self.parent.root

    @property
    def path(self) -> "Sequence[TenantNode]":
        """From the top of its tree down to itself."""
        return (self,) if self.parent is None else (*self.parent.path, self)

    def subtree(self) -> "Iterator[TenantNode]":
        """Itself and all below, parents first."""
        yield self
        for child in self.children:
            yield from child.subtree()

    def ratios(self) -> set[str]:
        """Resources of which something here or below is a ratio of the fleet, or of a part of it."""
        return {
            name
            for node in self.subtree()
            for shares in node.said()
            for name, share in shares.items()
            if share.absolute is None
        }

    def parts(self) -> tuple[FleetPart, ...]:
        """Parts of the fleet that something here or below has quota of."""
        keys = {key for node in self.subtree() for key in node.tenant.nominal}
        return tuple(sorted({part for key in keys if (part := part_of(key)) is not None}))

    def said(self) -> Sequence[Mapping[str, Share]]:
        """All amounts that were said of it."""
        return self.tenant.nominal, self.tenant.borrowing_limit, self.tenant.lending_limit

    def available(self, resource: str) -> int | None:
        """How much more it can be charged, negative if it is above; None: it is not limited."""
        if resource not in self.quota:
            return None
        used = self.usage.get(resource, 0)
        if self.parent is None:
            return self.quota[resource] - used
        above = self.parent.available(resource) or 0
        left = max(0, self.kept[resource] - used) + above
        ceiling = self.ceiling.get(resource)
        return left if ceiling is None else min(left, ceiling - used)

    def binding(self, resource: str, amount: int) -> "tuple[TenantNode, int] | None":
        """The lowest node whose limit `amount` more would break, and how much of it gets there;
        None if it fits.
        """
        if resource not in self.quota:
            return None
        used = self.usage.get(resource, 0)
        ceiling = self.quota[resource] if self.parent is None else self.ceiling.get(resource)
        if ceiling is not None and used + amount > ceiling:
            return self, amount
        rest = amount - max(0, self.kept[resource] - used)
        return self.parent.binding(resource, rest) if self.parent and rest > 0 else None

    def whole(self) -> Resources:
        """What is charged to it and to all below, whatever is kept for whom."""
        found: Resources = {}
        for node in self.subtree():
            for resource, amount in node.own.items():
                found[resource] = found.get(resource, 0) + amount
        return found

    def charge(self, amounts: Mapping[str, int], times: int = 1) -> None:
        """Charge it `times` the amounts; a negative number takes them off again, exactly."""
        for resource, amount in amounts.items():
            if amount:
                _add(self.own, resource, times * amount)
                self._use(resource, times * amount)

    def count_once(self, amounts: Mapping[str, int], times: int = 1) -> None:
        """So much of what is used here or below would count twice; of a negative number no more."""
        for resource, amount in amounts.items():
            _add(self.once, resource, times * amount)
            self._use(resource, -times * amount)

    def _use(self, resource: str, more: int) -> None:
        before = self.usage.get(resource, 0)
        _add(self.usage, resource, more)
        self.version += 1
        self._share = None
        if self.parent is not None:
            kept = self.kept.get(resource, 0)
            passed = max(0, before + more - kept) - max(0, before - kept)
            if passed:
                self.parent._use(resource, passed)

    def borrowed(self, resource: str, more: int = 0) -> int:
        """How much of what its subtree uses, and `more`, is above what that was given."""
        if self.parent is None or resource not in self.quota:
            return 0
        return max(0, self.usage.get(resource, 0) + more - self.quota[resource])

    def share(self, more: Mapping[str, int] = NOTHING) -> FairShare:
        """Its weighted dominant share, if it used `more` (negative: less) than it does."""
        if more or self._share is None:
            found = self._dominant(more)[0]
            if more:
                return found
            self._share = found
        return self._share

    def dominant(self) -> str:
        """The resource that its share is of, '' if it has borrowed nothing."""
        return self._dominant(NOTHING)[1]

    def share_of(self, resource: str, more: int = 0) -> FairShare:
        """Its share of one resource that is limited, if it used `more` than it does."""
        if self.parent is None:
            return NO_SHARE
        borrowed = self.borrowed(resource, more)
        return fair_share(borrowed, self.parent.potential[resource], self.tenant.weight)

    def share_of_own(self, more: Mapping[str, int] = NOTHING) -> FairShare:
        """Of its own pods, as if they were those of a tenant below it that was given its nominal,
        and if these used `more`.
        """
        used = {name: self._own(name) + more.get(name, 0) for name in self.quota}
        return self._share_of_part({name: used[name] - self.given[name] for name in self.quota})

    def share_below(self) -> FairShare:
        """Of all tenants below it, as if they were one that was given what they lend."""
        used = {name: self.usage.get(name, 0) - self._own(name) for name in self.quota}
        lent = {name: self.quota[name] - self.given[name] for name in self.quota}
        return self._share_of_part({name: used[name] - lent[name] for name in self.quota})

    def _own(self, resource: str) -> int:
        return self.own.get(resource, 0) + self.beside.get(resource, 0)

    def _share_of_part(self, borrowed: Mapping[str, int]) -> FairShare:
        shares = (fair_share(borrowed[one], self.potential[one], WEIGHT_ONE) for one in borrowed)
        return max(shares, default=NO_SHARE)

    def _dominant(self, more: Mapping[str, int]) -> tuple[FairShare, str]:
        most = NO_SHARE
        of = ""
        for resource in sorted(self.quota):
            found = self.share_of(resource, more.get(resource, 0))
            if found > most:
                most = found
                of = resource
        return most, of

    def shares(self, more: Mapping[str, int] = NOTHING) -> tuple[FairShare, ...]:
        """The shares from below the top of the tree down to it, if it used `more` than it does.

        Two of them compare as their nodes below the lowest common ancestor do. Zeros at the end are
        left out, so that depth makes no difference.
        """
        found: list[FairShare] = []
        node = self
        while node.parent is not None:
            found.append(node.share(more))
            more = node._passed(more)
            node = node.parent
        while found and found[0] == NO_SHARE:
            del found[0]
        return tuple(reversed(found))

    def _passed(self, more: Mapping[str, int]) -> Mapping[str, int]:
        return {
            resource: max(0, used + amount - kept) - max(0, used - kept)
            for resource, amount in more.items()
            for used in (self.usage.get(resource, 0),)
            for kept in (self.kept.get(resource, 0),)
        }

    def settle(self, totals: Mapping[str, int]) -> None:
        """Compute all that follows from what Ready clusters can allocate, here and below; to be
        called of the top of a tree.
        """
        limited = sorted({name for node in self.subtree() for name in node.tenant.nominal})
        self._settle_quota(limited, totals)
        for node in self.subtree():
            node._settle_potential()

    def _settle_quota(self, limited: Sequence[str], totals: Mapping[str, int]) -> None:
        for child in self.children:
            child._settle_quota(limited, totals)
        said = self.tenant
        self.given = {}
        self.quota = {}
        self.kept = {}
        self.ceiling = {}
        for resource in limited:
            lent = sum(one.quota[resource] - one.kept[resource] for one in self.children)
            given = self.given[resource] = said_amount(said.nominal, resource, totals) or 0
            quota = min(given + lent, MAX_AMOUNT)
            lending = said_amount(said.lending_limit, resource, totals)
            borrowing = said_amount(said.borrowing_limit, resource, totals)
            self.quota[resource] = quota
            self.kept[resource] = 0 if lending is None else max(0, quota - lending)
            if borrowing is not None:
                self.ceiling[resource] = min(quota + borrowing, MAX_AMOUNT)
        self._settle_usage()

    def _settle_usage(self) -> None:
        self.usage = dict(self.own)
        for resource, amount in self.beside.items():
            _add(self.usage, resource, amount)
        for resource, amount in self.once.items():
            _add(self.usage, resource, -amount)
        for child in self.children:
            for resource, used in child.usage.items():
                _add(self.usage, resource, max(0, used - child.kept.get(resource, 0)))
        self.version += 1
        self._share = None

    def _settle_potential(self) -> None:
        self.potential = dict(self.quota)
        if self.parent is None:
            return
        for resource, kept in self.kept.items():
            whole = min(kept + self.parent.potential[resource], MAX_AMOUNT)
            self.potential[resource] = min(whole, self.ceiling.get(resource, MAX_AMOUNT))


def _add(amounts: Resources, resource: str, more: int) -> None:
    left = amounts.get(resource, 0) + more
    if left:
        amounts[resource] = left
    else:
        amounts.pop(resource, None)


def said_amount(
    shares: Mapping[str, Share], resource: str, totals: Mapping[str, int]
) -> int | None:
    """What was said of a resource, as an amount; None: nothing was."""
    share = shares.get(resource)
    return None if share is None else limit_of(share, totals.get(resource, 0))


class TenantTree:
    """The nodes of all tenants by name; those without a parent are trees of their own.

    ValueError for a name that is given twice, a parent that is none of them, and a circle.
    """

    def __init__(self, tenants: Iterable[Tenant] = ()) -> None:
        self.nodes: dict[str, TenantNode] = {}
        for tenant in tenants:
            if tenant.name in self.nodes:
                raise ValueError(f"tenant {tenant.name} is defined twice")
            self.nodes[tenant.name] = TenantNode(tenant)
        for node in self.nodes.values():
            self._hang(node)
        self.roots = [node for node in self.nodes.values() if node.parent is None]
        reached = sum(1 for root in self.roots for _ in root.subtree())
        if reached < len(self.nodes):
            raise ValueError("some tenants are below themselves")
        self._of_fleet = sorted({name for root in self.roots for name in root.ratios()})
        # of which parts of the fleet it needs totals, too
        self.of_parts = tuple(filter(part_of, self._of_fleet))
        self._settled: tuple[int, ...] | None = None
        self.settlings = 0  # how often the limits or the use of all changed at once
        self.settle(NOTHING)

    def _hang(self, node: TenantNode) -> None:
        above = node.tenant.parent
        if not above:
            return
        if above not in self.nodes:
            raise ValueError(f"tenant {node.name} is below {above}, which is no tenant")
        node.parent = self.nodes[above]
        node.parent.children.append(node)

    def settle(self, totals: Mapping[str, int]) -> None:
        """Let limits follow from what Ready clusters can allocate, `totals`."""
        found = tuple(totals.get(name, 0) for name in self._of_fleet)
        if found != self._settled:
            self._settled = found
            self.settlings += 1
            for root in self.roots:
                root.settle(totals)

    def count_beside(self, beside: Mapping[str, Mapping[str, int]]) -> None:
        """Let these amounts, by tenant, count beside what is charged, in place of earlier ones."""
        self.settlings += 1
        for name, node in self.nodes.items():
            node.beside = beside.get(name, NOTHING)
        for root in self.roots:
            for node in reversed([*root.subtree()]):
                node._settle_usage()
