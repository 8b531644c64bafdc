"""Pods that wait for others to come (WakeEvent.POD_ADDED) are told of each that comes into the queue."""

from collections.abc import Hashable
from dataclasses import replace

import msgspec

from dispatcher.scheduling.framework import Codes, Filter, FleetView, PodInfo, Refuse, Rows, refuse
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.lifecycle import PreEnqueue
from shared.messages import Bind
from shared.model.reasons import Reason, Reasons
from shared.model.wake_events import NEVER, WakeEvent
from tests.scheduling.points_world import Keyed, World, of

ALONE = Reason("alone", "one of a pair alone", remedy="-", helped_by=WakeEvent.POD_ADDED)
UNHELPED = replace(ALONE, helped_by=NEVER)


class Pair(Keyed, PreEnqueue):
    """No pod is let in before two have come."""

    name = "Pair"
    REASONS = (ALONE,)

    def __init__(self, least: int = 2) -> None:
        self.least = least
        self.asked: list[str] = []
        self.told: list[ClusterEvent] = []

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        self.asked.append(pod_info.pod.name)
        return None if len(set(self.asked)) >= self.least else refuse(self.REASONS[0])

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        self.told.append(event)
        return True


def test_the_first_is_let_in_when_the_second_has_come() -> None:
    world = World(Pair())
    world.submit("one")
    assert (world.tick(), world.state_of("one")) == ([], "gated")
    world.submit("two")
    assert len(of(Bind, world.tick())) == 2


def test_a_hint_is_handed_the_pod_that_came() -> None:
    pair = Pair(least=3)
    world = World(pair)
    world.submit("one")
    world.tick()
    two = world.submit("two")
    world.tick()
    assert pair.told[-1:] == [ClusterEvent(WakeEvent.POD_ADDED, "east", None, two)]


def test_pods_that_come_together_are_let_in_together() -> None:
    world = World(Pair(least=3))
    pods = [world.submit("zero")]
    world.tick()
    world.report(*[msgspec.structs.replace(pods[0], uid=f"uid-{name}", name=name) for name in ("one", "two")])
    assert len(of(Bind, world.tick())) == 3


class Deaf(Pair):
    """The same, but no event helps."""

    REASONS = (UNHELPED,)


def test_nobody_is_woken_by_its_own_coming() -> None:
    asked = list[list[str]]()
    for plugin in (Pair(least=3), Deaf(least=3)):
        world = World(plugin)
        world.submit("one")
        world.tick()
        asked.append(plugin.asked.copy())
        plugin.asked.clear()
        world.submit("two")
        world.tick()
        asked.append(plugin.asked.copy())
    assert asked[0] == asked[2]
    assert asked[1] == [*asked[3], "one"]


def test_a_pod_that_waits_and_changes_is_no_newcomer() -> None:
    pair = Pair(least=3)
    world = World(pair)
    one, _ = world.submit("one"), world.submit("two")
    world.tick()
    pair.asked.clear()
    world.report(msgspec.structs.replace(one, labels={"x": "y"}))
    world.tick()
    assert set(pair.asked) == {"one"}


def test_who_waits_for_others_is_let_in_by_plugins_that_were_reloaded() -> None:
    world = World(Pair(least=3))
    world.submit("one")
    world.submit("two")
    world.tick()
    world.take(Pair(least=2))
    assert len(of(Bind, world.tick())) == 2


class Closed(Keyed, Filter):
    """Takes no pod, and does not say what may help."""

    name = "Closed"

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        return fleet.reasons.code(Reasons.POLICY, self.name) + 0 * fleet.nodes.taint_set[rows].astype("uint16")


def test_who_does_not_say_so_waits_for_no_newcomers() -> None:
    world = World(Closed())
    world.submit("one")
    world.tick()
    assert world.state_of("one") == "unschedulable"
    world.submit("two")
    world.tick(20.0)
    one = world.core.queue.get(("east", "uid-one"))
    assert one is not None
    assert one.attempts == 1
