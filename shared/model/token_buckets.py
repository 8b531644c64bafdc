"""How often something may happen, as a line in a log that a peer can cause, or how much of it."""

from collections.abc import Hashable

_FEW = 1024  # kinds that are all kept


class TokenBuckets:
    """A bucket for each kind of thing: it holds `most` tokens at first and at most, and gains
    `per_s` a second.

    Example, with 20 tokens and one more each 3 s: of 100 at once 20 are admitted, and one after 3
    s, which hears 80.

    Whoever names the kinds may name ever new ones: of many, those are forgotten whose bucket is
    full again.
    """

    def __init__(self, most: float, per_s: float) -> None:
        self._most = most
        self._per_s = per_s
        self._buckets: dict[
            Hashable, tuple[float, float, int]
        ] = {}  # tokens, as of when, and refused since
        # kinds, from which on some are forgotten: at twice those that were kept the last time
        self._many = _FEW

    def admit(self, now: float, kind: Hashable = "") -> int | None:
        """Take a token at `now` (s): how many of this kind were refused since the last was
        admitted. None: refused.
        """
        if len(self._buckets) >= self._many:
            self._forget_full(now)
        left, since, refused = self._buckets.get(kind, (self._most, now, 0))
        tokens = self.left(now, kind)
        admitted = tokens >= 1.0
        self._buckets[kind] = (tokens - 1.0, now, 0) if admitted else (left, since, refused + 1)
        return refused if admitted else None

    def left(self, now: float, kind: Hashable = "") -> float:
        """Tokens of this kind at `now` (s)."""
        left, since, _ = self._buckets.get(kind, (self._most, now, 0))
        return min(self._most, left + (now - since) * self._per_s)

    def _forget_full(self, now: float) -> None:
        kept = {
            kind: bucket
            for kind, bucket in self._buckets.items()
            if self.left(now, kind) < self._most
        }
        self._buckets = kept
        self._many = max(_FEW, 2 * len(kept))


class Allowance:
    """`most` of something at first and at most, and `per_s` more a second. Any amount is taken; a
    debt is waited for.

    Example, with 100 and 10 more a second: after 150 at once it is 5 s until more should be taken.
    Of what would take longer than `longest_s` the rest is forgiven.
    """

    def __init__(self, most: float, per_s: float, longest_s: float) -> None:
        self._most = most
        self._per_s = per_s
        self._longest_s = longest_s
        self._left = most
        self._since = float("-inf")

    def take(self, now: float, amount: float) -> float:
        """Take that much at `now` (s): how long to wait before more is taken, 0.0 without a debt."""
        left = min(self._most, self._left + (now - self._since) * self._per_s) - amount
        self._left = max(left, -self._longest_s * self._per_s)
        self._since = now
        return max(0.0, -self._left / self._per_s)
