"""What is held of a pod that is bound and runs: little, and once."""

from collections.abc import Callable

import msgspec
import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import Answered, ClusterChanged, Effect, SendIntents, Tick
from shared.messages import BOUND, AnyIntent, Changes, Outcome, decode, encode
from shared.model.names import SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import RUNNING, Claim, Pod
from tests.laws.cores import make_core

NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 20})
WEB = Pod("u1", "default", "web", {"app": "web"}, requests={"cpu": 500}, scheduler_name=SCHEDULER_NAME)
POD_ID = ("east", "u1")


class World:
    """A core and one cluster."""

    def __init__(self) -> None:
        self.core: SchedulerCore = make_core(("east",))
        self.revision, self.now, self.ordered = 0, 1.0, list[AnyIntent]()

    def show(self, pod: Pod, node: Node = NODE) -> None:
        """A report with the pod as it is now, as it comes over the wire."""
        full, since = not self.revision, self.revision
        self.revision += 1
        changes = Changes("east", "uid", "life", since, self.revision, full=full, nodes=(node,), pods=(pod,))
        self._take(self.core.handle(ClusterChanged(decode(Changes, encode(changes))), self.now))

    def tick(self, seconds: float = 1.0) -> None:
        """Time passes; what is ordered is done."""
        self.now += seconds
        self._take(self.core.handle(Tick(), self.now))

    def _take(self, effects: list[Effect]) -> None:
        sent = [intent for one in effects if isinstance(one, SendIntents) for intent in one.intents]
        self.ordered += sent
        if sent:
            done = tuple(Outcome(one.id, one.pod.uid, one.epoch, BOUND) for one in sent)
            self._take(self.core.handle(Answered("east", done), self.now))

    def at_rest(self) -> bool:
        """Whether of all pods the source alone is kept."""
        return not self.core.tracked.active


@pytest.fixture
def world() -> World:
    return World()


def running(pod: Pod = WEB, **more: object) -> Pod:
    return msgspec.structs.replace(pod, **{"node": "n1", "phase": RUNNING, "ready": True} | more)


def test_of_a_pod_that_is_found_bound_the_source_alone_is_kept(world: World) -> None:
    world.show(running())
    assert world.at_rest()
    found = world.core.tracked.peek(POD_ID)
    assert found == Tracked(POD_ID, world.core.clusters["east"].pods["u1"])


def test_of_a_pod_that_was_decided_the_source_alone_is_kept_once_it_runs(world: World) -> None:
    world.show(WEB)
    world.tick()
    assert not world.at_rest()
    world.show(msgspec.structs.replace(WEB, node="n1"))
    world.show(running())
    assert world.at_rest()
    world.tick(60.0)
    assert world.at_rest()


def test_what_a_pod_was_told_while_it_waited_is_not_kept_once_it_is_bound(world: World) -> None:
    world.show(WEB, msgspec.structs.replace(NODE, unschedulable=True))
    world.tick()
    assert [one.reported != "" for one in world.core.tracked.active.values()] == [True]
    world.show(WEB)
    world.tick(60.0)
    world.show(running())
    world.tick(60.0)  # as nothing more was reported of it
    assert world.at_rest()


@pytest.mark.parametrize("shown", [running(terminating=True), running(ready=False), running(labels={"app": "other"})])
def test_a_pod_at_rest_changes_as_any_other(world: World, shown: Pod) -> None:
    world.show(running())
    world.show(shown)
    assert [one.source for one in world.core.tracked.values()] == [shown]
    world.core.handle(ClusterChanged(Changes("east", "uid", "life", 2, 3, pods_gone=("u1",))), world.now)
    assert (len(world.core.tracked), world.core.fleet.occupant(POD_ID)) == (0, None)


def test_a_decided_pod_is_held_in_its_latest_version_alone(world: World) -> None:
    world.show(WEB)
    world.tick()
    world.show(running())
    (latest,) = world.core.clusters["east"].pods.values()
    occupant = world.core.fleet.occupant(POD_ID)
    (scheduler,) = world.core._state.profiles
    assert occupant is not None
    assert occupant.pod_info.pod is latest
    assert scheduler._reserved[POD_ID].pod_info.pod is latest


def test_all_that_name_a_pod_hold_one_text_of_its_uid(world: World) -> None:
    for one in (running(), running(ready=False), running()):
        world.show(one)
    view = world.core.clusters["east"].pods
    ((uid, latest),) = view.items()
    occupant = world.core.fleet.occupant(POD_ID)
    assert occupant is not None
    assert latest.uid is uid is occupant.pod_id[1]


AWAY = Claim("west", "w1", 7)
MORE: dict[str, Callable[[Tracked], object]] = {
    "it was decided in this life": lambda one: setattr(one, "decided", 3),
    "it is queued": lambda one: setattr(one, "queued", True),
    "it is to be looked at later": lambda one: setattr(one, "alarm_at", 9.0),
    "its user was told something": lambda one: setattr(one, "reported", "waits"),
    "it is not bound": lambda one: one.see_source(WEB),
    "it is for another cluster": lambda one: one.see_source(running(claim=AWAY, node=proxy_node_name("west"))),
    "it has a delegate": lambda one: one.see_delegate("west", running()),
    "its source is gone": lambda one: one.see_source(None),
}


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_a_pod_of_which_more_is_known_is_not_at_rest(more: Callable[[Tracked], object]) -> None:
    pods = TrackedPods()
    pods[POD_ID] = tracked = Tracked(POD_ID, running())
    more(tracked)
    pods.compact(tracked)
    assert pods.active == {POD_ID: tracked}
    assert pods[POD_ID] is tracked


def test_what_is_got_of_a_pod_at_rest_is_kept_and_what_is_found_is_not() -> None:
    pods = TrackedPods()
    pods[POD_ID] = Tracked(POD_ID, running())
    pods.compact(pods[POD_ID])
    found = pods.peek(POD_ID)
    assert found == Tracked(POD_ID, running())
    assert not pods.active
    assert pods.get(POD_ID) is pods[POD_ID]
    assert pods.active == {POD_ID: found}


def test_all_pods_are_listed_at_rest_or_not() -> None:
    pods, other = TrackedPods(), ("west", "u2")
    pods[POD_ID], pods[other] = Tracked(POD_ID, running()), Tracked(other)
    pods.compact(pods[POD_ID])
    assert list(pods) == [other, POD_ID]
    assert list(pods.values()) == [Tracked(other), Tracked(POD_ID, running())]
    assert list(pods.sources()) == [(POD_ID, running())]
    assert (len(pods), POD_ID in pods, ("north", "u1") in pods, pods.get(("north", "u1"))) == (2, True, False, None)
    pods.drop(other)
    pods.drop(("north", "u1"))
    assert list(pods) == [POD_ID]
