"""When the next list may begin: one that follows another closely waits, and the more so the longer
that goes on.
"""

from shared.model.backoff import Backoff

STORM_S = 60.0  # lists that are closer together belong together


class Relists:
    """A list after a quiet time waits for nothing, nor does the one after it; then `first_s`,
    doubling, `longest_s` at most. Times are monotonic seconds.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._pause = Backoff(first_s, longest_s)
        self._last = float("-inf")
        self._close = 0

    def listed(self, now: float) -> None:
        """The server has begun to answer a list."""
        self._close = min(self._close + 1, 32) if now - self._last < STORM_S else 0
        self._last = now

    def wait_s(self, now: float) -> float:
        """Seconds until the next one may be asked for."""
        if not self._close:
            return 0.0
        return max(0.0, self._last + self._pause.after(self._close) - now)
