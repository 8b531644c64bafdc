"""Law of the dry run of a drain: the pods of a controller have the places that they are told to have once the cluster
is cordoned and they were evicted, and as many wait as it is told.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.events import ClusterChanged, Effect, SendIntents, Tick
from dispatcher.scheduling.views import whole
from dispatcher.scheduling.views.drain_rows import drain_view
from shared.messages import Bind, Changes, Claim
from shared.model.crossing import Opening
from shared.model.names import CLUSTERS, PROXY_LABEL, SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Claim as Claimed
from shared.model.pod import Need, Needs, Pod, SourceRef, SpreadConstraint
from tests.laws.cores import make_core

DRAINED, OTHERS = "west", ("east", "north", "south")
CLUSTERS_THERE = (*OTHERS, DRAINED)
HOMES = ("east", "south")
ZONES = ("z1", "z2", "z3")
NEEDS = Needs(of_policy=(Need("secrets", "keys", "spec.volumes[0].secret.secretName", 'is Secret "keys"'),))


def zone(name: str) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": name}


class World:
    """A core and what its clusters show; `app` of a pod is its controller."""

    def __init__(self, random: Random) -> None:
        self.core, self.now = make_core(CLUSTERS_THERE), 1.0
        self.pods: dict[str, list[Pod]] = {name: [] for name in CLUSTERS_THERE}
        self.nodes = {name: some_nodes(random, name) for name in CLUSTERS_THERE}
        self.opens = {name: some_rows(random) for name in CLUSTERS_THERE}
        self.cordoned = {
            (home, name) for home in HOMES for name in CLUSTERS_THERE if home != name and random.random() < 0.1
        }
        for at in range(random.randint(1, 3)):
            self.add_app(random, at)
        self.tell_all()
        for one in self.sources():
            if random.random() < 0.3:
                cluster, age = random.choice(OTHERS), random.choice((1.0, 1000.0))
                pod_id = (self.home_of(one), one.uid)
                self.core.refusals.note_unstarted(pod_id, one, cluster, "it did not start", self.now - age)

    def add_app(self, random: Random, at: int) -> None:
        home = random.choice(HOMES)
        fields: dict[str, Any] = {
            "labels": {"app": f"app{at}"},
            "requests": {"cpu": random.choice((500, 1000, 2000))},
            "scheduler_name": SCHEDULER_NAME,
            "owner": f"ReplicaSet/app{at}/u{at}",
            "spread": some_spread(random),
            "annotations": {CLUSTERS: f"{home},north,{DRAINED}"} if random.random() < 0.2 else {},
            "needs": NEEDS if random.random() < 0.3 else Needs(),
        }
        for number in range(random.randint(1, 4)):
            cluster = DRAINED if not number else random.choice(CLUSTERS_THERE)
            node = random.choice(self.nodes[cluster]).name
            one = Pod(f"uid-{at}-{number}", "default", f"app{at}-{number}", phase="Running", **fields)
            self.put(home, one, cluster, node)

    def put(self, home: str, pod: Pod, cluster: str, node: str) -> None:
        if cluster == home:
            self.pods[home].append(msgspec.structs.replace(pod, node=node))
            return
        claim, proxy = Claimed(cluster, node, 1), proxy_node_name(cluster)
        self.pods[home].append(msgspec.structs.replace(pod, node=proxy, claim=claim, has_finalizer=True))
        source = SourceRef(home, f"{home}-uid", "default", pod.name, pod.uid, 1)
        self.pods[cluster].append(
            Pod(f"d-{pod.uid}", "default", f"{pod.name}-d", requests=pod.requests, node=node, source=source)
        )

    def sources(self) -> list[Pod]:
        return [one for home in HOMES for one in self.pods[home] if one.source is None]

    def home_of(self, pod: Pod) -> str:
        return next(home for home in HOMES if any(one.uid == pod.uid for one in self.pods[home]))

    def tell_all(self) -> list[Effect]:
        return [effect for name in CLUSTERS_THERE for effect in self.tell(name)]

    def tell(self, cluster: str) -> Sequence[Effect]:
        proxies = [proxy(name, (cluster, name) in self.cordoned) for name in CLUSTERS_THERE if name != cluster]
        nodes, pods = (*self.nodes[cluster], *proxies), tuple(self.pods[cluster])
        revision, opens = self.core.clusters[cluster].revision, self.opens[cluster]
        changes = Changes(
            cluster, f"{cluster}-uid", "life", 0, revision + 1, full=True, nodes=nodes, pods=pods, opens=opens
        )
        return self.core.handle(ClusterChanged(changes), self.now)

    def goers(self, name: str, cluster: str, *, leave: bool = False) -> list[Pod]:
        """The pods of the controller of this one that run in the cluster; `leave`: and those of it elsewhere."""
        named = next(one for one in self.sources() if one.name == name)
        home = self.home_of(named)
        found = []
        for one in self.sources():
            target = one.claim.cluster if one.claim is not None else self.home_of(one)
            goes = (target == cluster != home) or (leave and home == cluster != target)
            if goes and (one.owner, self.home_of(one)) == (named.owner, home):
                found.append(one)
        return found

    def drain(self, goers: Sequence[Pod], cluster: str, *, leave: bool = False) -> list[str]:
        """Cordon the cluster, and evict these pods of one controller; where its next ones go. `leave`: both ways."""
        home = self.home_of(goers[0])
        for other in CLUSTERS_THERE:
            self.cordoned |= {(other, cluster)} | ({(cluster, other)} if leave else set())
        gone = {one.uid for one in goers}
        for name, pods in self.pods.items():
            self.pods[name] = [one for one in pods if not gone & {one.uid, one.source and one.source.uid}]
        made = {"node": "", "phase": "Pending", "claim": None, "has_finalizer": False}
        for at, one in enumerate(goers):
            fresh = msgspec.structs.replace(one, uid=f"new{at}", name=f"new{at}", **made)
            self.pods[home].append(fresh)
        effects = self.tell_all()
        for _ in range(5):
            self.now += 1.0
            effects += self.core.handle(Tick(), self.now)
        return places(effects, home)


def places(effects: Sequence[Effect], home: str) -> list[str]:
    """Of the new pods, by their number, those that have any."""
    sent = [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents]
    found = dict[str, str]()
    for one in sent:
        if one.pod.name.startswith("new") and isinstance(one, Claim):
            found[one.pod.name] = f"{one.cluster}/{one.node}"
        elif one.pod.name.startswith("new") and isinstance(one, Bind):
            found[one.pod.name] = f"{home}/{one.node}"
    return [where for _, where in sorted(found.items())]


def proxy(cluster: str, cordoned: bool) -> Node:
    name = proxy_node_name(cluster)
    return Node(name, labels={PROXY_LABEL: cluster}, ready=True, proxy_for=cluster, unschedulable=cordoned)


def some_nodes(random: Random, cluster: str) -> list[Node]:
    count = random.randint(2, 3) if cluster == DRAINED else random.randint(0, 2)
    size = 16_000 if cluster == DRAINED else random.choice((1000, 3000))
    amounts = {"cpu": size, "memory": 2**34, "pods": 20}
    return [
        Node(f"{cluster[0]}{at}", labels=zone(random.choice(ZONES)), ready=True, allocatable=amounts)
        for at in range(max(1, count))
    ]


def some_rows(random: Random) -> tuple[Opening, ...]:
    secrets = ("keys",) if random.random() < 0.5 else ()
    return (Opening(("*",), ("*",), (), closed=(), secrets=secrets),)


def some_spread(random: Random) -> tuple[SpreadConstraint, ...]:
    key = random.choice(("cluster", "zone", ""))
    if not key:
        return ()
    hard, honor = random.random() < 0.8, random.random() < 0.5
    return (SpreadConstraint(key, random.randint(1, 2), hard=hard, honor_taints=honor),)


def holds(seed: int, cluster: str, *, leave: bool) -> int:
    told = whole(drain_view(World(Random(seed)).core, cluster, leave=leave))
    for row in told:
        world = World(Random(seed))
        goers = world.goers(row["name"], cluster, leave=leave)
        found = world.drain(goers, cluster, leave=leave)
        assert (row["pods"], row["waiting"]) == (len(goers), len(goers) - len(found)), row
        assert row["to"] == (found[0] if found else None), row
    return len(told)


@pytest.mark.parametrize("seed", range(60))
def test_pods_go_where_the_dry_run_says_once_they_are_drained(seed: int) -> None:
    assert holds(seed, DRAINED, leave=False)


@pytest.mark.parametrize("seed", range(20))
def test_pods_of_a_cluster_that_leaves_go_where_the_dry_run_says(seed: int) -> None:
    holds(seed, "east", leave=True)
