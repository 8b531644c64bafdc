"""Pods that failed before: when they come back, and that others do not wait for all of them."""

import pytest

from dispatcher.plugins.priority_sort import PrioritySort
from dispatcher.scheduling.queue import SchedulingQueue, WakeEvent
from dispatcher.scheduling.retried import RETRIED
from tests.builders import PodBuilder, pod
from tests.scheduling import refused_pods
from tests.scheduling.refused_pods import FULL, popped
from tests.scheduling.sharing import FakeShares, SharedQueue, by_app


def refused(count: int) -> SchedulingQueue:
    """So many pods, each of a class of its own, that were refused at second 0."""
    return refused_pods.refused({("c", f"u{at:05}"): f"p{at}" for at in range(count)})


def test_only_some_are_active_at_a_time_and_all_are_tried() -> None:
    queue = refused(3 * RETRIED)
    queue.wake(WakeEvent.POD_REMOVED, 10.0)
    assert queue.counts()["active"] == RETRIED
    assert queue.counts()["backoff"] == 2 * RETRIED
    assert len(popped(queue, 10.0)) == 3 * RETRIED


def test_a_pod_that_comes_is_decided_after_a_turn_of_those_that_come_back_again_and_again() -> None:
    queue, now = refused(10 * RETRIED), 10.0
    queue.wake(WakeEvent.POD_REMOVED, now)
    queue.add(("c", "new"), pod("new").placed(), now + 0.5)
    while (item := queue.pop(now)) is not None and item.pod_id[1] != "new":
        queue.unschedulable(item, FULL, now)
        now += 0.002
    assert item is not None, "no pod is left out"
    assert now < 11.0 + 0.002 * (RETRIED + 2), "those that come back from second 11 on are behind it"


def shared(*others: PodBuilder) -> SharedQueue:
    """So many pods of tenant red that not all may be tried at a time, and these; refused at second 0, woken at 10."""
    queue = SharedQueue(FakeShares())
    queue.come(*(pod(f"red-{at}").labels(app=f"{at}", tenant="red") for at in range(2 * RETRIED)))
    queue.come(*others)
    for item in popped(queue, 0.0):
        queue.unschedulable(item, FULL, 0.0)
    queue.wake(WakeEvent.POD_REMOVED, 10.0)
    return queue


@pytest.mark.parametrize(("tenant", "priority"), [("red", 7), ("blue", 0), ("", 0)])
def test_pods_of_another_priority_or_tenant_do_not_wait_for_those_that_are_tried(tenant: str, priority: int) -> None:
    other = pod("other").labels(app="other", tenant=tenant).priority(priority)
    queue = shared(other)
    assert queue.state_of(("a", "uid-other")) == "active"
    assert queue.counts()["active"] == RETRIED + 1


def test_where_tenants_share_no_more_all_are_tried_nevertheless() -> None:
    queue = shared(pod("other").labels(app="other", tenant="blue"))
    queue.take_policies(PrioritySort(), by_app, 10.0)
    assert queue.counts()["active"] == RETRIED
    assert len(popped(queue, 10.0)) == 2 * RETRIED + 1


def test_of_pods_that_come_back_together_the_oldest_is_tried_first() -> None:
    queue = refused(5)
    queue.wake(WakeEvent.POD_REMOVED, 10.0)
    assert [item.pod_id[1] for item in popped(queue, 10.0)] == [f"u{at:05}" for at in range(5)]


def test_pods_that_leave_or_change_while_they_are_tried_make_room_for_others() -> None:
    queue = refused(2 * RETRIED)
    queue.wake(WakeEvent.POD_REMOVED, 10.0)
    for at in range(RETRIED):
        queue.remove(("c", f"u{at:05}"))
    assert len(popped(queue, 10.0)) == RETRIED
    assert set(queue.counts().values()) == {0}
    queue.add(("c", "last"), pod("last").placed(), 11.0)
    assert [item.pod_id[1] for item in popped(queue, 11.0)] == ["last"]
