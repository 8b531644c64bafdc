"""Confirmed effects that the watch does not show yet cost nothing until they are late."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.reconciler import Reconciler
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import Answered, ClusterChanged, ClusterSilent, SendIntents, Tick
from shared.messages import BOUND, Bind, Changes, Outcome
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Pod
from tests.laws.cores import make_core

PODS = 20


@pytest.fixture
def looked() -> Iterator[list[str]]:
    """UIDs of pods that were looked at."""
    found: list[str] = []
    way_of = Reconciler._handler_of

    def noted(self: Reconciler, now: float, tracked: Tracked) -> object:
        found.append(tracked.pod_id[1])
        return way_of(self, now, tracked)

    with patch.object(Reconciler, "_handler_of", noted):
        yield found


def bound() -> SchedulerCore:
    """All pods are bound, said the agent at 1 s; the watch shows none."""
    core = make_core(("east",))
    pods = tuple(
        Pod(f"u{at}", "default", f"p{at}", requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME) for at in range(PODS)
    )
    nodes = (Node("n", ready=True, allocatable={"cpu": 4000, "pods": 50}),)
    core.handle(ClusterChanged(Changes("east", "east-uid", "life", 0, 1, full=True, nodes=nodes, pods=pods)), 1.0)
    (sent,) = [one for one in core.handle(Tick(), 1.0) if isinstance(one, SendIntents)]
    answers = tuple(Outcome(one.id, one.pod.uid, one.epoch, BOUND) for one in sent.intents)
    assert len(answers) == PODS
    core.handle(Answered("east", answers), 1.0)
    return core


def test_pods_whose_bind_has_not_shown_are_not_looked_at_each_tick(looked: list[str]) -> None:
    core = bound()
    looked.clear()
    for at in range(100):
        core.handle(Tick(), 1.0 + at / 10)
    assert looked == []


def test_what_has_not_shown_for_too_long_is_decided_again_once_each(looked: list[str]) -> None:
    core = bound()
    late = 1.0 + core.timing.settle_s
    looked.clear()
    core.handle(Tick(), late)
    assert looked == []
    sent = [one for one in core.handle(Tick(), late + 0.1) if isinstance(one, SendIntents)]
    assert sum(isinstance(intent, Bind) for one in sent for intent in one.intents) == PODS
    assert sorted(set(looked)) == sorted(f"u{at}" for at in range(PODS))
    looked.clear()
    core.handle(Tick(), late + 0.2)
    assert looked == []


def test_what_was_bound_holds_its_room_while_its_cluster_is_away_and_for_as_long_as_others_once_it_is_back() -> None:
    core = bound()
    core.handle(ClusterSilent("east", "no answer"), 2.0)
    core.handle(Tick(), 60.0)
    assert core.fleet.requested[0, 0] == PODS
    core.handle(ClusterChanged(Changes("east", "east-uid", "life", 1, 2)), 61.0)
    back = 61.0 + core.timing.settle_s
    for now in (61.1, back):
        assert not [one for one in core.handle(Tick(), now) if isinstance(one, SendIntents)]
    assert core.fleet.requested[0, 0] == PODS
    sent = [one for one in core.handle(Tick(), back + 1.1) if isinstance(one, SendIntents)]
    assert sum(isinstance(intent, Bind) for one in sent for intent in one.intents) == PODS
