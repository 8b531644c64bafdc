"""How many logs, exec and the like users of this cluster may hold open at once, shared fairly by
namespace.

Between two clusters the gateway relays MAX_BETWEEN streams, whoever opened them. Each of the two
may hold half of these for its users, less what is kept for metrics and for what pods name. A
namespace has at most OF_NAMESPACE, and the last LEFT places between two clusters are only for
namespaces that hold none there: so one namespace keeps out neither another's nor `kubectl top`.

For example, three namespaces that follow logs in one cluster as often as they can hold 10, 10 and 4
of 28 places; each of four more still gets its first.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from agents.executor.relayed.relay import FAILED, Refusal
from shared.streams.relayed import MAX_BETWEEN

FOR_METRICS = 2
FOR_OBJECTS = 2
BETWEEN = MAX_BETWEEN // 2 - FOR_METRICS - FOR_OBJECTS
OF_NAMESPACE = 10
LEFT = 4


class Places:
    """Who holds how many."""

    def __init__(self) -> None:
        self._held: Counter[tuple[str, str]] = Counter()  # by target cluster and namespace

    @contextmanager
    def held(self, cluster: str, namespace: str) -> Iterator[None]:
        """A place for one request about a pod of this namespace that runs in this cluster. Refusal."""
        self._check(cluster, namespace)
        place = (cluster, namespace)
        self._held[place] += 1
        try:
            yield
        finally:
            self._held[place] -= 1
            if not self._held[place]:
                del self._held[place]

    def _check(self, cluster: str, namespace: str) -> None:
        own = sum(count for (_, other), count in self._held.items() if other == namespace)
        if own >= OF_NAMESPACE:
            raise Refusal(
                FAILED,
                f"{own} logs, exec and the like of remote pods of namespace {namespace} are open "
                "at once, which is the"
                " most: end one of them",
            )
        between = sum(count for (target, _), count in self._held.items() if target == cluster)
        most = BETWEEN - LEFT if (cluster, namespace) in self._held else BETWEEN
        if between >= most:
            raise Refusal(
                FAILED,
                f"{between} logs, exec and the like of pods in cluster {cluster} are open at "
                "once, and no more are for"
                f" namespace {namespace}: try again when some of them have ended",
            )
