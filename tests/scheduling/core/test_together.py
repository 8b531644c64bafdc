"""Pods of one round that are bound, or show bound, together come to what each comes to alone."""

from collections.abc import Callable
from unittest.mock import patch

import msgspec
import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.deciding import Deciding
from dispatcher.scheduling.core.reconciler import Reconciler
from dispatcher.scheduling.delegation.outbox import Outbox
from dispatcher.scheduling.events import Answered, ClusterChanged, Decided, Effect, SendIntents, Tick
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from shared.messages import BOUND, Changes, Outcome
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import RUNNING, Pod
from tests.laws.cores import make_core

PODS = tuple(
    Pod(f"u{at}", "default", f"p{at}", requests={"cpu": 1 + at % 2}, scheduler_name=SCHEDULER_NAME) for at in range(12)
)
NODES = tuple(Node(f"n{at}", ready=True, allocatable={"cpu": 4000, "pods": 50}) for at in range(3))
SHOWN = tuple(msgspec.structs.replace(pod, phase=RUNNING, labels={"zone": "a"}) for pod in PODS)


def _decided(nodes: tuple[Node, ...] = NODES) -> tuple[SchedulerCore, list[Effect]]:
    """All pods are decided, and were before: what the core says to it."""
    core = make_core(("east",))
    core.handle(ClusterChanged(Changes("east", "uid", "life", 0, 1, full=True, nodes=nodes, pods=PODS)), 1.0)
    return core, core.handle(Tick(), 1.0)


def _show(core: SchedulerCore, effects: list[Effect]) -> None:
    """The agent has bound all pods, and its watch shows that."""
    (sent,) = [one for one in effects if isinstance(one, SendIntents)]
    core.handle(Answered("east", tuple(Outcome(one.id, one.pod.uid, one.epoch, BOUND) for one in sent.intents)), 1.0)
    nodes = {one.pod.uid: one.node for one in sent.intents}  # type: ignore[union-attr]
    pods = tuple(msgspec.structs.replace(pod, node=nodes[pod.uid]) for pod in SHOWN)
    core.handle(ClusterChanged(Changes("east", "uid", "life", 1, 2, pods=pods)), 2.0)


def _told(core: SchedulerCore, effects: list[Effect]) -> list[object]:
    """All that is sent, recorded and tracked."""
    decisions = [one.decision for one in effects if isinstance(one, Decided)]
    logged = [core.log.summary(("east", pod.uid)) for pod in PODS]
    pods = [msgspec.structs.replace(one, item=None) for one in core.tracked.values()]
    sent = [one for one in effects if isinstance(one, SendIntents)]
    return [[one.record() for one in decisions], logged, list(core.log._by_pod), pods, sent, core.outbox.next_epoch()]


def test_pods_that_are_bound_together_are_told_of_as_one_by_one() -> None:
    together = _told(*_decided())
    with patch.object(Deciding, "_only_bound", return_value=False):
        alone = _told(*_decided())
    assert together == alone
    assert len(together[0]) == len(PODS)  # type: ignore[arg-type]


def _places(core: SchedulerCore) -> list[object]:
    places = [
        (one.pod_id, one.pod_info, one.cluster, one.node, one.assumed, one.placed_at) for one in core.fleet.occupants()
    ]
    return [
        places,
        sorted(core.tracked.values(), key=lambda one: one.pod_id),
        core.outbox.counts(),
        core.queue.counts(),
        core.fleet.requested.tolist(),
    ]


def test_pods_that_show_bound_together_are_where_each_would_be_alone() -> None:
    def alone(self: Reconciler, run: list[object], now: float) -> None:
        self._each(self._reconcile, run, now)  # type: ignore[arg-type]

    core, effects = _decided()
    _show(core, effects)
    other, effects = _decided()
    with patch("dispatcher.scheduling.core.reconciler._CONFIRM", alone):
        _show(other, effects)
    assert _places(core) == _places(other)
    assert not any(one.assumed for one in core.fleet.occupants())


def test_of_pods_that_show_bound_nobody_keeps_since_when_that_was_awaited() -> None:
    core, effects = _decided()
    _show(core, effects)
    assert not core.outbox.overdue(1000.0, 1.0)


def test_pods_that_are_decided_together_have_no_row_numbers_of_their_own() -> None:
    """Python makes a new object of 32 bytes for every number above 256."""
    far = (Node(f"n{at}", ready=at >= 290, allocatable={"cpu": 4000, "pods": 50}) for at in range(300))
    core, _ = _decided(tuple(far))
    rows = [(one.row, core.fleet.row_of(one.cluster, one.node)) for one in core.fleet.occupants()]
    assert len(rows) == len(PODS)
    assert all(row is kept for row, kept in rows)


@pytest.mark.parametrize(
    ("kind", "name", "fails"),
    [
        (Outbox, "drop_all", lambda *_: True),
        (FleetState, "stays", lambda _, occupant, *__, **___: occupant.pod_id[1] == "u5"),
    ],
)
def test_a_fault_about_one_of_the_pods_that_show_bound_stops_none_of_the_others(
    kind: type, name: str, fails: Callable[..., bool]
) -> None:
    real = getattr(kind, name)

    def faulty(self: object, *args: object, **named: object) -> object:
        if fails(self, *args, **named):
            raise ZeroDivisionError
        return real(self, *args, **named)

    core, effects = _decided()
    with patch.object(kind, name, faulty):
        _show(core, effects)
    late = [one.pod_id[1] for one in core.fleet.occupants() if one.assumed]
    assert late == (["u5"] if name == "stays" else [])
    assert core.counters["faults", "ZeroDivisionError"] >= 1


def test_a_pod_that_takes_something_else_where_it_shows_is_placed_anew() -> None:
    core, effects = _decided()
    larger = [msgspec.structs.replace(pod, requests={"cpu": 7}) for pod in SHOWN]
    with patch("tests.scheduling.core.test_together.SHOWN", tuple(larger)):
        _show(core, effects)
    assert core.fleet.requested[core.fleet.axis.column("cpu")].sum() == 7 * len(PODS)
    assert isinstance(next(iter(core.fleet.occupants())).pod_info, PodInfo)
