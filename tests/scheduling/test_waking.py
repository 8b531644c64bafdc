"""Many pods that wait for one event: woken part by part, none forgotten, others decided in between."""

import itertools

import pytest

from dispatcher.plugins.priority_sort import PrioritySort
from dispatcher.scheduling import events, retried, waking
from dispatcher.scheduling import queue as queue_module
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue
from dispatcher.scheduling.queued import AT_A_TIME, Cause, NoPlugins, State
from shared.model.reasons import Reason, Reasons
from shared.model.wake_events import WakeEvent
from tests.builders import node, pod
from tests.scheduling.one_cluster import OneCluster
from tests.scheduling.refused_pods import FULL, own_class, popped, refused

ENDED, ADDED = WakeEvent.POD_REMOVED, WakeEvent.NODE_ADDED
AT_ONCE, A_TURN = 4, 2  # pods in these tests


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """That many pods, each of its own class and the first two of their kind."""
    monkeypatch.setattr(waking, "AT_ONCE", 1 + 3 * AT_ONCE)
    monkeypatch.setattr(waking, "A_TURN", 3 * A_TURN)


class Hints(NoPlugins):
    """An event helps the pod alone that it names, if it names one."""

    def __init__(self) -> None:
        self.asked = 0

    def worth(self, event: ClusterEvent, pod_info: PodInfo, reasons: frozenset[Reason]) -> bool:
        self.asked += 1
        return event.after is None or event.after == pod_info.pod.name


def waiting(pods: int, gates: NoPlugins | None = None, *, alike: bool = False) -> SchedulingQueue:
    """So many pods that were refused at second 0, each of a class of its own unless they are `alike`."""
    found = {("a", f"p{number}"): f"p{number}" for number in range(pods)}
    return refused(found, (lambda pod_info: "one") if alike else own_class, gates)


def names(items: list[QueuedPod]) -> list[str]:
    return [item.pod_info.pod.name for item in items]


def numbered(*numbers: int) -> list[str]:
    return [f"p{number}" for number in numbers]


@pytest.mark.parametrize("alike", [False, True])
def test_an_event_wakes_so_many_at_once_and_each_turn_some_of_the_others(alike: bool) -> None:
    queue, numbers = waiting(200, alike=alike), []
    queue.wake(ENDED, 60)
    while queue.waking.is_left:
        numbers.append(queue.counts()["active"])
        queue.wake_rest(60)
    assert queue.counts()["active"] == 200
    most = 3 * AT_ONCE if not alike else AT_A_TIME
    assert all(after - before <= most for before, after in itertools.pairwise([0, *numbers]))


def popped_now(queue: SchedulingQueue, now: float) -> list[QueuedPod]:
    """Those that are active."""
    return [item for _ in range(queue.counts()["active"]) if (item := queue.pop(now)) is not None]


def test_the_rest_is_woken_in_the_order_in_which_they_were_refused_with_pods_that_come_in_between() -> None:
    queue = waiting(10)
    queue.wake(ENDED, 60)
    assert names(popped_now(queue, 60)) == numbered(0, 1, 2, 3)
    queue.add(("a", "new"), pod("new").placed(), 60)
    queue.wake_rest(60)
    assert names(popped_now(queue, 60)) == [*numbered(4, 5), "new"]
    queue.wake_rest(60)
    assert names(popped_now(queue, 60)) == numbered(6, 7)


def test_who_only_pops_finds_all() -> None:
    queue = waiting(10)
    queue.wake(ENDED, 60)
    assert names(popped(queue, 60)) == numbered(*range(10))
    assert not queue.waking.is_left


def test_a_second_event_is_for_those_that_were_refused_after_the_first_too() -> None:
    queue = waiting(10)
    queue.wake(ENDED, 60)
    refused = popped_now(queue, 60)
    for item in refused:
        queue.unschedulable(item, FULL, 60)
    queue.wake(ENDED, 61)
    assert not queue.counts()["active"], "they come after those who have waited for longer"
    assert names(popped(queue, 80)) == numbered(4, 5, 6, 7, 8, 9, 0, 1, 2, 3)


def test_pods_that_are_gone_or_others_now_are_not_woken() -> None:
    queue = waiting(10)
    queue.wake(ENDED, 60)
    queue.remove(("a", "p5"))
    changed = queue.add(("a", "p8"), pod("p8").labels(app="other").placed(), 60)
    assert [queue.pop(60) for _ in range(5)][-1] is changed
    queue.unschedulable(changed, frozenset((Reasons.GATED,)), 60)
    assert names(popped(queue, 60)) == numbered(4, 6, 7, 9)
    assert queue.counts()["unschedulable"] == 1


