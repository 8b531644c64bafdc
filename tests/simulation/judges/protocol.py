"""Promises about who writes what, and when: attempts only grow, the deposed are silent, calm is calm."""

from collections import Counter
from collections.abc import Iterable

from agents.executor.trust.state import PATH as STATE
from agents.runtime.executor_lease import PLACE
from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import CLUSTERS, EPOCH, FAILOVER, PREFIX, PROXY, PodFact, by_product
from tests.simulation.world.apiserver import NAMESPACES, NODES, PODS
from tests.simulation.world.objects import Object, condition
from tests.simulation.world.store import Write

UNDER_WAY_S = 25.0  # a request that was sent before may still land
OFFERS = 8  # writes of one pod that is offered again to who refused it: claim, what is told, and claim taken off
# Such a pod holds room and quota until it is refused: so long before and after others may be told why they wait now.
ECHOES_S = (1.5, 15.0)
FREED_S = 45.0  # within which what the end of an orphan has freed is taken by who waited for it


class EpochsGrow(Judge):
    """The attempt that the product writes on an object never goes back."""

    promise = "I15"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or not by_product(write.actor) or not write.before or not write.after:
            return
        was = write.before["metadata"].get("annotations", {}).get(EPOCH, "")
        now = write.after["metadata"].get("annotations", {}).get(EPOCH, "")
        # A user may have written the one before.
        if was.isdigit() and now.isdigit() and int(now) < int(was) and write.place.path not in self.fleet.meddled:
            self.say(write.place.path, f"attempt {was} became {now} by {write.actor}")


class DeposedSilent(Judge):
    """Once a newer dispatcher's orders were carried out in a cluster, those of older ones change nothing there."""

    promise = "I1"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._obeyed: dict[str, list[tuple[int, float]]] = {}

    def wrote(self, write: Write) -> None:
        agent, _, orders = write.actor.partition(" ")
        if not by_product(agent) or not orders:
            return
        rank = self.fleet.ranks[orders]
        heard = self._obeyed.setdefault(write.cluster, [])
        newer = [at for other, at in heard if other > rank]
        if newer and write.at - newer[0] > UNDER_WAY_S:
            self.say(
                write.place.path, f"{orders} still has {write.verb} done at {write.cluster}, where a newer one led"
            )
        if all(other != rank for other, _ in heard):
            heard.append((rank, write.at))


class OneExecutor(Judge):
    """Of a cluster's executors the one that holds the Lease writes, and no other: but its own state, and events."""

    promise = "I1"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._holders: dict[str, tuple[str, float]] = {}  # cluster -> the process that wrote its name, and when

    def wrote(self, write: Write) -> None:
        process = write.actor.partition(" ")[0]
        if not by_product(process):
            return
        if write.place.path == PLACE.path:
            spec = (write.after or {}).get("spec", {})
            if spec == (write.before or {}).get("spec", {}):
                return  # one that waits has said so on it
            holder = process if spec.get("holderIdentity") else ""
            if holder != self._holders.get(write.cluster, ("", 0.0))[0]:
                self._holders[write.cluster] = (holder, write.at)
        elif write.place.path != STATE:
            holder, since = self._holders.get(write.cluster, ("", float("-inf")))
            if holder != process and write.at - since > UNDER_WAY_S:
                self.say(
                    write.place.path, f"{process} writes ({write.verb}) while {holder or 'nobody'} holds the Lease"
                )


class NobodyAccused(Judge):
    """No pod is said to carry marks that are forged, unless somebody else than the product wrote marks onto it."""

    promise = "I9"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._written: set[str] = set()  # UIDs of pods onto which others wrote marks, or from which they took some

    def wrote(self, write: Write) -> None:
        others = write.place.resource == PODS and write.after is not None and not by_product(write.actor)
        if others and write.after is not None and _marks(write.before) != _marks(write.after):
            self._written.add(write.after["metadata"]["uid"])

    def said(self, cluster: str, actor: str, event: Object) -> None:
        pod = event.get("regarding", {})
        if event.get("reason") == "UnverifiedMark" and pod.get("uid") not in self._written:
            self.say(f"{cluster}/{pod.get('name')}", f"{actor} says of its own marks: {event.get('note')}"[:300])


def _marks(pod: Object | None) -> dict[str, str]:
    written = (pod or {}).get("metadata", {}).get("annotations") or {}
    return {key: value for key, value in written.items() if key.startswith(PREFIX) and key not in (CLUSTERS, FAILOVER)}


