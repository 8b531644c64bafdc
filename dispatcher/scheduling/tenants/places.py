"""Which nodes the pods of a tenant may use, by what the tenants file says of it and of those that
it is part of.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dispatcher.scheduling.tenants.tree import TenantNode, TenantTree
from shared.model.pod import Toleration
from shared.model.tenant import FleetPart

Labels = tuple[tuple[str, str], ...]


class KeptNodes(NamedTuple):
    """Nodes that are for the pods of `tenant` alone: all with these labels, in these clusters or in
    all.
    """

    tenant: str
    labels: Labels
    clusters: frozenset[str] | None


class AllKept:
    """What is kept for any tenant, once for all of them: where each keeps nodes from all others, a
    list for each would grow with the square of their number.
    """

    def __init__(self, nodes: Iterable[KeptNodes]) -> None:
        self.nodes = tuple(nodes)
        self.whose = frozenset(one.tenant for one in self.nodes)


class Places(NamedTuple):
    """What holds for the pods of one tenant, '' for nobody's. `clusters` None: all. `labels`: what
    their nodes must have. `kept`: what is kept, for `own` (it, and those that it is part of) or for
    others.
    """

    tenant: str
    clusters: frozenset[str] | None
    labels: Labels
    kept: AllKept
    own: frozenset[str] = frozenset()

    @property
    def for_others(self) -> Iterator[KeptNodes]:
        """Nodes that they may not use."""
        return (one for one in self.kept.nodes if one.tenant not in self.own)


class TenantPlaces:
    """`of`: by tenant and for nobody's pods; None where nothing is said."""

    def __init__(self, tree: TenantTree) -> None:
        kept = AllKept(_kept(tree.nodes.values()))
        self._of = {name: _places(node, kept) for name, node in tree.nodes.items()}
        self._nobody = Places("", None, (), kept) if kept.nodes else None
        self._ceilings = {name: _ceiling(node) for name, node in tree.nodes.items()}
        spread = {
            name: frozenset(one.name for one in node.subtree())
            for name, node in tree.nodes.items()
            if node.tenant.spread
        }
        self._spread = {name: _spread(node, spread) for name, node in tree.nodes.items()}
        self._tolerations = {name: _tolerations(node) for name, node in tree.nodes.items()}
        self.any = any(one is not None for one in (*self._of.values(), self._nobody))
        self.any_ceiling = any(one is not None for one in self._ceilings.values())
        self.any_spread = any(self._spread.values())
        self.any_tolerations = any(self._tolerations.values())

    def of(self, tenant: str | None) -> Places | None:
        """Of its pods; None: nothing is said."""
        return self._nobody if tenant is None else self._of[tenant]

    def ceiling(self, tenant: str) -> tuple[int, str] | None:
        """The highest priority of its pods that are placed, and whose it is."""
        return self._ceilings[tenant]

    def tolerations(self, tenant: str) -> tuple[Toleration, ...]:
        """What its pods are given."""
        return self._tolerations[tenant]

    def spread(self, tenant: str) -> frozenset[str]:
        """The tenants whose pods count together as its own are spread; none: they are not."""
        return self._spread[tenant]


def _labels(node: TenantNode) -> Labels:
    return tuple(sorted({one for above in node.path for one in above.tenant.selector.items()}))


def _clusters(node: TenantNode) -> frozenset[str] | None:
    said = [frozenset(one.tenant.clusters) for one in node.path if one.tenant.clusters]
    return frozenset.intersection(*said) if said else None


def _kept(nodes: Iterable[TenantNode]) -> Iterator[KeptNodes]:
    for node in nodes:
        if node.tenant.exclusive:
            yield KeptNodes(node.name, _labels(node), _clusters(node))


def _places(node: TenantNode, kept: AllKept) -> Places | None:
    own = kept.whose & {one.name for one in node.path}
    clusters = _clusters(node)
    labels = _labels(node)
    if clusters is None and not labels and own == kept.whose:
        return None
    whose = node.name if clusters is not None or labels else ""
    return Places(whose, clusters, labels, kept, own)


def _ceiling(node: TenantNode) -> tuple[int, str] | None:
    said = [
        (one.tenant.max_priority, one.name)
        for one in node.path
        if one.tenant.max_priority is not None
    ]
    return min(said, default=None)


def _tolerations(node: TenantNode) -> tuple[Toleration, ...]:
    return tuple(dict.fromkeys(said for one in node.path for said in one.tenant.tolerations))


def _spread(node: TenantNode, spread: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return next((spread[one.name] for one in reversed(node.path) if one.tenant.spread), frozenset())


def parts_of(tree: TenantTree) -> dict[str, tuple[FleetPart, ...]]:
    """Tenant -> the parts of the fleet that its tree has quota of."""
    found = {root.name: root.parts() for root in tree.roots}
    return {name: found[node.root.name] for name, node in tree.nodes.items()}
