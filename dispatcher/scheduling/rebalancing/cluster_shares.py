"""How the fleet's rate of moves is shared: no cluster takes more than half of it while others have
pods to move.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from dispatcher.scheduling.rebalancing.moves import Move
from dispatcher.scheduling.rebalancing.rules import RebalancingRules


class ClusterShares:
    """Of one look. `under_way`: moves ordered before and not done yet; `last`: moves of the last
    look by cluster.

    What is left when all others had their turn is anybody's.
    """

    def __init__(
        self, rules: RebalancingRules, under_way: Iterable[Move], last: Mapping[str, int]
    ) -> None:
        self._rules = rules
        self._last = last
        self._under_way = Counter(one.spot.place[0] for one in under_way)
        self.taken = Counter[str]()

    def take(self, cluster: str) -> None:
        """A pod of this cluster is moved."""
        self.taken[cluster] += 1

    def spent(self, cluster: str) -> bool:
        """Whether others come first. Where there is one move a minute, clusters take turns."""
        rules = self._rules
        taken = self.taken[cluster]
        if rules.moves_per_minute == 1 and self._last.get(cluster, 0):
            return True
        of_rate = taken >= max(1, rules.moves_per_minute // 2)
        return of_rate or self._under_way[cluster] + taken >= max(1, rules.under_way // 2)
