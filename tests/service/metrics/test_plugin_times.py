"""Durations of plugins and extension points, as kube-scheduler names them."""

from collections.abc import Hashable
from itertools import count

import pytest
from prometheus_client import CollectorRegistry

from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.framework import Filter, Plugin, PluginUse, PodInfo, Profile
from dispatcher.service.metrics.plugin_times import PluginTimes
from tests.builders import fleet, node, pod
from tests.scheduling.tiny_plugins import Fit, Quota, Ready, Selector

POINT = "scheduler_framework_extension_point_duration_seconds"
PLUGIN = "scheduler_plugin_execution_duration_seconds"


class Times:
    """Decides pods under a clock that moves by a second at each look."""

    def __init__(self, *plugins: Plugin, share: float = 1.0) -> None:
        self.registry = CollectorRegistry()
        ticks = count()
        self.times = PluginTimes(self.registry, clock=lambda: float(next(ticks)), share=share)
        profile = Profile("ours", tuple(PluginUse(one.name) for one in plugins))
        self.profiles = Profiles([Scheduler(profile, plugins, fleet(a=[node("n1").cpu(4), node("n2").cpu(4)]))])

    def decide(self, name: str = "p") -> None:
        placed = pod(name).cpu(1).set(node_selector={}).placed()
        with self.times.round():
            self.profiles.schedule_class([(("a", placed.pod.uid), placed)])

    def of_plugin(self, plugin: str, point: str, status: str = "Success", part: str = "count") -> float | None:
        labels = {"plugin": plugin, "extension_point": point, "status": status}
        return self.registry.get_sample_value(f"{PLUGIN}_{part}", labels)

    def of_point(self, point: str, status: str = "Success", part: str = "count") -> float | None:
        labels = {"extension_point": point, "status": status, "profile": "ours"}
        return self.registry.get_sample_value(f"{POINT}_{part}", labels)


def test_each_call_of_a_plugin_is_timed_under_kube_schedulers_name_of_its_point() -> None:
    seen = Times(Ready(), Fit(), Quota())
    seen.decide()
    assert seen.of_plugin("Ready", "Filter") == 1
    assert seen.of_plugin("Ready", "Filter", part="sum") == 1.0
    assert seen.of_plugin(Quota.name, "Reserve") == 1
    assert seen.of_plugin("Ready", "Score") is None


def test_what_the_plugins_of_a_point_take_is_one_observation_a_batch() -> None:
    seen = Times(Ready(), Fit())
    seen.decide()
    assert (seen.of_point("Filter"), seen.of_point("Filter", part="sum")) == (1, 2.0)


def test_a_plugin_that_has_nothing_to_say_is_told_apart() -> None:
    seen = Times(Ready(), Selector())
    seen.decide()
    assert seen.of_plugin("Selector", "PreFilter", "Skip") == 1
    assert seen.of_point("PreFilter", "Skip") == 1


def test_a_plugin_that_raises_is_an_error() -> None:
    class Broken(Filter):
        name = "Broken"

        def class_key(self, pod_info: PodInfo) -> Hashable:
            return None

        def filter(self, state: object, fleet: object, rows: object) -> None:  # type: ignore[override]
            raise RuntimeError("scripted")

    seen = Times(Broken())
    seen.decide()
    assert (seen.of_plugin("Broken", "Filter", "Error"), seen.of_plugin("Broken", "Filter")) == (1, None)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_only_sampled_rounds_are_timed_and_nothing_outside_them(share: float) -> None:
    seen = Times(Ready(), share=share)
    seen.decide()
    before = seen.of_plugin("Ready", "Filter")
    assert before == (1 if share else None)
    placed = pod("later").placed()
    seen.profiles.schedule_class([(("a", placed.pod.uid), placed)])
    assert seen.of_plugin("Ready", "Filter") == before
