"""Pods whose decisions take long wait, with the reason, so that those of others are decided."""

from itertools import count

import msgspec

from dispatcher.scheduling.core.deciding import LONGEST_S, MOST_KEPT, SlowDecisions
from dispatcher.scheduling.events import Decide, Effect, Tick
from dispatcher.scheduling.framework.pod_info import PodInfo
from dispatcher.scheduling.queue import QueuedPod
from shared.messages import Bind, ReportUnschedulable
from shared.model.reasons import Reasons
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import NODE, intents, pod, report

OF_ONE = [pod(f"one-{at}", requests={"cpu": 10 + at}) for at in range(5)]  # each a class of its own
OF_ANOTHER = [msgspec.structs.replace(pod(f"another-{at}", requests={"cpu": 50 + at}), namespace="b") for at in (1, 2)]


def bound(effects: list[Effect]) -> list[str]:
    return sorted(one.pod.name for one in intents(effects, Bind))  # type: ignore[attr-defined]


def deciding(seconds: float) -> Decide:
    """A Decide in which each class of pods takes that long."""
    calls = count()
    return Decide(clock=lambda: next(calls) * seconds)


def test_a_namespace_whose_decisions_take_long_waits_with_the_reason_and_others_do_not() -> None:
    core = make_core(("east",))
    report(core, *OF_ONE, *OF_ANOTHER)
    effects = core.handle(deciding(0.75), 2.0)
    assert bound(effects) == ["another-1", "another-2", "one-0", "one-1", "one-2"]
    told = intents(effects, ReportUnschedulable)
    assert {(one.pod.name, one.message, one.nodes_help) for one in told} == {  # type: ignore[attr-defined]
        ("one-3", Reasons.TOO_SLOW.words, False),
        ("one-4", Reasons.TOO_SLOW.words, False),
    }
    core.handle(Tick(None), 4.0)
    assert bound(core.handle(deciding(0.01), 4.0)) == []  # it rests for (3 * 0.75 - 2) / 0.05 = 5 s
    core.handle(Tick(None), 20.0)
    assert bound(core.handle(deciding(0.01), 20.0)) == ["one-3", "one-4"]


def test_decisions_that_take_no_longer_than_one_may_are_never_charged() -> None:
    core = make_core(("east",))
    pods = [pod(f"p-{at}", requests={"cpu": 1 + at}) for at in range(60)]
    report(core, *pods, nodes=(msgspec.structs.replace(NODE, allocatable={"cpu": 4000, "pods": 100}),))
    assert len(bound(core.handle(deciding(LONGEST_S), 2.0))) == len(pods)  # 3 s in all


def test_a_large_group_has_no_more_time_than_others_for_being_large() -> None:
    slow = SlowDecisions()
    items = [queued("n")] * 100_000
    slow.note(items, 1.0, 1.0)
    assert not slow
    slow.note(items, 40.0, 2.0)
    assert slow.rests(items[0], 60.0)


def test_only_a_namespace_that_was_not_known_takes_the_place_of_another() -> None:
    slow = SlowDecisions()
    items = [queued(f"n-{at}") for at in range(MOST_KEPT + 1)]
    for item in [*items[:-1], items[-2]]:
        slow.note([item], 100.0, 1.0)
    assert slow.rests(items[0], 2.0)
    slow.note([items[-1]], 100.0, 1.0)
    assert [slow.rests(item, 2.0) for item in (items[0], items[1], items[-1])] == [False, True, True]


def queued(namespace: str) -> QueuedPod:
    placed = PodInfo(msgspec.structs.replace(pod("one"), namespace=namespace), "east")
    return QueuedPod(("east", namespace), placed, None, 0.0, ())
