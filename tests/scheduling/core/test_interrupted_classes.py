"""A class whose pods are decided one by one is left off at the end of a slice, and gone on with in the next."""

import pytest

from dispatcher.scheduling import events
from tests.builders import PodBuilder, node, pod
from tests.scheduling.one_cluster import OneCluster

PODS, NODES = 30, 12
SLOW = {
    "a host port": lambda one: one.port(80),
    "no room": lambda one: one.cpu(64),
    "plain": lambda one: one,
}


def world(*pods: PodBuilder) -> OneCluster:
    found = OneCluster()
    found.report(full=True, nodes=tuple(node(f"n{at:02}").cpu(8).build() for at in range(NODES)))
    found.submit(*(one.build() for one in pods))
    return found


def decide(world: OneCluster, asked_before: int | None) -> int:
    """A slice that ends when it has been asked so often; how many pods are decided in it."""
    asked = 0

    def enough() -> bool:
        nonlocal asked
        asked += 1
        return asked_before is not None and asked >= asked_before

    before = world.core.queue.counts()["active"]
    world.take(world.core.handle(events.Decide(100, enough), world.now))
    return before - world.core.queue.counts()["active"]


@pytest.mark.parametrize("kind", SLOW)
def test_in_slices_pods_get_what_they_get_at_once_and_in_the_same_order(kind: str) -> None:
    pods = [SLOW[kind](pod(f"p{at:02}").cpu("100m")) for at in range(PODS)]
    at_once, sliced = world(*pods), world(*pods)
    decide(at_once, None)
    while sliced.core.queue.counts()["active"]:
        assert decide(sliced, 2) > 0
    assert {name: one.node for name, one in sliced.pods.items()} == {
        name: one.node for name, one in at_once.pods.items()
    }
    assert sliced.core.queue.counts() == at_once.core.queue.counts()


def test_a_slice_ends_within_a_class_that_is_decided_one_by_one() -> None:
    sliced = world(*(pod(f"p{at:02}").port(80) for at in range(NODES)))
    decided = decide(sliced, 3)
    assert 0 < decided < NODES
    assert [name for name, one in sliced.pods.items() if one.node] == [f"p{at:02}" for at in range(decided)]


def test_a_pod_that_comes_meanwhile_waits_for_no_more_than_its_turn() -> None:
    """Those that were left off are where they were; a more important pod goes first."""
    sliced = world(*(pod(f"p{at:02}").port(80) for at in range(NODES)))
    decide(sliced, 2)
    sliced.submit(pod("vip").cpu(1).priority(9).build())
    decide(sliced, 1)
    assert sliced.pods["vip"].node
