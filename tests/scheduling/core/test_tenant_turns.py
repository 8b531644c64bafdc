"""Tenants take turns in a whole core, on the ledger's shares: bursts, borrowers, lenders, other tenants from now on."""

from collections import Counter

import pytest

from dispatcher.plugins.priority_sort import BEFORE_PRIORITY, IGNORED, Order, PrioritySort
from dispatcher.scheduling import events
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import Bind
from shared.model.group_kinds import OURS
from shared.model.pod import Group
from shared.model.tenant import Share, Tenant
from tests.builders import node, pod
from tests.scheduling.one_cluster import OneCluster

ALL = Tenant("all", (), {"cpu": Share(absolute=10_000)})


def team(name: str, cpu: int = 0, weight: int = 1000) -> Tenant:
    return Tenant(name, (name,), {"cpu": Share(absolute=cpu)} if cpu else {}, parent="all", weight=weight)


class World(OneCluster):
    """One large node, and tenants below `all`."""

    def __init__(self, *tenants: Tenant, order: Order = "after_priority") -> None:
        self.ledger = QuotaLedger((ALL, *tenants))
        super().__init__(self.ledger)
        self.core.queue.take_policies(PrioritySort(self.ledger, order), self.core.profiles.classify, self.now)
        self.report(full=True, nodes=(node("n1").cpu(1000).memory("2000Gi").pods(9000).build(),))

    def come(self, tenant: str, count: int, *, priority: int = 0, first: int = 0) -> None:
        names = [f"{tenant}-{priority}-{first + one}" for one in range(count)]
        built = [
            pod(name).namespace(tenant).labels(app=tenant).cpu("100m").priority(priority).build() for name in names
        ]
        self.pods |= {one.name: one for one in built}
        self.report(pods=tuple(built))

    def decide(self, budget: int) -> list[str]:
        """Whose pods are sent to the node now, in order."""
        effects = self.core.handle(events.Decide(budget, in_rounds=True), self.now)
        found = [
            intent.pod.namespace
            for effect in effects
            if isinstance(effect, events.SendIntents)
            for intent in effect.intents
            if isinstance(intent, Bind)
        ]
        self.take(effects)
        return found

    def decide_all(self) -> list[str]:
        found: list[str] = []
        while sent := self.decide(1000):
            found += sent
        return found


def test_a_burst_holds_up_no_pod_of_another_tenant_and_its_order_is_sent_at_once() -> None:
    world = World(team("red"), team("blue"))
    world.come("red", 120)
    world.decide(30)
    world.come("blue", 1)
    assert world.decide(1000) == ["blue"]
    assert set(world.decide_all()) == {"red"}


def test_borrowers_get_of_what_is_lent_by_weight() -> None:
    world = World(team("red", weight=5000), team("green", weight=3000), team("blue", weight=2000))
    for tenant in ("red", "green", "blue"):
        world.come(tenant, 110)
    bound = Counter(world.decide_all())
    assert bound.total() == 100, "all that there is"
    assert {name: bound[name] / 100 for name in bound} == pytest.approx(
        {"red": 0.5, "green": 0.3, "blue": 0.2}, abs=0.02
    )


def test_who_uses_its_own_goes_before_who_has_borrowed() -> None:
    world = World(team("red"), team("blue", cpu=5_000))
    world.come("red", 30)
    world.decide_all()
    world.come("red", 30, first=30)
    world.come("blue", 30)
    world.decide(1)
    assert set(world.decide(20)) == {"blue"}


@pytest.mark.parametrize(
    ("order", "first"),
    [("after_priority", "red"), (BEFORE_PRIORITY, "blue"), (IGNORED, "red")],
)
def test_the_setting_says_whether_priority_or_the_share_is_asked_first(order: Order, first: str) -> None:
    world = World(team("red"), team("blue", cpu=5_000), order=order)
    world.ledger.charge(("a", "earlier"), "red", {"cpu": 1000})
    world.come("red", 1, priority=5)
    world.come("blue", 1)
    assert world.decide(1)[:1] == [first]


def test_borrowers_with_large_groups_take_turns_group_by_group() -> None:
    world = World(team("red"), team("blue"))
    for tenant in ("red", "blue"):
        for group in range(6):
            gang = Group("PodGroup", f"gang{group}", min_count=15)
            some = (pod(f"{tenant}-{group}-{at}").namespace(tenant).set(group=gang).cpu("100m") for at in range(15))
            world.submit(*(one.build() for one in some))
    world.tick()
    assert [world.ledger.usage(tenant)["cpu"] for tenant in ("red", "blue")] == [4500, 4500]


def test_no_tenant_is_above_its_limit_and_nothing_supposed_is_left() -> None:
    world = World(team("red", cpu=4_000), team("blue", cpu=2_000))
    for tenant in ("red", "blue"):
        world.come(tenant, 90)
    world.decide_all()
    used = [world.ledger.usage(tenant)["cpu"] for tenant in ("red", "blue")]
    assert used == [
        100 * sum(1 for name, one in world.pods.items() if one.node and name.startswith(tenant))
        for tenant in ("red", "blue")
    ]
    assert sum(used) <= 16_000


def test_a_group_is_as_many_turns_as_it_has_members() -> None:
    """Else who makes groups of all pods would be ahead of who does not, by the size of these."""
    world = World(team("red", 5000), team("blue", 5000))
    for at in range(100):  # no two alike, and nobody borrows
        told = Group(OURS, f"g{at // 20}", "", 20)
        red = pod(f"red-{at}").namespace("red").cpu(f"{1 + at % 40}m").set(group=told)
        blue = pod(f"blue-{at}").namespace("blue").cpu(f"{1 + at % 41}m")
        world.submit(red.build(), blue.build())
    sent = list[str]()
    while len(sent) < 80:
        sent += world.decide(1)
    assert 0.4 < Counter(sent)["red"] / len(sent) < 0.65


@pytest.mark.parametrize(("least", "priority"), [(0, 0), (1, 0), (0, 9)], ids=["pods", "groups", "before a higher one"])
def test_who_makes_pods_unlike_all_others_takes_nothing_that_the_next_waits_for(least: int, priority: int) -> None:
    """They have not been refused: each would be decided the moment that it comes, whoever's turn it is."""
    world = World(team("red"), team("blue"))
    world.come("blue", 100)
    world.tick(0.01)
    world.come("red", 10, priority=priority)
    world.tick(0.01)
    for number in range(10):
        ended = world.pods.pop(f"blue-0-{number}")
        world.report(pods_gone=(ended.uid,))
        another = pod(f"blue-x-{number}").namespace("blue").labels(app=f"x{number}").cpu("100m")
        group = Group(OURS, f"x{number}", "", least, "cluster") if least else None
        world.submit(another.set(group=group).build())
        for _ in range(12):
            world.tick(0.01)
    placed = Counter(one.namespace for one in world.pods.values() if one.node)
    assert placed == {"blue": 90, "red": 10}


def test_who_borrows_nothing_or_less_than_those_that_wait_waits_for_nobody() -> None:
    world = World(team("red", cpu=1000), team("green"), team("blue"))
    world.come("blue", 107)
    world.submit(pod("blue-large").namespace("blue").cpu("400m").build())
    world.tick(0.01)
    world.come("red", 1)
    world.tick(0.01)
    assert world.pods["red-0-0"].node == "n1"
    world.come("green", 1)
    world.tick(0.01)
    assert world.pods["green-0-0"].node == "n1"
    assert not world.pods["blue-large"].node
