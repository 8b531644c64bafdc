"""Promises about disruption budgets: a drain leaves as many Ready as the budget at home asks for."""

from collections.abc import Iterator

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import PROXY
from tests.simulation.world.apiserver import PODS
from tests.simulation.world.budgets import BUDGETS, ready, selects
from tests.simulation.world.objects import Object, active
from tests.simulation.world.store import Write

DRAINS = "drain"  # who evicts
LATELY_S = 5.0  # what was spent in another cluster is known by then (docs/protocol.md says some two seconds)


class BudgetKept(Judge):
    """An eviction in one cluster leaves no fewer Ready than a budget at home asks for, as that is shown there.

    Of several clusters that are drained at once each may spend what was spare a moment ago, so often and no more.
    """

    promise = "I5"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._drained: dict[str, float] = {}  # cluster -> when a pod was last evicted there

    def wrote(self, write: Write) -> None:
        if write.actor != DRAINS or write.place.resource != PODS or write.before is None or write.after is None:
            return
        self._drained[write.cluster] = write.at
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        source = self.facts.source_of(fact)
        if source is None or not ready(write.before) or source.cluster not in self.fleet.clusters:
            return
        at_once = sum(write.at - at < LATELY_S for at in self._drained.values())
        for kept in self.fleet.clusters[source.cluster].api.store.all(BUDGETS, source.namespace):
            if not selects(kept.obj, write.after):
                continue
            mine = [one for one in self.fleet.clusters[source.cluster].api.pods(source.namespace) if active(one)]
            mine = [one for one in mine if selects(kept.obj, one)]
            desired = int(kept.obj["spec"]["minAvailable"])
            least = desired - (at_once - 1) * max(0, len(mine) - desired)
            left = sum(map(self._serves, mine))
            if left < least:
                self.say(fact.source, f"{fact.title} is evicted, and {left} are Ready where {least} have to be")

    def _serves(self, source: Object) -> bool:
        """Whether home shows it Ready, and it is so where it runs."""
        return ready(source) and any(map(ready, self._real(source)))

    def _real(self, source: Object) -> Iterator[Object]:
        for copy in self.facts.copies[source["metadata"]["uid"]]:
            kept = self.kept(copy)
            if kept is not None and not copy.node.startswith(PROXY):
                yield kept
