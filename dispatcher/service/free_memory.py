"""Free memory goes back to the system: of what a report took while it was read, the allocator keeps
what lies between records that stay, though nobody needs it for minutes.

`malloc_trim` of the GNU C library gives back all whole pages that are free (malloc_trim(3)); other
C libraries have no such call, and there nothing is done.
"""

import ctypes
from collections.abc import Callable

# it takes 1 ms for 100,000 nodes and as many pods, 3 ms at most for a million and 300,000
_EVERY_S = 5.0


def trim() -> None:
    """Give back what is free."""
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if found is not None:
        found(0)


class FreeMemory:
    """When to give back: in a quiet moment after reports, and not often."""

    def __init__(self, clock: Callable[[], float], give_back: Callable[[], None] = trim) -> None:
        self._clock = clock
        self._give_back = give_back
        self._due = False
        self._at = float("-inf")

    def used(self) -> None:
        """Something was taken in."""
        self._due = True

    def quiet(self) -> None:
        """Nothing is to be done now."""
        now = self._clock()
        if self._due and now - self._at >= _EVERY_S:
            self._due = False
            self._at = now
            self._give_back()
