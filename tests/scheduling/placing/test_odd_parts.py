"""Rules of policies by domains that are not as they should be are that plugin's fault, compiled or not."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.cycle.cycle import Unschedulable as Refused
from dispatcher.scheduling.framework import (
    SKIP,
    CountedPlugin,
    FleetView,
    PluginUse,
    PodInfo,
    Profile,
    Refuse,
    Skip,
    kernels,
)
from dispatcher.scheduling.framework.domain_counts import CountRules, constant
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from tests.builders import fleet, node, pod

NODES = 60
Rules = Callable[[FleetView], CountRules]


class Odd(CountedPlugin[None]):
    """A policy of someone's own."""

    name = "Odd"

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def rules(self, state: None, fleet: FleetView) -> CountRules:
        return self._rules(fleet)


@pytest.fixture(params=[True, False], ids=["kernels", "NumPy"], autouse=True)
def _compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param:
        pytest.importorskip("numba")
        assert kernels.compile_all()
    yield
    kernels.use_numpy()


def decided(rules: Rules) -> tuple[list[Any], dict[str, int], list[str]]:
    """Six pods of as many classes: where they go, the faults, and what is said of them."""
    profile = replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, PluginUse("Odd", 1.0, {})))
    plugins = [*build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(()))), Odd(rules)]
    state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at % 3]) for at in range(NODES)])
    scheduler = Scheduler(profile, plugins, state)
    pods = [pod(f"p{at}").labels(app="x").cpu(f"{100 + at}m").placed("a") for at in range(6)]
    results = [scheduler.schedule(one, ("a", one.pod.name)) for one in pods]
    assert all(isinstance(one, Decision | Refused) for one in results)
    nodes = [one.node if isinstance(one, Decision) else None for one in results]
    return nodes, dict(scheduler.faults), scheduler.take_troubles()


def by_zone(made: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Rules:
    table = np.array([10.0, 20.0, 5.0])
    return lambda fleet: CountRules(score_terms=[constant(made(fleet.topology.domain("zone")), table)])


def test_domains_of_a_policy_s_own_may_be_wider_numbers() -> None:
    wider = decided(by_zone(lambda zone: zone.astype(np.int64)))
    assert wider == decided(by_zone(lambda zone: zone))
    assert wider[1:] == ({}, [])


def test_domains_below_minus_one_go_to_no_group_of_another() -> None:
    nodes, faults, _ = decided(by_zone(lambda zone: np.where(zone < 1, zone - 100, zone)))
    assert nodes == [None] * 6
    assert faults == {"Odd": 6}


def test_domains_that_are_no_whole_numbers_are_the_plugin_s_fault() -> None:
    nodes, faults, troubles = decided(by_zone(lambda zone: zone * 1.0))
    assert nodes == [None] * 6
    assert faults == {"Odd": 6}
    assert f"the domain of a count must be [{NODES}] whole numbers" in troubles[0]


def test_a_batch_goes_on_where_rules_come_to_be_about_other_domains() -> None:
    def rules(fleet: FleetView) -> CountRules:
        placed = int(fleet.topology.count_matching(web(0).pod, None, "cluster").sum())
        racks = constant(fleet.topology.domain("rack"), np.array([2.0, 1.0]))
        zones = constant(fleet.topology.domain("zone"), np.array([10.0, 20.0, 5.0]))
        return CountRules(score_terms=[racks, zones] if placed % 3 == 2 else [racks], lasting=False)

    def web(at: int) -> PodInfo:
        return pod(f"p{at}").labels(app="x").cpu("100m").placed("a")

    others = Profile("p", (PluginUse("PrioritySort"), PluginUse("NodeResourcesFit")))
    profile = replace(others, plugins=(*others.plugins, PluginUse("Odd", 1.0)))
    nodes = []
    for batched in (True, False):
        state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at % 3], rack="rs"[at % 2]) for at in range(6)])
        plugins = [*build(others, PluginContext()), Odd(rules)]
        scheduler = Scheduler(profile, plugins, state)
        items = [(("a", one.pod.uid), one) for one in map(web, range(8))]
        runs = [items] if batched else [[item] for item in items]
        results = [result for run in runs for result in scheduler.schedule_class(run)]
        nodes.append([one.node for one in results if isinstance(one, Decision)])
    assert len(nodes[0]) == 8
    assert nodes[0] == nodes[1]


NOTHING = CountRules()


class Sometimes(CountedPlugin[CountRules]):
    """Has nothing to say, by one and the same answer, of pods that name it; skips all others."""

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.annotations.get("who") == self.name

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> CountRules | Refuse | Skip:
        return NOTHING if self.class_key(pod_info) else SKIP


def test_policies_that_answer_the_very_same_rules_are_told_apart() -> None:
    profile = replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, PluginUse("A"), PluginUse("B")))
    plugins = [*build(DEFAULT_PROFILE, PluginContext()), Sometimes("A"), Sometimes("B")]
    scheduler = Scheduler(profile, plugins, fleet(a=[node("n1").cpu(8), node("n2").cpu(8)]))
    for who in "AB":
        found = scheduler.schedule(pod(who).annotation("who", who).cpu("100m").placed("a"), ("a", who))
        assert isinstance(found, Decision)
        assert who in found.record()["scores"]
