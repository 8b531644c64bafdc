"""What is due for a pod that stays at home is found out from little: never anything else than the protocol says."""

from collections.abc import Iterator
from itertools import product
from unittest.mock import Mock

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.messages import BOUND, Changes, Outcome
from dispatcher.model.names import SCHEDULER_NAME
from dispatcher.model.node import Node
from dispatcher.model.pod import Claim, Pod
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.in_flight import IntentKind
from dispatcher.scheduling.delegation.protocol import ObservedState, next_step, step_of_local
from dispatcher.scheduling.delegation.tracking import Tracked, awaits_watch
from dispatcher.scheduling.events import Answered, ClusterChanged, SendIntents, Tick
from dispatcher.scheduling.framework import Placed
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


def _waiting() -> Iterator[Tracked]:
    """Every kind of pod that a confirmed intent may be about."""
    claims = (None, Claim("east", "n1", 3), Claim("west", "w1", 3))
    kinds, phases, maybe = (IntentKind.BIND, IntentKind.CLAIM, IntentKind.UNCLAIM), ("Pending", "Failed"), (False, True)
    for node, phase, ending, marked, claim in product(("", "n1"), phases, maybe, maybe, claims):
        source = Pod("u", "default", "web", node=node, phase=phase, terminating=ending, has_finalizer=marked)
        source = msgspec.structs.replace(source, claim=claim)
        for settling, kind, remote, vanished, gone in product(maybe, kinds, maybe, maybe, maybe):
            tracked = Tracked(("east", "u"), None if gone else source, vanished=source if vanished else None)
            tracked.delegates = {"west": msgspec.structs.replace(source, node="w1")} if remote else {}
            tracked.in_flight = intents.bind("east", source, "n1", 7, "", 10.0)
            tracked.in_flight.kind, tracked.in_flight.settling = kind, settling
            yield tracked


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


def test_a_confirmed_bind_is_looked_at_again_when_the_watch_shows_it() -> None:
    core, now = make_core(["east"]), 10.0
    pod = Pod("u", "default", "web", requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME)
    node = Node("n1", "u-n1", ready=True, allocatable={"cpu": 10, "memory": 1 << 30, "pods": 10})
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 0, 1, True, nodes=(node,), pods=(pod,))), now)
    sent = next(one for one in core.handle(Tick(), now) if isinstance(one, SendIntents)).intents[0]
    looked = Mock(wraps=core._reconciler._look_at)
    core._reconciler._look_at = looked  # type: ignore[method-assign]
    core.handle(Answered("east", (Outcome(sent.id, sent.pod.uid, sent.epoch, BOUND),)), now)
    assert looked.call_count == 0
    shown = msgspec.structs.replace(pod, node="n1")
    core.handle(ClusterChanged(Changes("east", "uid-east", "life", 1, 2, pods=(shown,))), now)
    assert looked.call_count == 1
    tracked = core.tracked["east", "u"]
    assert (tracked.in_flight, tracked.item) == (None, None)  # nothing of its way here is kept


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
