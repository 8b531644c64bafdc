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


class Latest(Generic[K, V]):
    """What was asked for last, of at most `most` bytes: what nobody has asked for for longest goes
    first.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._held = 0
        self._kept: dict[K, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """The value of this key; None if it is not known, or not any more."""
        known = self._kept.pop(key, None)
        if known is None:
            return None
        self._kept[key] = known
        return known[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of `size` bytes for a key that has none."""
        cost = size + OVERHEAD
        self._kept[key] = value, cost
        self._held += cost
        while self._held > self._most:
            oldest = next(iter(self._kept))
            self._held -= self._kept.pop(oldest)[1]
