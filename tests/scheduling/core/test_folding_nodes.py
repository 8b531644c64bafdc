"""Nodes of a report enter the fleet together, so many at a time, and each in its turn among those that go or change."""

from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.core.reports import _NODES_A_POD
from dispatcher.scheduling.events import ClusterChanged, FoldOn
from dispatcher.scheduling.fleet.fleet import FleetState
from shared.messages import Changes
from shared.model.names import FENCED, proxy_node_name
from shared.model.node import Node
from shared.model.wake_events import WakeEvent
from tests.laws.cores import make_core

AT_ONCE = 2  # pods
MOST = AT_ONCE * _NODES_A_POD
Put = list[list[str]]


def node(name: str, **more: Any) -> Node:
    return Node(name, f"uid-{name}", ready=True, allocatable={"cpu": 4000, "pods": 50}, **more)


def nodes(count: int, **more: Any) -> tuple[Node, ...]:
    return tuple(node(f"n{at}", **more) for at in range(count))


def proxy(cluster: str, **more: Any) -> Node:
    return Node(proxy_node_name(cluster), f"uid-{cluster}", ready=True, proxy_for=cluster, **more)


def tell(core: SchedulerCore, told: Sequence[Node], gone: Sequence[str] = (), *, full: bool = False) -> None:
    """What the agent of west reports next."""
    since = 0 if full else core.clusters["west"].revision
    changes = Changes("west", "west-uid", "life", since, since + 1, full, nodes=tuple(told), nodes_gone=tuple(gone))
    core.handle(ClusterChanged(changes), 1.0)


def known(*told: Node) -> SchedulerCore:
    """A dispatcher of two clusters that knows these nodes of west."""
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=AT_ONCE))
    tell(core, told, full=True)
    while core.folding:
        core.handle(FoldOn("west"), 1.0)
    return core


@pytest.fixture
def put() -> Iterator[Put]:
    """What has entered the fleet since: names that came together; one that went alone is told as `-name`."""
    found: Put = []
    put_nodes, remove = FleetState.put_nodes, FleetState.remove_node

    def put_noted(fleet: FleetState, cluster: str, told: Sequence[Node]) -> None:
        found.append([one.name for one in told])
        put_nodes(fleet, cluster, told)

    def remove_noted(fleet: FleetState, cluster: str, name: str) -> Any:
        found.append([f"-{name}"])
        return remove(fleet, cluster, name)

    with patch.object(FleetState, "put_nodes", put_noted), patch.object(FleetState, "remove_node", remove_noted):
        yield found


def test_new_nodes_enter_together_so_many_at_a_time_each_once(put: Put) -> None:
    told = nodes(2 * MOST + 3)
    core = known(*told)
    names = [one.name for one in told]
    assert put == [names[:MOST], names[MOST : 2 * MOST], names[2 * MOST :]]
    assert set(core.clusters["west"].nodes) == set(names)


def test_changed_nodes_enter_together_too(put: Put) -> None:
    core = known(*nodes(6))
    put.clear()
    tell(core, nodes(5, unschedulable=True))
    assert put == [["n0", "n1", "n2", "n3", "n4"]]


def test_what_goes_and_proxy_nodes_have_their_turn_among_those_that_enter_together(put: Put) -> None:
    core = known(*nodes(3))
    put.clear()
    before, after = node("a"), node("b")
    tell(core, (before, proxy("east", unschedulable=True), after), gone=("n1",))
    assert put == [["-n1"], ["a"], ["b"]]


def test_between_two_parts_as_many_nodes_enter_as_take_as_long_as_a_part_of_pods(put: Put) -> None:
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=AT_ONCE))
    tell(core, nodes(5 * MOST), full=True)
    entered = []
    while core.folding:
        entered.append(sum(map(len, put)))
        core.handle(FoldOn("west"), 1.0)
    assert entered[:5] == [MOST, 2 * MOST, 3 * MOST, 4 * MOST, 5 * MOST]


def test_a_node_that_goes_takes_as_long_as_a_pod() -> None:
    core = known(*nodes(10 * AT_ONCE))
    changes = Changes("west", "west-uid", "another life", 0, 1, full=True)
    core.clusters["west"].silent = True
    core.handle(ClusterChanged(changes), 2.0)
    left = []
    while core.folding:
        left.append(len(core.clusters["west"].nodes))
        core.handle(FoldOn("west"), 2.0)
    assert left[:9] == [AT_ONCE * parts for parts in range(9, 0, -1)]


@pytest.mark.parametrize("mark", [{"unschedulable": True}, {"labels": {FENCED: "true"}}], ids=["closed", "fenced"])
def test_a_proxy_node_that_becomes_a_real_one_says_nothing_of_another_cluster_any_more(mark: dict[str, Any]) -> None:
    core = known(node("n0"), proxy("east", **mark))
    name = proxy_node_name("east")
    with patch.object(FleetState, "set_closed", autospec=True) as closed:
        tell(core, (node(name, **mark),))
    assert [call.kwargs for call in closed.call_args_list] == [{"closed": False}]
    assert core.clusters["west"].fenced == frozenset()
    assert core.clusters["west"].nodes[name].proxy_for == ""


@pytest.mark.parametrize(
    ("before", "after", "kind", "was"),
    [
        (None, node("n1"), WakeEvent.NODE_ADDED, None),
        (node("n1"), node("n1", unschedulable=True), WakeEvent.NODE_CHANGED, node("n1")),
        (proxy("east"), node(proxy_node_name("east")), WakeEvent.NODE_CHANGED, None),
        (node("n1"), None, WakeEvent.NODE_REMOVED, node("n1")),
    ],
    ids=["one came", "one changed", "one was a proxy node", "one went"],
)
def test_who_waits_is_told_what_became_of_a_node(
    before: Node | None, after: Node | None, kind: WakeEvent, was: Node | None
) -> None:
    core = known(node("n0"), *([before] if before else []))
    queue = core._state.queue
    with patch.object(queue, "listens", return_value=True), patch.object(queue, "wake") as wake:
        tell(core, [after] if after else [], gone=[] if after else ["n1"])
    events = [call.args[0] for call in wake.call_args_list]
    assert [(one.kind, one.cluster, one.before, one.after) for one in events] == [(kind, "west", was, after)]
