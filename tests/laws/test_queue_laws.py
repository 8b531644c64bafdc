"""What the queue promises of the order of pods, for any pods, classes, priorities and times; see its module."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.priority_sort import TURN_S, PrioritySort
from dispatcher.scheduling import queue as module
from dispatcher.scheduling import queued
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.queue import QueuedPod, SchedulingQueue
from dispatcher.scheduling.queued import NoPlugins
from shared.model.reasons import Reason, Reasons, Why
from shared.model.wake_events import WakeEvent
from tests.builders import pod
from tests.laws.examples import examples
from tests.laws.parts import ALL, SMALL, Sizes, parts

POD = st.tuples(st.sampled_from("abc"), st.sampled_from((0, 5)), st.sampled_from((0.0, 0.2, 0.9, 1.1, 1.5, 7.0)))
LATER = 1000.0


def cls(pod_info: PodInfo) -> str:
    return pod_info.pod.labels["app"]


def by_team(pod_info: PodInfo) -> ClassKey:
    """Classes of an app and a team; all teams of an app are decided together."""
    key = ClassKey.of((cls(pod_info), int(pod_info.pod.name[1:]) % 3))
    key.batch = ClassKey.of((cls(pod_info),))
    return key


def filled(pods: list[tuple[str, int, float]], gone: set[int]) -> tuple[SchedulingQueue, list[QueuedPod]]:
    queue = SchedulingQueue(PrioritySort(), by_team)
    for number, (app, priority, at) in enumerate(pods):
        queue.add(("c", f"{number:03}"), pod(f"p{number}").labels(app=app).priority(priority).placed(), at)
    for number in gone:
        queue.remove(("c", f"{number:03}"))
    found = [queue.get(("c", f"{number:03}")) for number in range(len(pods))]
    return queue, [one for one in found if one is not None]


def turn(item: QueuedPod) -> tuple[int, float]:
    return -item.pod_info.pod.priority, item.queued_at // TURN_S


def age(item: QueuedPod) -> tuple[float, tuple[str, str]]:
    return item.queued_at, item.pod_id


@settings(max_examples=examples(300), deadline=None)
@given(
    pods=st.lists(POD, max_size=40),
    gone=st.sets(st.integers(0, 39), max_size=5),
    limits=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    row=st.integers(1, 4),
)
def test_turns_in_order_classes_in_order_and_nobody_is_passed_by_more_than_promised(
    pods: list[tuple[str, int, float]], gone: set[int], limits: list[int], row: int
) -> None:
    kept, module.IN_A_ROW = module.IN_A_ROW, row
    try:
        queue, waiting = filled(pods, gone)
        taken: list[QueuedPod] = []
        step = 0
        while batch := queue.pop_class(LATER, limits[step % len(limits)]):
            step += 1
            left = [one for one in waiting if one not in taken]
            assert len(batch) <= limits[(step - 1) % len(limits)]
            assert len({cls(one.pod_info) for one in batch}) == 1
            assert batch[0] is min(left, key=lambda one: (turn(one), age(one))), "the oldest of the first turn begins"
            passed = 0
            for at, item in enumerate(batch):
                still = [one for one in left if one not in batch[:at]]
                first = min(still, key=lambda one: (turn(one), age(one)))
                passed = 0 if item is first else passed + 1
                assert turn(item) == turn(first), "no pod of a later turn passes"
                alike = [one for one in still if turn(one) == turn(item) and cls(one.pod_info) == cls(item.pod_info)]
                assert item is min(alike, key=age), "in order within the class"
                assert passed < row, "only so many in a row"
            taken += batch
        assert sorted(taken, key=age) == sorted(waiting, key=age), "each pod once"
        assert set(queue.counts().values()) == {0}
    finally:
        module.IN_A_ROW = kept


@settings(max_examples=examples(200), deadline=None)
@given(pods=st.lists(POD, max_size=20), steps=st.lists(st.integers(0, 19), max_size=30))
def test_one_by_one_and_with_pods_that_change_meanwhile_it_is_the_same_order(
    pods: list[tuple[str, int, float]], steps: list[int]
) -> None:
    """Pods that are popped alone come by turn and age, whatever came, changed its class or went in between."""
    queue, _ = filled(pods, set())
    for number in steps:
        pod_id = ("c", f"{number:03}")
        known = queue.get(pod_id)
        if known is not None and number % 3:
            queue.add(pod_id, pod(f"p{number}").labels(app="abc"[number % 3]).priority(5).placed(), known.queued_at)
        else:
            queue.remove(pod_id)
    left = [one for number in range(len(pods)) if (one := queue.get(("c", f"{number:03}"))) is not None]
    popped = []
    while (item := queue.pop(LATER)) is not None:
        popped.append(item)
    assert popped == sorted(left, key=lambda one: (turn(one), age(one)))


@settings(max_examples=examples(100), deadline=None)
@given(pods=st.lists(POD, max_size=40), gone=st.sets(st.integers(0, 39), max_size=5), row=st.integers(1, 4))
def test_it_is_foreseen_in_which_order_pods_are_popped(
    pods: list[tuple[str, int, float]], gone: set[int], row: int
) -> None:
    kept, module.IN_A_ROW = module.IN_A_ROW, row
    try:
        queue, _ = filled(pods, gone)
        foreseen = queue.in_order(100)
        popped: list[QueuedPod] = []
        while batch := queue.pop_class(LATER, 100):
            popped += batch
        assert popped == foreseen
    finally:
        module.IN_A_ROW = kept


@settings(max_examples=examples(100), deadline=None)
@given(
    pods=st.lists(st.tuples(st.integers(0, 9), *(st.sampled_from(one) for one in ("abc", (0, 5), "-g"))), max_size=30)
)
def test_pods_that_come_together_wait_as_if_they_had_come_one_after_the_other(
    pods: list[tuple[int, str, int, str]],
) -> None:
    """New ones, new versions of these among them, and gated ones."""
    came = [
        (("c", str(number)), pod(f"p{number}").labels(app=app).priority(priority).set(gated=gate == "g").placed())
        for number, app, priority, gate in pods
    ]
    one_by_one, together = SchedulingQueue(PrioritySort(), cls), SchedulingQueue(PrioritySort(), cls)
    alone = [one_by_one.add(*one, 1.0) for one in came]
    assert [seen(one) for one in together.add_all(came, 1.0)] == [seen(one) for one in alone]
    assert together.counts() == one_by_one.counts()
    assert together.incoming == one_by_one.incoming
    while batch := one_by_one.pop_class(LATER, 3):
        assert [seen(one) for one in together.pop_class(LATER, 3)] == [seen(one) for one in batch]
    assert together.pop(LATER) is None


def seen(item: QueuedPod) -> tuple[object, ...]:
    return item.pod_id, item.pod_info, item.class_key, item.order, item.state, item.reasons, item.note, item.policies


ANY = ~WakeEvent(0)


def by_anything(reason: Reason) -> Reason:
    """The same, where any event may help."""
    return replace(reason, helped_by=ANY)


GATED = Why(by_anything(Reasons.GATED))
REFUSED = st.sampled_from([by_anything(one) for one in (Reasons.QUOTA, Reasons.INSUFFICIENT, Reasons.TAINT)])
STEP = st.tuples(
    st.sampled_from(
        ("come", "wake", "refuse", "refuse", "alone", "place", "lose", "remove", "change", "gate", "later")
    ),
    st.integers(0, 19),
    REFUSED,
)


class AlikeUnlessGated(NoPlugins):
    """What refuses a pod refuses others of its class; those that are `gated` may not enter."""

    def __init__(self) -> None:
        self.gated: set[str] = set()

    def gate(self, pod_info: PodInfo) -> Why | None:
        return GATED if pod_info.pod.name in self.gated else None

    def refused_alike(self, pod_info: PodInfo) -> bool:
        return True

    def quota_alike(self, pod_info: PodInfo) -> bool:
        return True


def lose(queue: SchedulingQueue, batch: list[QueuedPod], _: frozenset[Reason], now: float) -> None:
    """They have a place, and it comes to nothing."""
    queue.go_on(batch, now)
    for item in batch:
        queue.hold(item, "by a plugin")
        queue.remove(item.pod_id)
        queue.unschedulable(item, frozenset((Reasons.PERMIT,)), now)


DECIDED: dict[str, Callable[[SchedulingQueue, list[QueuedPod], frozenset[Reason], float], None]] = {
    "refuse": lambda queue, batch, reasons, now: queue.unschedulable_all(batch, reasons, now),
    "alone": lambda queue, batch, reasons, now: queue.unschedulable_all(batch, reasons, now, alone=True),
    "place": lambda queue, batch, _, now: queue.go_on(batch, now),
    "lose": lose,
}


def do(queue: SchedulingQueue, gates: AlikeUnlessGated, step: tuple[str, int, Reason], now: float) -> None:
    """One step of what may happen before there is room for all."""
    what, number, reason = step
    pod_id, reasons = ("c", f"{number:03}"), frozenset((reason,))
    if what == "come":
        for one in range(number, number + 8):
            queue.add(("c", f"{one:03}"), pod(f"p{one}").labels(app="ab"[number % 2]).placed(), now)
    elif what == "change" and queue.get(pod_id) is not None:
        queue.add(pod_id, pod(f"p{number}").labels(app="c").placed(), now)
    elif what == "gate":
        gates.gated ^= {f"p{number}"}
    elif what == "remove":
        queue.remove(pod_id)
    elif what == "wake":
        queue.wake(ANY, now)
    elif what in DECIDED and (batch := queue.pop_class(now, 1 + number)):
        DECIDED[what](queue, batch, reasons, now)


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEP, max_size=40), becomes=st.sampled_from(("", "d")), sizes=st.one_of(st.just(ALL), SMALL))
def test_once_there_is_room_for_all_one_event_is_enough_for_every_pod(
    steps: list[tuple[str, int, Reason]], becomes: str, sizes: Sizes
) -> None:
    """Though one of a line is tried for all, and may be of another class (`becomes`) when its turn comes, and though
    lines are woken part by part.
    """
    with parts(sizes):
        all_are_placed_after(steps, becomes)


def all_are_placed_after(steps: list[tuple[str, int, Reason]], becomes: str) -> None:
    """By one event."""
    kept, queued.AT_A_TIME = queued.AT_A_TIME, 2
    gates = AlikeUnlessGated()
    try:
        queue, now = SchedulingQueue(PrioritySort(), by_team_once(), gates=gates, flush_s=LATER**3), 0.0
        for step in steps:
            now += 11.0 if step[0] == "later" else 0.1
            do(queue, gates, step, now)
        gates.gated.clear()
        queue.wake(ANY, now)
        for _ in range(60):
            now += 11.0
            queue.flush(now)
            while batch := queue.pop_class(now, 3):
                if becomes and cls(batch[0].pod_info) != becomes:
                    for one in batch:
                        queue.anew(one, pod(one.pod_info.pod.name).labels(app=becomes).placed(), now)
                else:
                    queue.go_on(batch, now)
        assert set(queue.counts().values()) == {0}
    finally:
        queued.AT_A_TIME = kept


def by_team_once() -> Callable[[PodInfo], ClassKey]:
    """`by_team`, that answers the very same key for equal ones."""
    known: dict[ClassKey, ClassKey] = {}

    def classify(pod_info: PodInfo) -> ClassKey:
        key = by_team(pod_info)
        return known.setdefault(key, key)

    return classify
