from typing import Any

import pytest

from dispatcher.plugins.hot_node import HOT
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import PluginUse, Profile
from shared.model.wake_events import NODES, WakeEvent
from tests.builders import fleet, pod, reading
from tests.plugins.asking import make, reasons, state_of


def read(state: FleetState, **shares: float) -> None:
    for name, share in shares.items():
        state.put_reading("a", reading(name, cpu=share, memory=share / 2))
    state.update_hot()


def watched(plugin: Any) -> FleetState:
    state = fleet(a=["n1", "n2", "n3"])
    state.derive(plugin.derives)
    return state


def test_hot_nodes_are_refused_until_they_are_cool() -> None:
    plugin = make("HotNode")
    state = watched(plugin)
    read(state, n1=0.9, n2=0.84)
    assert reasons(plugin, pod(), state) == {"n1": "node(s) were hot (cpu from 0.85 until 0.7)"}
    state.now += 30_000.0  # the mean is the last reading
    read(state, n1=0.75)
    assert set(reasons(plugin, pod(), state)) == {"n1"}
    state.now += 30_000.0  # the mean is the last reading
    read(state, n1=0.7)
    assert reasons(plugin, pod(), state) == {}


def test_a_node_is_hot_by_any_of_the_signals() -> None:
    plugin = make("HotNode", signals=["memory", "cpu"], enter=0.4, leave=0.3, most=1.0)
    state = watched(plugin)
    read(state, n1=0.9, n2=0.5, n3=0.2)
    told = {"n1": "node(s) were hot (memory from 0.4 until 0.3)", "n2": "node(s) were hot (cpu from 0.4 until 0.3)"}
    assert reasons(plugin, pod(), state) == told


def test_nobody_is_refused_by_what_is_unknown_or_not_kept() -> None:
    plugin = make("HotNode")
    assert reasons(plugin, pod(), watched(plugin)) == {}
    state = fleet(a=["n1", "n2"])
    read(state, n1=0.9)
    assert reasons(plugin, pod(), state) == {}


def test_records_say_what_the_node_was_held_against() -> None:
    plugin = make("HotNode", signals=["cpu", "disk"])
    state = watched(plugin)
    read(state, n2=0.5)
    assert plugin.explain(state_of(plugin, pod(), state), pod().placed(), view_of(state), 1) == {
        "cpu": {"mean": 0.5, "reading": 0.5, "enter": 0.85, "leave": 0.7},
        "disk": {"mean": None, "reading": None, "enter": 0.85, "leave": 0.7},
    }


def test_a_node_that_cools_down_helps_and_evicting_pods_does_not() -> None:
    assert HOT.helped_by == NODES | WakeEvent.COOLED


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ({"enter": 0.7, "leave": 0.7}, "leave (0.7) must be less than enter (0.7)"),
        ({"signals": []}, "must name 1 to 8 signals"),
        ({"signals": ["CPU"]}, "'CPU' is no signal"),
    ],
)
def test_bad_arguments_are_named(args: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make("HotNode", **args)
    assert want in str(caught.value)


def test_a_scheduler_has_the_fleet_keep_it_and_its_cached_answers_follow() -> None:
    state = fleet(a=["n1", "n2", "n3"])
    plugins = [make("HotNode", most=1.0)]
    scheduler = Scheduler(Profile("p", (PluginUse("HotNode"),)), plugins, state)

    def place(name: str) -> str:
        result = scheduler.schedule(pod(name).placed("a"), ("a", name))
        if isinstance(result, Unschedulable):
            return "nowhere"
        assert isinstance(result, Decision)
        return result.node

    first = place("p1")
    read(state, **{first: 0.9})
    second = place("p2")
    assert second != first
    read(state, n1=0.9, n2=0.9, n3=0.9)
    assert place("p3") == "nowhere"
    state.now += 300.0
    state.update_hot()
    assert place("p4") == first
