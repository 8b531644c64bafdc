"""Limit of concurrent requests to an API server: halved at a 429, raised by one after as many
answers as the limit.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain 1989): clients that share
a server come to equal shares of it without knowing of each other.
"""

REST_S = 1.0  # refusals of requests that were sent together are one


class Throttle:
    """`limit` is between 1 and `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._halved = float("-inf")

    @property
    def limit(self) -> int:
        """How many may be sent at once now."""
        return int(self._limit)

    def refused(self, now: float) -> None:
        """The server said 429."""
        if now - self._halved >= REST_S:
            self._limit = max(1.0, self._limit / 2)
            self._halved = now

    def answered(self) -> None:
        """The server did what it was asked."""
        if self._limit < self._most:
            self._limit = min(float(self._most), self._limit + 1 / self._limit)
