"""What a plugin says of nodes alone is kept as the number that it is, whatever type of array it comes in."""

from itertools import cycle

import numpy as np
import pytest

from dispatcher.plugins.home_cluster import HomeCluster
from dispatcher.scheduling.equivalence.static_answers import StaticAnswersCache
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.framework import Depends, FleetView, Floats, PluginUse, PodInfo, Profile, Rows, Score
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.framework.roles import roles_of
from tests.builders import fleet, node, pod


class WholeAtFirst(Score[None]):
    """Answers whole numbers as long as no node that it is asked about has a fraction."""

    name, depends = "WholeAtFirst", Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> None:
        return None

    def score(self, state: None, fleet: FleetView, rows: Rows) -> Floats:
        told = np.asarray([*map(float, fleet.nodes.label_values("rank")), 0.0])[fleet.nodes.label("rank")[rows]]
        return told if (told % 1).any() else told.astype(np.int64)

    def normalize(self, raw: Floats) -> Floats:
        return raw * 20.0


def test_fractions_that_come_after_whole_numbers_are_kept_as_they_are() -> None:
    state, plugin = fleet(a=[node(f"n{at}").labels(rank="2") for at in range(3)]), WholeAtFirst()
    [role, _] = roles_of(Plan.of(Profile("p", (PluginUse(plugin.name),)), [plugin]))
    column, one = StaticColumn(role, state), pod("p").placed("a")
    assert column.refresh(one, state) is None
    assert repr(column.raw_of(slice(0, 3)).tolist()) == "[2.0, 2.0, 2.0]"
    state.put_node("a", node("n1").labels(rank="2.5").build())
    assert column.refresh(one, state) is None
    assert column.raw_of(slice(0, 3)).tolist() == [2.0, 2.5, 2.0]


class Uniform(WholeAtFirst):
    """Answers one number for all nodes until one has a rank; without a copy of it for each."""

    name = "Uniform"

    def score(self, state: None, fleet: FleetView, rows: Rows) -> Floats:
        told = super().score(state, fleet, rows)
        return told if told.any() else np.broadcast_to(0.0, len(told))


def test_a_node_may_be_scored_otherwise_than_all_were_before() -> None:
    state, plugin = fleet(a=[node(f"n{at}").labels(rank="0") for at in range(3)]), Uniform()
    [role, _] = roles_of(Plan.of(Profile("p", (PluginUse(plugin.name),)), [plugin]))
    column, one = StaticColumn(role, state), pod("p").placed("a")
    assert column.refresh(one, state) is None
    assert [column.values[at] for at in column.value.tolist()] == column.raw_of(slice(0, 3)).tolist() == [0.0, 0.0, 0.0]
    state.put_node("a", node("n1").labels(rank="2").build())
    assert column.refresh(one, state) is None
    assert [column.values[at] for at in column.value.tolist()] == column.raw_of(slice(0, 3)).tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("plugin", [WholeAtFirst(), Uniform()], ids=["each", "one for all"])
def test_scores_that_no_node_has_any_more_are_forgotten(plugin: WholeAtFirst) -> None:
    state, nodes = fleet(a=["n0", "n1", "n2"]), cycle((0, 1, 2))
    [role, _] = roles_of(Plan.of(Profile("p", (PluginUse(plugin.name),)), [plugin]))
    column, one = StaticColumn(role, state), pod("p").placed("a")
    for at in range(2000):
        state.put_node("a", node(f"n{next(nodes)}").labels(rank=f"{at / 4}").build())
        assert column.refresh(one, state) is None
        told = [0.0 if code < 0 else float(state.label_values("rank")[code]) for code in state.label("rank").tolist()]
        assert [column.values[at] for at in column.value.tolist()] == told
    assert len(column.values) <= 300


def test_what_is_said_of_clusters_is_kept_for_pods_of_many_homes() -> None:
    homes = [f"home{at}" for at in range(40)]
    state, plugin = fleet(), HomeCluster()
    for home in homes:
        state.put_node(home, node("n1").build())
    plan = Plan.of(Profile("p", (PluginUse(plugin.name),)), [plugin])
    cache = StaticAnswersCache(roles_of(plan), state, 1 << 10)  # of columns by row it has room for one

    def column_of(home: str) -> StaticColumn:
        part, one = cache.part(plan.class_key(pod("p").placed(home))), pod("p").placed(home)
        assert part.refresh(one) is None
        return part.active[0]

    assert list(map(column_of, homes)) == list(map(column_of, homes))


def test_one_number_stands_for_all_nodes_also_when_more_come_that_are_scored_alike() -> None:
    state, plugin = fleet(a=[node(f"n{at}").labels(rank="2") for at in range(3)]), WholeAtFirst()
    [role, _] = roles_of(Plan.of(Profile("p", (PluginUse(plugin.name),)), [plugin]))
    column, one = StaticColumn(role, state), pod("p").placed("a")
    for name in ("n3", "n4"):
        assert column.refresh(one, state) is None
        state.put_node("a", node(name).labels(rank="2").build())
    assert column.refresh(one, state) is None
    assert column.raw_of(slice(0, 5)).tolist() == [2.0] * 5
    assert (column.raw.strides, column.value.strides, len(column.value)) == ((0,), (0,), 5)
