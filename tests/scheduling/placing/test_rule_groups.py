"""Odd pods are judged by the rules of counts that policies by domains state, as they are by these policies' parts."""

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.framework import CountedPlugin, FleetView, PluginUse, PodInfo, kernels
from dispatcher.scheduling.framework.counted import pods_by_domain
from dispatcher.scheduling.framework.domain_counts import CountRules, MaxCount, RuleCount, Scale, ScoreTerm
from dispatcher.scheduling.placing import passes, rule_groups
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.labels import LabelSelector, Requirement
from shared.model.reasons import Reasons
from tests.builders import PodBuilder, fleet, node, pod, put, selector

NODES = 40


@pytest.fixture(autouse=True)
def _numpy_afterwards() -> Iterator[None]:
    pytest.importorskip("numba")
    yield
    kernels.use_numpy()


class Ruled(CountedPlugin[None]):
    """Zones with few pods, and hosts with a small number, are better."""

    name = "Ruled"

    def __init__(self, **changed: Any) -> None:
        self._changed = changed

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def rules(self, state: None, fleet: FleetView) -> CountRules:
        zones, hosts = fleet.topology.domain("zone"), fleet.topology.domain("host")
        numbers = np.arange(fleet.n, dtype=np.int64) % 3
        found = {"zones": np.arange(len(fleet.topology.domain_values("zone"))), "hosts": numbers, **self._changed}
        of_zones = ScoreTerm(RuleCount(zones, found["zones"], 0, by_host=False), found.get("factor", -2.0), 9.0, 5.0)
        of_hosts = ScoreTerm(RuleCount(hosts, found["hosts"], 0, by_host=True), -1.0)
        return CountRules(score_terms=[of_zones, of_hosts])


def records(plugin: Ruled | None, pods: Sequence[PodInfo]) -> tuple[list[Any], dict[str, int]]:
    """Of pods one by one, on nodes of which some have no zone; and the faults."""
    plugins, profile = build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(()))), DEFAULT_PROFILE
    if plugin is not None:
        plugins = [*plugins, plugin]
        profile = replace(profile, plugins=(*profile.plugins, PluginUse("Ruled", 1.0, {})))
    nodes = [node(f"n{at}").cpu(8) for at in range(NODES)]
    state = fleet(a=[one.labels(zone="xyz"[at % 3]) if at % 7 else one for at, one in enumerate(nodes)])
    scheduler = Scheduler(profile, plugins, state)
    results = [scheduler.schedule(one, ("a", str(at))) for at, one in enumerate(pods)]
    return [one.record() for one in results], dict(scheduler.faults)


def odd(count: int, one: PodBuilder | None = None) -> list[PodInfo]:
    """Pods of as many classes."""
    return [(one or pod("p").labels(app="x")).cpu(f"{100 + at}m").placed("a") for at in range(count)]


def test_default_spread_is_scored_by_its_rules_and_not_asked_for_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, faults = records(None, odd(12))
    assert kernels.compile_all()
    monkeypatch.setattr(CountedPlugin, "score_parts", None)
    assert records(None, odd(12)) == (told, faults)
    assert faults == {}


@pytest.mark.parametrize(
    "one",
    [
        pod("p").labels(app="x").near("zone", selector(app="x"), weight=7),
        pod("p").labels(app="x").away("host", selector(app="x"), weight=5).near("zone", selector(app="x"), weight=2),
        pod("p").labels(app="x").spread("zone", hard=False).spread("host", 2, hard=False),
        pod("p").labels(app="x").spread("host", hard=False).away("zone", selector(app="x"), weight=9),
    ],
    ids=["near zones", "away from hosts", "spread of its own", "spread and away"],
)
def test_rules_give_the_records_that_parts_give(one: PodBuilder) -> None:
    told = records(None, odd(20, one))
    assert kernels.compile_all()
    assert records(None, odd(20, one)) == told
    assert told[1] == {}


def test_a_third_party_policy_is_scored_by_its_rules_and_not_asked_for_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = records(Ruled(), odd(8, pod("p")))
    assert kernels.compile_all()
    monkeypatch.setattr(Ruled, "score_parts", None)
    assert records(Ruled(), odd(8, pod("p"))) == told


def test_policies_that_count_different_pods_by_host_are_asked_for_their_parts() -> None:
    told = records(Ruled(), odd(8))
    assert kernels.compile_all()
    assert records(Ruled(), odd(8)) == told


wrong: dict[str, dict[str, Any]] = {
    "counts of too few zones": {"zones": np.arange(2)},
    "counts of no zones": {"zones": np.zeros(0, dtype=np.int64)},
    "fewer hosts than nodes": {"hosts": np.arange(5, dtype=np.int64)},
    "hosts below 0": {"hosts": np.full(NODES, -1)},
    "numbers of hosts as great as can be": {"hosts": np.full(NODES, 2**62)},
    "no whole numbers of hosts": {"hosts": np.zeros(NODES)},
    "no whole numbers of zones": {"zones": np.full(3, 0.5)},
    "no numbers": {"factor": "two"},
    "a factor that is no number": {"factor": float("nan")},
}


@pytest.mark.parametrize("said", wrong)
def test_malformed_rules_are_the_fault_of_their_plugin_alone_compiled_or_not(said: str) -> None:
    told = records(Ruled(**wrong[said]), odd(3, pod("p")))
    assert set(told[1]) <= {"Ruled"}
    assert kernels.compile_all()
    assert records(Ruled(**wrong[said]), odd(3, pod("p"))) == told


