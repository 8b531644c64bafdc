"""Objects beside nodes and pods, by cluster and kind, and how often each kind has changed.

An object may be *assumed*: as if its cluster had already changed it in one field, for the pods that need it so. What
the cluster reports meanwhile shows through in all other fields.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

K = TypeVar("K")
T = TypeVar("T")
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass
class _Assumed:
    fields: dict[str, Any]
    holders: set[Hashable] = field(default_factory=set)


class ClusterObjects:
    """(cluster, kind) -> key -> record. `versions` moves with every change of a kind, wherever it happens."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}
        self._assumed: dict[tuple[str, str, str], _Assumed] = {}
        self._reported: dict[tuple[str, str, str], Any] = {}  # of what is assumed: as its cluster reports it
        self.versions: Counter[str] = Counter()
        self._derived: dict[tuple[str, Callable[..., Any]], tuple[tuple[int, ...], Any]] = {}

    def of(self, cluster: str, kind: type[K]) -> Mapping[str, K]:
        """key -> object, read-only."""
        return cast(Mapping[str, K], MappingProxyType(self._kept.get((cluster, kind.__name__), _NONE)))

    def derived(self, cluster: str, make: Callable[..., T], *kinds: type[Any]) -> T:
        """What `make` says of the mappings of these kinds; kept until one of them changes."""
        now = tuple([self.versions[kind.__name__] for kind in kinds])
        known = self._derived.get((cluster, make))
        if known is None or known[0] != now:
            known = self._derived[cluster, make] = now, make(*(self.of(cluster, kind) for kind in kinds))
        return cast(T, known[1])

    def every(self, kind: type[K]) -> Iterator[tuple[str, K]]:
        """(cluster, object) of a kind in all clusters."""
        for (cluster, name), kept in self._kept.items():
            if name == kind.__name__:
                yield from ((cluster, found) for found in kept.values())

    def keys_of(self, cluster: str) -> Iterator[tuple[str, str]]:
        """(kind, key) of everything kept of a cluster."""
        for (owner, kind), kept in self._kept.items():
            if owner == cluster:
                for key in kept:
                    yield kind, key

    def get(self, cluster: str, kind: str, key: str) -> Any:
        """One record, None if it is not known."""
        return self._kept.get((cluster, kind), _NONE).get(key)

    def put(self, cluster: str, found: Any) -> bool:
        """Insert or update as the cluster reports it; False if nothing has changed."""
        assumed = self._assumed.get((cluster, type(found).__name__, found.key))
        if assumed is not None:
            self._reported[cluster, type(found).__name__, found.key] = found
            found = msgspec.structs.replace(found, **assumed.fields)
        return self._show(cluster, found)

    def _show(self, cluster: str, found: Any) -> bool:
        kind = type(found).__name__
        kept = self._kept.setdefault((cluster, kind), {})
        if kept.get(found.key) == found:
            return False
        kept[found.key] = found
        self.versions[kind] += 1
        return True

    def remove(self, cluster: str, kind: str, key: str) -> bool:
        """Forget one; False if it was not known."""
        kept = self._kept.get((cluster, kind), {})
        if kept.pop(key, None) is None:
            return False
        self._assumed.pop((cluster, kind, key), None)
        self._reported.pop((cluster, kind, key), None)
        self.versions[kind] += 1
        return True

    # --- assumed -----------------------------------------------------------------------------------------------------

    def reported(self, cluster: str, found: K) -> K | None:
        """The object of `found`'s kind and key as its cluster reports it, None if it is gone."""
        where = (cluster, type(found).__name__, cast(Any, found).key)
        known: K | None = self._reported.get(where) or self.get(*where)
        return known

    def assume(self, cluster: str, found: Any, fields: Mapping[str, Any], holder: Hashable) -> None:
        """Show a known object with other values in `fields`, as long as any holder wants it so."""
        where = (cluster, type(found).__name__, found.key)
        known = self.get(*where)
        if known is None:
            return
        assumed = self._assumed.setdefault(where, _Assumed(dict(fields)))
        assumed.fields.update(fields)
        assumed.holders.add(holder)
        self._reported.setdefault(where, known)
        self._show(cluster, msgspec.structs.replace(known, **assumed.fields))

    def release(self, cluster: str, found: Any, holder: Hashable) -> None:
        """The holder does not want it any more; without holders the object shows as its cluster reports it."""
        where = (cluster, type(found).__name__, found.key)
        assumed = self._assumed.get(where)
        if assumed is None or holder not in assumed.holders:
            return
        assumed.holders.discard(holder)
        if not assumed.holders:
            del self._assumed[where]
            self._show(cluster, self._reported.pop(where))
