"""Node groups in the core: what a pod's own cluster is told, and when a pod that waits for a node evicts others."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from dispatcher.scheduling.core import CoreTiming
from dispatcher.scheduling.events import ClusterChanged, Effect, OperatorWarning, SendIntents, Tick
from shared.messages import Changes, Evict, ReportUnschedulable
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.node_group import NodeGroup, NodeGroups
from shared.model.pod import Pod
from tests.laws.cores import make_core

SIZE = {"cpu": 4000, "pods": 20}
LARGE = NodeGroup("large", 0, 10, Node("", ready=True, allocatable={"cpu": 16_000, "pods": 20}))


def a_pod(name: str, cpu: int, **more: Any) -> Pod:
    return Pod(f"uid-{name}", "default", name, requests={"cpu": cpu}, scheduler_name=SCHEDULER_NAME, **more)


class World:
    """East has a node of 4 CPU, full with a pod of low priority."""

    def __init__(self, *waiting: Pod, groups: NodeGroups | None = None, wait_s: float = 0.0) -> None:
        self.core = make_core(("east",), timing=CoreTiming(node_wait_s=wait_s))
        self.now, self.revision = 0.0, 0
        self.told, self.evicted, self.warned = list[ReportUnschedulable](), list[tuple[float, str]](), list[str]()
        low = a_pod("low", 4000, node="n1", phase="Running")
        self.report(nodes=(Node("n1", ready=True, allocatable=SIZE),), pods=(low, *waiting), node_groups=groups)
        self.run(3.0)

    def report(self, **what: Any) -> None:
        since, self.revision = self.revision, self.revision + 1
        changes = Changes("east", "east-uid", "life", since, since + 1, full=not since, **what)
        self.take(self.core.handle(ClusterChanged(changes), self.now))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 1.0
            self.take(self.core.handle(Tick(), self.now))

    def take(self, effects: Sequence[Effect]) -> None:
        self.warned += [one.text for one in effects if isinstance(one, OperatorWarning)]
        for intent in (one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents):
            if isinstance(intent, ReportUnschedulable):
                self.told.append(intent)
            elif isinstance(intent, Evict):
                self.evicted.append((self.now, intent.pod.name))


HUGE = a_pod("huge", 64_000)
HUGE_NODE = Node("", ready=True, allocatable={"cpu": 96_000, "pods": 20})


@pytest.mark.parametrize(
    ("groups", "helps"),
    [
        pytest.param(None, True, id="of which nothing is known"),
        pytest.param(NodeGroups((LARGE,)), True, id="that may not be all"),
        pytest.param(NodeGroups((LARGE,), all=True), False, id="that are all"),
    ],
)
def test_new_nodes_are_said_to_help_no_pod_that_is_larger_than_those_of_all_groups(
    groups: NodeGroups | None, helps: bool
) -> None:
    (told,) = World(HUGE, groups=groups).told
    assert told.nodes_help is helps


def test_a_group_that_comes_is_told_to_pods_that_wait_already() -> None:
    world = World(HUGE, groups=NodeGroups((LARGE,), all=True))
    larger = NodeGroup("huge", 0, 1, HUGE_NODE)
    world.report(node_groups=NodeGroups((LARGE, larger), all=True))
    world.run(30.0)
    first, *_, last = world.told
    assert (first.nodes_help, last.nodes_help) == (False, True)
    assert "node group huge, 0 of at most 1 nodes" in last.message


def test_a_report_without_news_of_groups_leaves_them_and_a_full_one_without_any_takes_them_away() -> None:
    world = World(groups=NodeGroups((LARGE,)))
    world.report()
    assert world.core.fleet.groups.of("east").groups == (LARGE,)
    world.core.handle(ClusterChanged(Changes("east", "east-uid", "another", 0, 1, full=True)), world.now)
    assert not world.core.fleet.groups


def test_a_pod_evicts_others_when_the_node_that_it_waited_for_has_had_its_time() -> None:
    world = World(a_pod("high", 4000, priority=9), groups=NodeGroups((LARGE,)), wait_s=120.0)
    world.run(100.0)
    assert not world.evicted
    world.run(30.0)
    ((at, name),) = set(world.evicted)
    assert name == "low"
    assert at >= 120.0


def test_all_pods_of_a_class_wait_no_longer_than_the_first() -> None:
    highs = [a_pod(f"high{at}", 2000, priority=9) for at in range(2)]
    world = World(*highs, groups=NodeGroups((LARGE,)), wait_s=120.0)
    world.run(130.0)
    assert {name for _, name in world.evicted} == {"low"}


def test_a_pod_that_waits_evicts_others_at_once_where_its_group_backs_off() -> None:
    world = World(a_pod("high", 4000, priority=9), groups=NodeGroups((LARGE,)), wait_s=120.0)
    off = NodeGroup(LARGE.name, 0, 10, LARGE.template, backs_off=True)
    world.report(node_groups=NodeGroups((off,)))
    world.run(20.0)
    assert {name for _, name in world.evicted} == {"low"}


def test_a_pod_that_waits_takes_room_that_is_there_at_once() -> None:
    world = World(a_pod("high", 4000, priority=9), groups=NodeGroups((LARGE,)), wait_s=120.0)
    world.report(nodes=(Node("n2", ready=True, allocatable=SIZE),))
    world.run(3.0)
    occupant = world.core.fleet.occupant(("east", "uid-high"))
    assert occupant is not None
    assert occupant.node == "n2"


def test_groups_that_are_told_in_more_bytes_than_are_kept_count_for_nothing_and_the_operator_hears() -> None:
    labels = {f"key-{at}": "x" * 60 for at in range(1000)}
    groups = [NodeGroup(f"g{at}", 0, 1, Node("", labels=labels)) for at in range(32)]
    world = World(groups=NodeGroups(tuple(groups)))
    assert not world.core.fleet.groups
    assert any("node groups" in text for text in world.warned)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -5.0, 1e308])
def test_numbers_that_no_autoscaler_has_are_told_to_nobody(seconds: float) -> None:
    groups = NodeGroups((NodeGroup("large", -5, 10, HUGE_NODE, seconds=seconds),))
    (told,) = World(HUGE, groups=groups, wait_s=30.0).told
    assert "node group large, 0 of at most 10 nodes" in told.message
    assert len(told.message) < 300


def test_a_cluster_writes_nothing_into_conditions_of_pods_by_the_name_of_a_group() -> None:
    forged = NodeGroup("ok\nEvents: <none>\x1b[2J", 0, 10, HUGE_NODE)
    world = World(HUGE, groups=NodeGroups((LARGE, forged), all=True))
    assert world.core.fleet.groups.of("east") == NodeGroups((LARGE,), all=False)
    (told,) = world.told
    assert "Events" not in told.message


def test_of_groups_of_one_name_there_is_one() -> None:
    groups = World(groups=NodeGroups((LARGE,) * 64, all=True)).core.fleet.groups
    assert groups.of("east") == NodeGroups((LARGE,), all=False)
