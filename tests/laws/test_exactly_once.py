"""Nothing lost, nothing twice: the core against a world that loses answers, restarts, falls silent and deletes.

One thread, virtual time. After the faults stop, every pod that still exists runs exactly once, no delegate is left,
and the fleet's columns hold exactly what runs.
"""

import random

import pytest

from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import GapError
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from shared.messages import Evict
from shared.model.node import Node
from tests.laws.cores import make_core
from tests.laws.examples import examples
from tests.laws.world import Mail, ModelCluster, World

CLUSTERS = ("east", "north", "west")
SEEDS = range(examples(150))
CROWDED = range(1000, 1012)
GRACE_S = 15.0


class Simulation:
    """A dispatcher core, three clusters, and a seeded source of trouble."""

    def __init__(self, seed: int, *, crowded: bool = False) -> None:
        self.dice = random.Random(seed)
        self.crowded, self.evicted = crowded, list[Evict]()
        self.world = World({})
        for name in CLUSTERS:
            nodes = [Node(f"{name}-{i}", ready=True, allocatable={"cpu": 4000, "pods": 20}) for i in range(2)]
            self.world.clusters[name] = ModelCluster(name, nodes, [c for c in CLUSTERS if c != name], self.world)
        self.now = 1000.0
        self.boots = 0
        self.trouble = True
        self.silent: set[str] = set()
        self.mail = Mail(self.dice, 0.2)
        self.core = self._boot()

    def _boot(self) -> SchedulerCore:
        self.boots += 1
        self.mail.queue.clear()
        return make_core(CLUSTERS, boot_epoch=self.boots * 1_000_000, timing=CoreTiming(absence_grace_s=GRACE_S))

    def step(self) -> None:
        """One second: trouble, reports, decisions, intents."""
        self.now += 1.0
        if self.trouble:
            self._make_trouble()
        for name, cluster in self.world.clusters.items():
            cluster.kubelets()
            # A watch lags, but never for longer than the product notices (GRACE_S is above it).
            if not self.trouble or self.dice.random() < 0.4 or self.now % 8 == 0:
                cluster.watch()
            if name in self.silent:
                self._feed(events.ClusterSilent(name, "no answer"))
            elif not self.trouble or self.dice.random() > 0.3:
                self._report(cluster)
        self._feed(events.Tick())
        for batch in self.mail.take():
            self._deliver(batch)

    def _feed(self, event: events.Event) -> None:
        self.mail.post(self.core.handle(event, self.now))

    def _report(self, cluster: ModelCluster) -> None:
        view = self.core.clusters[cluster.name]
        try:
            self._feed(events.ClusterChanged(cluster.changes(view.revision, view.incarnation)))
        except GapError:
            self._feed(events.ClusterChanged(cluster.changes(0, "")))

    def _deliver(self, batch: events.SendIntents) -> None:
        cluster = self.world.clusters[batch.cluster]
        ids = tuple(intent.id for intent in batch.intents)
        if batch.cluster in self.silent:
            self._feed(events.Unanswered(batch.cluster, ids, "silent"))
            return
        fate = self.dice.random() if self.trouble else 1.0
        if fate < 0.1:  # the request is lost
            self._feed(events.Unanswered(batch.cluster, ids, "lost on the way there"))
            return
        outcomes = tuple(cluster.execute(intent) for intent in batch.intents)
        self.evicted += [intent for intent in batch.intents if isinstance(intent, Evict)]
        if fate < 0.2:  # the answer is lost
            self._feed(events.Unanswered(batch.cluster, ids, "lost on the way back"))
            return
        if fate < 0.3:  # delivered twice
            outcomes = tuple(cluster.execute(intent) for intent in batch.intents)
        self._feed(events.Answered(batch.cluster, outcomes))

    def _make_trouble(self) -> None:
        dice, clusters = self.dice, self.world.clusters
        home = clusters[dice.choice(CLUSTERS)]
        for _ in range(dice.randrange(3)):
            sizes, priorities = ((1500, 2500), (0, 5, 9)) if self.crowded else ((100, 500, 1500), (0,))
            home.submit(f"p{dice.randrange(10**9)}", dice.choice(sizes), dice.choice(priorities))
        if dice.random() < 0.15 and (pods := list(home.sources())):
            home.delete(dice.choice(pods).uid)
        if dice.random() < 0.05:
            home.restart_agent()
        if dice.random() < 0.05:
            self.silent ^= {home.name}
        if dice.random() < 0.04:
            self.core = self._boot()
        remote = [pod for pod in home.sources() if pod.ready and pod.claim is not None]
        if dice.random() < 0.1 and remote:
            home.lose_sight(dice.choice(remote))
        delegates = [pod for pod in home.pods.values() if pod.source is not None and not pod.terminating]
        if dice.random() < 0.05 and delegates:
            home.delete_delegate(dice.choice(delegates))

    def heal(self) -> None:
        """The faults stop."""
        self.trouble = False
        self.silent.clear()
        self.mail.loss = 0.0


def _incarnations(world: World, home: str, uid: str) -> int:
    local = sum(
        pod.uid == uid and bool(pod.node) and not world.clusters[home].nodes[pod.node].proxy_for
        for pod in world.clusters[home].pods.values()
    )
    remote = sum(
        pod.source is not None and (pod.source.cluster, pod.source.uid) == (home, uid)
        for cluster in world.clusters.values()
        for pod in cluster.pods.values()
    )
    return local + remote


@pytest.mark.parametrize("seed", SEEDS)
def test_every_pod_runs_exactly_once_after_the_faults_stop(seed: int) -> None:
    run_and_check(Simulation(seed))


def test_the_same_holds_where_pods_are_evicted_for_others() -> None:
    sims = [Simulation(seed, crowded=True) for seed in CROWDED]
    for sim in sims:
        run_and_check(sim)
    assert sum(len(sim.evicted) for sim in sims) > 30


def run_and_check(sim: Simulation) -> None:
    for _ in range(40):
        sim.step()
        assert not sim.world.twice, f"started twice: {sim.world.twice}"
    sim.heal()
    for _ in range(90):
        sim.step()
        assert not sim.world.twice, f"started twice: {sim.world.twice}"
    sources = {(name, pod.uid) for name, cluster in sim.world.clusters.items() for pod in cluster.sources()}
    waiting = [
        pod_id for pod_id in sources if _incarnations(sim.world, *pod_id) != 1 and not sim.core.tracked[pod_id].reported
    ]
    assert not waiting, f"neither running nor told why: {waiting}"
    stray = [
        pod.name
        for cluster in sim.world.clusters.values()
        for pod in cluster.pods.values()
        if pod.source is not None and (pod.source.cluster, pod.source.uid) not in sources
    ]
    assert not stray, f"delegates without a source: {stray}"
    assert all(count <= 1 for count in sim.world.running.values())
    unready = [
        pod.name
        for cluster in sim.world.clusters.values()
        for pod in cluster.sources()
        if pod.node and pod.claim is not None and not pod.ready
    ]
    assert not unready, f"remote pods that run and are not shown as ready: {unready}"
    held = {occupant for occupant in sources if sim.core.fleet.occupant(occupant) is not None}
    assert held == {pod_id for pod_id in sources if _incarnations(sim.world, *pod_id) == 1}
