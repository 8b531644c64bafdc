"""Arrays that a plugin of someone's own should not answer are that plugin's fault, and nothing else fails."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler, Unschedulable
from dispatcher.scheduling.framework import Depends, Filter, FleetView, Plugin, PluginUse, PodInfo, Rows, Score
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from tests.builders import fleet, node, pod

Made = Callable[[int], Any]
ODD: dict[str, Made] = {
    "objects": lambda count: np.array([None] * count, dtype=object),
    "texts": lambda count: np.array(["1"] * count),
    "complex numbers": lambda count: np.ones(count, dtype=complex),
    "dates": lambda count: np.zeros(count, dtype="M8[s]"),
    "masked numbers": lambda count: np.ma.masked_array(np.ones(count), mask=[True] * count),
}
NO_CODES: dict[str, Made] = {
    "points": np.zeros,
    "codes below 0": lambda count: np.full(count, -1),
    "codes without a reason": lambda count: np.full(count, 50_000, dtype=np.uint16),
}


class OddFilter(Filter[object]):
    name = "Odd"

    def __init__(self, made: Made, depends: Depends) -> None:
        self._made = made
        self.depends = depends  # type: ignore[misc]

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Any:
        return self._made(len(fleet.nodes.live[rows]))


class OddScore(Score[object]):
    name = "Odd"

    def __init__(self, made: Made, depends: Depends) -> None:
        self._made = made
        self.depends = depends  # type: ignore[misc]

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Any:
        return self._made(len(fleet.nodes.live[rows]))


class NoScale(Score[object]):
    """Its raw scores are of no odd kind."""

    name = "Odd"
    depends = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Any:
        return np.arange(fleet.n, dtype=np.float64)[rows]

    def normalize(self, raw: Any) -> Any:
        return np.full(len(raw), np.nan)


def faults_of(plugin: Plugin, *, batched: bool = False) -> dict[str, int]:
    """Six pods are refused for it."""
    profile = replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, PluginUse("Odd", 3.0, {})))
    state = fleet(a=[node(f"n{at}").cpu(8) for at in range(6)])
    scheduler = Scheduler(profile, [*build(DEFAULT_PROFILE, PluginContext()), plugin], state)
    pods = [pod(f"p{at}").cpu("100m").placed("a") for at in range(6)]
    items = [(("a", one.pod.uid), one) for one in pods]
    results = scheduler.schedule_class(items) if batched else [scheduler.schedule(one, at) for at, one in items]
    assert all(isinstance(one, Unschedulable) for one in results)
    return dict(scheduler.faults)


@pytest.mark.parametrize("depends", [Depends.STATIC, Depends.NODE, Depends.FLEET])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("said", [*ODD, *NO_CODES])
def test_codes_of_an_odd_kind_are_the_filter_s_fault(said: str, batched: bool, depends: Depends) -> None:
    assert faults_of(OddFilter({**ODD, **NO_CODES}[said], depends), batched=batched) == {"Odd": 6}


@pytest.mark.parametrize("depends", [Depends.STATIC, Depends.NODE, Depends.FLEET])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("said", ODD)
def test_scores_of_an_odd_kind_are_the_score_s_fault(said: str, batched: bool, depends: Depends) -> None:
    assert faults_of(OddScore(ODD[said], depends), batched=batched) == {"Odd": 6}


def test_a_score_whose_points_would_be_no_number_is_refused() -> None:
    assert faults_of(OddScore(lambda count: np.full(count, 1e305), Depends.STATIC)) == {"Odd": 6}


def test_where_normalising_fails_no_pod_goes_by_the_other_points() -> None:
    """Not the next one, either: groups of rows outlast a class that is forgotten."""
    assert faults_of(NoScale()) == {"Odd": 6}
