"""Who is decided next, and why; and where one pod stands, whatever it waits for."""

import pytest
from msgspec.structs import replace

from dispatcher.scheduling.events import ClusterChanged
from dispatcher.scheduling.queue import IN_A_ROW
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.views.queue_rows import place_view, queue_counts, queue_view
from shared.messages import Changes
from shared.model.pod import Group
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, pod
from tests.laws.cores import make_core

TREE = (
    Tenant("all", (), {"cpu": Share(absolute=10_000)}),
    Tenant("red", ("red",), {"cpu": Share(absolute=1000)}, parent="all"),
    Tenant("blue", ("blue",), {"cpu": Share(absolute=1000)}, parent="all"),
    Tenant("spare", ("spare",), {}, parent="all", weight=0),
)


class World:
    """A core of one cluster without nodes, which decides nothing. Blue has borrowed."""

    def __init__(self, tenants: tuple[Tenant, ...] = TREE) -> None:
        self.ledger = QuotaLedger(tenants)
        self.core = make_core(["a"], ledger=self.ledger)
        self.revision = 0
        if tenants:
            self.ledger.charge(("a", "earlier"), "blue", {"cpu": 3000})

    def come(self, *pods: PodBuilder, now: float = 1.0, group: Group | None = None) -> None:
        built = tuple(replace(one.cpu("100m").build(), group=group) for one in pods)
        self.revision += 1
        full = self.revision == 1
        changes = Changes("a", "uid-a", "life", self.revision - 1, self.revision, full=full, pods=built)
        self.core.handle(ClusterChanged(changes), now)

    def rows(self, most: int = 100) -> list[tuple[object, ...]]:
        return [(one["place"], one["name"], one["why"]) for one in queue_view(self.core, self.ledger, most)]


def test_rows_are_in_the_order_of_decisions_and_say_what_it_rests_on() -> None:
    world = World()
    world.come(
        pod("blue-1").namespace("blue"),
        pod("red-1").namespace("red"),
        pod("urgent").namespace("blue").priority(7),
        pod("last").namespace("spare").priority(9),
    )
    world.come(pod("other").namespace("nobodys"), now=2.0)
    rows = world.rows()
    assert rows[0] == (1, "urgent", "priority 7, tenant blue has borrowed 16.7% of what it could, by weight")
    assert rows[-1] == (5, "last", "tenant spare has no weight: when nobody else waits")
    assert {why for _, _, why in rows[1:4]} == {
        "priority 0, tenant red has borrowed nothing",
        "priority 0, tenant blue has borrowed 16.7% of what it could, by weight",
        "priority 0, of no tenant",
    }
    assert [one["name"] for one in queue_view(world.core, world.ledger) if one["name"] in ("red-1", "blue-1")] == [
        "red-1",
        "blue-1",
    ]


def test_it_is_asked_without_consequences() -> None:
    world = World()
    world.come(*(pod(f"{tenant}-{one}").namespace(tenant) for tenant in ("red", "blue") for one in range(40)))
    first = world.rows()
    used = world.ledger.usage("red"), world.ledger.usage("blue")
    assert world.rows() == first
    assert (world.ledger.usage("red"), world.ledger.usage("blue")) == used
    taken: list[str] = []
    while batch := world.core.queue.pop_class(5.0, IN_A_ROW):
        for item in batch:
            tenant = item.pod_info.pod.namespace
            world.ledger.charge(item.pod_id, tenant, {"cpu": 100, "pods": 1})
        taken += [item.pod_info.pod.name for item in batch]
    assert taken == [name for _, name, _ in first]


def test_without_tenants_rows_go_by_priority_and_age() -> None:
    world = World(())
    world.come(pod("b"), pod("a").priority(3))
    assert world.rows() == [(1, "a", "priority 3"), (2, "b", "priority 0")]
    assert world.rows(1) == [(1, "a", "priority 3")]


@pytest.mark.parametrize(
    ("built", "state", "words"),
    [
        (pod("p").namespace("red"), "active", "number 1 of 1: priority 0, tenant red has borrowed nothing"),
        (pod("p").namespace("red").gated(), "gated", "may not enter the queue: "),
    ],
)
def test_the_place_of_a_pod(built: PodBuilder, state: str, words: str) -> None:
    world = World()
    world.come(built)
    row = place_view(world.core, world.ledger, "red", "p")
    assert row is not None
    assert (row["state"], row["why"].startswith(words)) == (state, True)
    assert place_view(world.core, world.ledger, "red", "unknown") is None


def test_members_of_a_group_are_said_to_wait_for_others_or_for_the_one_that_stands_for_them() -> None:
    world = World(())
    train = Group("annotation", "train", "", 3, "cluster")

    def why(name: str) -> str:
        row = place_view(world.core, world.ledger, "default", name)
        assert row is not None
        return str(row["why"])

    world.come(pod("p0"), pod("p1"), group=train)
    assert why("p0") == "incomplete pod group train: 2 of min 3 pods are here"
    world.come(pod("p2"), group=train)
    assert why("p0") == "number 1 of 1: priority 0"
    assert why("p1") == "pod p0 stands in the queue for its group train"
    items = world.core.queue.pop_class(1.0, 1)
    world.core.queue.unschedulable_all(items, frozenset(), 1.0)
    assert "p0 stands in the queue for its group train: waits for something that may help it" in why("p1")


def test_one_that_was_refused_is_said_to_wait_for_what_would_help_it() -> None:
    world = World()
    world.come(pod("p").namespace("red"))
    items = world.core.queue.pop_class(1.0, 1)
    world.core.queue.unschedulable_all(items, frozenset(), 1.0)
    row = place_view(world.core, world.ledger, "red", "p")
    assert row is not None
    assert row["place"] is None
    assert row["why"] == "waits for something that may help it, after 1 attempt in vain: no node is known"
    assert queue_counts(world.core)["unschedulable"] == 1
