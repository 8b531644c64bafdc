"""The queue: its order, its back-off, and which event wakes whom."""

import itertools
from collections.abc import Hashable
from typing import Any

import pytest

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue, WakeEvent
from dispatcher.scheduling.queued import AT_A_TIME, ActivePods, Cause, NoPlugins, State
from shared.model.reasons import Reason, Reasons, Why
from tests.builders import PodBuilder, pod
from tests.scheduling.tiny_plugins import ByPriority


def by_app(pod_info: PodInfo) -> Hashable:
    return pod_info.pod.labels.get("app")


def a_queue() -> SchedulingQueue:
    return SchedulingQueue(ByPriority(), by_app)


def add(queue: SchedulingQueue, one: PodBuilder, now: float = 0.0) -> tuple[str, str]:
    placed = one.placed()
    pod_id = ("a", placed.pod.uid)
    queue.add(pod_id, placed, now)
    return pod_id


def popped(queue: SchedulingQueue, now: float = 0.0) -> QueuedPod:
    item = queue.pop(now)
    assert item is not None
    return item


def names(items: list[QueuedPod]) -> list[str]:
    return [item.pod_info.pod.name for item in items]


def test_priority_goes_first_then_age_then_the_pods_id() -> None:
    queue = a_queue()
    add(queue, pod("late"), now=2)
    add(queue, pod("b"), now=1)
    add(queue, pod("a"), now=1)
    add(queue, pod("urgent").priority(5), now=3)
    assert [popped(queue, 3).pod_info.pod.name for _ in range(4)] == ["urgent", "a", "b", "late"]
    assert queue.pop(3) is None


def test_a_class_is_popped_as_far_as_it_goes_in_order() -> None:
    queue = a_queue()
    for index, app in enumerate("uuvu"):
        add(queue, pod(f"p{index}").labels(app=app), now=index)
    assert names(queue.pop_class(9, 10)) == ["p0", "p1"]
    assert names(queue.pop_class(9, 10)) == ["p2"]
    assert names(queue.pop_class(9, 10)) == ["p3"]
    assert queue.pop_class(9, 10) == []


def test_a_class_is_popped_up_to_the_limit() -> None:
    queue = a_queue()
    for index in range(5):
        add(queue, pod(f"p{index}"))
    assert names(queue.pop_class(0, 3)) == ["p0", "p1", "p2"]


def test_a_removed_pod_is_not_popped() -> None:
    queue = a_queue()
    queue.remove(add(queue, pod("p")))
    assert queue.pop(0) is None
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0, "waiting": 0}


def test_a_gated_pod_is_parked_until_its_gates_go() -> None:
    queue = a_queue()
    pod_id = add(queue, pod("p").gated())
    queue.wake(WakeEvent.NODE_ADDED, 0)
    assert (queue.state_of(pod_id), queue.pop(0)) == ("gated", None)
    add(queue, pod("p"))
    assert popped(queue).pod_id == pod_id


