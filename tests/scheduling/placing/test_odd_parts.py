"""Parts of policies by domains that are not as they should be are that plugin's fault, compiled or not."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.cycle.cycle import Unschedulable as Refused
from dispatcher.scheduling.framework import DomainPlugin, FleetView, Part, PluginUse, PodInfo, kernels
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from tests.builders import fleet, node, pod

NODES = 60
Parts = Callable[[FleetView], Sequence[Part]]


class Odd(DomainPlugin[object]):
    """A policy of someone's own."""

    name = "Odd"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def score_parts(self, state: object, fleet: FleetView) -> Sequence[Part]:
        return self._parts(fleet)


@pytest.fixture(params=[True, False], ids=["kernels", "NumPy"], autouse=True)
def _compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param:
        pytest.importorskip("numba")
        assert kernels.compile_all()
    yield
    kernels.use_numpy()


def decided(parts: Parts) -> tuple[list[Any], dict[str, int], list[str]]:
    """Six pods of as many classes: where they go, the faults, and what is said of them."""
    profile = replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, PluginUse("Odd", 1.0, {})))
    plugins = [*build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(()))), Odd(parts)]
    state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at % 3]) for at in range(NODES)])
    scheduler = Scheduler(profile, plugins, state)
    pods = [pod(f"p{at}").labels(app="x").cpu(f"{100 + at}m").placed("a") for at in range(6)]
    results = [scheduler.schedule(one, ("a", one.pod.name)) for one in pods]
    assert all(isinstance(one, Decision | Refused) for one in results)
    nodes = [one.node if isinstance(one, Decision) else None for one in results]
    return nodes, dict(scheduler.faults), scheduler.take_troubles()


def by_zone(made: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Parts:
    return lambda fleet: [Part(made(fleet.topology.domain("zone")), np.array([10.0, 20.0, 5.0, 0.0]))]


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
    assert "the domain of a part is no column of whole numbers" in troubles[0]
