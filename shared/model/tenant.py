"""Tenants: who is charged, and for how much of the fleet."""

import msgspec

WEIGHT_ONE = 1000  # weights are in thousandths


class Share(msgspec.Struct, frozen=True):
    """A nominal quota: `absolute` internal units, or `ratio` (0..1) of what the fleet's Ready
    clusters can allocate.
    """

    absolute: int | None = None
    ratio: float | None = None


class Tenant(msgspec.Struct, frozen=True):
    """A name, the (cluster, namespace) pairs it is charged for, and its nominal quota per resource.

    `namespaces` entries are 'namespace' (in every cluster) or 'cluster/namespace'; the last part
    may end in '*'. `parent`: the tenant that it is part of, '' for none. A resource is limited for
    a tenant if its tree has an entry in some `nominal`. Limits say what it may use beyond what it
    was given, and what others may use of that; without an entry, all.
    """

    name: str
    namespaces: tuple[str, ...]
    nominal: dict[str, Share]
    parent: str = ""
    borrowing_limit: dict[str, Share] = {}
    lending_limit: dict[str, Share] = {}
    weight: int = WEIGHT_ONE

    def owns(self, cluster: str, namespace: str) -> bool:
        """Whether pods submitted to `namespace` of `cluster` are charged to this tenant."""
        return any(_matches(pattern, cluster, namespace) for pattern in self.namespaces)


def _matches(pattern: str, cluster: str, namespace: str) -> bool:
    where, slash, wanted = pattern.rpartition("/")
    if slash and where != cluster:
        return False
    return namespace.startswith(wanted[:-1]) if wanted.endswith("*") else namespace == wanted
