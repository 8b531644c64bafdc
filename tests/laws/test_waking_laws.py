"""Waking part by part comes to the same as waking all at once, and whoever an event may help is tried after it."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.priority_sort import PrioritySort
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue
from dispatcher.scheduling.queued import State
from shared.model.reasons import Reason, Reasons
from shared.model.wake_events import WakeEvent
from tests.builders import pod
from tests.laws.examples import examples
from tests.laws.parts import ALL, SMALL, Sizes, parts
from tests.laws.test_queue_laws import ANY, AlikeUnlessGated, by_anything, by_team_once, do, seen

WAITS = (State.UNSCHEDULABLE, State.GATED)
KINDS = (WakeEvent.POD_REMOVED, WakeEvent.NODE_ADDED, ANY)


class Hinted(AlikeUnlessGated):
    """An event that names an app helps that one alone; pods are `alike` or not."""

    def __init__(self, *, alike: bool) -> None:
        super().__init__()
        self.alike = alike

    def worth(self, event: ClusterEvent, pod_info: PodInfo, reasons: frozenset[Reason]) -> bool:
        return event.after is None or event.after == pod_info.pod.labels["app"]

    def worth_any(self, event: ClusterEvent, kind: object) -> bool:
        return event.kind != KINDS[1] or kind != frozenset((Reasons.QUOTA,))

    def refused_alike(self, pod_info: PodInfo) -> bool:
        return self.alike

    def quota_alike(self, pod_info: PodInfo) -> bool:
        return self.alike


REASONS = (
    *(by_anything(one) for one in (Reasons.QUOTA, Reasons.INSUFFICIENT)),
    replace(Reasons.TAINT, helped_by=KINDS[0]),
)
WHAT = ("come", "come", "wake", "wake", "refuse", "refuse", "alone", "place", "remove", "change", "gate", "later")
STEP = st.tuples(
    st.sampled_from(WHAT),
    st.integers(0, 19),
    st.sampled_from(REASONS),
)


def begun(gates: Hinted) -> SchedulingQueue:
    """With pods of two apps, of three classes each, that were refused for something."""
    queue = SchedulingQueue(PrioritySort(), by_team_once(), gates=gates, flush_s=10.0**9)
    for number in range(20):
        queue.add(("c", f"{number:03}"), pod(f"p{number}").labels(app="ab"[number % 2]).placed(), 0.0)
    for number, batch in enumerate(iter(lambda: queue.pop_class(0.0, 4), [])):
        queue.unschedulable_all(batch, frozenset((REASONS[number % 3],)), 0.0)
    return queue


def event_of(number: int) -> ClusterEvent:
    return ClusterEvent(KINDS[number % 3], "c", None, (None, "a", "b", "c")[number % 4])


def step(queue: SchedulingQueue, gates: Hinted, one: tuple[str, int, Reason], now: float) -> None:
    if one[0] == "wake":
        queue.wake(event_of(one[1]), now)
    else:
        do(queue, gates, one, now)


def run(steps: list[tuple[str, int, Reason]], sizes: Sizes, *, alike: bool) -> list[object]:
    """What each step leaves behind if all that is left of an event is woken before anything else happens."""
    with parts(sizes):
        gates, found, now = Hinted(alike=alike), list[object](), 0.0
        queue = begun(gates)
        for one in steps:
            now += 11.0 if one[0] == "later" else 0.1
            step(queue, gates, one, now)
            while queue.waking.is_left:
                queue.wake_rest(now)
            states = {pod_id: seen(item)[3:] for pod_id, item in queue._pods.items()}
            found.append((queue.counts(), states, dict(queue.incoming)))
        return [*found, *([one.pod_id for one in batch] for batch in iter(lambda: queue.pop_class(now + 1000, 3), []))]


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEP, min_size=8, max_size=40), sizes=SMALL, alike=st.booleans())
def test_what_is_woken_part_by_part_is_what_would_be_woken_at_once(
    steps: list[tuple[str, int, Reason]], sizes: Sizes, alike: bool
) -> None:
    assert run(steps, sizes, alike=alike) == run(steps, ALL, alike=alike)


def may_be_helped(queue: SchedulingQueue, gates: Hinted, event: ClusterEvent) -> list[QueuedPod]:
    """The naive way: each pod that waits is asked about."""
    waits = [item for item in queue._pods.values() if item.state in WAITS and item.helped_by & event.kind]
    return [one for one in waits if gates.worth_any(event, one.kind) and gates.worth(event, one.pod_info, one.reasons)]


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEP, min_size=8, max_size=40), sizes=SMALL, turns=st.lists(st.integers(0, 3), max_size=40))
def test_whom_an_event_may_help_is_tried_after_it_whatever_happens_meanwhile(
    steps: list[tuple[str, int, Reason]], sizes: Sizes, turns: list[int]
) -> None:
    """Also where other events come, pods go, come or change, and others are decided, before all are woken."""
    with parts(sizes):
        gates, now = Hinted(alike=False), 0.0
        queue = begun(gates)
        owed: dict[QueuedPod, int] = {}  # and the ticket that each waits with since before the event
        for at, one in enumerate(steps):
            now += 11.0 if one[0] == "later" else 0.1
            if one[0] == "wake":
                owed |= {item: item.ticket for item in may_be_helped(queue, gates, event_of(one[1]))}
            step(queue, gates, one, now)
            for _ in range(turns[at] if at < len(turns) else 0):
                queue.wake_rest(now)
        while queue.waking.is_left:
            queue.wake_rest(now)
        assert [item for item in owed if item.state in WAITS and item.ticket == owed[item]] == []
        there = Counter(item.state.value for item in queue._pods.values())
        assert there == Counter(queue.counts()), "and nobody who is gone"


@settings(max_examples=examples(100), deadline=None)
@given(sizes=SMALL, apps=st.lists(st.sampled_from("ab"), min_size=1, max_size=20), wakes=st.integers(1, 5))
def test_nobody_is_woken_by_events_that_help_others(sizes: Sizes, apps: list[str], wakes: int) -> None:
    """As long as these are told apart."""
    with parts((*sizes[:3], 64)):
        queue = SchedulingQueue(PrioritySort(), by_team_once(), gates=Hinted(alike=False))
        for number, app in enumerate(apps):
            queue.add(("c", f"{number:03}"), pod(f"p{number}").labels(app=app).placed(), 0.0)
        while batch := queue.pop_class(0.0, 100):
            queue.unschedulable_all(batch, frozenset((Reasons.INSUFFICIENT,)), 0.0)
        for _ in range(wakes):
            queue.wake(ClusterEvent(ANY, "c", None, "a"), 60.0)
        tried = 0
        for _ in range(1000):
            tried += len(queue.pop_class(60.0, 100))
        assert tried == apps.count("a")
        assert not queue.waking.is_left
        assert queue.counts()["unschedulable"] == apps.count("b")
