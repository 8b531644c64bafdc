"""How fast a cluster's agent may open relayed streams (kubectl logs, exec and so on).

Without a limit, an agent that opens and resets streams without end takes the time of the dispatcher and of the other
clusters' agents. The limit is a token bucket: it holds AT_ONCE tokens, gains PER_S a second, and each stream takes one.
Example: 300 `kubectl logs` at once: 256 are opened and 44 refused; two seconds later 100 more are opened.
"""

from collections.abc import Callable
from time import monotonic

PER_S = 50.0
AT_ONCE = 256  # metrics-server asks the proxy nodes of all clusters at one moment
# A refused stream counts as so many frames in the pace of its connection (LITTLE_PER_S, 2,000 a second): who opens as
# fast as possible has 100 refused a second, and is read no faster.
FRAMES_PER_REFUSAL = 20


class StreamLimit:
    """The limit of one cluster, over all its connections to one gateway."""

    def __init__(self, cluster: str, clock: Callable[[], float] = monotonic) -> None:
        """`clock` gives seconds."""
        self.refused = 0  # in all
        self._cluster, self._clock = cluster, clock
        self._tokens, self._at = float(AT_ONCE), clock()

    def admit(self) -> str:
        """Take a token for one more stream: '', or why it is refused."""
        now = self._clock()
        self._tokens, self._at = min(float(AT_ONCE), self._tokens + (now - self._at) * PER_S), now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return ""
        self.refused += 1
        return f"cluster {self._cluster} opens more than {PER_S:g} streams a second: try again in a moment"