def spread_by(at: int, hosts: int) -> PodInfo:
    """One that is spread softly over hosts by so many selectors of its own, each meaning one pod that is placed."""
    of_app = (LabelSelector({}, (Requirement("app", "In", (f"old{one}", f"own{at}")),)) for one in range(hosts))
    built = pod(f"p{at}").cpu("100m")
    for one in of_app:
        built = built.spread("host", hard=False, selector=one)
    return built.placed("a")


class Capped(CountedPlugin[CountRules]):
    """A policy of someone's own that lets few pods into a zone, but for what is wrong with its rules."""

    name = "Capped"

    def __init__(self, rules: Callable[[RuleCount, int], object]) -> None:
        self._rules = rules

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        return self._rules(pods_by_domain(pod_info.pod, "zone", fleet), fleet.reasons.code(Reasons.SPREAD, "zone"))


none = np.zeros(3, dtype=bool)
unsound: dict[str, Callable[[RuleCount, int], object]] = {
    "more pods than 64 bits hold": lambda zones, code: CountRules([MaxCount(zones, 2**63, code)]),
    "pods without end": lambda zones, code: CountRules([MaxCount(zones, float("inf"), code)]),  # type: ignore[arg-type]
    "no number of pods": lambda zones, code: CountRules([MaxCount(zones, float("nan"), code)]),  # type: ignore[arg-type]
    "no domain that counts": lambda zones, code: CountRules([MaxCount(zones, 1, code, present=none)]),
    "a code too wide": lambda zones, _: CountRules([MaxCount(zones, 1, 70000)]),
    "a code of no node": lambda zones, _: CountRules([MaxCount(zones, 1, 65535)]),
    "a code without a reason": lambda zones, _: CountRules([MaxCount(zones, 1, 4000)]),
    "a code below 0": lambda zones, _: CountRules([MaxCount(zones, 1, -1)]),
    "more than 64 bits a pod": lambda zones, code: CountRules([MaxCount(replace(zones, more=2**64), 1, code)]),
    "a factor beyond floats": lambda zones, _: CountRules(score_terms=[ScoreTerm(zones, 2**2000)]),
    "offsets": lambda zones, _: CountRules(score_terms=[ScoreTerm(zones, 1.0, np.arange(3.0))]),  # type: ignore[arg-type]
    "a table in a list": lambda zones, _: CountRules(score_terms=[ScoreTerm(zones, 0.0, table=[1.0, 2.0, 3.0])]),  # type: ignore[arg-type]
    "a short table": lambda zones, _: CountRules(score_terms=[ScoreTerm(zones, 0.0, table=np.arange(2.0))]),
    "a table and a factor": lambda zones, _: CountRules(score_terms=[ScoreTerm(zones, 7.0, table=np.arange(3.0))]),
    "another scale": lambda zones, _: CountRules(score_terms=[ScoreTerm(zones, 1.0)], scale=Scale.RANGE),
    "counts in halves": lambda zones, _: CountRules(
        score_terms=[ScoreTerm(replace(zones, counts=zones.counts * 0.5), 1.0)]  # type: ignore[arg-type]
    ),
    "counts in rows": lambda zones, _: CountRules(
        score_terms=[ScoreTerm(replace(zones, counts=np.zeros((3, 2), dtype=np.int64)), 1.0)]
    ),
    "domains in a list": lambda zones, _: CountRules(
        score_terms=[ScoreTerm(replace(zones, domain=zones.domain.tolist()), 1.0)]
    ),
    "something else": lambda zones, _: 7,
}


@pytest.mark.parametrize("said", unsound)
def test_rules_that_are_none_do_to_batches_and_passes_what_they_do_to_classes(said: str) -> None:
    """It is that plugin's fault: nothing else fails."""
    assert kernels.compile_all()

    def decided(*, by_pass: bool = False, batched: bool = False) -> list[tuple[str, str]]:
        plugins = [*build(DEFAULT_PROFILE, PluginContext()), Capped(unsound[said])]
        profile = replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, PluginUse("Capped", 1.0, {})))
        state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at % 3]) for at in range(12)])
        scheduler = Scheduler(profile, plugins, state)
        if not by_pass:
            scheduler._passes.pass_for = lambda *_: None  # type: ignore[method-assign]
        pods = [pod(f"p{at}").labels(app="x").cpu("100m").placed("a") for at in range(8)]
        items = [(("a", one.pod.uid), one) for one in pods]
        one_by_one = (scheduler.schedule(one, pod_id) for pod_id, one in items)
        results = scheduler.schedule_class(items) if batched else list(one_by_one)
        assert all(json.dumps(one.record()) for one in results)
        return [(one.cluster, one.node) if isinstance(one, Decision) else ("", one.message) for one in results]

    told = decided()
    assert decided(by_pass=True) == told
    assert decided(batched=True) == told


@pytest.mark.parametrize("hosts", [4, 13])
def test_numbers_on_hosts_of_many_kinds_make_no_more_groups_than_pay(
    monkeypatch: pytest.MonkeyPatch, hosts: int
) -> None:
    """Each doubles the groups: 13 of these would be 8,192 for each zone, in tables of 40 MiB for every such pod."""
    assert kernels.compile_all()
    state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at % 3]) for at in range(NODES)])
    for at in range(hosts):
        put(state, pod(f"old{at}").labels(app=f"old{at}"), "a", f"n{at}")
    monkeypatch.setattr(passes, "_GROUP_BYTES", 2**16)
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    for at in range(6):
        assert isinstance(scheduler.schedule(spread_by(at, hosts), ("a", f"p{at}")), Decision)
    kept = scheduler._passes._groups.values()
    assert 0 < sum(one.nbytes for one in kept) <= 2**16
    assert all(getattr(one, "groups", 0) <= rule_groups._FEW for one in kept)
