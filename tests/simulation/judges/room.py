"""Promises about room and quota."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from fnmatch import fnmatchcase

from shared.model.tenant import Tenant
from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import (
    CLAIM,
    CLUSTERS,
    GROUP,
    GROUP_MIN,
    GROUP_WITHIN,
    PROXY,
    SCHEDULER,
    PodFact,
    by_product,
)
from tests.simulation.judges.limits import Limit, given_to, limits_of, tenants_since
from tests.simulation.judges.protocol import UNDER_WAY_S
from tests.simulation.judges.spread import Spread, spread_of
from tests.simulation.world.apiserver import NAMESPACES, NODES, PODS, ApiServer
from tests.simulation.world.controllers import tolerates
from tests.simulation.world.kubelet import Container, cpu_of_node
from tests.simulation.world.objects import Object, active, condition, cpu_of
from tests.simulation.world.store import Write

SIGHT_S = 5.0  # within which a watch shows what others did


class OfNodes(Judge):
    """Of nodes as our binds leave them, as far as their agent could know."""

    def wrote(self, write: Write) -> None:
        if write.verb != "bind" or not by_product(write.actor) or write.after is None:
            return
        node = write.after["spec"]["nodeName"]
        if node.startswith(PROXY) or self._surprised(write.cluster, node):
            return
        api = (self.fleet.clusters.get(write.cluster) or self.fleet.outside[write.cluster]).api
        kept = api.kept(f"{NODES}/{node}")
        for wrong in self._wrong_on(None if kept is None else kept.obj, write.after, api):
            self.say(f"{write.cluster}/{node}", wrong)

    @abstractmethod
    def _wrong_on(self, node: Object | None, pod: Object, api: ApiServer) -> Iterator[str]:
        """What is wrong, once this pod is bound to a node; None: there is none of that name."""

    def _surprised(self, cluster: str, node: str) -> bool:
        now, facts = self.fleet.loop.time(), self.facts
        if now - facts.restored.get(cluster, float("-inf")) < 60.0:
            return True
        blind = now - facts.watch_trouble.get(cluster, float("-inf")) < SIGHT_S + self.fleet.sizes.silence_s
        sight = SIGHT_S + (3 * self.fleet.sizes.silence_s if blind else 0.0)
        return now - facts.changed.get((cluster, node), float("-inf")) < sight


class NodesHold(OfNodes):
    """No bind of ours makes a node promise more than it has."""

    promise = "I3"

    def _wrong_on(self, node: Object | None, pod: Object, api: ApiServer) -> Iterator[str]:
        room = cpu_of_node(node) if node is not None else 0
        name = pod["spec"]["nodeName"]
        there = sum(cpu_of(one) for one in api.pods() if one["spec"].get("nodeName") == name and active(one))
        if there > room:
            yield f"holds {there}m of {room}m once {pod['metadata']['name']} is bound to it"

    def stopped(self, cluster: str, container: Container) -> None:
        fact = self.facts.pods.get(container.uid)
        ours = fact is not None and bool(fact.source)
        if container.why == "rejected" and ours and not self._surprised(cluster, container.node):
            self.say(container.uid, f"{container.path} is rejected by {container.node}: OutOfcpu")


class QuotaKept(Judge):
    """What a tenant's pods hold of the fleet is never more than its quota, and what it may borrow, where one more is
    bound: of tenants as they are, or were when that was decided.

    A decision can only count what was known when it was taken. What a webhook of the target adds to a copy is not known
    before that copy is there: it speaks against all that is decided once it was seen, not against what was before.
    Nor can anybody count what runs in a cluster for itself while that is not in the configuration, or another cluster
    answers under its name. What went there, and what came from there, is seen in the others, and counts.
    """

    promise = "I4"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._hidden: dict[str, float] = {}  # cluster -> when no dispatcher could last see it

    def tick(self, now: float) -> None:
        for name, cluster in self.fleet.clusters.items():
            if name not in self.fleet.members or cluster.agent.wire is not cluster.wire:
                self._hidden[name] = self.fleet.loop.time()

    def wrote(self, write: Write) -> None:
        if write.verb != "bind" or write.after is None or write.after["spec"]["nodeName"].startswith(PROXY):
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        if not fact.source:
            return
        known_at = self._known_at(fact) - (UNDER_WAY_S if self._may_be_late(fact) else 0.0)
        found = [self._exceeded(fact, one) for one in tenants_since(self.fleet, known_at)]
        if found[0] is not None and None not in found:
            limit, used = found[0]
            self.say(limit.name, f"holds {used}m of {limit.most}m CPU once {fact.title} is bound")

    def _may_be_late(self, fact: PodFact) -> bool:
        """Whether what is claimed now may have been decided before, as its order was under way: home was hard to reach,
        or had two executors.
        """
        home = (self.facts.source_of(fact) or fact).cluster
        there = self.fleet.clusters.get(home)
        return self.facts.in_trouble(home) or (there is not None and there.agent.second is not None)

    def _exceeded(self, fact: PodFact, tenants: Sequence[Tenant]) -> tuple[Limit, int] | None:
        """The first limit that is, and what is used of it."""
        source = self.facts.source_of(fact) or fact
        since = min(source.decided, self.fleet.loop.time())
        hidden = {name for name, at in self._hidden.items() if at >= since - SIGHT_S}
        for limit in limits_of(tenants):
            if limit.owns(source.cluster, source.namespace):
                used = sum(self._used(limit.owns, known_at=self._known_at(fact), hidden=hidden))
                if used > limit.most:
                    return limit, used
        return None

    def _known_at(self, fact: PodFact) -> float:
        """What was bound before this could be seen by whoever decided on this copy."""
        source, now = self.facts.source_of(fact), self.fleet.loop.time()
        trouble = any(self.facts.in_trouble(name) for name in self.fleet.clusters)
        sight = 3 * self.fleet.sizes.silence_s if trouble else SIGHT_S
        return min(now, source.decided if source is not None else now) - sight

    def _used(
        self,
        owns: Callable[[str, str], bool],
        *,
        revived: bool = False,
        known_at: float = float("inf"),
        hidden: Set[str] = frozenset(),
    ) -> Iterator[int]:
        """CPU of each pod's copies; those that a restore brought back are nobody's decision, and count if asked for.

        A copy that was bound after `known_at` counts as what was asked for. What a `hidden` cluster runs for itself
        counts as nothing.
        """
        for copies in self.facts.copies.values():
            source = copies[0]
            if not source.is_source or not owns(source.cluster, source.namespace):
                continue
            held = [one for one in copies if one.node and not one.node.startswith(PROXY) and not one.gone]
            if source.cluster in hidden:
                held = [one for one in held if one.cluster not in hidden]
            yield sum(
                one.cpu if one.bound <= known_at else min(one.cpu, source.cpu)
                for one in held
                if not one.ended and (revived or self._taken(one))
            )

    def _taken(self, one: PodFact) -> bool:
        return one.uid not in self.facts.revived and one.doomed != "restore"


class NobodyWaits(Judge):
    """In the end no pod waits that a node would take: by room, cluster, namespace, spread, cordon and quota.

    Of a group as many as have to start together would find one, where those that started are. What is left of a quota
    is for those of its pods first that are of higher priority and wait for more of it (docs/algorithms/fair-order.md).

    A cluster takes no pods of one that it first heard of as another: an operator has to say which is meant. A copy
    whose marks somebody took off counts twice: as a pod of others, and through its source's claim (docs/protocol.md).
    """

    promise = "I5"

    def at_end(self) -> None:
        for cluster, pod in self.fleet.pods():
            fact = self.facts.pods[pod["metadata"]["uid"]]
            if not self._waits(pod) or self._miswritten(pod):
                continue
            found = self._places(cluster, pod, self._kept_before(fact))
            where = self._whole_place(cluster, fact, [*found]) if fact.group else next(found, "")
            if where:
                told = (condition(pod, "PodScheduled") or {}).get("message", "nothing")
                self.say(fact.title, f"waits although {where} has room; it is told: {told[:160]}")

    def _waits(self, pod: Object) -> bool:
        """Whether it is a user's, for us, and has no place."""
        meta, spec = pod["metadata"], pod["spec"]
        ours = spec.get("schedulerName") == SCHEDULER and not spec.get("nodeName")
        held = meta.get("deletionTimestamp") or spec.get("schedulingGates")
        return ours and self.facts.pods[meta["uid"]].is_source and not held

    def _kept_before(self, fact: PodFact) -> int:
        """CPU that pods of higher priority of its tenant wait for: those that quota refuses, though what the tenant was
        given would do. A group that has too few members waits for nothing.
        """
        tenant = self._tenant(fact)
        if tenant is None:
            return 0
        asked: Counter[tuple[str, str, str, str]] = Counter()  # by who starts together
        there: Counter[tuple[str, str, str, str]] = Counter()
        above: dict[tuple[str, str, str, str], PodFact] = {}
        for cluster, pod in self.fleet.pods():
            one = self.facts.pods[pod["metadata"]["uid"]]
            key = (cluster, one.namespace, one.group, "" if one.group else one.uid)
            there[key] += one.is_source and active(pod)
            if self._waits(pod) and one.priority > fact.priority and self._tenant(one) is tenant:
                above[key] = one
                asked[key] += cpu_of(pod)
        given = tenant.nominal.get("cpu")
        most = (given.absolute if given else 0) or float("inf")
        return sum(
            asked[key]
            for key, one in above.items()
            if there[key] >= one.least and asked[key] <= most
            if self._charged(one.cluster, one.namespace, asked[key])
        )

    def _tenant(self, fact: PodFact) -> Tenant | None:
        tenants = self.fleet.sizes.tenants
        return next((one for one in tenants if one.owns(fact.cluster, fact.namespace)), None)

    def _whole_place(self, home: str, fact: PodFact, nodes: list[str]) -> str:
        """Where so many of the pod's group would find a place, each as large as the largest; "" for nowhere."""
        pods = [pod for cluster, pod in self.fleet.pods() if cluster == home and active(pod)]
        members = [pod for pod in pods if self.facts.pods[pod["metadata"]["uid"]].group == fact.group]
        placed = [pod for pod in members if pod["spec"].get("nodeName")]
        clusters = {pod["spec"]["nodeName"].removeprefix(PROXY) for pod in placed}
        there = {one if one in self.fleet.clusters else home for one in clusters}
        needed = max(1, fact.least - len(placed))
        if len(members) < fact.least:
            return ""
        cpu = max(cpu_of(pod) for pod in members if pod not in placed)
        before = self._kept_before(fact)
        rooms: dict[str, int] = {}
        for name in nodes:
            cluster, _, node = name.partition("/")
            if fact.within != "fleet" and there and cluster not in there:
                continue
            size = cpu + self.fleet.sidecars.get((cluster, fact.namespace), 0) * (cluster != home)
            if self._charged(home, fact.namespace, needed * size + before):
                continue
            domain = "fleet" if fact.within == "fleet" else cluster
            rooms[domain] = rooms.get(domain, 0) + self._free(cluster, node) // size
        return next((domain for domain, room in rooms.items() if room >= needed), "")

    def _free(self, cluster: str, name: str) -> int:
        api = self.fleet.clusters[cluster].api
        node = next(one for one in api.nodes() if one["metadata"]["name"] == name)
        there = [pod for pod in api.pods() if pod["spec"].get("nodeName") == name and active(pod)]
        return cpu_of_node(node) - sum(map(self._held, there))

    def _miswritten(self, pod: Object) -> bool:
        """Whether a user wrote on it what only agents write, or took the name of its group off and not the number:
        such a pod is not scheduled, and its owner is told.
        """
        meta, told = pod["metadata"], (condition(pod, "PodScheduled") or {}).get("message", "")
        written = f"{NAMESPACES}/{meta['namespace']}/pods/{meta['name']}" in self.fleet.meddled
        marks = meta.get("annotations", {})
        odd = [CLAIM] if CLAIM in marks else [one for one in (GROUP_MIN, GROUP_WITHIN) if GROUP not in marks]
        return written and any(one in marks and f"metadata.annotations[{one}]" in told for one in odd)

    def _places(self, home: str, pod: Object, before: int = 0) -> Iterator[str]:
        space = pod["metadata"]["namespace"]
        allowed = pod["metadata"].get("annotations", {}).get(CLUSTERS, "")
        spread = spread_of(pod)
        given = given_to(self.fleet.sizes.tenants, home, space)
        with_given = {"spec": {"tolerations": [*(pod["spec"].get("tolerations") or ()), *given]}}
        for name, cluster in self.fleet.clusters.items():
            if allowed and not any(fnmatchcase(name, one.strip()) for one in allowed.split(",")):
                continue
            if (name, home) in self.fleet.misled:
                continue
            kept = cluster.api.kept(f"{NAMESPACES}/{space}")
            if kept is None or kept.obj["metadata"].get("deletionTimestamp") or (name, space) in self.fleet.closed:
                continue
            if spread is not None and self._lopsided(name, spread):
                continue
            cpu = cpu_of(pod) + self.fleet.sidecars.get((name, space), 0) * (name != home)
            if self._charged(home, space, cpu + before):
                continue
            for node in cluster.api.nodes():
                if self._takes(name, node, cpu) and all(tolerates(with_given, one) for one in _taints(node)):
                    yield f"{name}/{node['metadata']['name']}"

    def _lopsided(self, there: str, spread: Spread) -> bool:
        """Whether one more in this cluster, which is a zone, were too many beside the zone that has least."""
        alike = dict.fromkeys(self.fleet.clusters, 0)
        for cluster, pod in self.fleet.pods():
            node = pod["spec"].get("nodeName", "")
            placed = cluster in alike and node and not node.startswith(PROXY) and active(pod)
            if placed and spread.means(pod["metadata"]):
                alike[cluster] += 1
        return alike[there] + 1 - min(alike.values()) > spread.skew

    def _takes(self, cluster: str, node: Object, cpu: int) -> bool:
        name, spec = node["metadata"]["name"], node["spec"]
        ready = condition(node, "Ready")
        if name.startswith(PROXY) or spec.get("unschedulable"):
            return False
        pods = self.fleet.clusters[cluster].api.pods()
        there = sum(self._held(pod) for pod in pods if pod["spec"].get("nodeName") == name and active(pod))
        return ready is not None and ready["status"] == "True" and there + cpu <= cpu_of_node(node)

    def _held(self, pod: Object) -> int:
        """Milli-CPU that count for a pod on a node."""
        meta = pod["metadata"]
        copy = self.facts.home_of(pod) and f"{NAMESPACES}/{meta['namespace']}/pods/{meta['name']}"
        return cpu_of(pod) * (2 if copy in self.fleet.meddled else 1)

    def _charged(self, cluster: str, space: str, cpu: int) -> bool:
        """Whether its tenant's quota speaks against a pod of this size: what a webhook adds to it counts as well."""
        for limit in limits_of(self.fleet.sizes.tenants):
            if not limit.owns(cluster, space):
                continue
            used = sum(QuotaKept(self.fleet, self.facts)._used(limit.owns, revived=True))
            if used + cpu > limit.most:
                return True
        return False


def _taints(node: Object) -> list[Object]:
    return node["spec"].get("taints") or []


__all__ = ["PODS", "NobodyWaits", "NodesHold", "QuotaKept"]
