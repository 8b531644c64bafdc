"""Pods that wait for quota of their tenant: who is tried again when some comes free, and what is written of them."""

import pytest

from dispatcher.scheduling import events
from dispatcher.scheduling.queued import AT_A_TIME
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.rules import eligibility
from shared.messages import AnyIntent, Changes, ReportUnschedulable
from shared.model.owner_use import OwnerUse
from shared.model.pod import RUNNING
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from tests.builders import node, pod
from tests.laws.cores import make_core
from tests.scheduling.one_cluster import OneCluster

TENANTS = [Tenant(name, (name,), {"cpu": Share(absolute=1000)}) for name in ("red", "blue")]


class World(OneCluster):
    """Much room, and two tenants with a CPU each. `told`: what was written of which pods."""

    def __init__(self) -> None:
        self.ledger = QuotaLedger(TENANTS)
        super().__init__(self.ledger)
        self.told: list[tuple[str, str]] = []
        self.report(full=True, nodes=(node("n1").cpu(200).memory("200Gi").pods(500).build(),))

    def come(self, *names: str) -> None:
        self.submit(*(pod(name).namespace(name.partition("-")[0]).cpu("500m").build() for name in names))

    def end(self, name: str) -> None:
        self.report(pods_gone=(self.pods.pop(name).uid,))

    def obey(self, intent: AnyIntent) -> None:
        if isinstance(intent, ReportUnschedulable):
            self.told.append((intent.pod.name, intent.message))
        super().obey(intent)

    def waiting(self) -> set[str]:
        queue = self.core.queue
        return {name for name, one in self.pods.items() if queue.state_of(("a", one.uid)) == "unschedulable"}


def allow(ledger: QuotaLedger, **amounts: int) -> None:
    """Red may use this from now on."""
    more = {name: Share(absolute=amount) for name, amount in amounts.items()}
    ledger.take([Tenant(one.name, one.namespaces, more) if one.name == "red" else one for one in ledger.tenants])


def full() -> World:
    world = World()
    world.come("red-1", "red-2", "red-3", "red-4", "blue-1", "blue-2", "blue-3")
    world.tick()
    assert world.waiting() == {"red-3", "red-4", "blue-3"}
    return world


def test_a_share_that_comes_free_wakes_its_own_tenant_alone() -> None:
    world = full()
    world.tick(60.0)
    world.end("red-1")
    assert world.waiting() == {"red-4", "blue-3"}, "the first of those that it may help"
    world.tick()
    assert world.waiting() == {"red-4", "blue-3"}
    assert world.pods["red-3"].node == "n1"


def test_a_node_that_pulled_an_image_wakes_nobody_who_waits_for_a_share() -> None:
    world = full()
    world.tick(60.0)
    world.report(nodes=(node("n1").cpu(200).memory("200Gi").pods(500).images({"web": 1}).build(),))
    assert world.waiting() == {"red-3", "red-4", "blue-3"}


def test_of_many_that_wait_for_a_share_some_are_tried_at_a_time_the_oldest_first() -> None:
    world = full()
    world.come(*(f"red-{number}" for number in range(5, 5 + 3 * AT_A_TIME)))
    world.tick()
    many = len(world.waiting())
    world.tick(60.0)
    world.end("red-1")
    assert many - len(world.waiting()) == 1
    world.end("red-2")
    assert many - len(world.waiting()) == 1, "that one is still to find out whether there is enough"
    world.tick()
    assert {name for name in ("red-3", "red-4") if world.pods[name].node} == {"red-3", "red-4"}
    assert sum(1 for one in world.pods.values() if one.node) == 4


def test_all_that_wait_find_their_place_once_there_is_quota_for_all() -> None:
    world = full()
    world.come(*(f"red-{number}" for number in range(5, 5 + 3 * AT_A_TIME)))
    world.tick()
    world.tick(60.0)
    allow(world.ledger, cpu=200_000)
    world.end("red-1")
    for _ in range(10):
        world.tick(0.1)
    assert world.waiting() == {"blue-3"}


