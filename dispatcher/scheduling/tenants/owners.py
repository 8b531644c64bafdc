"""Whose a namespace is."""

from collections.abc import Sequence

from shared.model.tenant import Tenant

_MEMO_LIMIT = 65_536


class TenantOwners:
    """The first of these tenants that owns a namespace has it; what it answers never changes."""

    def __init__(self, tenants: Sequence[Tenant]) -> None:
        self._tenants = tuple(tenants)
        self._known: dict[tuple[str, str], str | None] = {}

    def of(self, cluster: str, namespace: str) -> str | None:
        """Who is charged for pods submitted to a namespace of a cluster, None: nobody."""
        key = (cluster, namespace)
        if key not in self._known:
            if len(self._known) >= _MEMO_LIMIT:
                self._known.clear()
            owners = (one.name for one in self._tenants if one.owns(cluster, namespace))
            self._known[key] = next(owners, None)
        return self._known[key]
