"""Pods that are decided by one pass go where their class would send them, with the very same record."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Result, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo, kernels, memory
from dispatcher.scheduling.placing.one_pass import OnePass
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.labels import LabelSelector
from shared.model.names import ACCEPT
from shared.model.node import NO_SCHEDULE
from shared.model.objects import Namespace
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put, reading

NODES = 400
seeds = st.integers(0, 2**32)
OF_AN_APP: tuple[Callable[[PodBuilder], PodBuilder], ...] = (
    lambda one: one,
    lambda one: one,
    lambda one: one.labels(app="u"),
    lambda one: one.labels(app="u").cpu("500m").memory("1Gi"),
    lambda one: one.labels(app="v").cpu("500m").memory("1Gi"),
    lambda one: one.labels(app="v").namespace("other"),
    lambda one: one.labels(app="u").spread("host", hard=False),
    lambda one: one.labels(app="u").spread("zone", 2, hard=False).spread("host", 3, hard=False),
    lambda one: one.labels(app="v").spread("zone", hard=False),
    lambda one: one.labels(app="v").spread("zone", 3),
    lambda one: one.labels(app="u").away("host", LabelSelector({"app": "w"}), weight=5),
)
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # no seed is simpler than another
FIXTURE = HealthCheck.function_scoped_fixture


@pytest.fixture(params=["numpy", "kernels"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(memory, "BLOCK", 64)  # rows in several pieces, as in a large fleet
    if request.param == "kernels":
        pytest.importorskip("numba")
        assert kernels.compile_all()
    yield
    kernels.use_numpy()


def some_node(seed: np.random.Generator, at: int) -> NodeBuilder:
    built = node(f"n{at}").cpu(int(seed.choice((2, 8, 32)))).memory(f"{int(seed.choice((4, 16, 128)))}Gi")
    rack = {"rack": f"r{at % 16}"}
    built = built.pods(int(seed.choice((3, 110)))).labels(**({"zone": "xy"[at % 2], **rack} if at % 20 else rack))
    odd = int(seed.integers(0, 40))
    if odd == 0:
        return built.cordoned()
    if odd == 1:
        return built.ready(False)
    return built.taint("dedicated", "x", NO_SCHEDULE) if odd == 2 else built


def some_fleet(seed: np.random.Generator) -> FleetState:
    state = fleet(**{name: [some_node(seed, at) for at in range(NODES // 2)] for name in "ab"}, now=1000.0)
    for cluster in "ab":
        for at in seed.permutation(NODES // 2)[: NODES * 2 // 5].tolist():
            state.put_reading(cluster, some_reading(seed, f"n{at}"))
    for at in range(NODES // 2):
        built = pod(f"old{at}").cpu(int(seed.integers(0, 4))).memory(f"{int(seed.integers(0, 6))}Gi")
        put(state, built, str(seed.choice(("a", "b"))), f"n{int(seed.integers(0, NODES // 2))}")
    return state


def some_reading(seed: np.random.Generator, name: str) -> Any:
    load = float(seed.random())
    return reading(name, cpu=load, memory=load / 2, net=load / 3, age=float(seed.integers(0, 150)))


def some_pod(seed: np.random.Generator, at: int) -> PodInfo:
    built = pod(f"p{at}").cpu(f"{int(seed.integers(0, 3000))}m").memory(f"{int(seed.integers(0, 5000))}Mi")
    kind = int(seed.integers(0, 9))
    if kind == 0:
        built = built.node_selector({"zone": "x"})
    elif kind == 8:  # few nodes
        built = built.node_selector({"rack": f"r{int(seed.integers(0, 18))}"})
    elif kind == 1:
        built = built.tolerates("dedicated", operator="Exists")
    elif kind == 2:
        built = built.cpu(int(seed.choice((9, 31, 64))))
    elif kind == 3:
        built = pod(f"p{at}")
    built = OF_AN_APP[int(seed.integers(0, len(OF_AN_APP)))](built)
    counts_as = (None, (1, 2**20), (9000, 2**33))[int(seed.integers(0, 3))]
    return msgspec.structs.replace(built.placed(str(seed.choice(("a", "b")))), counts_as=counts_as)


def event(state: FleetState, scheduler: Scheduler, seed: np.random.Generator, at: int) -> None:
    """What happens between decisions."""
    what, cluster, name = int(seed.integers(0, 11)), str(seed.choice(("a", "b"))), f"n{int(seed.integers(0, 200))}"
    if what == 0:
        state.now += float(seed.choice((0.5, 15.0, 60.0)))
    elif what == 1:
        for _ in range(int(seed.choice((1, 80)))):
            state.put_reading(cluster, some_reading(seed, f"n{int(seed.integers(0, 200))}"))
    elif what == 2:
        state.put_node(cluster, some_node(seed, int(seed.integers(0, 220))).build())
    elif what == 3:
        state.remove_node(cluster, name)
    elif what == 4:
        scheduler.forget(("a", f"uid-p{int(seed.integers(0, at + 1))}"))
    elif what == 5:
        accepts = {ACCEPT: str(seed.choice(("true", "false")))}
        state.kept.put(cluster, Namespace(str(seed.choice(("other", "else"))), accepts))
    elif what == 6:
        state.set_closed("a", "b", closed=bool(seed.integers(0, 2)))
    elif what == 7:
        state.set_cluster("b", ready=bool(seed.integers(0, 4)), synced=True)


def run(number: int, *, by_pass: bool, count: int = 16) -> list[Result]:
    seed = np.random.default_rng(number)
    state = some_fleet(seed)
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    if not by_pass:
        scheduler._passes.pass_for = lambda *_: None  # type: ignore[method-assign]
    results = []
    for at in range(count):
        event(state, scheduler, seed, at)
        placed = some_pod(seed, at)
        results.append(scheduler.schedule(placed, ("a", placed.pod.uid)))
    return results


def told(results: list[Result]) -> list[str]:
    return [json.dumps(one.record(), sort_keys=True) for one in results]


@settings(max_examples=12, deadline=None, phases=PHASES, suppress_health_check=[FIXTURE])
@given(number=seeds)
def test_one_pass_records_what_the_class_would_record(compiled: None, number: int) -> None:
    assert told(run(number, by_pass=True)) == told(run(number, by_pass=False))


def test_pods_that_select_few_nodes_are_spread_over_them_as_their_class_would_spread_them(
    compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each asks for another size, so that each is a class of its own, all but the first among pods of its app."""
    found, select = list[Decision | None](), OnePass.select

    def noted(self: OnePass, *pod: Any) -> Decision | None:
        found.append(select(self, *pod))
        return found[-1]

    monkeypatch.setattr(OnePass, "select", noted)

    def decided(*, by_pass: bool) -> list[Result]:
        state = some_fleet(np.random.default_rng(3))
        scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
        if not by_pass:
            scheduler._passes.pass_for = lambda *_: None  # type: ignore[method-assign]
        pods = [pod(f"p{at}").cpu(f"{100 + at}m").labels(app="u").node_selector({"rack": "r3"}) for at in range(12)]
        placed = [one.spread("zone", hard=False).spread("host", hard=False).placed("a") for one in pods]
        return [scheduler.schedule(one, ("a", one.pod.uid)) for one in placed]

    results = decided(by_pass=True)
    assert found == results  # no class had to decide
    assert len({(one.cluster, one.node) for one in results if isinstance(one, Decision)}) > 6
    assert told(results) == told(decided(by_pass=False))


