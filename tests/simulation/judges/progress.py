"""Promises about who may go on: one leader at a time, and nobody is held up by what another waits for."""

from collections.abc import Iterator

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import CLAIM, PodFact, by_product
from tests.simulation.world.loop import START
from tests.simulation.world.store import Write


class OneLeads(Judge):
    """The Lease of the dispatchers is not taken from a holder that renews it in time, whatever any clock shows."""

    promise = "I1"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._renewed: dict[str, float] = {}
        self.fleet.lease.store.told.append(self._leased)

    def _leased(self, write: Write) -> None:
        if write.after is None or "holderIdentity" not in write.after.get("spec", {}):
            return
        before, after = (write.before or {}).get("spec", {}), write.after["spec"]
        held, holder = before.get("holderIdentity"), after["holderIdentity"]
        if held and holder and held != holder:
            age = write.at - self._renewed.get(held, float("-inf"))
            if age < before["leaseDurationSeconds"]:
                self.say(write.place.path, f"{holder} takes the Lease {age:.0f} s after {held} has renewed it")
        if holder:
            self._renewed[holder] = write.at


class _Waiting(Judge):
    """Looks at pods that were claimed for a cluster and are not bound.

    What a user wrote in the place of a claim is none: the product says so on the pod, and schedules it once it is gone.
    """

    def _claimed_for(self, target: str) -> Iterator[PodFact]:
        for home, pod in self.fleet.pods():
            fact = self.facts.pods[pod["metadata"]["uid"]]
            claimed = pod["metadata"].get("annotations", {}).get(CLAIM) == target and by_product(fact.claimed_by)
            going = pod["metadata"].get("deletionTimestamp") or pod["spec"].get("nodeName")
            if fact.is_source and not going and claimed and home != target:
                yield fact

    def _well(self) -> bool:
        """Whether one dispatcher has led all the time."""
        dispatchers = self.fleet.dispatchers
        only = dispatchers["dispatcher"]
        alive = only.dispatcher is not None and not only.process.paused
        return len(dispatchers) == 1 and only.lives == 1 and alive and not self.fleet.lease_wire.weather.down


class GoesElsewhere(_Waiting):
    """A pod that was claimed for a cluster which was lost before anybody was told to make its copy waits no longer.

    An order to a cluster that was known to be lost by then is no excuse.
    """

    promise = "I5"
    patience_s = 60.0

    def tick(self, now: float) -> None:
        for cluster, since in self.fleet.lost.items():
            if int(now) % 5 or now - since < self.patience_s or not self._well():
                continue
            for fact in self._claimed_for(cluster):
                ordered = self.fleet.ordered.get((cluster, fact.uid), float("inf"))
                if ordered > since + START + self.fleet.sizes.silent_s + 5.0 and not self.facts.in_trouble(
                    fact.cluster
                ):
                    self.say(fact.title, f"still is claimed for cluster {cluster}, lost {now - since:.0f} s ago")


class OthersGoOn(_Waiting):
    """Where the webhooks of one namespace hang, pods of the others are made as ever."""

    promise = "I13"
    patience_s = 30.0

    def tick(self, now: float) -> None:
        for cluster, (space, since) in self.fleet.hanging.items():
            troubled = self.facts.in_trouble(cluster)
            if int(now) % 5 or now - since < self.patience_s or troubled or not self._well():
                continue
            for fact in self._claimed_for(cluster):
                age = self.fleet.loop.time() - max(fact.created, since + START)
                calm = not self.facts.in_trouble(fact.cluster)
                if fact.namespace != space and age > self.patience_s and calm:
                    self.say(fact.title, f"waits for {cluster} {age:.0f} s, where namespace {space} hangs")
