"""What each cluster has, what is requested and what is measured."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.views import usage_view, whole
from shared.model.node import Reading
from tests.builders import fleet, node, pod, put


def usage(state: FleetState) -> dict[str, dict[str, Any]]:
    """The rows by cluster."""
    clusters = {info.name: ClusterView(info.name) for info in state.clusters}
    rows = whole(usage_view(cast(Any, SimpleNamespace(fleet=state, clusters=clusters))))
    return {row["cluster"]: row for row in rows}


def test_large_nodes_count_for_more_and_nodes_without_a_reading_for_nothing() -> None:
    state = fleet(a=[node("big").cpu(6), node("small").cpu(2), node("mute").cpu(8)], b=["n"])
    put(state, pod("p").cpu(4), "a", "big")
    state.put_reading("a", Reading.of("big", {"cpu": (0.2, 5.0), "gpu": (0.5, 1.0)}, {"cpu": "k", "gpu": "p"}))
    state.put_reading("a", Reading.of("small", {"cpu": (0.6, 9.0)}, {"cpu": "p"}))
    a, b = usage(state)["a"], usage(state)["b"]
    assert (a["nodes"], a["cpu"]) == (3, {"requested": "4", "allocatable": "16", "share": 0.25})
    hottest = {"node": "small", "used": 0.6}
    assert a["load"]["cpu"] == {"used": 0.3, "age_s": 9.0, "known": 2, "hottest": hottest, "sources": ["k", "p"]}
    assert a["load"]["gpu"]["sources"] == ["p"]
    assert a["load"]["memory"]["used"] is None
    assert b["load"]["cpu"] == {"used": None, "age_s": None, "known": 0, "hottest": None, "sources": []}


def test_a_cluster_without_nodes_has_nothing() -> None:
    state = fleet(a=["n"])
    state.remove_node("a", "n")
    row = usage(state)["a"]
    assert (row["nodes"], row["cpu"]["share"], row["load"]["cpu"]["known"]) == (0, None, 0)


@given(st.lists(st.tuples(st.integers(0, 64), st.none() | st.floats(0, 1)), min_size=1, max_size=6))
def test_the_mean_lies_between_the_lowest_and_the_highest(nodes: list[tuple[int, float | None]]) -> None:
    state = fleet(a=[node(f"n{at}").cpu(cores) for at, (cores, _) in enumerate(nodes)])
    for at, (_, used) in enumerate(nodes):
        if used is not None:
            state.put_reading("a", Reading.of(f"n{at}", {"cpu": (used, 0.0)}, {"cpu": "k"}))
    load = usage(state)["a"]["load"]["cpu"]
    known = [used for _, used in nodes if used is not None]
    assert load["known"] == len(known)
    if known:
        assert min(known) - 1e-4 <= load["used"] <= max(known) + 1e-4
        assert load["hottest"]["used"] == pytest.approx(max(known), abs=1e-4)
