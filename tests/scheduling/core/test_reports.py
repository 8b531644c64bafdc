"""What people are told of a pod that waits: until it was written, and nothing that is out of date."""

from collections.abc import Sequence

import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import Answered, ClusterChanged, Effect, Event, SendIntents, Tick, Unanswered
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, AnyIntent, Changes, Outcome, ReportUnschedulable
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Pod
from tests.laws.cores import make_core

NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 20})


def pod(**more: object) -> Pod:
    fields = {"requests": {"cpu": 9000}, "scheduler_name": SCHEDULER_NAME, **more}
    return Pod("uid-big", "default", "big", **fields)  # type: ignore[arg-type]


class World:
    """A core, one cluster, and a pod that is too big for its node."""

    def __init__(self) -> None:
        self.core: SchedulerCore = make_core(("east",))
        self.revision = 0
        self.show(pod())

    def show(self, shown: Pod | None, now: float = 1.0) -> None:
        pods = (shown,) if shown is not None else ()
        changes = Changes("east", "east-uid", "life-1", 0, 1, full=True, nodes=(NODE,), pods=pods)
        self.tell(ClusterChanged(changes), now)

    def tell(self, event: Event, now: float) -> Sequence[Effect]:
        return self.core.handle(event, now)

    def reports(self, now: float) -> list[ReportUnschedulable]:
        """What a Tick leads to."""
        sent: list[AnyIntent] = []
        for effect in self.tell(Tick(), now):
            sent += effect.intents if isinstance(effect, SendIntents) else ()
        return [one for one in sent if isinstance(one, ReportUnschedulable)]


def test_a_report_whose_call_failed_is_sent_again() -> None:
    world = World()
    (first,) = world.reports(1.0)
    world.tell(Unanswered("east", (first.id,), "timeout"), 16.0)
    assert world.reports(16.5) == []
    (second,) = world.reports(18.0)
    assert second.message == first.message


@pytest.mark.parametrize("verdict", [UNKNOWN, STALE, REFUSED])
def test_a_report_that_was_not_written_is_sent_again(verdict: str) -> None:
    world = World()
    (first,) = world.reports(1.0)
    world.tell(Answered("east", (Outcome(first.id, first.pod.uid, first.epoch, verdict, "no"),)), 2.0)
    assert len(world.reports(4.0)) == 1


def test_a_report_that_was_written_is_not_sent_again() -> None:
    world = World()
    (first,) = world.reports(1.0)
    world.tell(Answered("east", (Outcome(first.id, first.pod.uid, first.epoch, DONE),)), 2.0)
    assert [world.reports(now) for now in (4.0, 40.0)] == [[], []]


def test_a_report_is_repeated_less_and_less_often() -> None:
    world, sent = World(), 0
    for now in range(1, 600):
        for one in world.reports(float(now)):
            sent += 1
            world.tell(Answered("east", (Outcome(one.id, one.pod.uid, one.epoch, REFUSED, "forbidden"),)), float(now))
    assert 8 <= sent <= 11  # at 1, 2, 4, 8 ... 512 s, and not every second


@pytest.mark.parametrize("shown", [None, pod(node="n1")], ids=["gone", "bound"])
def test_nobody_is_told_of_a_pod_that_waits_no_more(shown: Pod | None) -> None:
    world = World()
    (first,) = world.reports(1.0)
    world.tell(Unanswered("east", (first.id,), "timeout"), 2.0)
    world.show(shown, 3.0)
    assert world.reports(5.0) == []
