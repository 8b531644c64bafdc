"""One object for all that are equal, within a budget of memory: what is pooled is of users' making."""

from collections.abc import Hashable
from typing import Generic, TypeVar

# of the users' text; what Python needs around it is several times as much at worst
MAX_BYTES = 32 << 20
OVERHEAD = 256  # bytes that an entry counts for beside its text
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Pool(Generic[K, V]):
    """Begins anew when it holds `most` bytes."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._held = 0
        self._kept: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def one(self, key: K, value: V, size: int) -> V:
        """The value that was pooled first under this key; `value`, of `size` bytes, if there is
        none.
        """
        known = self._kept.get(key)
        if known is not None:
            return known
        cost = size + OVERHEAD
        if self._held + cost > self._most:
            self._kept.clear()
            self._held = 0
        self._held += cost
        self._kept[key] = value
        return value
