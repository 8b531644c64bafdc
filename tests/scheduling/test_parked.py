"""Pods that are refused alike: how many of them an event has tried, and who waits for whom."""

import itertools
from collections.abc import Hashable

import pytest

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.queue import SchedulingQueue, WakeEvent
from dispatcher.scheduling.queued import AT_A_TIME, NoPlugins, QueuedPod, RefusedTogether
from shared.model.reasons import Reason, Reasons, Why
from tests.builders import pod
from tests.scheduling.tiny_plugins import ByPriority

FULL, TAINTED = frozenset((Reasons.INSUFFICIENT,)), frozenset((Reasons.TAINT,))
QUOTA = frozenset((Reasons.QUOTA,))
ROOM = WakeEvent.POD_REMOVED | WakeEvent.NODE_ADDED
CLASSES = {app: (app,) for app in "uvw"}  # the very same object for all pods of a class


def by_app(pod_info: PodInfo) -> Hashable:
    return CLASSES[pod_info.pod.labels["app"]]


class Alike(NoPlugins):
    """All pods of a class are refused alike; those in `held` may not enter."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.by_class = True

    def gate(self, pod_info: PodInfo) -> Why | None:
        return Why(Reasons.GATED, "held") if pod_info.pod.name in self.held else None

    def refused_alike(self, pod_info: PodInfo) -> bool:
        return self.by_class

    def quota_alike(self, pod_info: PodInfo) -> bool:
        return self.by_class


def full(pods: int, app: str = "u", gates: Alike | None = None) -> SchedulingQueue:
    """A queue in which so many pods wait for room."""
    queue = SchedulingQueue(ByPriority(), by_app, gates=gates or Alike())
    for number in range(pods):
        queue.add(("a", f"p{number:04}"), pod(f"p{number:04}").labels(app=app).placed(), 0)
    refuse(queue, 0)
    return queue


def tried(queue: SchedulingQueue, now: float) -> list[QueuedPod]:
    """All pods that are to be decided now."""
    return list(itertools.chain(*iter(lambda: queue.pop_class(now, 10_000), [])))


def refuse(queue: SchedulingQueue, now: float, reasons: frozenset[Reason] = FULL) -> list[str]:
    """All of them are; their names."""
    if items := tried(queue, now):
        queue.unschedulable_all(items, reasons, now)
    return names(items)


def place(queue: SchedulingQueue, now: float) -> list[str]:
    """All of them find a place; their names."""
    items = tried(queue, now)
    queue.go_on(items, now)
    return names(items)


def names(items: list[QueuedPod]) -> list[str]:
    return [item.pod_info.pod.name for item in items]


def test_an_event_tries_the_first_of_those_that_are_refused_alike() -> None:
    queue = full(1000)
    queue.wake(ROOM, 60)
    assert refuse(queue, 60) == ["p0000"]
    assert queue.counts()["unschedulable"] == 1000


def test_the_next_event_tries_the_one_that_was_tried_longest_ago() -> None:
    queue = full(3)
    seen = []
    for now in (60, 120, 180, 240):
        queue.wake(ROOM, now)
        seen += refuse(queue, now)
    assert seen == ["p0000", "p0001", "p0002", "p0000"]


def test_twice_as_many_are_tried_each_time_that_those_before_had_room() -> None:
    queue = full(200)
    queue.wake(ROOM, 60)
    sizes = []
    while some := place(queue, 60):
        sizes.append(len(some))
    assert sizes == [1, 2, 4, 8, 16, 32, AT_A_TIME, AT_A_TIME, 9]
    assert set(queue.counts().values()) == {0}


def test_the_rest_is_left_alone_once_there_is_no_more_room() -> None:
    queue = full(200)
    queue.wake(ROOM, 60)
    assert [len(place(queue, 60)) for _ in range(3)] == [1, 2, 4]
    assert len(refuse(queue, 60)) == 8
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 193, "gated": 0, "waiting": 0}


def test_events_while_the_first_is_tried_try_no_others() -> None:
    queue = full(200)
    for _ in range(5):
        queue.wake(ROOM, 60)
    assert queue.counts()["active"] == 1


def test_events_while_several_are_tried_try_no_others() -> None:
    queue = full(200)
    queue.wake(ROOM, 60)
    assert [len(place(queue, 60)) for _ in range(4)] == [1, 2, 4, 8]
    for _ in range(5):
        queue.wake(ROOM, 60)
    assert queue.counts()["active"] == 16


def waiting_while_one_backs_off(pods: int) -> SchedulingQueue:
    """Of so many pods the first is to be tried at 1: until then no event looks at their line."""
    queue = full(pods)
    for _ in range(2):
        queue.wake(ROOM, 0.5)
    assert queue.counts()["backoff"] == 1
    return queue


def test_pods_that_are_refused_while_one_is_tried_for_all_stand_in_line_with_the_others() -> None:
    queue = waiting_while_one_backs_off(3)
    for name in ("q", "r"):
        queue.add(("a", name), pod(name).labels(app="u").placed(), 0.6)
    assert refuse(queue, 0.6) == ["q", "r"]
    for now in (1, 2):
        queue.wake(ROOM, now)
        assert len(refuse(queue, now)) == 1
    seen = list[str]()
    for now in (20, 40, 60, 80):
        queue.wake(ROOM, now)
        while some := place(queue, now):
            seen += some
    assert sorted(seen) == ["p0000", "p0001", "p0002", "q", "r"]


def test_pods_that_wait_while_one_is_tried_for_them_are_counted() -> None:
    queue = waiting_while_one_backs_off(3)
    assert [(first.reasons, count) for first, count in queue.parked()] == [(FULL, 2)]


def test_a_line_whose_first_is_refused_again_and_again_is_tried_less_often() -> None:
    queue, now, times = full(1000), 60.0, list[float]()
    while len(times) < 7:
        queue.wake(ROOM, now)
        if refuse(queue, now):
            times.append(now)
        now += 0.5
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [1, 2, 4, 8, 10, 10]


def test_a_line_that_found_room_is_tried_at_once_again() -> None:
    queue = full(1000)
    for now in (60, 70, 80):
        queue.wake(ROOM, now)
        refuse(queue, now)
    queue.wake(ROOM, 90)
    place(queue, 90)
    refuse(queue, 90)
    queue.wake(ROOM, 91)
    assert len(tried(queue, 91)) == 1


def test_other_classes_wait_in_lines_of_their_own() -> None:
    queue = full(5, "u")
    for number in range(5):
        queue.add(("b", f"q{number}"), pod(f"q{number}").labels(app="v").placed(), 0)
    refuse(queue, 0)
    queue.wake(ROOM, 60)
    assert queue.counts()["active"] == 2


def test_pods_of_equal_keys_that_are_not_the_very_same_may_be_of_two_templates() -> None:
    queue = SchedulingQueue(ByPriority(), lambda pod_info: (pod_info.pod.labels["app"],), gates=Alike())
    for number in range(5):
        queue.add(("a", f"p{number}"), pod(f"p{number}").labels(app="u").placed(), 0)
    refuse(queue, 0)
    queue.wake(ROOM, 60)
    assert queue.counts()["active"] == 5


def test_those_whose_refusal_says_nothing_of_others_are_all_tried() -> None:
    queue = full(0)
    for number in range(5):
        queue.add(("a", f"p{number}"), pod(f"p{number}").labels(app="u").placed(), 0)
    for item in tried(queue, 0):
        queue.unschedulable(item, FULL, 0)
    queue.wake(ROOM, 60)
    assert queue.counts()["active"] == 5


def test_one_that_is_promised_room_is_tried_with_each_event_though_others_of_its_class_were_before_it() -> None:
    queue = full(9)
    queue.add(("a", "promised"), pod("promised").labels(app="u").placed(), 0)
    queue.unschedulable_all(tried(queue, 0), FULL, 0, alone=True)
    for now in (60, 120):
        queue.wake(ROOM, now)
        items = {item.pod_info.pod.name: item for item in tried(queue, now)}
        assert len(items) == 2
        queue.unschedulable_all([items.pop("promised")], FULL, now, alone=True)
        queue.unschedulable_all(list(items.values()), FULL, now)


@pytest.mark.parametrize(
    "what", ["removed", "changed", "gated", "gated anew", "refused for something else", "refused alone"]
)
def test_the_others_are_tried_though_the_first_does_not_tell_whether_there_is_room(what: str) -> None:
    gates = Alike()
    queue = full(10, gates=gates)
    if what == "gated":
        gates.held.add("p0000")
    queue.wake(ROOM, 60)
    first = ("a", "p0000")
    if what == "removed":
        queue.remove(first)
    elif what == "changed":
        queue.add(first, pod("p0000").labels(app="v").placed(), 60)
    elif what == "gated anew":
        (item,) = tried(queue, 60)
        gates.held.add("p0000")
        queue.anew(item, item.pod_info, 60)
    elif what == "refused for something else":
        refuse(queue, 60, TAINTED)
    elif what == "refused alone":
        queue.unschedulable_all(tried(queue, 60), FULL, 60, alone=True)
    queue.flush(61)
    assert set(names(tried(queue, 61))) - {"p0000"} == {"p0001", "p0002"}


def test_who_is_tried_in_place_of_a_first_that_is_gone_is_tried_alone() -> None:
    queue = full(10)
    queue.wake(ROOM, 60)
    queue.remove(("a", "p0000"))
    queue.wake(ROOM, 60)
    queue.flush(61)
    assert names(tried(queue, 61)) == ["p0001"]


def test_the_first_goes_on_for_the_others_after_a_failure_of_its_own() -> None:
    queue = full(10)
    queue.wake(ROOM, 60)
    (first,) = tried(queue, 60)
    queue.retry(first, 60)
    queue.wake(ROOM, 61)
    assert queue.counts()["backoff"] == 1
    assert place(queue, 80) == ["p0000"]
    assert len(tried(queue, 80)) == 2


def test_all_are_tried_when_they_have_waited_for_long() -> None:
    queue = full(100)
    queue.flush(299)
    assert queue.counts()["active"] == 0
    queue.flush(300)
    assert queue.counts()["active"] == 100


def test_all_are_tried_under_other_policies() -> None:
    queue = full(100)
    queue.wake(ROOM, 0.5)
    queue.take_policies(ByPriority(), by_app, 60)
    assert queue.counts()["active"] == 100
    refuse(queue, 60)
    queue.wake(ROOM, 120)
    assert queue.counts()["active"] == 1


def test_events_while_all_lines_are_tried_look_at_none(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, is_tried = list[RefusedTogether](), RefusedTogether.is_tried

    def look(line: RefusedTogether) -> bool:
        looked.append(line)
        return is_tried(line)

    monkeypatch.setattr(RefusedTogether, "is_tried", look)
    queue = SchedulingQueue(ByPriority(), by_app, gates=Alike())
    for app, number in itertools.product("uvw", range(3)):
        queue.add(("a", f"{app}{number}"), pod(f"{app}{number}").labels(app=app).placed(), 0)
    refuse(queue, 0)
    for _ in range(2):
        queue.wake(ROOM, 60)
    looked.clear()
    queue.wake(ROOM, 60)
    assert looked == []
    assert len(refuse(queue, 60)) == 3
    queue.wake(ROOM, 120)
    assert len(tried(queue, 120)) == 3, "the next of each"


def test_who_waits_for_quota_waits_for_no_pod_of_lower_priority() -> None:
    queue = SchedulingQueue(ByPriority(), by_app)
    for at in (0, 1, 7):
        queue.add(("a", "low"), pod("low").labels(app="u").placed(), at)
        queue.wake(WakeEvent.QUOTA_FREED, at)
        refuse(queue, at, QUOTA)
    queue.wake(WakeEvent.QUOTA_FREED, 7)
    assert queue.counts()["backoff"] == 1, "low, until 7.1"
    queue.add(("a", "high"), pod("high").labels(app="u").priority(9).placed(), 7)
    refuse(queue, 7, QUOTA)
    queue.wake(WakeEvent.QUOTA_FREED, 7.05)
    assert names(tried(queue, 7.05)) == []
    queue.wake(WakeEvent.QUOTA_FREED, 7.1)
    assert names(tried(queue, 7.1)) == ["high", "low"]


def test_all_that_wait_for_quota_are_tried_at_the_same_time_whenever_they_were_refused() -> None:
    queue = SchedulingQueue(ByPriority(), by_app)
    for app, at in (("u", 7), ("v", 7), ("w", 7.05)):
        queue.add(("a", app), pod(app).labels(app=app).placed(), at)
        refuse(queue, at, QUOTA)
    queue.wake(WakeEvent.QUOTA_FREED, 7.06)
    assert names(tried(queue, 7.06)) == []
    assert refuse(queue, 7.1, QUOTA) == ["u", "v", "w"]
    queue.wake(WakeEvent.QUOTA_FREED, 60)
    (first,) = queue.pop_class(60, 1)
    queue.unschedulable_all([first], QUOTA, 60)
    assert names(tried(queue, 60.01)) == ["v", "w"], "which are tried already"


@pytest.mark.parametrize("together", [False, True], ids=["alone", "with others"])
def test_a_new_pod_waits_with_those_like_it_that_wait_for_quota(together: bool) -> None:
    queue = SchedulingQueue(ByPriority(), by_app)
    queue.add(("a", "old"), pod("old").labels(app="u").placed(), 0)
    refuse(queue, 7, QUOTA)
    new = [(("a", app), pod(app).labels(app=app).placed()) for app in "uv"]
    if together:
        queue.add_all(new, 7.05)
    else:
        for pod_id, pod_info in new:
            queue.add(pod_id, pod_info, 7.05)
    assert names(tried(queue, 7.05)) == ["v"], "none like it was refused"
    queue.wake(WakeEvent.QUOTA_FREED, 7.06)
    assert names(tried(queue, 7.1)) == ["old", "u"]
    queue.add(("a", "late"), pod("late").labels(app="u").placed(), 7.2)
    assert names(tried(queue, 7.2)) == ["late"]


def test_a_new_pod_does_not_wait_with_pods_of_its_class_that_wait_for_quota_of_another_tenant() -> None:
    class ByNamespace(Alike):
        def kind_of(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> Hashable:
            return pod_info.pod.namespace, reasons

    queue = SchedulingQueue(ByPriority(), by_app, gates=ByNamespace())
    queue.add(("a", "old"), pod("old").labels(app="u").placed(), 0)
    refuse(queue, 7, QUOTA)
    queue.add(("a", "new"), pod("new").namespace("theirs").labels(app="u").placed(), 7.05)
    assert names(tried(queue, 7.05)) == ["new"]


@pytest.mark.parametrize(("lines", "pause_s"), [(1, 0.1), (100, 0.4), (900, 3.6)])
def test_the_more_are_refused_for_quota_the_later_all_are_tried_again_whatever_their_attempts(
    lines: int, pause_s: float
) -> None:
    queue = SchedulingQueue(ByPriority(), lambda pod_info: pod_info.pod.name)
    ids = [("a", f"p{number}") for number in range(lines)]
    for pod_id in ids:
        queue.add(pod_id, pod(pod_id[1]).placed(), 0)
    for now in (0, 60, 120):
        queue.wake(WakeEvent.QUOTA_FREED, now)
        while batch := queue.pop_class(now, 9):
            queue.unschedulable_all(batch, QUOTA, now)
    ready_at = {item.ready_at for pod_id in ids if (item := queue.get(pod_id)) is not None}
    assert sorted(ready_at) == pytest.approx([now + pause_s], abs=0.01)


def test_quota_that_is_asked_of_each_pod_says_nothing_of_others() -> None:
    gates = Alike()
    gates.by_class = False
    queue = SchedulingQueue(ByPriority(), by_app, gates=gates)
    for number in range(9):
        queue.add(("a", f"p{number}"), pod(f"p{number}").labels(app="u").placed(), 0)
    refuse(queue, 0, QUOTA)
    queue.wake(WakeEvent.QUOTA_FREED, 60)
    assert queue.counts()["active"] == 9


def test_of_those_that_wait_for_quota_the_oldest_is_tried_though_it_was_tried_before() -> None:
    queue = SchedulingQueue(ByPriority(), by_app)
    for at in range(3):
        queue.add(("a", f"p{at}"), pod(f"p{at}").labels(app="u").placed(), at)
    refuse(queue, 3, QUOTA)
    for now in (60, 120, 180):
        queue.wake(WakeEvent.QUOTA_FREED, now)
        assert refuse(queue, now, QUOTA) == ["p0"]


def test_quota_that_is_one_of_several_reasons_says_nothing_of_others() -> None:
    queue = SchedulingQueue(ByPriority(), by_app)
    for number in range(9):
        queue.add(("a", f"p{number}"), pod(f"p{number}").labels(app="u").placed(), 0)
    refuse(queue, 0, QUOTA | FULL)
    queue.wake(WakeEvent.QUOTA_FREED, 60)
    assert queue.counts()["active"] == 9
