"""Who is faster at a pass over all rows, shards or the dispatcher by itself. While shards are slower, nobody asks them.

A pass alone is timed when none was for AGAIN_S seconds. `LOST` passes in a row in which shards took longer, row by row,
than that: for the next AGAIN_S seconds all passes are done alone. The answers are the same either way.
"""

from collections.abc import Callable

AGAIN_S = 60.0
LOST = 3


class Race:
    """`timer`: seconds of any clock that goes on while others work; None: shards are always asked."""

    def __init__(self, timer: Callable[[], float] | None) -> None:
        self._timer = timer
        self._alone, self._alone_until = 0.0, float("-inf")  # seconds a row, and when that is to be timed anew
        self._rests_until = float("-inf")
        self._lost = 0

    @property
    def resting(self) -> bool:
        """Whether shards have been slower, and are not asked for a while."""
        return self._timer is not None and self._timer() < self._rests_until

    def alone(self) -> bool:
        """Whether the next pass is done by the dispatcher itself."""
        return self._timer is not None and (self._timer() >= self._alone_until or self.resting)

    def now(self) -> float:
        """When a pass begins."""
        return 0.0 if self._timer is None else self._timer()

    def ran(self, since: float, rows: int, *, alone: bool) -> bool:
        """A pass that began then has ended. Whether shards have lost once too often just now."""
        if self._timer is None or not rows:
            return False
        now = self._timer()
        if alone:
            self._alone, self._alone_until = (now - since) / rows, now + AGAIN_S
            return False
        self._lost = self._lost + 1 if (now - since) / rows > self._alone else 0
        if self._lost < LOST:
            return False
        self._lost, self._rests_until = 0, now + AGAIN_S
        return True
