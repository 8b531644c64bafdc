"""Pods that hot nodes keep waiting are tried again when one is cool, by a reading or because none comes any more."""

import pytest

from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.reload import take_profiles
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.events import ClusterChanged, Tick
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Plugin, PluginUse, Profile
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.views import nodes_view, whole
from shared.messages import Changes
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node, Reading
from shared.model.pod import Pod

POD = Pod("u1", "default", "p1", requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME)
NODES = (Node("n1", ready=True, allocatable={"cpu": 4000, "pods": 50}),)
STALE_S = 300.0


def profiles_over(state: FleetState, **args: object) -> tuple[Profiles, list[Plugin]]:
    uses = (PluginUse("PrioritySort"), PluginUse("HotNode", args={"most": 1.0, **args}))
    profile = Profile(SCHEDULER_NAME, uses)
    plugins = build(profile, PluginContext())
    return Profiles([Scheduler(profile, plugins, state)]), plugins


class Stage:
    """A core with one node, which is hot, and a pod that waits since 1 s."""

    def __init__(self) -> None:
        state = FleetState()
        profiles, plugins = profiles_over(state)
        self.queue = SchedulingQueue(queue_sort(plugins), profiles.classify, gates=profiles)
        self.core = SchedulerCore(["east"], state, self.queue, profiles, boot_epoch=1)
        self.version = 1
        first = Changes("east", "east-uid", "life", 0, 1, full=True, nodes=NODES, pods=(POD,), readings=(hot(0.9),))
        self.core.handle(ClusterChanged(first), 1.0)
        self.core.handle(Tick(), 1.0)
        assert self.state == "unschedulable"

    @property
    def state(self) -> str | None:
        return self.queue.state_of(("east", "u1"))

    def read(self, cpu: float, now: float) -> None:
        told = Changes("east", "east-uid", "life", self.version, self.version + 1, readings=(hot(cpu),))
        self.version += 1
        self.core.handle(ClusterChanged(told), now)


def hot(cpu: float) -> Reading:
    return Reading("n1", cpu=cpu, cpu_age_s=0.0)


def test_a_reading_that_shows_a_node_cool_wakes_the_pods_that_wait_for_it() -> None:
    stage = Stage()
    stage.read(0.1, 30.0)  # the mean is still high
    assert stage.state == "unschedulable"
    (told,) = whole(nodes_view(stage.core))
    assert told["hot"] == [
        {"signal": "cpu", "mean": 0.8263, "since_s": 29.0, "enter": 0.85, "leave": 0.7, "refuses": True}
    ]
    stage.read(0.1, 120.0)
    stage.core.handle(Tick(), 121.0)
    assert stage.core.fleet.occupant(("east", "u1")) is not None
    assert whole(nodes_view(stage.core))[0]["hot"] == []


def test_a_node_of_which_nothing_is_heard_any_more_is_hot_no_longer() -> None:
    stage = Stage()
    stage.core.handle(Tick(budget=None), 1.0 + STALE_S - 1.0)
    assert stage.state == "unschedulable"
    stage.core.handle(Tick(), 1.0 + STALE_S)
    assert stage.core.fleet.occupant(("east", "u1")) is not None


@pytest.mark.parametrize(("enter", "places"), [(0.95, True), (0.85, False)])
def test_other_profiles_have_their_own_rules_kept_and_those_of_the_old_ones_are_not(enter: float, places: bool) -> None:
    stage = Stage()
    core = stage.core
    profiles, plugins = profiles_over(core.fleet, enter=enter)
    take_profiles(core, profiles, queue_sort(plugins), 2.0)
    core.handle(Tick(), 2.0)
    assert [rule.enter for rule in core.fleet.signals.derived.hot] == [enter]
    assert (core.fleet.occupant(("east", "u1")) is not None) == places
