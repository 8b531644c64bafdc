"""Tenants: who is charged, and for how much of the fleet."""

import msgspec


class Share(msgspec.Struct, frozen=True):
    """A nominal quota: `absolute` internal units, or `ratio` (0..1) of what the fleet's Ready
    clusters can allocate.
    """

    absolute: int | None = None
    ratio: float | None = None


class Tenant(msgspec.Struct, frozen=True):
    """A name, the (cluster, namespace) pairs it is charged for, and its nominal quota per resource.

    `namespaces` entries are 'namespace' (in every cluster) or 'cluster/namespace'; the last part
    may end in '*'. A resource without an entry in `nominal` is not limited.
    """

    name: str
    namespaces: tuple[str, ...]
    nominal: dict[str, Share]

    def owns(self, cluster: str, namespace: str) -> bool:
        """Whether pods submitted to `namespace` of `cluster` are charged to this tenant."""
        return any(_matches(pattern, cluster, namespace) for pattern in self.namespaces)


def _matches(pattern: str, cluster: str, namespace: str) -> bool:
    where, slash, wanted = pattern.rpartition("/")
    if slash and where != cluster:
        return False
    return namespace.startswith(wanted[:-1]) if wanted.endswith("*") else namespace == wanted
