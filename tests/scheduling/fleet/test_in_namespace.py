"""Budgets and Services are found by namespace: those of all others cost nothing, however many they are."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.objects import ClusterObjects
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.rules import budgets
from dispatcher.scheduling.rules.budgets import Budgets
from shared.model.labels import LabelSelector
from shared.model.objects import PodDisruptionBudget, ReplicaSet, Service
from shared.model.pod import Pod
from tests.laws.examples import examples

OTHERS = 10_000
NAMESPACES, NAMES, CLUSTERS = ("default", "kube-system"), ("a", "b"), ("east", "west")
WEB = {"app": "web"}
POD = Pod("u", "default", "web", labels=WEB)


def budget(namespace: str, name: str, allowed: int = 0, app: str = "web") -> PodDisruptionBudget:
    return PodDisruptionBudget(namespace, name, LabelSelector({"app": app}), allowed=allowed)


PUT = st.builds(budget, st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.integers(0, 1), st.sampled_from("vw"))
EVENTS = st.tuples(st.just("east"), st.sampled_from(["put", "put", "remove", "assume", "release"]), PUT)


def all_of(found: Mapping[str, PodDisruptionBudget]) -> dict[str, PodDisruptionBudget]:
    return dict(found)


def selectors_of(found: Mapping[str, PodDisruptionBudget]) -> dict[str, LabelSelector | None]:
    return {key: one.selector for key, one in found.items()}


@settings(max_examples=examples(500))
@given(before=st.lists(EVENTS, max_size=6), after=st.lists(EVENTS, max_size=12))
def test_what_is_in_a_namespace_is_what_a_look_at_all_finds_there_after_any_changes(
    before: list[Any], after: list[Any]
) -> None:
    kept = ClusterObjects()
    for event in before:
        happen(kept, *event)
    for event in (None, *after):
        if event is not None:
            happen(kept, *event)
        for cluster in CLUSTERS:
            found = kept.of(cluster, PodDisruptionBudget)
            for namespace in NAMESPACES:
                wanted = {key: one for key, one in found.items() if one.namespace == namespace}
                assert kept.in_namespace(cluster, PodDisruptionBudget, namespace) == wanted
                assert kept.derived(cluster, all_of, PodDisruptionBudget, namespace=namespace) == wanted
                fields = PodDisruptionBudget, "selector"
                said = kept.derived(cluster, selectors_of, fields, namespace=namespace)
                assert said == selectors_of(wanted)


def happen(kept: ClusterObjects, cluster: str, what: str, one: PodDisruptionBudget) -> None:
    if what == "put":
        kept.put(cluster, one)
    elif what == "remove":
        kept.remove(cluster, "PodDisruptionBudget", one.key)
    elif what == "assume":
        kept.assume(cluster, one, {"allowed": 7}, "holder")
    else:
        kept.release(cluster, one, "holder")


def test_what_is_derived_in_a_namespace_is_made_anew_only_where_that_changes_and_in_what_is_read() -> None:
    kept, made = ClusterObjects(), []

    def make(found: Mapping[str, PodDisruptionBudget]) -> list[str]:
        made.append(sorted(found))
        return made[-1]

    def said() -> list[str]:
        return kept.derived("east", make, (PodDisruptionBudget, "selector"), namespace="default")

    kept.put("east", budget("default", "a"))
    assert (said(), said(), len(made)) == (["default/a"], ["default/a"], 1)
    for one in (budget("kube-system", "a"), budget("kube-system", "a", app="x"), budget("default", "a", allowed=5)):
        kept.put("east", one)
    kept.put("west", budget("default", "b"))
    assert (said(), len(made)) == (["default/a"], 1)
    kept.put("east", budget("default", "a", app="x"))
    assert (said(), len(made)) == (["default/a"], 2)
    kept.remove("east", "PodDisruptionBudget", "default/a")
    assert said() == []
    kept.put("east", budget("default", "b"))
    assert said() == ["default/b"]


def test_what_is_derived_of_two_kinds_is_that_of_both_as_they_are() -> None:
    kept = ClusterObjects()

    def said(namespace: str) -> list[str]:
        return kept.derived("east", lists_of, PodDisruptionBudget, Service, namespace=namespace)

    for namespace in NAMESPACES:  # no budget in either
        kept.put("east", Service(namespace, f"of-{namespace}", WEB))
    assert [said(namespace) for namespace in NAMESPACES] == [[f"{one}/of-{one}"] for one in NAMESPACES]
    kept.put("east", budget("default", "a"))
    assert said("default") == ["default/a", "default/of-default"]
    kept.remove("east", "Service", "default/of-default")
    kept.put("east", Service("default", "another", WEB))
    said("default")
    kept.remove("east", "Service", "default/another")
    kept.put("east", Service("default", "third", WEB))
    assert said("default") == ["default/a", "default/third"]


def lists_of(some: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    return [*some, *others]


def test_namespaces_that_are_empty_take_no_memory() -> None:
    kept = ClusterObjects()
    for at in range(100):
        kept.put("east", budget(f"n{at}", "a"))
        assert kept.derived("east", all_of, PodDisruptionBudget, namespace=f"n{at}")
        kept.remove("east", "PodDisruptionBudget", f"n{at}/a")
        assert not kept.derived("east", all_of, PodDisruptionBudget, namespace=f"n{at}")
    assert not kept._parts["PodDisruptionBudget"]


@pytest.fixture(scope="module")
def crowded() -> FleetState:
    """Budgets and Services of a thousand other namespaces, and one each of the pod's."""
    fleet = FleetState()
    for at in range(OTHERS):
        fleet.kept.put("east", budget(f"n{at % 1000}", f"b{at}"))
        fleet.kept.put("east", Service(f"n{at % 1000}", f"s{at}", WEB))
    fleet.kept.put("east", budget("default", "web"))
    fleet.kept.put("east", Service("default", "web", WEB))
    return fleet


def test_the_preemptor_reads_no_budget_of_other_namespaces(crowded: FleetState) -> None:
    victim, read, covering = Victim(("east", "u"), PodInfo(POD, "east"), "east", "n"), list[int](), budgets._covering

    def noted(found: Mapping[str, PodDisruptionBudget]) -> list[PodDisruptionBudget]:
        read.append(len(found))
        return covering(found)

    with patch.object(budgets, "_covering", noted):
        for allowed in (1, 0, 1):
            crowded.kept.put("east", budget("n5", "b5", allowed))
            assert Budgets(crowded.kept).take(victim, {}) == "default/web"
    assert read == [1, 1]  # what they allow, and what they select, for all times


def test_default_spread_looks_at_no_service_of_other_namespaces(crowded: FleetState) -> None:
    assert crowded.selectors.of(PodInfo(POD, "east")) == LabelSelector(WEB)
    with patch.object(ClusterObjects, "every", side_effect=AssertionError("all Services are looked at")):
        crowded.kept.put("east", ReplicaSet("n7", "of-another", LabelSelector(WEB)))
        crowded.kept.put("east", Service("n7", "s7", {"app": "x"}))
        assert crowded.selectors.of(PodInfo(POD, "east")) == LabelSelector(WEB)
        crowded.kept.put("east", Service("default", "second", {"app": "web", "x": "y"}))
        assert crowded.selectors.of(PodInfo(POD, "east")) == LabelSelector(WEB)
