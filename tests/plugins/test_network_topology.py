from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from shared.model.names import NEAR
from shared.model.objects import Service
from tests.builders import fleet, node, pod, put
from tests.plugins.asking import make, scores, state_of

NAME = "NetworkTopology"
PLACES = {  # (cluster, node) -> rack, zone, region
    ("a", "n1"): ("r1", "x", "eu"),
    ("a", "n2"): ("r1", "x", "eu"),
    ("a", "n3"): ("r2", "x", "eu"),
    ("b", "n4"): ("r3", "y", "eu"),
    ("b", "n5"): (None, None, "us"),
}
LEVELS = ("rack", "zone", "region")


def places() -> FleetState:
    nodes: dict[str, list[Any]] = {"a": [], "b": []}
    for (cluster, name), labels in PLACES.items():
        told = {level: value for level, value in zip(LEVELS, labels, strict=True) if value}
        nodes[cluster].append(node(name).labels(**told))
    return fleet(a=nodes["a"], b=nodes["b"])


def web(name: str = "asking") -> Any:
    return pod(name).labels(app="web")


def test_nodes_that_share_more_with_the_app_are_better() -> None:
    state = places()
    put(state, web("web-1"), "a", "n1")
    found = scores(make(NAME, levels={"rack": 4, "zone": 3, "region": 2, "cluster": 1}), web(), state)
    assert found == {"a/n1": 100, "a/n2": 100, "a/n3": 60, "b/n4": 20, "b/n5": 0}


def test_each_pod_of_the_app_counts() -> None:
    state = places()
    for at, (cluster, name) in enumerate((("a", "n1"), ("a", "n3"), ("a", "n3"), ("b", "n4"))):
        put(state, web(f"web-{at}"), cluster, name)
    put(state, pod("other").labels(app="db"), "b", "n5")
    put(state, web("elsewhere").namespace("other"), "b", "n5")
    plugin = make(NAME, levels={"rack": 1, "zone": 1})
    assert scores(plugin, web(), state) == {"a/n1": 50, "a/n2": 50, "a/n3": 62.5, "b/n4": 25, "b/n5": 0}
    told = plugin.explain(state_of(plugin, web(), state), web().placed(), view_of(state), 0)
    assert told == {"near": "app", "pods": 4, "beside": {"rack": 0.25, "zone": 0.75}}


def test_it_may_be_a_service_that_the_pod_is_near_to() -> None:
    state, asking = places(), web().annotation(NEAR, "service/shop/db")
    assert set(scores(make(NAME), asking, state).values()) == {0}  # there is no such service
    state.kept.put("a", Service("shop", "db", selector={"app": "db"}))
    put(state, pod("db-1").namespace("shop").labels(app="db"), "a", "n3")
    put(state, web("web-1"), "b", "n4")
    assert scores(make(NAME, levels={"host": 1}), asking, state)["a/n3"] == 100


def test_a_pod_with_nobody_to_be_near_to_makes_no_difference() -> None:
    state = places()
    assert scores(make(NAME), pod("bare"), state) == {}
    assert set(scores(make(NAME), web(), state).values()) == {0}


def test_levels_may_be_any_label_of_nodes() -> None:
    state = fleet(a=[node("n1").label({"example.com/row": "1"}), node("n2").label({"example.com/row": "2"})])
    put(state, web("web-1"), "a", "n2")
    assert scores(make(NAME, levels={"example.com/row": 1}), web(), state) == {"n1": 0, "n2": 100}


@pytest.mark.parametrize(
    ("levels", "want"),
    [
        ({}, "must map levels to weights"),
        ({"zone": 0}, "must be from 0.01"),
        ({"zone": 1, "topology.kubernetes.io/zone": 1}, "names zone twice"),
        ({"a b": 1}, "must be the key of a label"),
    ],
)
def test_bad_levels_are_named(levels: dict[str, float], want: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make(NAME, levels=levels)
    assert want in str(caught.value)


@given(
    at=st.lists(st.sampled_from(list(PLACES)), min_size=1, max_size=12),
    weights=st.tuples(*[st.integers(1, 9)] * 4),
)
def test_points_are_the_mean_over_the_pods_of_what_is_shared(
    at: list[tuple[str, str]], weights: tuple[int, ...]
) -> None:
    state, levels = places(), dict(zip((*LEVELS, "cluster"), weights, strict=True))
    for number, (cluster, name) in enumerate(at):
        put(state, web(f"web-{number}"), cluster, name)
    want = {}
    for place, labels in PLACES.items():
        shared: Counter[str] = Counter()
        for other in at:
            for level, mine, theirs in zip(LEVELS, labels, PLACES[other], strict=True):
                shared[level] += mine is not None and mine == theirs
            shared["cluster"] += place[0] == other[0]
        points = sum(levels[level] * count for level, count in shared.items())
        want["/".join(place)] = pytest.approx(100 * points / len(at) / sum(weights), abs=1e-2)
    assert scores(make(NAME, levels=levels), web(), state) == want
