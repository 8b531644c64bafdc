"""Pods that wait for room: how many of them are tried when there is some."""

import msgspec
import pytest

from dispatcher.scheduling.framework import PodInfo
from shared.model.pod import CLAIM, Pod, Volume
from tests.builders import node, pod
from tests.scheduling.one_cluster import OneCluster


class World(OneCluster):
    """One node of four CPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.report(full=True, nodes=(node("n1").cpu(4).memory("64Gi").pods(500).build(),))

    def end(self, name: str) -> None:
        self.report(pods_gone=(self.pods.pop(name).uid,))

    def refusals(self) -> int:
        return sum(count for (what, _), count in self.core.counters.items() if what == "unschedulable")

    def bound(self) -> int:
        return sum(1 for one in self.pods.values() if one.node)


def replica(number: int, owner: str = "ReplicaSet/web/uid", priority: int = 0) -> Pod:
    return pod(f"p{number:03}").cpu(1).priority(priority).set(owner=owner).build()


def full(*waiting: Pod) -> World:
    """Four pods fill the node, and these have been refused since."""
    world = World()
    world.submit(*(replica(900 + number, "ReplicaSet/first/uid") for number in range(4)))
    world.tick()
    world.submit(*waiting)
    world.tick()
    assert (world.bound(), world.refusals()) == (4, len(waiting))
    world.tick(60.0)
    return world


def test_of_many_replicas_two_more_are_tried_when_the_first_has_taken_the_room_of_a_pod_that_ended() -> None:
    world = full(*(replica(number) for number in range(100)))
    world.end("p900")
    world.tick()
    assert world.bound() == 4
    assert world.refusals() == 100 + 2


def test_of_each_template_one_is_tried() -> None:
    world = full(*(replica(number, f"ReplicaSet/web-{number % 10}/uid") for number in range(100)))
    world.end("p900")
    world.tick()
    assert world.refusals() == 100 + 9 + 2


def test_all_of_them_have_a_place_as_soon_as_there_is_room_for_all() -> None:
    world = full(*(replica(number) for number in range(100)))
    world.report(nodes=(node("n2").cpu(400).memory("64Gi").pods(500).build(),))
    world.tick()
    assert world.bound() == 104
    assert world.refusals() == 100


def test_a_pod_that_is_less_important_and_of_another_template_does_not_stand_for_others() -> None:
    world = full(*(replica(number, priority=number % 2 - 1) for number in range(20)))
    world.end("p900")
    world.tick()
    assert world.bound() == 4
    assert {name for name, one in world.pods.items() if one.node and name < "p900"} < {
        f"p{n:03}" for n in range(1, 20, 2)
    }


def test_pods_of_templates_of_their_own_are_all_tried() -> None:
    world = full(*(pod(f"p{number:03}").cpu(1).labels(own=str(number)).build() for number in range(20)))
    world.report(nodes=(node("n2").cpu(4).memory("64Gi").pods(500).build(),))
    world.tick()
    assert world.bound() == 4 + 4
    assert world.refusals() == 20 + 16


@pytest.mark.parametrize(
    ("one", "alike"),
    [
        (replica(1), True),
        (msgspec.structs.replace(replica(1), volumes=(Volume(CLAIM, "its-own"),)), False),
    ],
)
def test_what_refuses_a_pod_says_nothing_of_others_if_it_has_volumes(one: Pod, alike: bool) -> None:
    assert World().core.profiles.refused_alike(PodInfo(one, "a")) is alike
