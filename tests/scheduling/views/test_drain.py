"""Where pods would go that run in a cluster for others, if that took none any more."""

from typing import Any

import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterChanged
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.views import drain_rows, whole
from dispatcher.scheduling.views.drain_rows import drain_view
from shared.messages import Changes
from shared.model.names import SCHEDULER_NAME, STAY
from shared.model.node import Node
from shared.model.pod import Claim, Needs, Pod, SourceRef
from tests.laws.cores import make_core


def node(name: str, cpu: int) -> Node:
    return Node(name, ready=True, allocatable={"cpu": cpu, "memory": 2**40, "pods": 500})


def source(name: str, owner: str, cpu: int, **more: Any) -> Pod:
    place = {"node": "global-dispatcher-west", "claim": Claim("west", "w1", 1), "has_finalizer": True, **more}
    place = {"needs": Needs(), **place}
    fields = {"requests": {"cpu": cpu}, "scheduler_name": SCHEDULER_NAME, "owner": owner, **place}
    return Pod(f"uid-{name}", "default", name, **fields)


def copy_of(one: Pod) -> Pod:
    of = SourceRef("east", "east-uid", "default", one.name, one.uid, 1)
    return Pod(f"d-{one.name}", "default", f"{one.name}-copy", requests=one.requests, node="w1", source=of)


def fleet(*sources: Pod) -> SchedulerCore:
    """East, whose pods run in west, and north: with room for 1 CPU each beside them."""
    core = make_core(("east", "north", "west"))
    copies = tuple(copy_of(one) for one in sources if one.claim is not None)
    for cluster, nodes, pods in (
        ("east", (node("e1", 1000),), sources),
        ("north", (node("n1", 1000),), ()),
        ("west", (node("w1", 100_000),), copies),
    ):
        told = Changes(cluster, f"{cluster}-uid", "life", 0, 1, full=True, nodes=nodes, pods=pods)
        core.handle(ClusterChanged(told), 1.0)
    return core


def test_each_controller_has_a_row_with_where_its_first_pod_would_go() -> None:
    core = fleet(
        source("big-0", "ReplicaSet/big/u1", 2000),
        source("big-1", "ReplicaSet/big/u1", 2000),
        source("small", "", 100),
        source("home", "", 100, node="e1", claim=None, has_finalizer=False),
    )
    big, small = whole(drain_view(core, "west"))
    told = {"source": "east", "namespace": "default", "name": "big-0", "pods": 2}
    assert big == {**told, "to": None, "waiting": 2, "unknown": ""}
    assert (small["name"], small["pods"], small["waiting"]) == ("small", 1, 0)
    assert small["to"] in ("east/e1", "north/n1")
    assert whole(drain_view(core, "north")) == whole(drain_view(core, "east")) == []


def test_pods_of_a_controller_go_together() -> None:
    """Two of 500m find room on the CPU that north has, and on that of east: four of five, but only one of 900m each."""
    halves = (source(f"half-{at}", "ReplicaSet/half/u1", 500) for at in range(5))
    larger = (source(f"large-{at}", "ReplicaSet/large/u2", 900) for at in range(3))
    half, large = whole(drain_view(fleet(*halves, *larger), "west"))
    assert (half["pods"], half["waiting"]) == (5, 1)
    assert (large["pods"], large["waiting"]) == (3, 1)
    assert {half["to"], large["to"]} <= {"east/e1", "north/n1"}


def test_of_a_large_controller_it_is_said_that_not_all_were_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_rows, "MOST_TOGETHER", 2)
    halves = [source(f"half-{at}", "ReplicaSet/half/u1", 500) for at in range(3)]
    (row,) = whole(drain_view(fleet(*halves), "west"))
    assert (row["pods"], row["waiting"], row["unknown"][:11]) == (3, 0, "the first 2")
    large = [source(f"large-{at}", "ReplicaSet/large/u2", 2000) for at in range(3)]
    (row,) = whole(drain_view(fleet(*large), "west"))
    assert (row["pods"], row["waiting"], row["unknown"]) == (3, 3, "")


@pytest.mark.parametrize(("priority", "to"), [(10, "north/n1"), (0, None)])
def test_room_that_is_promised_to_a_less_important_pod_is_free_for_one_that_goes(priority: int, to: str | None) -> None:
    core = fleet(source("one", "", 1000, priority=priority), source("full", "", 1000, node="e1", claim=None))
    promised = PodInfo(source("low", "", 1000, priority=1), "east")
    core.profiles.nominations.put(Nominee(("east", "uid-low"), promised, "north", "n1"))
    (row,) = whole(drain_view(core, "west"))
    assert row["to"] == to


def test_a_pod_that_cannot_cross_has_no_place_but_at_home() -> None:
    bound = Needs("spec.hostNetwork is not let in by other clusters")
    full = source("full", "", 1000, node="e1", claim=None)
    (row,) = whole(drain_view(fleet(source("one", "", 100, needs=bound), full), "west"))
    assert (row["to"], row["unknown"]) == (None, "")
    (row,) = whole(drain_view(fleet(source("one", "", 100, needs=bound)), "west"))
    assert row["to"] == "east/e1"


def test_where_a_pod_would_go_is_not_known_if_its_agent_does_not_tell_what_it_needs() -> None:
    untold = source("one", "", 100, needs=None)
    stays = source("two", "", 100, needs=None, annotations={STAY: "true"})
    one, two = whole(drain_view(fleet(untold, stays), "west"))
    assert (one["to"], "older version" in one["unknown"]) == (None, True)
    assert (two["to"], two["unknown"]) == ("east/e1", "")


def test_pods_of_a_cluster_that_leaves_go_home_alone() -> None:
    core = fleet(source("big", "", 2000), source("small", "", 100))
    assert whole(drain_view(core, "east")) == []
    big, small = whole(drain_view(core, "east", leave=True))
    assert [(row["source"], row["name"], row["to"]) for row in (big, small)] == [
        ("east", "big", None),
        ("east", "small", "east/e1"),
    ]
    assert core.fleet.closed == {}


def test_asking_books_nothing_and_leaves_the_pods_where_they_are() -> None:
    core = fleet(source("one", "", 100))
    before = core.fleet.occupant(("east", "uid-one"))
    assert whole(drain_view(core, "west")) == whole(drain_view(core, "west"))
    assert core.fleet.occupant(("east", "uid-one")) == before