class CalmIsCalm(Judge):
    """Once everything has settled nothing is written but signs of life.

    A pod that clusters refused is offered to them again, at distances that double up to a quarter of an hour: that is
    promised, too, and is no unrest. Where a webhook makes a copy too large it is made, and deleted, each time. A
    group is offered as a whole: one of its pods that was refused speaks for the others.
    Whoever else waits may be told anew meanwhile, since the pod that is offered holds room and quota for that moment.
    A copy whose source a restore took is deleted ten minutes later, when that was asked for twice (docs/protocol.md);
    pods that waited for its room or quota are placed then.
    """

    promise = "I20"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._offers: Counter[str] = Counter()
        self._offered, self._freed = float("-inf"), float("-inf")  # when last in calm
        self._doubts: list[Write] = []  # what may turn out to be the echo of an offer

    def wrote(self, write: Write) -> None:
        if write.at < self.facts.calm_since or write.place.resource not in (PODS, NAMESPACES):
            return
        if write.place.resource == PODS and any(one.refused for one in self._offered_with(write)):
            self._offered = write.at
            if self._counts(write):
                return
        if self._ends_an_orphan(write):
            self._freed = write.at
        elif _only_told(write) and self._counts(write):
            self._doubts.append(write)
        elif not self._takes_what_was_freed(write):
            self._accuse(write)

    def tick(self, now: float) -> None:
        for one in [one for one in self._doubts if self.fleet.loop.time() - one.at > ECHOES_S[0]]:
            self._doubts.remove(one)
            if one.at - self._offered > ECHOES_S[1]:
                self._accuse(one)

    def _accuse(self, write: Write) -> None:
        self.say(write.place.path, f"{write.actor} still writes ({write.verb}) in calm")

    def _counts(self, write: Write) -> bool:
        """Whether so many writes for offers are promised of one pod."""
        self._offers[write.place.path] += 1
        return self._offers[write.place.path] <= OFFERS + (write.at - self.facts.calm_since) / 30.0

    def _takes_what_was_freed(self, write: Write) -> bool:
        """Whether an orphan has just ended, and it is of a pod that had no place when calm began."""
        fact = self.facts.pods.get((write.after or write.before or {}).get("metadata", {}).get("uid", ""))
        source = self.facts.source_of(fact) if fact is not None else None
        waited = source is not None and source.bound > self.facts.calm_since
        return waited and write.at - self._freed < FREED_S

    def _ends_an_orphan(self, write: Write) -> bool:
        """Whether it is the end of a copy whose source a restore took, or that a restore brought back without it."""
        fact = self.facts.pods.get((write.before or {}).get("metadata", {}).get("uid", ""))
        source = self.facts.source_of(fact) if fact is not None and not fact.is_source else None
        ends = write.after is None or "deletionTimestamp" in write.after["metadata"]
        if fact is None or source is None or not (ends and source.gone):
            return False
        return source.was_taken or fact.uid in self.facts.revived

    def _offered_with(self, write: Write) -> Iterable[PodFact]:
        """The pod that it is about, and those of its group."""
        fact = self.facts.pods.get((write.after or write.before or {}).get("metadata", {}).get("uid", ""))
        source = self.facts.source_of(fact) if fact is not None else None
        return self.facts.starting_with(source) if source is not None else ()


def _only_told(write: Write) -> bool:
    """Whether it tells a pod without a node why it waits, and does nothing else."""
    before, after = write.before or {}, write.after or {}
    if write.verb != "patch status" or after.get("spec", {}).get("nodeName") or before.get("spec") != after.get("spec"):
        return False
    told = [condition(one, "PodScheduled") or {} for one in (before, after)]
    return told[0] != told[1] and told[1].get("status") == "False"


class LostIsNotReady(Judge):
    """A pod in a cluster that nobody reaches any more does not stay Ready.

    Who begins to lead does not know what its predecessor missed, and counts anew. Where none leads nothing changes:
    silence is no evidence (docs/protocol.md, Loss and return).
    """

    promise = "D1"
    patience_s = 100.0

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._term, self._led_since = -1, 0.0

    def tick(self, now: float) -> None:
        newest = max(self.fleet.ranks.values(), default=-1)
        nobody = all(one.dispatcher is None for one in self.fleet.dispatchers.values())
        if newest != self._term or nobody:
            self._term, self._led_since = newest, now
        if int(now) % 5:
            return
        for cluster, since in self.fleet.lost.items():
            if now - max(since, self._led_since) < self.patience_s:
                continue
            for name, pod in self.fleet.pods():
                ready = condition(pod, "Ready")
                if pod["spec"].get("nodeName") != PROXY + cluster or ready is None or ready["status"] != "True":
                    continue
                home = self.fleet.clusters[name]
                if name not in self.fleet.lost and home.agent.agent is not None and not self._cut(name):
                    fact = self.facts.pods[pod["metadata"]["uid"]]
                    self.say(fact.title, f"is Ready {now - since:.0f} s after cluster {cluster} was lost")

    def _cut(self, cluster: str) -> bool:
        return self.facts.in_trouble(cluster)


class WellIsReady(Judge):
    """The node lifecycle controller never misses signs of life of a proxy node while both clusters are well.

    So not because no dispatcher is there.
    """

    promise = "I16"

    def wrote(self, write: Write) -> None:
        if write.actor != "node-lifecycle" or write.place.resource != NODES or write.after is None:
            return
        target = write.place.name.removeprefix(PROXY)
        silent = (condition(write.after, "Ready") or {}).get("reason") == "NodeStatusUnknown"
        well = not self.facts.in_trouble(write.cluster) and not self.facts.in_trouble(target)
        members = {write.cluster, target} <= self.fleet.members.keys()
        if silent and well and members and write.place.name.startswith(PROXY):
            self.say(write.place.path, f"cluster {write.cluster} lost the proxy node of {target}, and both are well")


class NodesLeftAlone(Judge):
    """Of nodes the product writes to its proxies alone."""

    promise = "I7"

    def wrote(self, write: Write) -> None:
        if write.place.resource == NODES and by_product(write.actor) and not write.place.name.startswith(PROXY):
            self.say(write.place.path, f"{write.actor} writes ({write.verb}) to a real node")


class ProxiesAreMembers(Judge):
    """In the end each cluster has a proxy node for every other one in the configuration, and for no other."""

    promise = "I8"

    def at_end(self) -> None:
        for name, cluster in self.fleet.clusters.items():
            shown = {node["metadata"]["name"] for node in cluster.api.nodes()}
            shown = {node.removeprefix(PROXY) for node in shown if node.startswith(PROXY)}
            wanted = self.fleet.members.keys() - {name}
            for one in sorted(shown - wanted):
                self.say(f"{name}/{one}", f"cluster {name} has a proxy node for {one}, which is not in the fleet")
            for one in sorted(wanted - shown):
                self.say(f"{name}/{one}", f"cluster {name} has no proxy node for {one}")