def test_back_off_starts_at_one_second_and_doubles_to_ten() -> None:
    queue, now, waits = a_queue(), 0.0, []
    add(queue, pod("p"))
    for _ in range(6):
        item = popped(queue, now)
        queue.retry(item, now)
        assert queue.pop(item.ready_at - 0.001) is None
        waits.append(item.ready_at - now)
        now = item.ready_at
    assert waits == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize(
    ("reason", "event", "wakes"),
    [
        (Reasons.INSUFFICIENT, WakeEvent.POD_REMOVED, True),
        (Reasons.INSUFFICIENT, WakeEvent.READINGS, False),
        (Reasons.INSUFFICIENT, WakeEvent.QUOTA_FREED, False),
        (Reasons.AFFINITY, WakeEvent.POD_REMOVED, False),
        (Reasons.AFFINITY, WakeEvent.NODE_CHANGED, True),
        (Reasons.QUOTA, WakeEvent.QUOTA_FREED, True),
        (Reasons.QUOTA, WakeEvent.POD_REMOVED, False),
        (Reasons.CLUSTER_NOT_READY, WakeEvent.CLUSTER_CHANGED, True),
        (Reasons.SPREAD, WakeEvent.POD_PLACED, True),
        (Reasons.INVALID, WakeEvent.NODE_ADDED, False),
    ],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_an_event_wakes_those_it_may_help(reason: Reason, event: WakeEvent, wakes: bool) -> None:
    queue = a_queue()
    pod_id = add(queue, pod("p"))
    queue.unschedulable(popped(queue), frozenset((reason,)), 0)
    queue.wake(event, 5)
    assert queue.state_of(pod_id) == ("active" if wakes else "unschedulable")


def test_a_woken_pod_sits_out_its_back_off() -> None:
    queue = a_queue()
    pod_id = add(queue, pod("p"))
    queue.unschedulable(popped(queue), frozenset((Reasons.INSUFFICIENT,)), 0)
    queue.wake(WakeEvent.NODE_ADDED, 0.5)
    assert queue.state_of(pod_id) == "backoff"
    assert popped(queue, 1.0).pod_id == pod_id


def test_what_nothing_woke_is_tried_again_after_five_minutes() -> None:
    queue = a_queue()
    pod_id = add(queue, pod("p"))
    queue.unschedulable(popped(queue), frozenset((Reasons.AFFINITY,)), 0)
    queue.flush(299)
    assert queue.state_of(pod_id) == "unschedulable"
    queue.flush(300)
    assert queue.state_of(pod_id) == "active"


def test_an_unchanged_pod_keeps_its_place_and_a_changed_one_is_tried_again() -> None:
    queue = a_queue()
    pod_id = add(queue, pod("p"))
    queue.unschedulable(popped(queue), frozenset((Reasons.AFFINITY,)), 0)
    add(queue, pod("p"), now=5)
    assert queue.state_of(pod_id) == "unschedulable"
    add(queue, pod("p").labels(app="v"), now=5)
    item = popped(queue, 5)
    assert (item.class_key, item.queued_at, item.attempts) == ("v", 0, 1)


def test_a_sort_plugin_that_raises_puts_its_pod_last_and_stops_nobody() -> None:
    class Broken(ByPriority):
        def sort_key(self, pod_info: PodInfo, queued_at: float) -> tuple[Any, ...]:
            if pod_info.pod.name == "bad":
                raise ZeroDivisionError
            return super().sort_key(pod_info, queued_at)

    queue = SchedulingQueue(Broken(), by_app)
    for name in ("bad", "good"):
        add(queue, pod(name))
    assert [popped(queue).pod_info.pod.name for _ in range(2)] == ["good", "bad"]


def test_a_pod_that_changes_for_ever_does_not_fill_the_queue() -> None:
    queue = a_queue()
    for turn in range(1000):
        add(queue, pod("p").labels(turn=str(turn)))
    assert isinstance(queue._active, ActivePods)
    assert len(queue._active.entries) < 100
    assert popped(queue).pod_info.pod.labels == {"turn": "999"}


def test_a_pod_that_changes_for_ever_does_not_fill_the_group_in_which_another_waits() -> None:
    queue = a_queue()
    stays = queue.get(add(queue, pod("stays")))
    for turn in range(1000):
        add(queue, pod("p").labels(turn=str(turn)))
    assert stays is not None
    assert stays.group is not None
    assert len(stays.group._entries) < 100
    assert names(queue.pop_class(0, 9)) == ["p", "stays"]


class OnlyOfCluster(NoPlugins):
    """Hints: an event helps pods that are labelled with its cluster."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def gate(self, pod_info: PodInfo) -> Why | None:
        return Why(Reasons.GATED, "x") if pod_info.pod.labels.get("gate") else None

    def worth(self, event: ClusterEvent, pod_info: PodInfo, reasons: frozenset[Reason]) -> bool:
        self.asked.append(pod_info.pod.name)
        return pod_info.pod.labels["app"] == event.cluster


def test_a_hint_is_asked_once_a_class_and_wakes_only_whom_it_helps() -> None:
    gates = OnlyOfCluster()
    queue = SchedulingQueue(ByPriority(), by_app, gates=gates)
    ids = [add(queue, pod(f"p{number}").labels(app=app)) for number, app in enumerate("uuuv")]
    for _ in ids:
        queue.unschedulable(popped(queue), frozenset((Reasons.AFFINITY,)), 0)
    queue.wake(ClusterEvent(WakeEvent.NODE_CHANGED, "u"), 5)
    assert [queue.state_of(pod_id) for pod_id in ids] == ["active", "active", "active", "unschedulable"]
    assert gates.asked == ["p0", "p3"]


def test_pods_that_are_refused_together_wait_as_if_refused_one_by_one() -> None:
    """Woken, flushed and counted alike, and decided in the same order."""
    told = []
    for together in (True, False):
        queue = a_queue()
        ids = [add(queue, pod(f"p{number}").labels(app="u").priority(number % 3)) for number in range(9)]
        items = queue.pop_class(0, 9)
        for some in [items] if together else [[one] for one in items]:
            queue.unschedulable_all(some, frozenset((Reasons.AFFINITY,)), 0)
        states = [[queue.state_of(pod_id) for pod_id in ids]]
        queue.wake(WakeEvent.NODE_CHANGED, 0.5)
        states.append([queue.state_of(pod_id) for pod_id in ids])
        items = queue.pop_class(2, 9)
        queue.unschedulable_all(items, frozenset((Reasons.AFFINITY,)), 2)
        queue.flush(400)
        told.append((states, queue.counts(), names(queue.pop_class(400, 9))))
    assert told[0] == told[1]
    assert set(told[0][0][0]) == {"unschedulable"}
    assert set(told[0][0][1]) == {"backoff"}


def test_a_pod_that_is_activated_waits_for_its_back_off_alone() -> None:
    queue = a_queue()
    pod_id = add(queue, pod("p"))
    queue.unschedulable(popped(queue), frozenset((Reasons.AFFINITY,)), 0)
    queue.activate(pod_id, 0.5)
    assert queue.state_of(pod_id) == "backoff"


def test_a_pod_that_has_its_place_is_held_whatever_happens() -> None:
    queue = a_queue()
    pod_id = add(queue, pod("p"))
    queue.hold(popped(queue), "waiting for somebody")
    queue.wake(~WakeEvent(0), 5)
    queue.flush(1000)
    add(queue, pod("p").labels(app="new"), now=5)
    assert (queue.state_of(pod_id), queue.pop(1000)) == ("waiting", None)
    item = queue.get(pod_id)
    assert item is not None
    assert item.note == "waiting for somebody"


def test_entries_of_pods_that_went_away_are_not_kept_until_the_flush() -> None:
    queue = a_queue()
    add(queue, pod("p"))
    for turn in range(1000):
        queue.unschedulable(popped(queue, turn * 20), frozenset((Reasons.AFFINITY,)), turn * 20)
        queue.wake(WakeEvent.NODE_ADDED, turn * 20 + 15)
    assert len(queue._unflushed) < 100


def test_pods_that_quota_refused_are_tried_though_those_before_them_are_deleted() -> None:
    queue = a_queue()
    ids = [add(queue, pod(f"p{number:03}")) for number in range(3 * AT_A_TIME)]
    queue.unschedulable_all(queue.pop_class(0, len(ids)), frozenset((Reasons.QUOTA,)), 0)
    queue.wake(WakeEvent.QUOTA_FREED, 60)
    assert queue.counts()["active"] == 1
    queue.remove(ids[0])
    assert queue.counts()["active"] == 0
    queue.flush(61)
    assert [item.pod_id for item in queue.pop_class(61, len(ids))] == ids[1:3]
    queue.flush(62)
    assert queue.counts()["active"] == 0


def test_pods_that_quota_refused_are_tried_though_those_before_them_are_of_another_class_now() -> None:
    queue = a_queue()
    ids = [add(queue, pod(f"p{number:03}")) for number in range(2 * AT_A_TIME)]
    queue.unschedulable_all(queue.pop_class(0, len(ids)), frozenset((Reasons.QUOTA,)), 0)
    queue.wake(WakeEvent.QUOTA_FREED, 60)
    while queue.counts()["unschedulable"]:
        batches = list(iter(lambda: queue.pop_class(60, len(ids)), []))
        for item in itertools.chain(*batches):
            queue.anew(item, pod(item.pod_info.pod.name).labels(app="x").placed(), 60)
        assert batches
        queue.flush(61)
    assert queue.counts()["active"] == 2 * AT_A_TIME


def test_parked_pods_are_counted_by_what_they_were_refused_for() -> None:
    queue = a_queue()
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        add(queue, pod(name).labels(app=app))

    def counted() -> list[tuple[frozenset[Reason], int]]:
        return [(first.reasons, count) for first, count in queue.parked()]

    quota, both = frozenset((Reasons.QUOTA,)), frozenset((Reasons.QUOTA, Reasons.TAINT))
    queue.unschedulable_all(queue.pop_class(0, 9), quota, 0)
    queue.unschedulable_all(queue.pop_class(0, 9), both, 0)
    assert counted() == [(quota, 2), (both, 1)]
    queue.remove(("a", pod("c").placed().pod.uid))
    assert counted() == [(quota, 2)]


def test_pods_are_counted_as_they_come_into_a_queue_by_the_event_that_did_it() -> None:
    queue, now = a_queue(), 0.0
    first = add(queue, pod("first").labels(app="x"))
    add(queue, pod("gated").gated())
    queue.unschedulable_all(queue.pop_class(now, 9), frozenset((Reasons.AFFINITY,)), now)
    add(queue, pod("first").labels(app="y"), now)  # changed, but its back-off runs on
    queue.flush(2.0)
    item = popped(queue, 2.0)
    assert item.pod_id == first
    queue.unschedulable(item, frozenset((Reasons.AFFINITY,)), 2.0)
    queue.wake(WakeEvent.NODE_ADDED, 9.0)
    queue.unschedulable(popped(queue, 9.0), frozenset((Reasons.AFFINITY,)), 9.0)
    queue.activate(first, 99.0)
    queue.retry(popped(queue, 99.0), 99.0)
    assert {(state.value, str(cause)): count for (state, cause), count in queue.incoming.items()} == {
        ("active", "UnschedulablePodAdd"): 1,
        ("gated", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 3,
        ("backoff", "UnschedulablePodUpdate"): 1,
        ("active", "BackoffComplete"): 1,
        ("active", "NODE_ADDED"): 1,
        ("active", "ForceActivate"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
    }


def test_the_queue_counts_what_kube_scheduler_calls_a_timeout_and_a_wait_for_permit() -> None:
    queue = a_queue()
    add(queue, pod("p"))
    queue.unschedulable(popped(queue), frozenset((Reasons.AFFINITY,)), 0.0)
    queue.flush(1_000.0)
    queue.hold(popped(queue, 1_000.0), "by a plugin")
    assert queue.incoming[State.ACTIVE, Cause.FLUSHED] == 1
    assert queue.incoming[State.WAITING, Cause.HELD] == 1
