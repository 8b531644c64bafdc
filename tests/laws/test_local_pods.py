"""Pods that are looked at with others, or not at all, come to what a look at each of them finds."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.reconciler import Reconciler
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.in_flight import IntentKind
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import Answered, ClusterChanged, ClusterSilent, SendIntents, Tick
from dispatcher.scheduling.framework import PodInfo
from shared.messages import BOUND, REFUSED, STALE, Changes, Outcome
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Claim, Pod
from tests.laws.cores import make_core
from tests.laws.examples import some

HOME_KINDS = (IntentKind.BIND, IntentKind.CLAIM, IntentKind.UNCLAIM)


def _waiting(kinds: tuple[IntentKind, ...] = HOME_KINDS) -> Iterator[Tracked]:
    """Every kind of pod that a confirmed intent may be about."""
    claims = (None, Claim("east", "n1", 3), Claim("west", "w1", 3))
    phases, maybe = ("Pending", "Failed"), (False, True)
    for node, phase, ending, marked, claim in product(("", "n1"), phases, maybe, maybe, claims):
        source = Pod("u", "default", "web", node=node, phase=phase, terminating=ending, has_finalizer=marked)
        source = msgspec.structs.replace(source, claim=claim)
        for settling, kind, remote, vanished, gone in product(maybe, kinds, maybe, maybe, maybe):
            tracked = Tracked(("east", "u"), None if gone else source, vanished=source if vanished else None)
            tracked.delegates = {"west": msgspec.structs.replace(source, node="w1")} if remote else {}
            tracked.in_flight = intents.bind("east", source, "n1", 7, "", 10.0)
            tracked.in_flight.kind, tracked.in_flight.settling = kind, settling
            yield tracked


def _submitted() -> Iterator[Tracked]:
    """Every kind of pod that is seen at home, with or without an intent, and as it may be held up."""
    for tracked, begun, held in product(_waiting(), (False, True), (False, True)):
        source, in_flight = tracked.source, tracked.in_flight
        if source is None or in_flight is None or in_flight.kind is IntentKind.UNCLAIM or (held and not begun):
            continue
        yield msgspec.structs.replace(
            tracked,
            source=msgspec.structs.replace(source, scheduler_name=SCHEDULER_NAME),
            in_flight=in_flight if begun else None,
            hold_until=20.0 if held else float("-inf"),
        )


def _core(*, assumed: bool, silent: bool) -> SchedulerCore:
    core = make_core(["east", "west"])
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 0, 1, True)), 10.0)
    if silent:
        core.handle(ClusterSilent("east", "away"), 10.0)
    if assumed:
        core.fleet.place(("east", "u"), PodInfo(Pod("u", "default", "web"), "east"), "east", "n1", assumed=True)
    return core


def _alone(reconciler: Reconciler, tracked: Tracked) -> None:
    reconciler._reconcile(tracked, 11.0)


def _together(reconciler: Reconciler, tracked: Tracked) -> None:
    """With all others that are due, which are none."""
    reconciler._state.dirty.add(tracked.pod_id)
    reconciler.reconcile_due(11.0)


def _after(
    look: Callable[[Reconciler, Tracked], None], tracked: Tracked, *, assumed: bool, silent: bool
) -> list[object]:
    """All that may be another after such a look at the pod."""
    core, in_flight = _core(assumed=assumed, silent=silent), tracked.in_flight
    tracked = msgspec.structs.replace(tracked, in_flight=in_flight and msgspec.structs.replace(in_flight))
    state = core._state
    core.tracked[tracked.pod_id] = tracked
    state.seen(tracked)
    state.dirty.clear()
    state.recheck_each_tick.add(tracked.pod_id)
    look(core._reconciler, tracked)
    found = core.fleet.occupant(tracked.pod_id)
    place = None if found is None else (found.pod_info, found.cluster, found.node, found.assumed)
    queued = core.queue.state_of(tracked.pod_id)
    return [
        tracked,
        place,
        queued,
        core.outbox.take(),
        state.effects,
        state.dirty,
        state.recheck_each_tick,
        state._alarms,
    ]


def test_a_pod_that_is_looked_at_with_others_comes_to_what_a_look_at_it_alone_finds() -> None:
    handlers = set[object]()
    for assumed, silent in product((False, True), (False, True)):
        core = _core(assumed=assumed, silent=silent)
        for tracked in _submitted():
            core._state.seen(tracked)
            handler = core._reconciler._handler_of(11.0, tracked)
            handlers.add(handler)
            if handler is not Reconciler._reconcile_each:
                alone = _after(_alone, tracked, assumed=assumed, silent=silent)
                assert _after(_together, tracked, assumed=assumed, silent=silent) == alone
    assert handlers == {Reconciler._reconcile_each, Reconciler._enqueue_all, Reconciler._confirm_all}


@pytest.mark.parametrize("other", [{"hold_until": 20.0}, {"queued": True}, {}])
def test_pods_that_are_due_together_come_to_what_each_comes_to_alone(other: dict[str, Any]) -> None:
    source = Pod("u", "default", "web", scheduler_name=SCHEDULER_NAME)
    changes: list[dict[str, Any]] = [{"problems": ("x",)}, {"nominated_node": "n1"}, {"scheduler_name": "none"}, {}]
    for change in changes:
        tracked = Tracked(("east", "u"), msgspec.structs.replace(source, **change), **other)
        together = _after(_together, tracked, assumed=False, silent=False)
        assert together == _after(_alone, tracked, assumed=False, silent=False), change


def test_a_look_at_a_pod_whose_order_is_under_way_finds_nothing_to_do() -> None:
    spared = Counter[IntentKind]()
    for tracked in some(_waiting(tuple(IntentKind)), 11):
        for again_at in (float("inf"), 99.0):
            order = tracked.in_flight
            assert order is not None
            core = make_core(["east", "west"])
            for cluster in ("east", "west"):
                core.handle(ClusterChanged(Changes(cluster, f"uid-{cluster}", "life", 0, 1, True)), 10.0)
            core.tracked[tracked.pod_id] = one = msgspec.structs.replace(tracked)
            core._state.seen(one)
            core.handle(Answered("east", ()), 10.0)  # it was looked at when it was last reported
            one.in_flight = msgspec.structs.replace(order, again_at=again_at)
            if tracked.pod_id not in core.tracked or not core._state.only_waits(one, 11.0):
                continue
            before, booked = msgspec.structs.replace(one), core.fleet.occupant(one.pod_id)
            core._state.dirty.add(one.pod_id)
            assert core.handle(Answered("east", ()), 11.0) == []
            assert one == before
            assert core.fleet.occupant(one.pod_id) is booked
            spared[order.kind] += 1
    assert spared.keys() == set(IntentKind)


def test_a_confirmed_bind_is_looked_at_again_when_the_watch_shows_it() -> None:
    core, now = make_core(["east"]), 10.0
    pod = Pod("u", "default", "web", requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME)
    node = Node("n1", "u-n1", ready=True, allocatable={"cpu": 10, "memory": 1 << 30, "pods": 10})
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 0, 1, True, nodes=(node,), pods=(pod,))), now)
    sent = next(one for one in core.handle(Tick(), now) if isinstance(one, SendIntents)).intents[0]
    looked = Mock(wraps=core._reconciler._handler_of)
    core._reconciler._handler_of = looked  # type: ignore[method-assign]
    core.handle(Answered("east", (Outcome(sent.id, sent.pod.uid, sent.epoch, BOUND),)), now)
    assert looked.call_count == 0
    shown = msgspec.structs.replace(pod, node="n1")
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 1, 2, pods=(shown,))), now)
    assert looked.call_count == 1
    tracked = core.tracked["east", "u"]
    assert (tracked.in_flight, tracked.item) == (None, None)  # nothing of its way here is kept
    core.handle(Tick(), now + core.timing.settle_s + 1.0)
    assert looked.call_count == 1  # it was not late


@pytest.mark.parametrize("verdict", [BOUND, STALE, REFUSED])
def test_a_bind_that_the_watch_showed_before_its_answer_is_over_with_it(verdict: str) -> None:
    core, now = make_core(["east"]), 10.0
    pod = Pod("u", "default", "web", requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME)
    node = Node("n1", "u-n1", ready=True, allocatable={"cpu": 10, "memory": 1 << 30, "pods": 10})
    other = msgspec.structs.replace(pod, uid="v", name="other", node="n1")  # of such a pod the next step is known
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 0, 1, True, nodes=(node,), pods=(pod, other))), now)
    sent = next(one for one in core.handle(Tick(), now) if isinstance(one, SendIntents)).intents[0]
    shown = msgspec.structs.replace(pod, node="n1")
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 1, 2, pods=(shown,))), now)
    in_flight = [core.tracked["east", "u"].in_flight is not None]
    core.handle(Answered("east", (Outcome(sent.id, sent.pod.uid, sent.epoch, verdict),)), now)
    in_flight.append(core.tracked["east", "u"].in_flight is not None)
    assert in_flight == [True, False]
    held = core.fleet.occupant(("east", "u"))
    assert held is not None
    assert (held.node, held.assumed) == ("n1", False)
