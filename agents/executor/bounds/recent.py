"""A map that remembers the most recently written entries only, so that memory stays bounded
whatever arrives.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most `size` entries; the one written longest ago is forgotten first."""

    def __init__(self, size: int = 100_000) -> None:
        self._size = size
        self._entries: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The entry, or None if it was never written or is forgotten."""
        return self._entries.get(key)

    def items(self) -> Iterable[tuple[K, V]]:
        """All entries, the one written longest ago first."""
        return self._entries.items()

    def drop(self, key: K) -> None:
        """Forget one entry, if it is there."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def put(self, key: K, value: V) -> None:
        """Write an entry."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._size:
            del self._entries[next(iter(self._entries))]
