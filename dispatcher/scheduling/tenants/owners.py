"""Whose a namespace is."""

from collections.abc import Sequence

from shared.messages.pod_cache import PodCache
from shared.model.tenant import Tenant

_MEMO_LIMIT = 65_536


class TenantOwners:
    """The first of these tenants that owns a namespace has it; what it answers never changes."""

    def __init__(self, tenants: Sequence[Tenant]) -> None:
        self._tenants = tuple(tenants)
        # in a tuple, as what is kept may be None
        self._known: PodCache[tuple[str, str], tuple[str | None]] = PodCache(_MEMO_LIMIT)

    def of(self, cluster: str, namespace: str) -> str | None:
        """Who is charged for pods submitted to a namespace of a cluster, None: nobody."""
        key = (cluster, namespace)
        known = self._known.get(key)
        if known is None:
            owners = (one.name for one in self._tenants if one.owns(cluster, namespace))
            known = (next(owners, None),)
            self._known.put(key, known)
        return known[0]
