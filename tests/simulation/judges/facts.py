"""What happened, as API servers and kubelets know it: sources, their real copies, and what each is doomed by."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.judges.objects import Objects
from tests.simulation.world.apiserver import FOLLOWING, NAMESPACES, NODES, PODS
from tests.simulation.world.fleet import Fleet, Judgeable
from tests.simulation.world.kubelet import Container
from tests.simulation.world.objects import ENDED, Object, condition, cpu_of, named_by
from tests.simulation.world.store import Write

PREFIX = "global-dispatcher.io/"
SCHEDULER, PROXY = "global-dispatcher", "global-dispatcher-"
SOURCE_UID, EPOCH, CLAIM, CLUSTERS = PREFIX + "source-uid", PREFIX + "epoch", PREFIX + "cluster", PREFIX + "clusters"
FINALIZER, FAILOVER = PREFIX + "delegate", PREFIX + "failover"
GROUP, GROUP_MIN, GROUP_WITHIN = PREFIX + "group", PREFIX + "group-min", PREFIX + "group-within"
ADDRESSES = ("podIP", "hostIP")
REMEMBERED_S = 150.0  # how long a cluster that was in trouble may still be treated as one


@dataclass
class PodFact:
    """A pod that was seen. `source`: UID of the pod it runs for, its own for one that a user made.

    `doomed`: by whom it was deleted, preempted or lost, "" while there is no reason for it to end.
    `bound`: when it came to its node. `decided`: when the product first claimed it for the place that it has.
    `claimed_by`: who last wrote onto it for which cluster it is claimed.
    `owner`: UID of its controller. `failover`: the mode that it asks for.
    `told`: when it was last written why it waits. `refused`: it was told that a cluster refuses it, and had no place
    since, but in calm. `taken`: when a restore took it, whatever had doomed it before.
    `names`: kinds and names of the objects in its environment, in order. `least`: so many of its `group` start
    together, in one domain (`within`).
    """

    uid: str
    source: str
    cluster: str
    namespace: str
    name: str
    cpu: int
    created: float
    node: str = ""
    bound: float = float("inf")
    decided: float = float("inf")
    claimed_by: str = ""
    told: float = float("-inf")
    refused: bool = False
    doomed: str = ""
    ended: str = ""
    gone: bool = False
    taken: float = float("-inf")
    ran: bool = False
    addresses: set[str] = field(default_factory=set)
    priority: int = 0
    owner: str = ""
    failover: str = ""
    names: tuple[tuple[str, str], ...] = ()
    group: str = ""
    least: int = 0
    within: str = ""

    @property
    def is_source(self) -> bool:
        """Whether a user made it."""
        return self.uid == self.source

    @property
    def group_name(self) -> tuple[str, str, str]:
        """Its home cluster, namespace and group."""
        return self.cluster, self.namespace, self.group

    @property
    def was_taken(self) -> bool:
        """Whether a restore took it, and none has brought it back."""
        return self.taken > float("-inf")

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.cluster}/{self.namespace}/{self.name}"


def by_product(actor: str) -> bool:
    """Whether an agent wrote."""
    return actor.startswith("agent/")


def claim_of(pod: Object) -> str:
    """The cluster that a pod says it is claimed for."""
    claim: str = pod.get("metadata", {}).get("annotations", {}).get(CLAIM, "")
    return claim


class Facts(Judgeable):
    """Kept by what is heard; judges ask."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.pods: dict[str, PodFact] = {}
        self.copies: dict[str, list[PodFact]] = {}  # by UID of the source: itself and its delegates
        self.running: dict[str, Container] = {}
        self.trouble: dict[str, float] = {}  # cluster -> when it was last not well
        self.watch_trouble: dict[str, float] = {}
        self.changed: dict[tuple[str, str], float] = {}  # (cluster, node) -> when others last changed its room
        self.restored: dict[str, float] = {}
        self.revived: set[str] = set()
        self.calm_since = float("inf")
        self.objects = Objects()

    def wrote(self, write: Write) -> None:
        if write.place.resource == NODES:
            if not by_product(write.actor):
                self.changed[write.cluster, write.place.name] = write.at
            return
        if write.place.resource in FOLLOWING.values() or write.place.resource == NAMESPACES:
            self.objects.wrote(write)
        if write.place.resource != PODS:
            return
        obj = write.after or write.before
        assert obj is not None
        fact = self.pods.get(obj["metadata"]["uid"]) or self._new(write, obj)
        if write.after is None:
            fact.gone = True
        else:
            self._learn(write, fact, write.after)

    def _new(self, write: Write, obj: Object) -> PodFact:
        meta = obj["metadata"]
        uid = meta["uid"]
        ours = obj["spec"].get("schedulerName") == SCHEDULER
        made = meta.get("annotations", {}).get(SOURCE_UID, "") if by_product(write.actor) else ""
        source = made or (uid if ours else "")
        cpu = cpu_of(obj)
        fact = PodFact(uid, source, write.cluster, meta["namespace"], meta["name"], cpu, write.at)
        fact.priority = obj["spec"].get("priority", 0)
        marks = meta.get("annotations", {}) if ours else {}
        fact.group = marks.get(GROUP, "")
        fact.least, fact.within = int(marks.get(GROUP_MIN, 0)), marks.get(GROUP_WITHIN, "cluster")
        fact.names = tuple((one.kind, one.name) for one in named_by(obj))
        fact.owner = next((str(one["uid"]) for one in meta.get("ownerReferences", ()) if one.get("controller")), "")
        self.pods[uid] = fact
        if source:
            self.copies.setdefault(source, []).append(fact)
        return fact

    def _learn(self, write: Write, fact: PodFact, after: Object) -> None:
        node = after["spec"].get("nodeName", "")
        if node != fact.node:
            fact.node, fact.bound = node, write.at
            fact.refused = fact.refused and write.at >= self.calm_since
            if not by_product(write.actor):
                self.changed[write.cluster, node] = write.at
        fact.failover = after["metadata"].get("annotations", {}).get(FAILOVER, "")
        if claim_of(after) not in ("", claim_of(write.before or {})):
            fact.claimed_by = write.actor
        self._learn_state(write, fact, after)

    def _learn_state(self, write: Write, fact: PodFact, after: Object) -> None:
        node, meta, told = fact.node, after["metadata"], after["status"]
        if CLAIM in meta.get("annotations", ()):
            fact.decided = min(fact.decided, write.at)
        elif not node:
            fact.decided = float("inf")
        # What a restore took and another one brought back is there: whoever deletes it then is why it ends.
        if meta.get("deletionTimestamp") and fact.doomed in ("", "restore") and not by_product(write.actor):
            fact.doomed = write.actor
        said, says = ((condition(one or {}, "PodScheduled") or {}).get("message") for one in (write.before, after))
        if says and says != said:
            fact.told = write.at
            fact.refused = fact.refused or "refused the pod" in says or "refused it: " in says
        preempted = condition(after, "DisruptionTarget")
        if preempted is not None and not fact.doomed and self._may_be_preempted(fact):
            fact.doomed = "preempted"
        if told.get("phase") in ENDED:
            fact.ended = fact.ended or told["phase"]
        if write.actor == "kubelet":
            fact.addresses |= {told[one] for one in ADDRESSES if told.get(one)}

    def _may_be_preempted(self, fact: PodFact) -> bool:
        """Whether a user has ever made a pod of higher priority; what an observer made up is none."""
        priority = (self.source_of(fact) or fact).priority
        return any(one.is_source and one.priority > priority for one in self.pods.values())

    def started(self, cluster: str, container: Container) -> None:
        self.running[container.uid] = container
        if container.uid in self.pods:
            self.pods[container.uid].ran = True

    def stopped(self, cluster: str, container: Container) -> None:
        self.running.pop(container.uid, None)
        fact = self.pods.get(container.uid)
        if fact is None:
            return
        if container.why in ("node", "rejected", "ended"):
            fact.doomed = fact.doomed or container.why
        if container.why == "ended":
            fact.ended = container.ends_as

    def tick(self, now: float) -> None:
        now = self.fleet.loop.time()
        for name, cluster in self.fleet.clusters.items():
            weather = cluster.wire.weather
            links = [one for (_, of), one in self.fleet.weathers.items() if of == name]
            cut = any(one.cut_there or one.cut_back or one.lose for one in links)
            bad = weather.down or weather.cut_there or weather.cut_back or weather.answers or weather.lose_requests
            unserved = cluster.agent.agent is None or cluster.agent.wire is not cluster.wire  # its agent is elsewhere
            bad = bad or weather.lose_replies or weather.failing or weather.conflicts
            if bad or cut or unserved or cluster.kubelets.dead:
                self.trouble[name] = now
            if weather.frozen or weather.watch_late_s or name not in self.watch_trouble:
                self.watch_trouble[name] = now
            if weather.cut_there or weather.cut_back or weather.down or weather.answers:
                self.watch_trouble[name] = now

    def went_back(self, cluster: str) -> None:
        """Its etcd was restored: pods are gone without a cause of their own, others are back."""
        self.restored[cluster] = self.fleet.loop.time()
        api = self.fleet.clusters[cluster].api
        kept = {kind: api.store.all(path) for kind, path in FOLLOWING.items()}
        self.objects.went_back(cluster, self.restored[cluster], kept, api.store.all(NAMESPACES))
        there = {pod["metadata"]["uid"] for pod in api.pods()}
        for fact in self.pods.values():
            if fact.cluster != cluster:
                continue
            if fact.uid not in there and not fact.gone:
                fact.gone, fact.doomed, fact.taken = True, fact.doomed or "restore", self.restored[cluster]
            elif fact.uid in there:
                if fact.gone:
                    self.revived.add(fact.uid)
                pod = next(one for one in self.fleet.clusters[cluster].api.pods() if one["metadata"]["uid"] == fact.uid)
                fact.gone, fact.taken, fact.node = False, float("-inf"), pod["spec"].get("nodeName", "")

    def lost_for_ever(self, cluster: str) -> None:
        """It burnt down: nothing of it will be there again."""
        for fact in self.pods.values():
            if fact.cluster == cluster:
                fact.gone, fact.doomed = True, fact.doomed or "lost"

    def home_of(self, pod: Object) -> str:
        """The cluster of the pod that this one is a copy of, "" if it is none."""
        fact = self.pods[pod["metadata"]["uid"]]
        source = self.source_of(fact) if not fact.is_source else None
        return source.cluster if source is not None else ""

    def in_trouble(self, cluster: str) -> bool:
        """Whether it is, or was a short while ago, hard to reach."""
        return self.fleet.loop.time() - self.trouble.get(cluster, float("-inf")) < REMEMBERED_S

    def out_of_reach(self, cluster: str) -> bool:
        """Whether no dispatcher hears of it now."""
        links = [one for (_, of), one in self.fleet.weathers.items() if of == cluster]
        return self.fleet.clusters[cluster].wire.weather.down or all(one.cut_there or one.cut_back for one in links)

    def running_copies(self, source: str) -> list[PodFact]:
        """Copies of a source that run now."""
        return [one for one in self.copies.get(source, ()) if one.uid in self.running]

    def starting_with(self, source: PodFact) -> Iterator[PodFact]:
        """A user's pod, and the others of its group."""
        yield source
        for one in self.pods.values() if source.group else ():
            if one.is_source and one is not source and one.group_name == source.group_name:
                yield one

    def source_of(self, fact: PodFact) -> PodFact | None:
        """The pod that a user made."""
        return self.pods.get(fact.source)
