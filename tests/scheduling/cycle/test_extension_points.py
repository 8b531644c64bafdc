"""The extension points before and in a decision, each by a tiny plugin, also by plugins that raise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.events import OperatorWarning
from dispatcher.scheduling.framework import (
    SKIP,
    CycleState,
    FleetView,
    Floats,
    Plugin,
    PluginUse,
    PodInfo,
    Profile,
    Refuse,
    Rows,
    refuse,
)
from dispatcher.scheduling.framework.lifecycle import (
    NoHelp,
    Nomination,
    PostFilter,
    PreEnqueue,
    PreScore,
    RowList,
    Trial,
)
from shared.messages import (
    Bind,
    ReportUnschedulable,
)
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.reasons import Reason
from shared.model.wake_events import WakeEvent
from tests.builders import fleet, node, pod
from tests.scheduling.points_world import NODE, Keyed, World, of
from tests.scheduling.tiny_plugins import Fit

# --- PreEnqueue ------------------------------------------------------------------------------------------------------


CLOSED = Reason("closed", "closed for the night", remedy="-", helped_by=WakeEvent.NODE_ADDED)


class Curfew(Keyed, PreEnqueue):
    name = "Curfew"
    REASONS = (CLOSED,)
    closed = True

    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        return refuse(CLOSED) if self.closed else None


def test_pre_enqueue_keeps_a_pod_out_until_an_event_that_its_plugin_waits_for() -> None:
    curfew = Curfew()
    world = World(curfew)
    world.submit("p")
    assert (world.tick(), world.state_of("p")) == ([], "gated")
    assert world.message("p") == "closed for the night"
    curfew.closed = False
    world.report(nodes=(Node("n1", ready=True, labels={"x": "y"}, allocatable=NODE.allocatable),))
    assert world.state_of("p") == "gated"
    world.report(nodes=(Node("n2", ready=True, allocatable=NODE.allocatable),))
    assert len(of(Bind, world.tick())) == 1


# --- PreScore --------------------------------------------------------------------------------------------------------


class Middle(Keyed, PreScore):
    """Prefers the feasible row in the middle: needs the whole set."""

    name = "Middle"

    def pre_score(self, state: object, pod_info: PodInfo, fleet: FleetView, rows: RowList) -> object:
        return SKIP if pod_info.pod.labels.get("only") == "skip" else int(rows[len(rows) // 2])

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        every = np.arange(fleet.n)[rows]
        return np.where(every == state, 100.0, 0.0)


def test_pre_score_sees_the_feasible_rows_and_is_asked_anew_when_they_change() -> None:
    state = fleet(a=[node(f"n{number}").cpu(1) for number in range(5)])
    chosen = (Fit(), Middle())
    profile = Profile(SCHEDULER_NAME, (PluginUse("Fit", 0.0), PluginUse("Middle")))
    scheduler = Scheduler(profile, chosen, state)
    items = [(("a", f"u{number}"), pod(f"p{number}").uid(f"u{number}").cpu(1).placed()) for number in range(5)]
    assert [one.node for one in scheduler.schedule_class(items)] == ["n2", "n3", "n1", "n4", "n0"]  # type: ignore[union-attr]


def test_pre_score_may_have_nothing_to_say() -> None:
    state = fleet(a=["n1", "n2"])
    scheduler = Scheduler(Profile(SCHEDULER_NAME, (PluginUse("Middle"),)), [Middle()], state)
    result = scheduler.schedule(pod().labels(only="skip").placed(), ("a", "u"))
    assert result.record()["scores"]["Middle"]["weighted"] == 0.0


# --- PostFilter ------------------------------------------------------------------------------------------------------


class Helper(Keyed, PostFilter):
    def __init__(self, name: str, answer: Callable[[Trial], Nomination | NoHelp | None]) -> None:
        self.name, self._answer = name, answer  # type: ignore[misc]

    def post_filter(
        self, cycle: CycleState, pod_info: PodInfo, trial: Trial, fleet: FleetView
    ) -> Nomination | NoHelp | None:
        return self._answer(trial)


def test_post_filters_are_asked_in_order_until_one_nominates() -> None:
    asked = []

    def says(name: str, answer: Nomination | NoHelp | None) -> Helper:
        return Helper(name, lambda trial: (asked.append(name), answer)[1])  # type: ignore[func-returns-value]

    world = World(says("One", None), says("Two", NoHelp("two: no.")), says("Three", Nomination(0)), says("Four", None))
    world.submit("p", cpu=9000)
    (told,) = of(ReportUnschedulable, world.tick())
    assert asked == ["One", "Two", "Three"]
    assert (told.message, told.nominated_node) == ("0/1 nodes are available: 1 Insufficient cpu.", "n1")


class Polite(PostFilter):
    """Nominates for pods that are labelled so, and for no others."""

    name = "Polite"

    def class_key(self, pod_info: PodInfo) -> str | None:
        return pod_info.pod.labels.get("may-preempt")

    def post_filter(self, cycle: CycleState, pod_info: PodInfo, trial: Trial, fleet: FleetView) -> Nomination | NoHelp:
        return Nomination(0) if "may-preempt" in pod_info.pod.labels else NoHelp("polite: this pod does not preempt.")


def test_post_filters_are_asked_again_for_a_pod_that_they_tell_apart_by_its_class_key() -> None:
    world = World(Polite())
    world.submit("p", cpu=9000)
    world.submit("q", cpu=9000, labels={"may-preempt": "yes"})
    assert [one.nominated_node for one in of(ReportUnschedulable, world.tick())] == [None, "n1"]


def test_the_words_of_post_filters_follow_those_of_filters() -> None:
    world = World(Helper("One", lambda _: NoHelp("one: no.")), Helper("Two", lambda _: NoHelp("two: neither.")))
    world.submit("p", cpu=9000)
    (told,) = of(ReportUnschedulable, world.tick())
    assert told.message == "0/1 nodes are available: 1 Insufficient cpu. one: no. two: neither."


# --- broken plugins --------------------------------------------------------------------------------------------------


def broken(*_: object) -> Any:
    raise ZeroDivisionError("broken")


class BadGate(Curfew):
    name = "BadGate"

    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        return broken() if pod_info.pod.name == "bad" else None


class BadPreScore(Middle):
    name = "BadPreScore"

    def pre_score(self, state: object, pod_info: PodInfo, fleet: FleetView, rows: RowList) -> object:
        return broken() if pod_info.pod.name == "bad" else int(rows[0])


class BadScores(Middle):
    name = "BadScores"

    def pre_score(self, state: object, pod_info: PodInfo, fleet: FleetView, rows: RowList) -> object:
        return pod_info.pod.name == "bad"

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Any:
        scores = np.zeros(fleet.n)[rows]
        return scores.tolist() if state else scores


@pytest.mark.parametrize("plugin", [BadGate, BadPreScore, BadScores])
def test_a_plugin_that_raises_or_scores_in_a_list_costs_its_one_pod_the_place_and_nobody_else(
    plugin: Callable[[], Plugin],
) -> None:
    world = World(plugin())
    world.submit("bad", labels={"only": "bad"})
    world.submit("good")
    assert [one.pod.name for one in of(Bind, world.tick())] == ["good"]
    assert world.held_cpu() == 1000
    assert world.state_of("bad") in ("unschedulable", "gated")


def test_a_post_filter_that_raises_leaves_the_pod_its_reasons() -> None:
    world = World(Helper("Bad", broken), Helper("Good", lambda _: NoHelp("good: no.")))
    world.submit("p", cpu=9000)
    (told,) = of(ReportUnschedulable, world.tick())
    assert told.message == "0/1 nodes are available: 1 Insufficient cpu. good: no."
    assert any(isinstance(effect, OperatorWarning) and "plugin Bad" in effect.text for effect in world.told)