def test_nor_are_such_pods_of_a_class_of_which_some_were_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "AT_A_TIME", 1)
    queue = waiting(10, alike=True)
    queue.wake(ENDED, 60)
    assert names(popped_now(queue, 60)) == numbered(0, 1, 2, 3)
    queue.remove(("a", "p5"))
    assert names(popped(queue, 60)) == numbered(4, 6, 7, 8, 9)
    assert set(queue.counts().values()) == {0}


def test_nobody_is_woken_by_an_event_that_helps_another() -> None:
    hints = Hints()
    queue = waiting(10, hints)
    for number in (7, 9):
        queue.wake(ClusterEvent(ENDED, "a", None, f"p{number}"), 60)
    assert hints.asked <= 1 + 3 * AT_ONCE, "what is asked in vain is bounded, too"
    assert names(popped_now(queue, 60)) == numbered(7)
    assert names(popped(queue, 60) or popped(queue, 60)) == numbered(9)
    assert queue.counts()["unschedulable"] == 8


def test_of_very_many_events_the_last_become_one_that_helps_whom_either_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "MOST_EVENTS", 3)
    queue = waiting(10, Hints())
    for number, kind in ((8, ENDED), (1, ENDED), (2, ENDED), (3, ADDED), (4, ADDED)):
        queue.wake(ClusterEvent(kind, "a", None, f"p{number}"), 60)
        queue.waking._left = 0
    assert len(queue.waking._events) == 3
    found = {name for _ in range(40) for name in names(popped(queue, 60))}
    assert found >= set(numbered(1, 2, 3, 4))
    assert queue.incoming[State.ACTIVE, Cause.SEVERAL] > 0


def test_other_policies_have_all_tried_and_nothing_is_left_of_events() -> None:
    queue = waiting(10)
    queue.wake(ENDED, 60)
    queue.take_policies(PrioritySort(), own_class, 60)
    assert queue.counts()["active"] == 10
    assert not queue.waking.is_left


def test_an_event_for_which_nobody_waits_leaves_nothing() -> None:
    queue = waiting(10)
    queue.wake(ENDED, 60)
    for _ in range(100):
        queue.wake(WakeEvent.BUDGET, 60)
    assert len(queue.waking._events) == 1


def test_what_has_waited_for_very_long_is_tried_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "_FLUSHED", 4)
    queue, found = waiting(10), []
    for _ in range(3):
        queue.flush(400)
        found.append(queue.counts()["active"])
    assert found == [4, 8, 10]


def test_back_offs_that_end_together_are_seen_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retried, "_ENDED", 4)
    monkeypatch.setattr(waking, "AT_ONCE", 100)
    queue = waiting(10)
    queue.wake(ENDED, 0.5)
    assert queue.counts()["backoff"] == 10
    queue.flush(2)
    assert queue.counts()["active"] == 4
    assert names(popped(queue, 2)) == numbered(*range(10))


def test_decisions_go_on_with_it_though_nothing_else_happens() -> None:
    world = OneCluster()
    world.report(full=True)
    world.submit(*(pod(f"p{number}").cpu(2 + number).build() for number in range(10)))
    world.tick()
    assert world.core.queue.counts()["unschedulable"] == 10
    world.now += 60
    world.report(nodes=(node("n").cpu(100).build(),))
    found = [world.core.waking]
    assert world.core.queue.counts()["active"] == AT_ONCE
    for _ in range(6):
        world.tick()
    assert [*found, world.core.waking] == [True, False]
    assert all(one.node == "n" for one in world.pods.values())


def test_decisions_go_on_with_it_though_pods_come_all_the_time() -> None:
    world = OneCluster()
    world.report(full=True, nodes=(node("small").cpu(1).build(),))
    world.submit(*(pod(f"p{number}").cpu(2 + number).build() for number in range(10)))
    world.tick()
    world.now += 60
    world.report(nodes=(node("n").cpu(100).build(),))
    for number in range(10):
        world.submit(pod(f"new{number}-0").cpu("1m").build(), pod(f"new{number}-1").cpu("1m").build())
        world.core.handle(events.Decide(1), world.now)
        world.now += 1
    assert world.core.queue.counts()["unschedulable"] == 0
    assert world.core.queue.counts()["active"] > 0
