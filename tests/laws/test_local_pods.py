"""What is due for a pod that stays at home is found out from little: never anything else than the protocol says."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.reconciler import Reconciler
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.common_cases import awaits_answer, awaits_watch
from dispatcher.scheduling.delegation.in_flight import IntentKind
from dispatcher.scheduling.delegation.protocol import ObservedState, next_step, step_of_local
from dispatcher.scheduling.delegation.tracking import Reach, Tracked
from dispatcher.scheduling.events import Answered, ClusterChanged, ClusterSilent, SendIntents, Tick
from dispatcher.scheduling.framework import Placed
from shared.messages import BOUND, Changes, Outcome
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Claim, Pod
from tests.laws.cores import make_core

SOURCES = st.builds(
    msgspec.structs.replace,
    st.just(Pod("u", "default", "web")),
    node=st.sampled_from(("", "n1")),
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
    terminating=st.booleans(),
    has_finalizer=st.booleans(),
    gated=st.booleans(),
    claim=st.sampled_from((None, Claim("east", "n1", 3), Claim("west", "w1", 3))),
)
CLUSTERS = st.frozensets(st.sampled_from(("east", "west")))


@given(source=SOURCES, ready=CLUSTERS, restored=CLUSTERS, fenced=CLUSTERS, settled=st.booleans(), absent=CLUSTERS)
def test_the_short_answer_is_the_long_one(
    source: Pod,
    ready: frozenset[str],
    restored: frozenset[str],
    fenced: frozenset[str],
    settled: bool,
    absent: frozenset[str],
) -> None:
    tracked = Tracked(("east", "u"), source)
    if tracked.abroad:
        return
    seen = ObservedState(
        "east",
        source,
        reachable=ready,
        restored=restored,
        fenced=fenced - {"east"},
        home_settled=settled,
        absent=absent - {"east"},
    )
    short = step_of_local(source, reachable="east" in ready)
    assert short in (None, next_step(seen))
    assert short is not None or source.has_finalizer


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
        core.fleet.place(("east", "u"), Placed(Pod("u", "default", "web"), "east"), "east", "n1", assumed=True)
    core._reconciler._reach = Reach.of(core.clusters)
    return core


def _looked_at(*, assumed: bool, silent: bool) -> Iterator[tuple[Tracked, str]]:
    """Each pod, and by which method it is looked at."""
    core, ways = _core(assumed=assumed, silent=silent), list[str]()
    for way in ("_enqueue", "_confirm_all", "_reconcile_fully"):
        setattr(core._reconciler, way, lambda *_, way=way: ways.append(way))
    for tracked in _submitted():
        core._state.seen(tracked)
        core._reconciler._reconcile(tracked, 11.0)
        yield tracked, ways.pop()


def _closely(reconciler: Reconciler, tracked: Tracked) -> None:
    reconciler._reconcile_fully(tracked, 11.0)


def _alone(reconciler: Reconciler, tracked: Tracked) -> None:
    reconciler._reconcile(tracked, 11.0)


def _together(reconciler: Reconciler, tracked: Tracked) -> None:
    """With all others that are due, which are none."""
    reconciler._state.due.add(tracked.pod_id)
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
    state.due.clear()
    state.waiting.add(tracked.pod_id)
    look(core._reconciler, tracked)
    found = core.fleet.occupant(tracked.pod_id)
    place = None if found is None else (found.placed, found.cluster, found.node, found.assumed)
    queued = core.queue.state_of(tracked.pod_id)
    return [tracked, place, queued, core.outbox.take(), state.effects, state.due, state.waiting, state._alarms]


def test_a_pod_of_which_little_need_be_known_comes_to_what_a_close_look_finds() -> None:
    seen: set[str] = set()
    for assumed, silent in product((False, True), (False, True)):
        for tracked, way in _looked_at(assumed=assumed, silent=silent):
            if way != "_reconcile_fully":
                seen.add(way)
                close = _after(_closely, tracked, assumed=assumed, silent=silent)
                assert _after(_alone, tracked, assumed=assumed, silent=silent) == close
                assert _after(_together, tracked, assumed=assumed, silent=silent) == close
    assert seen == {"_enqueue", "_confirm_all"}


@pytest.mark.parametrize("other", [{"hold_until": 20.0}, {"queued": True}, {}])
def test_pods_that_are_due_together_come_to_what_each_comes_to_alone(other: dict[str, Any]) -> None:
    source = Pod("u", "default", "web", scheduler_name=SCHEDULER_NAME)
    changes: list[dict[str, Any]] = [{"problems": ("x",)}, {"nominated_node": "n1"}, {"scheduler_name": "none"}, {}]
    for change in changes:
        tracked = Tracked(("east", "u"), msgspec.structs.replace(source, **change), **other)
        together = _after(_together, tracked, assumed=False, silent=False)
        assert together == _after(_alone, tracked, assumed=False, silent=False), change


def test_a_look_at_a_pod_that_only_waits_for_its_watch_finds_nothing_to_do() -> None:
    found = [one for one in _waiting() if awaits_watch(one)]
    assert len(found) >= 8
    for tracked in found:
        core = make_core(["east", "west"])
        core.handle(ClusterChanged(Changes("east", "uid-east", "life", 0, 1, True)), 10.0)
        assert tracked.source is not None
        core.profiles.restore(tracked.pod_id, Placed(tracked.source, "east"), "east", "n1")
        core.tracked[tracked.pod_id] = tracked
        before, booked = msgspec.structs.replace(tracked), core.fleet.occupant(tracked.pod_id)
        core._state.due.add(tracked.pod_id)
        assert core.handle(Answered("east", ()), 10.0) == []
        assert tracked == before
        assert core.fleet.occupant(tracked.pod_id) is booked
        assert not core._state._alarms


def test_a_look_at_a_remote_pod_whose_next_order_has_left_finds_nothing_to_do() -> None:
    found = list(_waiting((IntentKind.CREATE, IntentKind.PROXY)))
    failed = [msgspec.structs.replace(one) for one in found if one.in_flight]
    for one in failed:
        assert one.in_flight is not None
        one.in_flight = msgspec.structs.replace(one.in_flight, again_at=99.0)
    found = [one for one in (*found, *failed) if awaits_answer(one)]
    assert len(found) >= 48
    for tracked in found:
        core, pod_id = make_core(["east", "west"]), tracked.pod_id
        for cluster in ("east", "west"):
            core.handle(ClusterChanged(Changes(cluster, f"uid-{cluster}", "life", 0, 1, True)), 10.0)
        core.tracked[pod_id] = tracked
        core._state.seen(tracked)
        assert tracked.source is not None
        order, tracked.in_flight = tracked.in_flight, intents.claim("east", tracked.source, ("west", "", "w1"), 7, 10.0)
        core.handle(Answered("east", ()), 10.0)  # it was looked at when it was last reported
        tracked.in_flight = order
        before, booked = msgspec.structs.replace(tracked), core.fleet.occupant(pod_id)
        core._state.due.add(pod_id)
        assert core.handle(Answered("east", ()), 11.0) == []
        assert tracked == before
        assert core.fleet.occupant(pod_id) is booked
        assert not core._state._alarms


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


def test_a_bind_that_the_watch_showed_before_its_answer_is_over_with_it() -> None:
    core, now = make_core(["east"]), 10.0
    pod = Pod("u", "default", "web", requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME)
    node = Node("n1", "u-n1", ready=True, allocatable={"cpu": 10, "memory": 1 << 30, "pods": 10})
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 0, 1, True, nodes=(node,), pods=(pod,))), now)
    sent = next(one for one in core.handle(Tick(), now) if isinstance(one, SendIntents)).intents[0]
    shown = msgspec.structs.replace(pod, node="n1")
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 1, 2, pods=(shown,))), now)
    assert core.tracked["east", "u"].in_flight is not None
    core.handle(Answered("east", (Outcome(sent.id, sent.pod.uid, sent.epoch, BOUND),)), now)
    assert core.tracked["east", "u"].in_flight is None
