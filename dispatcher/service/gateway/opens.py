"""How often a cluster may open relayed streams. Who opens and resets them without end would take the time of the
dispatcher, and of the other clusters' agents.

A token bucket: it holds AT_ONCE tokens, gains PER_S a second, and each stream
takes one. Example: 300 `kubectl logs` at once: 256 are opened and 44 refused; two seconds later 100 more are opened.
"""

from collections.abc import Callable
from time import monotonic

PER_S = 50.0
AT_ONCE = 256  # metrics-server asks the proxy nodes of all clusters at one moment
WEIGHT = 20  # frames of little (LITTLE_PER_S a second are read) that a refused stream counts for: 100 a second


class Opens:
    """The streams of one cluster, over all its connections to one gateway."""

    def __init__(self, cluster: str, clock: Callable[[], float] = monotonic) -> None:
        """`clock` gives seconds."""
        self.refused = 0  # in all
        self._cluster, self._clock = cluster, clock
        self._left, self._at = float(AT_ONCE), clock()

    def excess(self) -> str:
        """Why one more is too many just now; '' if it is not, and then it counts."""
        now = self._clock()
        self._left, self._at = min(float(AT_ONCE), self._left + (now - self._at) * PER_S), now
        if self._left >= 1.0:
            self._left -= 1.0
            return ""
        self.refused += 1
        return f"cluster {self._cluster} opens more than {PER_S:g} streams a second: try again in a moment"
