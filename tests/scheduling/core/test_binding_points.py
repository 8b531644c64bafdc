"""Permit, PreBind, Bind, PostBind and what is carried to them, each by a tiny plugin, also by plugins that raise."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from dispatcher.scheduling.events import OperatorWarning
from dispatcher.scheduling.framework import (
    SKIP,
    CycleState,
    FleetView,
    Floats,
    Permit,
    Plugin,
    PodInfo,
    Refuse,
    Reserve,
    Rows,
    Score,
    refuse,
)
from dispatcher.scheduling.framework.lifecycle import (
    Bind as BindPoint,
)
from dispatcher.scheduling.framework.lifecycle import (
    Handed,
    Order,
    PostBind,
    PostFilter,
    PreBind,
    Trial,
)
from dispatcher.scheduling.framework.plugin import WaitingRoom
from dispatcher.scheduling.views import explain
from shared.messages import (
    BOUND,
    DONE,
    REFUSED,
    UNKNOWN,
    WAITING,
    Bind,
    DeleteSource,
    PodRef,
)
from shared.model.names import SCHEDULER_NAME
from shared.model.pod import Pod
from shared.model.reasons import Reasons, Why
from tests.scheduling.points_world import Keyed, World, of

# --- Permit ----------------------------------------------------------------------------------------------------------


class Pair(Keyed, Permit):
    """Pods go in pairs; the first waits for the second."""

    name = "Pair"

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds

    def attach(self, room: WaitingRoom) -> None:
        self.room = room

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        if pod_info.pod.labels.get("only") == "never":
            return refuse(Reasons.POLICY, self.name)
        waiting = self.room.waiting()
        for pod_id, _ in waiting:
            self.room.allow(pod_id, self.name)
        return None if waiting else self.seconds


def test_a_pod_that_waits_holds_its_place_and_says_for_whom() -> None:
    world = World(Pair())
    world.submit("first")
    assert of(Bind, world.tick()) == []
    assert (world.state_of("first"), world.held_cpu()) == ("waiting", 1000)
    row = explain(world.core, "default", "first")
    assert row is not None
    assert row["waiting"] == "waiting on Permit plugin Pair"


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one after the other"])
def test_a_plugin_lets_others_go_on(together: bool) -> None:
    world = World(Pair())
    world.submit("first")
    if not together:
        world.tick()
    world.submit("second")
    assert sorted(bind.pod.name for bind in of(Bind, world.tick())) == ["first", "second"]
    assert world.state_of("first") is None


def test_a_pod_that_is_held_up_for_long_is_told_why_once_and_where_its_place_is() -> None:
    world = World(Pair())
    world.submit("first")
    assert world.tick() == []
    assert world.tick(4.0) == []
    (told,) = world.tick(1.0)
    assert (told.pod.name, told.reason) == ("first", WAITING)
    assert told.message == "waiting on Permit plugin Pair; its place on east/n1 is held"
    assert world.tick(10.0) == []


def test_waiting_for_too_long_gives_the_place_back_with_the_reason() -> None:
    world = World(Pair(seconds=30.0))
    world.submit("first")
    world.tick()
    world.tick(29.0)
    assert world.held_cpu() == 1000
    world.tick(1.0)
    assert world.held_cpu() == 0
    assert world.message("first") == "rejected due to timeout after waiting at Permit plugin Pair"


def test_a_plugin_may_reject_one_that_waits() -> None:
    pair = Pair()
    world = World(pair)
    world.submit("first")
    world.tick()
    pair.room.reject(("east", "uid-first"), "Pair", Why(Reasons.POLICY, "Pair"))
    world.tick()
    assert world.held_cpu() == 0
    assert world.message("first") == "node(s) didn't satisfy plugin Pair"


def test_a_refusal_gives_the_place_back_at_once() -> None:
    world = World(Pair())
    world.submit("p", labels={"only": "never"})
    assert of(Bind, world.tick()) == []
    assert (world.held_cpu(), world.state_of("p")) == (0, "unschedulable")


@pytest.mark.parametrize("end", ["deleted", "gone", "bound by somebody"])
def test_a_pod_that_no_longer_waits_for_a_place_leaves_the_room(end: str) -> None:
    pair = Pair()
    world = World(pair)
    one = world.submit("first")
    world.tick()
    if end == "gone":
        world.report(gone=(one.uid,))
    else:
        fields: dict[str, Any] = {"terminating": True} if end == "deleted" else {"node": "n1"}
        world.report(msgspec.structs.replace(one, **fields))
    assert pair.room.waiting() == []
    assert world.held_cpu() == (1000 if end == "bound by somebody" else 0)
    assert world.tick(100.0) == []


def test_other_changes_of_a_waiting_pod_leave_it_waiting() -> None:
    world = World(Pair())
    one = world.submit("first")
    world.tick()
    world.report(
        Pod(one.uid, "default", "first", {"new": "label"}, requests=one.requests, scheduler_name=SCHEDULER_NAME)
    )
    assert world.tick() == []
    assert (world.state_of("first"), world.held_cpu()) == ("waiting", 1000)


# --- PreBind ---------------------------------------------------------------------------------------------------------


class Prepare(Keyed, PreBind):
    """Has something done first; `ready` says when it shows. (Any intent will do as an order here.)"""

    name = "Prepare"
    ready = False

    def pre_bind(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | Sequence[Order] | None:
        if pod_info.pod.labels.get("only") == "never":
            return refuse(Reasons.PRE_BIND, "no such thing")
        ref = PodRef("default", pod_info.pod.name, pod_info.pod.uid)
        return None if self.ready else [Order("east", DeleteSource("", ref, 0))]


def test_orders_are_done_before_the_bind_and_each_is_sent_once() -> None:
    prepare = Prepare()
    world = World(prepare)
    world.submit("p")
    (order,) = world.tick()
    assert type(order) is DeleteSource
    assert order.id
    assert world.tick() == []
    world.answer(order, DONE)
    assert world.tick() == []
    assert world.state_of("p") == "waiting"
    prepare.ready = True
    assert len(of(Bind, world.tick())) == 1


def test_an_order_without_an_answer_is_sent_again() -> None:
    world = World(Prepare())
    world.submit("p")
    (order,) = world.tick()
    world.answer(order, UNKNOWN)
    (again,) = of(DeleteSource, world.tick(5.0))
    assert (again.epoch, type(again)) == (order.epoch, DeleteSource)
    assert again.id != order.id


@pytest.mark.parametrize("how", ["the agent refuses", "the plugin refuses", "time runs out"])
def test_what_cannot_be_prepared_gives_the_place_back(how: str) -> None:
    world = World(Prepare())
    world.submit("p", labels={"only": "never"} if how == "the plugin refuses" else {})
    orders = of(DeleteSource, world.tick())
    if how == "the agent refuses":
        world.answer(orders[0], REFUSED, "not with me")
    if how == "time runs out":
        world.tick(601.0)
    assert world.held_cpu() == 0
    assert world.message("p").startswith("node(s) could not be prepared for the pod: ")


# --- Bind and PostBind -----------------------------------------------------------------------------------------------


class Elsewhere(Keyed, BindPoint):
    name = "Elsewhere"

    def bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Handed | Refuse | None:
        only = pod_info.pod.labels.get("only")
        return Handed("the other one", 60.0) if only == "hand" else refuse(Reasons.POLICY, self.name) if only else None


class Heard(Keyed, PostBind):
    name = "Heard"

    def __init__(self) -> None:
        self.bound: list[tuple[str, int]] = []

    def post_bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self.bound.append((pod_info.pod.name, row))


def test_a_bind_may_be_handed_to_somebody_else() -> None:
    heard = Heard()
    world = World(Elsewhere(), heard)
    one = world.submit("p", labels={"only": "hand"})
    assert world.tick() == []
    row = explain(world.core, "default", "p")
    assert row is not None
    assert row["waiting"] == "bind handed to the other one"
    world.report(msgspec.structs.replace(one, node="n1"))
    assert (heard.bound, world.state_of("p"), world.held_cpu()) == ([("p", 0)], None, 1000)


def test_a_bind_that_nobody_makes_gives_the_place_back() -> None:
    world = World(Elsewhere())
    world.submit("p", labels={"only": "hand"})
    world.tick()
    world.tick(61.0)
    assert world.held_cpu() == 0


def test_a_bind_plugin_may_refuse_or_leave_it_to_the_agents() -> None:
    world = World(Elsewhere())
    world.submit("refused", labels={"only": "refuse"})
    world.submit("plain")
    assert [one.pod.name for one in of(Bind, world.tick())] == ["plain"]
    assert world.held_cpu() == 1000
    assert world.message("refused") == "node(s) didn't satisfy plugin Elsewhere"


def test_post_bind_is_told_once_when_the_pod_is_bound() -> None:
    heard = Heard()
    world = World(heard)
    world.submit("p")
    (bind,) = of(Bind, world.tick())
    assert heard.bound == []
    world.answer(bind, BOUND)
    world.answer(bind, BOUND)
    assert heard.bound == [("p", 0)]


# --- CycleState ------------------------------------------------------------------------------------------------------


class Carry(Keyed, Score, Permit, PostBind):
    """Carries what PreFilter answered to every later point."""

    name = "Carry"

    def __init__(self) -> None:
        self.seen: list[object] = []

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        return ("for", pod_info.pod.labels.get("only"))

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        return np.zeros(len(np.arange(fleet.n)[rows]))

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        self.seen.append(cycle.read(self.name))
        cycle.write("mine", pod_info.pod.name)
        return None

    def post_bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self.seen += [cycle.read(self.name), cycle.read("mine"), cycle.read("nobody's")]


def test_the_state_of_a_cycle_reaches_every_later_point() -> None:
    carry = Carry()
    world = World(carry)
    world.submit("p", labels={"only": "x"})
    (bind,) = of(Bind, world.tick())
    world.submit("q", labels={"only": "y"})
    world.tick()
    world.answer(bind, BOUND)
    assert carry.seen == [("for", "x"), ("for", "y"), ("for", "x"), "p", SKIP]


class Everywhere(Keyed, Score, PostFilter, Reserve, Permit, PreBind, BindPoint, PostBind):
    """Notes what its cycle says at every point about one pod."""

    name = "Everywhere"

    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        return pod_info.pod.labels.get("only")

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        return np.zeros(len(np.arange(fleet.n)[rows]))

    def _note(self, point: str, cycle: CycleState) -> None:
        self.seen.append((point, cycle.read(self.name)))

    def post_filter(self, cycle: CycleState, pod_info: PodInfo, trial: Trial, fleet: FleetView) -> None:
        self._note("PostFilter", cycle)

    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self._note("Reserve", cycle)

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        pass

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self._note("Permit", cycle)

    def pre_bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self._note("PreBind", cycle)

    def bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self._note("Bind", cycle)

    def post_bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self._note("PostBind", cycle)


def test_every_point_about_one_pod_is_handed_its_cycle() -> None:
    plugin = Everywhere()
    world = World(plugin)
    world.submit("p", labels={"only": "x"})
    (bind,) = of(Bind, world.tick())
    world.submit("large", cpu=9000, labels={"only": "y"})
    world.tick()
    world.answer(bind, BOUND)
    early = ("Reserve", "Permit", "PreBind", "Bind")
    assert plugin.seen == [*((point, "x") for point in early), ("PostFilter", "y"), ("PostBind", "x")]


# --- broken plugins ---


def broken(*_: object) -> Any:
    raise ZeroDivisionError("broken")


class BadPermit(Pair):
    name = "BadPermit"

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        return broken() if pod_info.pod.name == "bad" else None


class BadPreBind(Prepare):
    name = "BadPreBind"

    def pre_bind(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | Sequence[Order] | None:
        return broken() if pod_info.pod.name == "bad" else None


class BadBind(Elsewhere):
    name = "BadBind"

    def bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Handed | Refuse | None:
        return broken() if pod_info.pod.name == "bad" else None


@pytest.mark.parametrize("plugin", [BadPermit, BadPreBind, BadBind])
def test_a_plugin_that_raises_costs_its_one_pod_the_place_and_nobody_else(plugin: Callable[[], Plugin]) -> None:
    world = World(plugin())
    world.submit("bad", labels={"only": "bad"})
    world.submit("good")
    assert [one.pod.name for one in of(Bind, world.tick())] == ["good"]
    assert world.held_cpu() == 1000
    assert world.state_of("bad") in ("unschedulable", "gated")


def test_a_post_bind_that_raises_changes_nothing() -> None:
    heard = Heard()
    heard.post_bind = broken  # type: ignore[method-assign,assignment]
    world = World(heard)
    world.submit("p")
    (bind,) = of(Bind, world.tick())
    world.answer(bind, BOUND)
    assert world.held_cpu() == 1000
    assert any(isinstance(effect, OperatorWarning) and "plugin Heard" in effect.text for effect in world.told)
