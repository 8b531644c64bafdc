"""How often something may happen, as a line in a log that a peer can cause."""

from collections.abc import Hashable


class TokenBuckets:
    """A bucket for each kind of thing: it holds `most` tokens at first and at most, and gains `per_s` a second.

    Example, with 20 tokens and one more each 3 s: of 100 at once 20 are admitted, and one after 3 s, which hears 80.
    """

    def __init__(self, most: float, per_s: float) -> None:
        self._most, self._per_s = most, per_s
        self._buckets: dict[Hashable, tuple[float, float, int]] = {}  # tokens, as of when, and refused since

    def admit(self, now: float, kind: Hashable = "") -> int | None:
        """Take a token at `now` (s): how many of this kind were refused since the last was admitted. None: refused."""
        left, since, refused = self._buckets.get(kind, (self._most, now, 0))
        tokens = min(self._most, left + (now - since) * self._per_s)
        admitted = tokens >= 1.0
        self._buckets[kind] = (tokens - 1.0, now, 0) if admitted else (left, since, refused + 1)
        return refused if admitted else None
