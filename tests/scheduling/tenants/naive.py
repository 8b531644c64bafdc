"""The tree of tenants as its formulas say, computed anew for each question; and trees at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

from shared.model.tenant import Share, Tenant

RESOURCES = ("cpu", "gpu")
TOTALS = {"cpu": 60, "gpu": 10}


@dataclass
class Naive:
    """`own`: what each tenant was charged, by resource. Floats stand for no limit."""

    tenants: Sequence[Tenant]
    own: Mapping[str, Mapping[str, int]]
    totals: Mapping[str, int]

    def said(self, shares: Mapping[str, Share], resource: str) -> float:
        share = shares.get(resource)
        if share is None:
            return float("inf")
        if share.absolute is not None:
            return share.absolute
        assert share.ratio is not None
        return int(self.totals[resource] * Fraction(share.ratio).limit_denominator(10**6))

    def named(self, name: str) -> Tenant:
        return next(one for one in self.tenants if one.name == name)

    def children(self, name: str) -> list[str]:
        return [one.name for one in self.tenants if one.parent == name]

    def root(self, name: str) -> str:
        parent = self.named(name).parent
        return self.root(parent) if parent else name

    def limited(self, name: str, resource: str) -> bool:
        return any(resource in one.nominal for one in self.tenants if self.root(one.name) == self.root(name))

    def nominal(self, name: str, resource: str) -> float:
        return self.said(self.named(name).nominal, resource) if resource in self.named(name).nominal else 0

    def quota(self, name: str, resource: str) -> float:
        lent = sum(self.quota(one, resource) - self.kept(one, resource) for one in self.children(name))
        return self.nominal(name, resource) + lent

    def kept(self, name: str, resource: str) -> float:
        return max(0, self.quota(name, resource) - self.said(self.named(name).lending_limit, resource))

    def usage(self, name: str, resource: str) -> float:
        passed = sum(max(0, self.usage(one, resource) - self.kept(one, resource)) for one in self.children(name))
        return self.own.get(name, {}).get(resource, 0) + passed

    def ceiling(self, name: str, resource: str) -> float:
        borrowing = self.said(self.named(name).borrowing_limit, resource)
        return self.quota(name, resource) + (borrowing if self.named(name).parent else 0)

    def within(self, name: str, resource: str) -> bool:
        """Whether no limit is broken from here to the top."""
        parent = self.named(name).parent
        here = self.usage(name, resource) <= self.ceiling(name, resource)
        return here and (not parent or self.within(parent, resource))

    def potential(self, name: str, resource: str) -> float:
        parent = self.named(name).parent
        if not parent:
            return self.quota(name, resource)
        whole = self.kept(name, resource) + self.potential(parent, resource)
        return min(self.ceiling(name, resource), whole)

    def share(self, name: str) -> Fraction:
        """Unweighted."""
        parent = self.named(name).parent
        if not parent:
            return Fraction(0)
        return max(
            (
                Fraction(int(max(0, self.usage(name, one) - self.quota(name, one))))
                / int(max(1, self.potential(parent, one)))
                for one in RESOURCES
                if self.limited(name, one)
            ),
            default=Fraction(0),
        )


amounts = st.one_of(
    st.builds(lambda number: Share(absolute=number), st.integers(0, 20)),
    st.builds(lambda percent: Share(ratio=percent / 100), st.integers(0, 100)),
)
said = st.dictionaries(st.sampled_from(RESOURCES), amounts)


@st.composite
def trees(draw: st.DrawFn) -> list[Tenant]:
    """Up to seven tenants, each below an earlier one or at the top."""
    tenants: list[Tenant] = []
    for at in range(draw(st.integers(1, 7))):
        tenants.append(
            Tenant(
                f"t{at}",
                (f"n{at}",),
                draw(said),
                parent=draw(st.sampled_from(["", *(one.name for one in tenants)])),
                borrowing_limit=draw(said),
                lending_limit=draw(said),
                weight=draw(st.sampled_from([0, 500, 1000, 3000])),
            )
        )
    return tenants
