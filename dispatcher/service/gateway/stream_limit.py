"""How fast a cluster's agent may open relayed streams (kubectl logs, exec and so on).

Without a limit, an agent that opens and resets streams without end takes the time of the dispatcher
and of the other clusters' agents. AT_ONCE may be opened at once, and PER_S a second. Example: 300
`kubectl logs` at once: 256 are opened and 44 refused; two seconds later 100 more are opened.
"""

from collections import Counter
from collections.abc import Callable
from time import monotonic

from shared.model.token_buckets import TokenBuckets

PER_S = 50.0
AT_ONCE = 256  # metrics-server asks the proxy nodes of all clusters at one moment
# A refused stream counts as so many frames in the pace of its connection (LITTLE_PER_S, 2,000 a
# second): who opens as fast as possible has 100 refused a second, and is read no faster.
FRAMES_PER_REFUSAL = 20


class StreamLimit:
    """The limits of all clusters, each over all its connections to one gateway. `clock` gives
    seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.refused = Counter[str]()  # by cluster, in all
        self._streams = TokenBuckets(AT_ONCE, PER_S)
        self._clock = clock

    def admit(self, cluster: str) -> str:
        """Count one more stream: '', or why it is refused."""
        if self._streams.admit(self._clock(), cluster) is not None:
            return ""
        self.refused[cluster] += 1
        return (
            f"cluster {cluster} opens more than {PER_S:g} streams a second: try again in a moment"
        )