def test_none_is_forgotten_when_it_is_learnt_meanwhile_what_pods_like_them_use() -> None:
    world = full()
    names = [f"red-{number}" for number in range(5, 5 + 3 * AT_A_TIME)]
    for name in names:
        world.pods[name] = pod(name).namespace("red").cpu("500m").set(owner="ReplicaSet/web/uid").build()
    world.report(pods=tuple(world.pods[name] for name in names))
    world.tick()
    world.tick(60.0)
    world.report(uses=(OwnerUse("red", "ReplicaSet/web", cpu=60.0, memory=1e6, minutes=60.0),))
    allow(world.ledger, cpu=200_000)
    world.end("red-1")
    for _ in range(10):
        world.tick(0.1)
    assert world.waiting() == {"blue-3"}


def test_a_pod_is_told_of_its_quota_once_whatever_others_use_meanwhile() -> None:
    world = full()
    assert sorted(name for name, _ in world.told) == ["blue-3", "red-3", "red-4"]
    world.told.clear()
    world.tick(120.0)
    world.end("red-1")
    world.report(pods=(pod("red-9").namespace("red").cpu("700m").set(node="n1", phase=RUNNING).build(),))
    world.tick(120.0)
    last = world.core.log.find(("a", "uid-red-3"))
    assert last is not None
    assert "used 1200m, limit 1" in last.summary()
    assert world.told == []


class Beside:
    """Pods of clusters red and blue, of tenants of these names, that can go to cluster a alone: so they are decided
    together.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(eligibility, "_FEW", 1)
        self.ledger = QuotaLedger(
            [Tenant(name, (f"{name}/*",), {"pods": Share(absolute=1)}) for name in ("red", "blue")]
        )
        names = ["a", "red", "blue"]
        self.core, self.said = make_core(names, ledger=self.ledger), dict.fromkeys(names, 0)

    def report(self, cluster: str, now: float, **what: object) -> None:
        self.said[cluster] += 1
        told = (f"uid-{cluster}", "life", self.said[cluster] - 1, self.said[cluster], self.said[cluster] == 1)
        self.core.handle(events.ClusterChanged(Changes(cluster, *told, **what)), now)  # type: ignore[arg-type]

    def node(self, name: str, now: float, cpu: int) -> None:
        built = node(name).cpu(cpu).memory("900Gi").pods(900).label({"in": "a"}).build()
        self.report("a", now, nodes=(built,))

    def come(self, cluster: str, now: float, *names: str, priority: int = 0) -> None:
        pods = [pod(name).cpu(1).node_selector({"in": "a"}).priority(priority).build() for name in names]
        self.report(cluster, now, pods=tuple(pods))

    def tick(self, now: float) -> None:
        self.core.handle(events.Tick(), now)

    def waiting(self) -> set[str]:
        """Of which clusters."""
        return {one.pod_info.home for one, _ in self.core.queue.parked()}


def test_pods_refused_beside_them_for_another_tenants_quota_keep_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Beside(monkeypatch)
    world.node("n1", 100.0, 900)
    world.come("blue", 100.0, "blue-0")
    world.come("red", 100.0, *(f"red-{number}" for number in range(3 * AT_A_TIME)))
    world.tick(100.0)
    allow(world.ledger, pods=900)
    world.report("red", 160.0, pods_gone=("uid-red-0",))
    for tick in range(10):
        world.come("blue", 160.0 + tick / 10, f"blue-{tick + 1}")
        world.tick(160.0 + tick / 10)
    assert world.waiting() == {"blue"}


def test_pods_refused_beside_them_for_another_tenants_quota_do_not_say_what_a_pod_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Beside(monkeypatch)
    world.node("n1", 100.0, 1)
    world.come("blue", 100.0, "blue-0")
    world.come("red", 100.0)
    world.tick(100.0)
    world.come("blue", 100.1, "blue-1", priority=1)
    world.come("red", 100.1, "red-1")
    world.tick(100.1)
    assert [set(one.reasons) for one, _ in world.core.queue.parked()] == [{Reasons.QUOTA}, {Reasons.INSUFFICIENT}]
    world.node("n2", 160.0, 1)
    world.tick(160.0)
    assert world.waiting() == {"blue"}
