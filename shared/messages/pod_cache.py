"""A cache of what was found of pods, bounded by the memory of what these pods say.

A pod may say 512 KiB, and whoever may create pods makes ever new ones: a cache of so many entries
would keep what they said long after they are gone.
"""

from collections import OrderedDict
from typing import Any, Final, Generic, TypeVar

import msgspec

from shared.messages.values import most_memory_of

K = TypeVar("K")
V = TypeVar("V")
POD_CACHE_BYTES: Final = 16 * 2**20  # of one cache; 4,096 usual pods say less
_encode = msgspec.msgpack.Encoder(enc_hook=repr).encode


def said(of_pod: Any) -> int:
    """Bytes of memory that what a pod says takes at most, about: its template, or any part of it
    that can be hashed.
    """
    try:
        return most_memory_of(_encode(of_pod))
    except (msgspec.MsgspecError, OverflowError, TypeError, ValueError, RecursionError):
        return most_memory_of(repr(of_pod).encode())


class PodCache(Generic[K, V]):
    """At most `most` entries, whose pods say no more than `most_bytes`; what was unused for longest
    is forgotten. The last entry stays, whatever it takes.
    """

    def __init__(self, most: int = 4096, most_bytes: int | None = None) -> None:
        self.most = most
        self._most_bytes = POD_CACHE_BYTES if most_bytes is None else most_bytes
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def values(self) -> list[V]:
        """All that is kept; none of it is used by that."""
        return [value for value, _ in self._kept.values()]

    def get(self, key: K, size: int = 0) -> V | None:
        """What is kept for a key; it is used now. `size`: bytes of what a pod says that it may come
        to hold by that.
        """
        found = self._kept.get(key)
        if found is None:
            return None
        if size > found[1]:
            self.put(key, found[0], size)
        else:
            self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int | None = None) -> None:
        """Keep a value; `size`: bytes of all that it holds of a pod, by default those of its key."""
        kept = self._kept
        before = kept.pop(key, None)
        if before is not None:
            self.nbytes -= before[1]
        if size is None:
            size = said(key)
        kept[key] = value, size
        self.nbytes += size
        while (len(kept) > self.most or self.nbytes > self._most_bytes) and len(kept) > 1:
            self.nbytes -= kept.popitem(last=False)[1][1]

    __setitem__ = put

    def pop(self, key: K) -> V | None:
        """Forget a key; what was kept for it."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self.nbytes -= found[1]
        return found[0]

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self.nbytes = 0
