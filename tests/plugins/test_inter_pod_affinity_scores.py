"""Preferred terms: kube-scheduler's published cases for InterPodAffinity's score, restated."""

from typing import Any

import numpy as np
import pytest

from dispatcher.scheduling.framework import SKIP
from tests.builders import PodBuilder
from tests.plugins.asking import make, scores, state_of
from tests.plugins.placements import Seats, clause, clauses, having, into, one, placed_on

S1, S2 = into("security", "S1"), into("security", "S2")
NODES = {"n1": {"region": "China"}, "n2": {"region": "India"}, "n3": {"az": "az1"}}
AZS = {"n1": {"az": "az1"}, "n2": {"az": "az2"}}
REGIONS = {"n1": {"region": "China"}, "n2": {"region": "India"}}
CITIES = {
    "n1": {"region": "China", "az": "az1"},
    "n2": {"region": "India"},
    "n3": {"region": "China"},
    "n4": {"region": "China"},
    "n5": {"region": "India"},
}
TEAM1: dict[str, Any] = {"namespaces": ("sub2.team2",), "namespace_selector": into("team", "team1")}


def s1() -> PodBuilder:
    return one(security="S1")


def s2() -> PodBuilder:
    return one(security="S2")


def near_s1(asking: PodBuilder) -> PodBuilder:
    return asking.near("region", S1, weight=5)


def near_s2(asking: PodBuilder) -> PodBuilder:
    return asking.near("region", S2, weight=6)


def mixed(asking: PodBuilder) -> PodBuilder:
    return asking.near("region", S1, weight=8).away("az", S2, weight=5)


def hard(asking: PodBuilder) -> PodBuilder:
    return asking.near("region", into("security", "S1", "value2")).near(
        "region", clauses(having("security"), clause("wrongkey", "DoesNotExist"))
    )


def teams(asking: PodBuilder) -> list[tuple[PodBuilder, str]]:
    return [
        (s1().namespace("sub1.team1"), "n1"),
        (s1().namespace("sub1.team1"), "n1"),
        (asking, "n1"),
        (s1().namespace("sub2.team1"), "n2"),
    ]


