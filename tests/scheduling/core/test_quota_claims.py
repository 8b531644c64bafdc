"""At the limit of a tenant, its pods of higher priority go before its others, whoever comes, ends or backs off."""

from dispatcher.scheduling.quota import BEHIND, QuotaLedger
from shared.messages import AnyIntent, ReportUnschedulable
from shared.model.group_kinds import POD_GROUPS
from shared.model.pod import Group
from shared.model.tenant import Share, Tenant
from tests.builders import node, pod
from tests.scheduling.one_cluster import OneCluster

TENANTS = [Tenant(name, (name,), {"cpu": Share(absolute=4000)}) for name in ("red", "blue")]


class World(OneCluster):
    """Two tenants with four CPUs each, and two nodes of `most` CPUs."""

    def __init__(self, most: int = 200) -> None:
        self.ledger = QuotaLedger(TENANTS)
        super().__init__(self.ledger)
        self.told: dict[str, str] = {}
        nodes = [node(name).cpu(most).memory("200Gi").pods(500).build() for name in ("n1", "n2")]
        self.report(full=True, nodes=tuple(nodes))

    def come(self, *names: str, cpu: int = 1, priority: int = 0) -> None:
        whose = [(name, name.partition("-")[0]) for name in names]
        self.submit(*(pod(name).namespace(one).cpu(cpu).priority(priority).build() for name, one in whose))

    def come_together(self, *names: str, cpu: int = 1, priority: int = 1000, least: int = 0) -> None:
        """Red pods that start together: all of them, or so many at least."""
        group = Group(POD_GROUPS, "train", "u1", least or len(names), "cluster")
        built = [pod(name).namespace("red").cpu(cpu).priority(priority).set(group=group).build() for name in names]
        self.submit(*built)

    def end(self, *names: str) -> None:
        for name in names:
            self.report(pods_gone=(self.pods.pop(name).uid,))

    def obey(self, intent: AnyIntent) -> None:
        if isinstance(intent, ReportUnschedulable):
            self.told[intent.pod.name] = intent.message
        super().obey(intent)

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.tick(1.0)

    def placed(self) -> set[str]:
        return {name for name, one in self.pods.items() if one.node}


def full(*, cpu: int = 3) -> World:
    """Red is at its limit, and an important pod waits with others."""
    world = World()
    world.come("red-1", "red-2", "red-3", "red-4")
    world.tick()
    world.come("red-big", cpu=cpu, priority=1000)
    world.come("red-5", "red-6")
    world.tick()
    assert world.placed() == {"red-1", "red-2", "red-3", "red-4"}
    return world


def test_what_comes_free_is_for_the_pod_of_higher_priority_though_others_would_fit_sooner() -> None:
    world = full()
    for name in ("red-1", "red-2"):
        world.end(name)
        world.run(15)
        assert world.placed().isdisjoint({"red-5", "red-6", "red-big"})
    world.end("red-3")
    world.run(15)
    assert world.placed() == {"red-4", "red-big"}


def test_one_that_comes_while_the_other_backs_off_waits_behind_it() -> None:
    world = full(cpu=1)
    for _ in range(3):
        world.run(1)
        world.end("red-1") if "red-1" in world.pods else None
        world.come(f"red-new-{world.now:.0f}")
    world.run(15)
    assert {one for one in world.placed() if one not in ("red-2", "red-3", "red-4")} == {"red-big"}


def test_it_is_told_why() -> None:
    world = full()
    world.end("red-1")
    world.run(15)
    assert BEHIND in world.told["red-5"]


def test_once_the_pod_of_higher_priority_is_gone_the_others_go() -> None:
    world = full()
    world.end("red-1", "red-2")
    world.run(5)
    world.end("red-big")
    world.run(15)
    assert world.placed() == {"red-3", "red-4", "red-5", "red-6"}
    assert not world.ledger.claims.of(["red"])


def test_a_pod_that_no_node_takes_once_there_is_quota_holds_up_nobody() -> None:
    world = World(most=3)
    world.come("red-1", "red-2", "red-3", "red-4")
    world.tick()
    world.come("red-big", cpu=4, priority=1000)
    world.come("red-5", "red-6")
    world.tick()
    world.end("red-1", "red-2", "red-3")
    world.run(15)
    assert world.placed() == {"red-4"}
    world.end("red-4")
    world.run(30)
    assert world.placed() == {"red-5", "red-6"}


def test_a_pod_that_asks_for_more_than_its_tenant_could_ever_use_holds_up_nobody() -> None:
    world = full(cpu=5)
    world.end("red-1", "red-2")
    world.run(15)
    assert world.placed() == {"red-3", "red-4", "red-5", "red-6"}


def test_other_tenants_and_equal_priority_are_not_held_up() -> None:
    world = full()
    world.come("blue-1")
    world.come("red-equal", priority=1000)
    world.end("red-1")
    world.run(15)
    assert {"blue-1", "red-equal"} <= world.placed()


def test_a_batch_goes_as_far_as_what_others_wait_for() -> None:
    world = full(cpu=2)
    world.end("red-1", "red-2", "red-3", "red-4")
    world.come(*(f"red-more-{number}" for number in range(5)))
    world.tick()
    world.run(15)
    placed = world.placed()
    assert "red-big" in placed
    assert len(placed) == 3


def test_a_group_that_is_too_few_to_start_holds_up_nobody() -> None:
    world = full()
    world.end("red-big")
    world.come_together("red-a", "red-b")
    world.tick()
    assert world.ledger.claims.above("red", 0)["cpu"] > 0
    world.end("red-b")
    world.end("red-1")
    world.run(15)
    assert len(world.placed() & {"red-5", "red-6"}) == 1


def test_a_group_of_higher_priority_gets_together_what_it_needs_to_start() -> None:
    world = full(cpu=1)
    world.end("red-big")
    world.come_together("red-a", "red-b", "red-c")
    world.run(2)
    for name in ("red-1", "red-2"):
        world.end(name)
        world.run(15)
        assert world.placed().isdisjoint({"red-5", "red-6", "red-a"})
    world.end("red-3")
    world.run(15)
    assert world.placed() == {"red-4", "red-a", "red-b", "red-c"}


def test_a_group_that_asks_for_more_than_its_tenant_could_ever_use_holds_up_nobody() -> None:
    world = full(cpu=1)
    world.end("red-big")
    world.come_together(*(f"red-{letter}" for letter in "abcde"))
    world.run(2)
    world.end("red-1", "red-2")
    world.run(15)
    assert world.placed() == {"red-3", "red-4", "red-5", "red-6"}


def test_members_of_lower_priority_are_not_held_up_by_their_own_group() -> None:
    world = full(cpu=1)
    world.end("red-big", "red-5", "red-6")
    group = Group(POD_GROUPS, "train", "u1", 4, "cluster")
    of = {"red-a": 1000, "red-b": 10, "red-c": 10, "red-d": 0}
    built = (pod(name).namespace("red").cpu(1).priority(at).set(group=group) for name, at in of.items())
    world.submit(*(one.build() for one in built))
    world.run(2)
    world.end("red-1", "red-2", "red-3", "red-4")
    world.run(15)
    assert world.placed() == of.keys()
