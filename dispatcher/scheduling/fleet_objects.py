"""Objects beside nodes and pods, by cluster and kind, and how often each kind has changed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

K = TypeVar("K")
_NONE: Mapping[str, Any] = MappingProxyType({})


class ClusterObjects:
    """(cluster, kind) -> key -> record. `versions` moves with every change of a kind, wherever it happens."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}
        self.versions: Counter[str] = Counter()

    def of(self, cluster: str, kind: type[K]) -> Mapping[str, K]:
        """key -> object, read-only."""
        return cast(Mapping[str, K], MappingProxyType(self._kept.get((cluster, kind.__name__), _NONE)))

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
        """Insert or update; False if nothing has changed."""
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
        self.versions[kind] += 1
        return True