def test_the_best_node_takes_no_more_once_the_last_pod_has_filled_it(form: None) -> None:
    nodes = [node("big").cpu(64).memory("256Gi").pods(1), *(node(f"n{at}").cpu(4).pods(9) for at in range(5))]
    plugins = build(DEFAULT_PROFILE, PluginContext())
    scheduler = Scheduler(DEFAULT_PROFILE, plugins, fleet(a=nodes, now=1000.0))
    pods = [pod(f"p{at}").cpu(f"{100 + at}m").placed("a") for at in range(3)]
    went = [scheduler.schedule(one, ("a", one.pod.uid)) for one in pods]
    assert [isinstance(one, Decision) and one.node == "big" for one in went] == [True, False, False]


def test_most_odd_pods_are_decided_by_one_pass(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found, select = list[Decision | None](), OnePass.select

    def noted(self: OnePass, *pod: Any) -> Decision | None:
        found.append(select(self, *pod))
        return found[-1]

    monkeypatch.setattr(OnePass, "select", noted)
    results = run(7, by_pass=True, count=60)
    placed = [one for one in results if isinstance(one, Decision)]
    assert len(placed) > 40
    assert sum(one is not None for one in found) > 30


def test_a_node_whose_taint_is_rather_avoided_is_told_apart_once_it_has_come(compiled: None) -> None:
    """The values of a column that normalises may become more while nothing but one node changes."""
    state = fleet(a=[node("n1").cpu(64).memory("256Gi"), node("n2").cpu(2).memory("8Gi")], now=1000.0)
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    odd = [pod(f"p{at}").cpu(f"{100 + at}m").placed("a") for at in range(3)]
    went = [scheduler.schedule(one, ("a", one.pod.uid)) for one in odd[:2]]
    state.put_node("a", node("n1").cpu(64).memory("256Gi").taint("dedicated", "x", "PreferNoSchedule").build())
    went.append(scheduler.schedule(odd[2], ("a", odd[2].pod.uid)))
    assert [one.node for one in went if isinstance(one, Decision)] == ["n1", "n1", "n2"]
