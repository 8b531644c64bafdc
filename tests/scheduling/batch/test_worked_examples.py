"""The examples with numbers in docs/algorithms are what the code does."""

from collections.abc import Iterator

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.batch.count_merge import CountMerge
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import PluginUse, Profile, kernels
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.labels import LabelSelector
from shared.model.names import SCHEDULER_NAME
from tests.builders import PodBuilder, fleet, node, pod, put

CPU_ALONE = {"resources": {"cpu": 1}}
PROFILE = Profile(
    SCHEDULER_NAME,
    (
        PluginUse("PrioritySort", 0),
        PluginUse("NodeResourcesFit", 1, CPU_ALONE),
        PluginUse("FaultDomainSpread", 1),
        PluginUse("DefaultPreemption", 0),
    ),
)


@pytest.fixture(params=["numpy", "kernels"])
def compiled(request: pytest.FixtureRequest) -> Iterator[bool]:
    kernels.use_numpy()
    if request.param == "kernels":
        pytest.importorskip("numba")
        assert kernels.compile_all()
    yield request.param == "kernels"
    kernels.use_numpy()


def two_zones() -> FleetState:
    state = fleet(
        a=[
            node("a1").cpu(10).labels(zone="a"),
            node("a2").cpu(10).labels(zone="a"),
            node("b1").cpu(10).labels(zone="b"),
        ]
    )
    put(state, pod("two").cpu(2), "a", "a2")
    put(state, pod("five").cpu(5), "a", "b1")
    return state


def scheduler(state: FleetState) -> Scheduler:
    return Scheduler(PROFILE, build(PROFILE, PluginContext()), state)


def replica(number: int) -> PodBuilder:
    return pod(f"p{number}").cpu(1).labels(app="w").spread("zone", selector=LabelSelector({"app": "w"}))


def test_batch_merge(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    decisions = CountMerge.decisions

    def counted(self: CountMerge, items: object) -> list[Decision]:
        merged.append(len(found := decisions(self, items)))  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(CountMerge, "decisions", counted)
    items = [(("a", f"uid-p{at}"), replica(at).placed("a")) for at in range(4)]
    results = scheduler(two_zones()).schedule_class(items)
    assert merged == [4]
    told = [(one.node, one.score, one.runner_up and one.runner_up[1:]) for one in results if isinstance(one, Decision)]
    assert told == [("a1", 90, ("a2", 70)), ("b1", 40, None), ("a1", 80, ("a2", 70)), ("b1", 30, None)]


def test_one_pod_more_is_supposed_and_taken_back() -> None:
    state, placed = two_zones(), pod("p").cpu(1).placed("a")
    plan = Plan.of(PROFILE, build(PROFILE, PluginContext()))
    fit = plan.scores[0].plugin
    row = np.asarray([state.row_of("a", "a1")])

    def score() -> float:
        return float(fit.score(fit.pre_filter(placed, view_of(state)), view_of(state), row)[0])

    before = state.requested.tobytes(), state.nonzero.tobytes()
    assert score() == 90
    state.suppose(row, placed, 1)
    assert score() == 80
    state.suppose(row, placed, -1)
    assert score() == 90
    assert (state.requested.tobytes(), state.nonzero.tobytes()) == before


def test_preemption_lets_stay_who_can() -> None:
    state = fleet(a=[node("n1").cpu(4)])
    put(state, pod("q").cpu(2).set(priority=50), "a", "n1")
    put(state, pod("p").cpu(2).set(priority=10), "a", "n1")
    refused = scheduler(state).schedule(pod("high").cpu(2).set(priority=100).placed("a"), ("a", "high"))
    assert isinstance(refused, Unschedulable)
    assert [one.pod_info.pod.name for one in refused.victims] == ["p"]
