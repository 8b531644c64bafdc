"""A filter names the rows that it lets pass: where these are few, classes share what all others are refused for."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dispatcher.plugins.cluster_allowed import ClusterAllowed
from dispatcher.plugins.node_affinity import NodeAffinity
from dispatcher.scheduling.equivalence.static_answers import StaticAnswersCache
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import FleetView, PluginUse, PodInfo, Profile
from dispatcher.scheduling.framework.points import Plan, PluginError
from dispatcher.scheduling.framework.roles import roles_of
from shared.model.pod import Affinity
from tests.builders import NodeBuilder, fleet, node, pod
from tests.plugins.asking import make

_FILTERS = ("NodeUnschedulable", "NodeAffinity", "TaintToleration")
_PLACES = 10  # of two nodes each


def _plan() -> Plan:
    return Plan.of(Profile("p", tuple(map(PluginUse, _FILTERS))), [make(name) for name in _FILTERS])


def _place(at: int) -> list[NodeBuilder]:
    """Two nodes of each kind: one that takes pods, and one that is cordoned, tainted or both."""
    odd = node(f"odd{at}").label({"place": f"p{at}"})
    odd = odd.cordoned() if at % 3 != 1 else odd
    return [node(f"n{at}").label({"place": f"p{at}"}), odd.taint("gpu") if at % 3 else odd]


def _fleet() -> FleetState:
    return fleet(a=[one for at in range(_PLACES) for one in _place(at)], b=[node("bare")])


def _told(state: FleetState, cache: StaticAnswersCache, plan: Plan, places: Sequence[str]) -> list[dict[str, Any]]:
    """What the joint filters say to a pod for each place."""
    found = []
    for place in places:
        one = pod("p").node_selector({"place": place}).placed("a")
        part = cache.part(plan.class_key(one))
        assert part.refresh(one) is None
        filters, few = part.static_filters, part.static_filters.few_open
        found.append(
            {
                "first": filters.refusal_codes[: state.n].tolist(),
                "rejected": list(filters.rejected.items()),
                "refused": filters.refused,
                "evaluated": filters.evaluated,
                "few": None if few is None else few.tolist(),
            }
        )
    return found


def _moved(state: FleetState) -> None:
    state.put_node("a", node("n3").label({"place": "p4"}).build())


def _gone(state: FleetState) -> None:
    state.remove_node("a", "n4")


def _come(state: FleetState) -> None:
    state.put_node("b", node("new").label({"place": "p4"}).taint("gpu").build())


def _all_one_place(state: FleetState) -> None:
    for at in range(_PLACES):
        state.put_node("a", node(f"n{at}").label({"place": "p4"}).build())


@pytest.mark.parametrize("change", [_moved, _gone, _come, _all_one_place])
def test_few_open_rows_say_what_a_look_at_all_rows_says(
    change: Callable[[FleetState], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [*(f"p{at}" for at in range(_PLACES)), "nowhere"]

    def before_and_after() -> list[list[dict[str, Any]]]:
        state, plan = _fleet(), _plan()
        cache = StaticAnswersCache(roles_of(plan), state, 1 << 30)
        told = [_told(state, cache, plan, places)]
        change(state)
        return [*told, _told(state, cache, plan, places), _told(state, cache, plan, places)]

    named = before_and_after()
    monkeypatch.setattr(NodeAffinity, "open_rows", lambda *_: None)
    assert named == before_and_after()
    assert {len(set(one["first"])) for one in named[0]} == {2, 3, 4}  # rows are refused before, by and after it


@pytest.mark.parametrize(
    ("rows", "code"), [([3, 1], 5), ([0, 99], 5), ([-1], 5), ([[0]], 5), (["x"], 5), ([0], 0), ([0], 70_000), (None, 5)]
)
def test_open_rows_that_cannot_be_are_the_fault_of_the_plugin(
    rows: object, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, plan = _fleet(), _plan()
    monkeypatch.setattr(NodeAffinity, "open_rows", lambda *_: (rows, code))
    one = pod("p").node_selector({"place": "p1"}).placed("a")
    part = StaticAnswersCache(roles_of(plan), state, 1 << 30).part(plan.class_key(one))
    with pytest.raises(PluginError, match="NodeAffinity"):
        part.refresh(one)


def test_rows_of_a_label_follow_nodes_that_come_go_and_change() -> None:
    state = fleet(a=[node(f"n{at}").label({"place": "xy"[at % 2]}) for at in range(4)])

    def rows() -> list[list[int]]:
        return [state.label_rows("place", value).tolist() for value in "xyz"]

    assert rows() == [[0, 2], [1, 3], []]
    state.put_node("a", node("n2").label({"place": "z"}).build())
    assert rows() == [[0], [1, 3], [2]]
    state.remove_node("a", "n1")
    assert rows() == [[0], [3], [2]]
    state.put_nodes("b", [node("n8").label({"place": "x"}).build(), node("n9").build()])
    assert [sorted(state.name_of(row) for row in found) for found in rows()] == [
        [("a", "n0"), ("b", "n8")],
        [("a", "n3")],
        [("a", "n2")],
    ]
    many = [f"n{at}" for at in range(8, 48)]  # so many are written in one go
    state.put_nodes("b", [node(name).label({"place": "x"}).build() for name in many])
    assert [len(found) for found in rows()] == [41, 1, 1]
    state.put_nodes("b", [node(name).label({"place": "y"}).build() for name in many])
    assert [len(found) for found in rows()] == [1, 41, 1]
    assert state.label_rows("nobody-has", "it").tolist() == []
    assert all((np.diff(state.label_rows("place", value)) > 0).all() for value in "xyz")


class _Nowhere(NodeAffinity):
    """Refuses every node, and says nothing new of open rows."""

    def filter(self, state: Any, fleet: Any, rows: Any) -> Any:
        return np.full_like(super().filter(state, fleet, rows), 1)


def test_a_subclass_that_replaces_filter_alone_is_asked_itself() -> None:
    plan = Plan.of(Profile("p", (PluginUse("NodeAffinity"),)), [_Nowhere(Affinity())])
    one, state = pod("p").node_selector({"place": "p1"}).placed("a"), _fleet()
    part = StaticAnswersCache(roles_of(plan), state, 1 << 30).part(plan.class_key(one))
    assert part.refresh(one) is None
    assert part.static_filters.refusal_codes[: state.n].all()


class _NamesNoKey(ClusterAllowed):
    """Its pods reach one cluster alone, and what it says of them there cannot be hashed."""

    def possible_clusters(self, pod_info: PodInfo, fleet: FleetView) -> frozenset[str]:
        return frozenset(("b",))

    def key_without_home(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        return [pod_info.home]


def test_a_key_without_home_that_cannot_be_hashed_is_told_with_the_name_of_its_plugin() -> None:
    plan = Plan.of(Profile("p", (PluginUse("ClusterAllowed"),)), [_NamesNoKey()])
    asking = pod("p").placed("a")
    with pytest.raises(PluginError, match=r"ClusterAllowed.*unhashable"):
        plan.key_without_home(plan.class_key(asking), asking, view_of(_fleet()))