# id -> (pod, placed, nodes, scores of n1, n2, ...)
CASES: dict[str, tuple[PodBuilder, Seats, dict[str, dict[str, str]], list[float]]] = {
    "matching pods in the node's region": (
        near_s1(s1()),
        [(s1(), "n1"), (s2(), "n2"), (s1(), "n3")],
        NODES,
        [100, 0, 0],
    ),
    "all nodes of a region score alike": (
        near_s1(one()),
        [(s1(), "n1")],
        {"n1": {"region": "China"}, "n2": {"region": "China", "az": "az1"}, "n3": {"region": "India"}},
        [100, 100, 0],
    ),
    "the region with more matching pods": (
        near_s2(s1()),
        [(s2(), name) for name in ("n1", "n1", "n2", "n3", "n4", "n5")],
        CITIES,
        [100, 0, 100, 100, 0],
    ),
    "operators, some of which do not match": (
        s1()
        .near("region", clauses(clause("security", "NotIn", "S1"), S2), weight=8)
        .near("region", clauses(having("security"), clause("wrongkey", "DoesNotExist")), weight=2),
        [(s1(), "n1"), (s2(), "n2"), (s1(), "n3")],
        NODES,
        [20, 100, 0],
    ),
    "placed pods prefer this one": (s2(), [(near_s1(s1()), "n1"), (near_s2(s2()), "n2")], NODES, [0, 100, 0]),
    "placed pods prefer this one's namespace": (
        s1().namespace("sub1.team1"),
        [(s1().near("region", S1, weight=5, **TEAM1), "n1"), (near_s2(s2()), "n2")],
        NODES,
        [100, 0, 0],
    ),
    "placed pods would rather not have this one's namespace": (
        s1().namespace("sub1.team1"),
        [(s1().away("region", S1, weight=5, **TEAM1), "n1"), (near_s2(s2()), "n2")],
        NODES,
        [0, 100, 100],
    ),
    "placed pods require such a pod": (s1(), [(hard(s1()), "n1"), (hard(s2()), "n2")], NODES, [100, 100, 0]),
    "away from matching pods": (
        s1().away("az", S1, weight=5),
        [(s1(), "n1"), (s2(), "n2")],
        {"n1": {"az": "az1"}, "n2": {"region": "China"}},
        [0, 100],
    ),
    "nothing to be away from without the key": (
        s1().away("az", S1, weight=5),
        [(s1(), "n1"), (s1(), "n2")],
        {"n1": {"az": "az1"}, "n2": {"region": "China"}},
        [0, 100],
    ),
    "away from more matching pods": (
        s1().away("az", S1, weight=5),
        [(s1(), "n1"), (s1(), "n1"), (s2(), "n2")],
        {"n1": {"az": "az1"}, "n2": {"region": "India"}},
        [0, 100],
    ),
    "placed pods keep away from this one": (
        s2(),
        [(s1().away("az", S2, weight=5), "n1"), (s2().away("az", S1, weight=5), "n2")],
        AZS,
        [0, 100],
    ),
    "near and away at once": (
        mixed(s1()),
        [(s1(), "n1"), (s1(), "n2")],
        {"n1": {"region": "China"}, "n2": {"az": "az1"}},
        [100, 0],
    ),
    "near and away with equal labels": (
        mixed(s1()),
        [(s1(), name) for name in ("n1", "n1", "n2", "n3", "n3", "n4", "n5")],
        CITIES,
        [100, 0, 100, 100, 0],
    ),
    "near, away, and both of placed pods": (
        mixed(s1()),
        [(s1(), "n1"), (s2(), "n2"), (mixed(one()), "n3"), (one().away("az", S1, weight=5), "n4")],
        {"n1": {"region": "China"}, "n2": {"az": "az1"}, "n3": {"region": "India"}, "n4": {"az": "az2"}},
        [100, 0, 100, 0],
    ),
    "every node alike": (
        s1(),
        [(s1(), "n1"), (mixed(one()), "n2")],
        {"n1": {"region": "China"}, "n2": {"region": "China"}},
        [0, 0],
    ),
    "near the pods of some namespaces": (
        s1().namespace("sub1.team1").near("region", S1, weight=5, **TEAM1),
        teams(s1().namespace("sub1.team2")),
        REGIONS,
        [100, 0],
    ),
    "near the pods of selected and named namespaces": (
        s1().namespace("sub1.team1").near("region", S1, weight=5, **TEAM1),
        teams(s1().namespace("sub2.team2")),
        REGIONS,
        [100, 0],
    ),
    "away from the pods of some namespaces": (
        s1().namespace("sub1.team1").away("region", S1, weight=5, **TEAM1),
        teams(s1().namespace("sub1.team2")),
        REGIONS,
        [0, 100],
    ),
    "away from the pods of selected and named namespaces": (
        s1().namespace("sub1.team1").away("region", S1, weight=5, **TEAM1),
        teams(s1().namespace("sub2.team2")),
        REGIONS,
        [0, 100],
    ),
    "a term given twice counts twice": (
        s1().near("region", S1, weight=5).near("region", S1, weight=5).near("az", S1, weight=5),
        [(s1(), "n1"), (s1(), "n3")],
        NODES,
        [100, 0, 50],
    ),
    "whole numbers, rounded down": (
        s1().near("region", S1, weight=29).near("az", S1, weight=100),
        [(s1(), "n1"), (s1(), "n3")],
        NODES,
        [28, 0, 100],  # 100 * 0.29 is a little less than 29
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_preferred_terms(case: str) -> None:
    asking, seats, nodes, want = CASES[case]
    assert list(scores(make("InterPodAffinity"), asking, placed_on(nodes, seats)).values()) == want


def test_no_terms_no_score() -> None:
    assert state_of(make("InterPodAffinity"), s1(), placed_on(NODES, [(s1(), "n1")])) is SKIP


SERVICE = into("service", "S1")


@pytest.mark.parametrize(
    ("namespace", "weight", "want"),
    [
        ("default", 1, [100, 100, 0]),
        ("default", 0, []),
        ("sub1.team2", 1, []),
        ("sub1.team1", 1, [100, 100, 0]),
        ("sub2.team2", 1, [100, 100, 0]),
    ],
    ids=["own namespace", "weight 0", "another namespace", "selected namespace", "named namespace"],
)
def test_required_terms_of_placed_pods_weigh_as_the_profile_says(
    namespace: str, weight: int, want: list[float]
) -> None:
    where: dict[str, Any] = {"namespaces": ("default", "sub2.team2"), "namespace_selector": into("team", "team1")}
    seats = [(one().near("region", SERVICE, **where), name) for name in ("n1", "n2")]
    plugin = make("InterPodAffinity", hard_pod_affinity_weight=weight)
    asking = one(service="S1").namespace(namespace)
    assert list(scores(plugin, asking, placed_on(NODES, seats)).values()) == want


@pytest.mark.parametrize(("ignored", "want"), [(True, []), (False, [0, 100])])
def test_preferred_terms_of_placed_pods_may_be_ignored(ignored: bool, want: list[float]) -> None:
    plugin = make("InterPodAffinity", ignore_preferred_terms_of_existing_pods=ignored)
    state = placed_on(REGIONS, [(mixed(s1()), "n1"), (near_s2(s2()), "n2")])
    assert list(scores(plugin, s2(), state).values()) == want


def test_a_pod_with_preferences_of_its_own_always_hears_those_of_placed_pods() -> None:
    plugin = make("InterPodAffinity", ignore_preferred_terms_of_existing_pods=True)
    state = placed_on(REGIONS, [(mixed(s1()), "n1"), (near_s2(s2()), "n2")])
    asking = s2().near("region", into("security", "S3"), weight=1)
    assert list(scores(plugin, asking, state).values()) == [0, 100]


@pytest.mark.parametrize("raw", [[], [-7.0], [3.0, 3.0]], ids=["none", "one", "equal"])
def test_equal_raw_scores_are_zero(raw: list[float]) -> None:
    assert make("InterPodAffinity").normalize(np.asarray(raw)).tolist() == [0.0] * len(raw)
