"""However many shards there are and whatever becomes of them: the very decisions and records of one process."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.model.node import Node
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling import events
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.equivalence.rows import ParallelScan
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed, Plugin, PluginUse, Profile, kernels
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.shards.coordinator import Shards
from dispatcher.scheduling.shards.frames import Frame
from dispatcher.scheduling.shards.held import HELD
from dispatcher.scheduling.shards.race import AGAIN_S, Race
from tests.builders import node, pod, reading
from tests.laws.cores import make_core
from tests.laws.examples import examples
from tests.laws.local_shards import LocalShard, shards_of
from tests.laws.oracle import numbered
from tests.laws.test_exactly_once import CLUSTERS as CLUSTERS_OF_WORLD
from tests.laws.test_exactly_once import GRACE_S, Simulation
from tests.laws.test_placement_laws import TINY, real, scripts, tiny

CLUSTERS = ("a", "b", "c")
Plugins = Callable[[], list[Plugin]]


class Fleet:
    """One scheduler over a fleet, with `count` shards (0: none), fed the events of a script."""

    def __init__(self, profile: Profile, begin: Callable[[], Plugins], count: int, **options: Any) -> None:
        self.fleet = FleetState(now=1000.0)
        plugins = begin()
        self.shards = shards_of(self.fleet, profile, plugins, count, **options)
        self.links: list[LocalShard] = list(self.shards.links)  # type: ignore[arg-type]
        parallel_scan = self.shards.parallel_scan(profile.scheduler_name) if count else None
        self.scheduler = Scheduler(profile, plugins(), self.fleet, parallel_scan=parallel_scan)
        self.results: list[Any] = []
        self.placed: list[tuple[str, str]] = []
        for name in CLUSTERS:
            self.cluster(name, True)
            self.node(name, node("n1").cpu("2").labels(zone="x" if name == "a" else "y").build())

    def run(self, script: list[tuple[Any, ...]], *, batched: bool = True) -> bytes:
        """All that was decided and why, and the columns at the end."""
        for event in script:
            if event[0] == "pods":
                self.pods(*event[1:], batched=batched)
            else:
                getattr(self, event[0])(*event[1:])
        lines = [json.dumps(result.record(), sort_keys=True) for result in self.results]
        return "\n".join(lines).encode() + self.fleet.requested.tobytes() + self.fleet.recent.tobytes()

    def cluster(self, name: str, ready: bool) -> None:
        self.fleet.set_cluster(name, ready=ready, synced=True)

    def node(self, cluster: str, built: Node) -> None:
        self.fleet.put_node(cluster, built)

    def gone(self, cluster: str, name: str) -> None:
        self.fleet.remove_node(cluster, name)

    def reading(self, cluster: str, name: str, cpu: float, age: float) -> None:
        self.fleet.put_reading(cluster, reading(name, cpu=cpu, memory=cpu / 2, net=cpu / 3, age=age))
        self.fleet.judge_hot()

    def later(self, seconds: float) -> None:
        self.fleet.now += seconds
        self.fleet.judge_hot()

    def end(self, index: int) -> None:
        if index < len(self.placed):
            self.scheduler.forget(self.placed.pop(index))

    def pods(self, placed: Placed, count: int, *, batched: bool) -> None:
        pods = [numbered(placed, len(self.results) + index) for index in range(count)]
        if batched:
            many = self.scheduler.schedule_class(pods)
        else:
            many = [self.scheduler.schedule(one, pod_id) for pod_id, one in pods]
        self.results += many
        self.placed += [one.pod_id for one in many if isinstance(one, Decision)]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
@settings(max_examples=examples(30), deadline=None)
@given(script=scripts)
def test_shards_change_no_decision_and_no_record(count: int, batched: bool, script: list[tuple[Any, ...]]) -> None:
    alone = Fleet(DEFAULT_PROFILE, real, 0).run(script, batched=batched)
    assert Fleet(DEFAULT_PROFILE, real, count).run(script, batched=batched) == alone


DERIVED = Profile(
    DEFAULT_PROFILE.scheduler_name,
    (
        *(one for one in DEFAULT_PROFILE.plugins if one.name != "ExpectedLoad"),
        PluginUse("HotNode", args={"enter": 0.5, "leave": 0.25, "stale_s": 60.0}),
        PluginUse("LoadVariationRiskBalancing", 4.0),
        PluginUse("TargetLoadPacking", 1.0),
    ),
)


def derived() -> Plugins:
    return lambda: build(DERIVED, PluginContext(quota=QuotaLedger(())))


@settings(max_examples=examples(30), deadline=None)
@given(script=scripts)
def test_what_is_derived_of_readings_is_in_shards_as_it_is_in_the_driver(script: list[tuple[Any, ...]]) -> None:
    alone = Fleet(DERIVED, derived, 0).run(script)
    shared = Fleet(DERIVED, derived, 2)
    assert shared.run(script) == alone
    assert not [text for text in shared.shards.take_news() if "NodePorts" not in text]
    assert Fleet(DERIVED, derived, 0).run(script, batched=False) == alone


class Traced(Simulation):
    """A dispatcher in a troubled world, whose every effect is written down; with two shards or none."""

    def __init__(self, seed: int, *, crowded: bool, trouble: float | None) -> None:
        self.trace: list[bytes] = []
        self.answered = 0
        self._shards: list[Shards] = []
        self._how = seed, trouble
        super().__init__(seed, crowded=crowded)

    def _boot(self) -> SchedulerCore:
        super()._boot()
        seed, trouble = self._how
        return make_core(
            CLUSTERS_OF_WORLD,
            boot_epoch=self.boots * 1_000_000,
            timing=CoreTiming(absence_grace_s=GRACE_S),
            parallel_scan=None if trouble is None else lambda fleet: self._parallel_scan(fleet, seed, trouble),
        )

    def _parallel_scan(self, fleet: FleetState, seed: int, trouble: float) -> ParallelScan:
        ledger = real()
        self._shards.append(shards_of(fleet, DEFAULT_PROFILE, ledger, 2, seed=seed, trouble=trouble))
        return self._shards[-1].parallel_scan(DEFAULT_PROFILE.scheduler_name)

    def _feed(self, event: events.Event) -> None:
        effects = self.core.handle(event, self.now)
        for effect in effects:
            told = json.dumps(effect.decision.record()) if isinstance(effect, events.Decided) else repr(effect)
            self.trace.append(told.encode())
        self.mail.post(effects)

    def live(self, seconds: int) -> "Traced":
        for _ in range(seconds):
            self.step()
        self.answered = sum(counts.answered for one in self._shards for counts in one.counts_of_each)
        return self


@pytest.mark.parametrize("crowded", [False, True], ids=["roomy", "with evictions"])
@pytest.mark.parametrize("trouble", [0.0, 0.2], ids=["shards are well", "shards die"])
def test_a_dispatcher_with_shards_does_what_one_without_does(crowded: bool, trouble: float) -> None:
    answered = 0
    for seed in range(6):
        alone = Traced(seed, crowded=crowded, trouble=None).live(50)
        shared = Traced(seed, crowded=crowded, trouble=trouble).live(50)
        assert shared.trace == alone.trace
        answered += shared.answered
    assert answered > 20


def test_shards_answer_for_new_classes_and_for_classes_whose_clock_has_moved() -> None:
    one = Fleet(DEFAULT_PROFILE, real, 2)
    answered = []
    for at, event in enumerate((("pods", probe(0), 1), ("pods", probe(1), 1), ("later", 5.0), ("pods", probe(1), 1))):
        one.run([event])
        answered.append([counts.answered for counts in one.shards.counts_of_each])
        assert all(not counts.missed for counts in one.shards.counts_of_each), at
    assert answered == [[1, 1], [2, 2], [2, 2], [3, 3]]


def test_shards_that_are_slower_than_doing_without_are_not_asked_for_a_while() -> None:
    one, clock = Fleet(DEFAULT_PROFILE, real, 2), [0.0]
    shards = one.shards
    assert shards is not None
    shards.race = Race(lambda: clock[0])
    slow = 2.0

    def late(answer: Callable[[], Frame | None]) -> Frame | None:
        clock[0] += slow
        return answer()

    for link in one.links:
        link.answer = partial(late, link.answer)  # type: ignore[method-assign]
    asked = []
    for at in range(8):
        one.run([("pods", probe(at), 1)])
        asked.append(shards.counts_of_each[0].answered)
    assert asked == [0, 1, 2, 3, 3, 3, 3, 3]  # the first is timed alone; then three lost in a row
    assert [text for text in shards.take_news() if "longer" in text]
    clock[0], slow = clock[0] + 2 * AGAIN_S, 0.0
    for at in range(8, 13):
        one.run([("pods", probe(at), 1)])
        asked.append(shards.counts_of_each[0].answered)
    assert asked[8:] == [3, 4, 5, 6, 7]  # timed alone once more, then as fast
    assert one.run([]) == Fleet(DEFAULT_PROFILE, real, 0).run([("pods", probe(at), 1) for at in range(13)])


def test_what_a_plugin_asks_in_vain_in_a_shard_is_asked_there_but_once() -> None:
    one = Fleet(DEFAULT_PROFILE, real, 2)
    for at in range(3):
        one.run([("pods", pod("p").cpu(f"{100 + at}m").port(80 + at).placed("a"), 1)])
    assert [counts.declined for counts in one.shards.counts_of_each] == [1, 1]
    assert one.shards.take_news() == ["plugin NodePorts: NotHeldError: shards do not hold 'rows_with_ports'"]
    assert all(isinstance(result, Decision) for result in one.results)


@settings(max_examples=examples(30), deadline=None)
@given(script=scripts)
def test_plugins_that_ask_for_more_than_shards_hold_decide_as_ever(script: list[tuple[Any, ...]]) -> None:
    assert Fleet(TINY, tiny, 2).run(script) == Fleet(TINY, tiny, 0).run(script)


@settings(max_examples=examples(60), deadline=None)
@given(script=scripts, seed=st.integers(0, 2**32))
def test_shards_that_die_lose_orders_or_do_not_answer_change_nothing(script: list[tuple[Any, ...]], seed: int) -> None:
    alone = Fleet(DEFAULT_PROFILE, real, 0).run(script)
    assert Fleet(DEFAULT_PROFILE, real, 2, seed=seed, trouble=0.2).run(script) == alone


@pytest.mark.usefixtures("compiled")
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=scripts)
def test_shards_with_kernels_tell_what_numpy_tells(script: list[tuple[Any, ...]]) -> None:
    kernels.compile_all()
    with_kernels = Fleet(DEFAULT_PROFILE, real, 2).run(script)
    kernels.use_numpy()
    assert Fleet(DEFAULT_PROFILE, real, 2).run(script) == with_kernels


def probe(at: int) -> Placed:
    """A pod of a class that was never seen, and that no pruned search decides."""
    return pod(f"probe-{at}").cpu(f"{11 + at}m").spread("zone", 9).placed("a")


@pytest.mark.parametrize("trouble", [0.0, 0.3], ids=["all is well", "shards die"])
@settings(max_examples=examples(40), deadline=None)
@given(script=scripts, seed=st.integers(0, 2**32))
def test_what_shards_hold_equals_the_driver_s_columns(trouble: float, script: list[tuple[Any, ...]], seed: int) -> None:
    one = Fleet(DEFAULT_PROFILE, real, 3, seed=seed, trouble=trouble)
    one.run(script)
    shards, links = one.shards, one.links
    one.cluster("a", True)
    for at in range(12):  # so many that any pod is worth a question
        one.node("a", node(f"more-{at}").build())
    for link in links:
        link.trouble = 0.0
    for at in range(3):  # one that died says so, and is told all
        one.scheduler.schedule(probe(at), ("a", f"probe-{at}"))
    shards.follow()
    assert all(counts.answered for counts in shards.counts_of_each)
    for name in HELD:
        told = [getattr(link.shard.held, name) for link in links]
        assert np.concatenate(told, axis=-1).tobytes() == getattr(one.fleet, name).tobytes(), name
