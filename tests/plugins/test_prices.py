import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.kit import broken_laws
from dispatcher.scheduling.fleet.view import view_of
from shared.model.names import DATA, NEAR
from shared.model.objects import Service
from tests.builders import fleet, node, pod, put
from tests.plugins.asking import as_placed, make, scores, state_of

TYPE = "node.kubernetes.io/instance-type"
PRICES = [
    {"from": "a", "to": "b", "per_gib": 0.02},
    {"from": "a", "to": "c", "per_gib": 0.08},
    {"from": "b", "to": "*", "per_gib": 0.04},
]


def test_egress_is_priced_from_what_is_named_to_the_pod() -> None:
    state = fleet(a=["n"], b=["n"], c=["n"], d=["n"])
    plugin = make("EgressPrice", prices=PRICES, datasets={"maps": ["a", "b"]})
    # of a to d nothing is known: the mean of 75 and 0
    assert scores(plugin, pod().annotation(NEAR, "cluster/a"), state) == {"a/n": 100, "b/n": 75, "c/n": 0, "d/n": 37.5}
    assert scores(plugin, pod().annotation(NEAR, "cluster/b"), state) == {"a/n": 50, "b/n": 100, "c/n": 50, "d/n": 50}
    # from the cheaper of two
    assert scores(plugin, pod().annotation(DATA, "maps"), state) == {"a/n": 100, "b/n": 100, "c/n": 50, "d/n": 50}
    assert set(scores(plugin, pod().annotation(DATA, "moon"), state).values()) == {0}
    assert scores(plugin, pod(), state) == {}
    assert scores(make("EgressPrice"), pod().annotation(NEAR, "cluster/a"), state) == {}


def test_egress_of_a_service_is_the_mean_over_its_pods() -> None:
    state = fleet(a=["n"], b=["n"], c=["n"])
    state.kept.put("a", Service("shop", "db", selector={"app": "db"}))
    for at, cluster in enumerate(("a", "a", "a", "b")):
        put(state, pod(f"db-{at}").namespace("shop").labels(app="db"), cluster, "n")
    asking, plugin = pod().annotation(NEAR, "service/shop/db"), make("EgressPrice", prices=PRICES)
    assert scores(plugin, asking, state) == {"a/n": 87.5, "b/n": 81.25, "c/n": 12.5}  # 0.01, 0.015, 0.07 of 0.08
    row = state.row_of("c", "n")
    assert row is not None
    told = plugin.explain(state_of(plugin, asking, state), as_placed(asking), view_of(state), row)
    assert told == {"from": "service/shop/db", "per_gib": 0.07}


@pytest.mark.parametrize(
    ("prices", "text"),
    [
        ({}, "must be a list of {from, to, per_gib}, not {}"),
        ([{}], "each must hold from, to, per_gib, not {}"),
        ([{"from": "a", "to": "b"}], "each must hold from, to, per_gib"),
        ([{"from": "a", "to": "b", "per_gib": -1}], "per_gib must be from 0 to 1e+06, not -1"),
        ([{"from": "a", "to": "", "per_gib": 1}], "to must be a text, not ''"),
        ([7], "each must hold from, to, per_gib, not 7"),
        ([{"frm": "a", "to": "b", "per_gib": 1}], "each must hold from, to, per_gib"),
    ],
)
def test_prices_that_cannot_be_read_are_refused_with_the_profile(prices: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        make("EgressPrice", prices=prices)


def priced(**more: Any) -> Any:
    return make("NodePrice", prices={"small": 0.1, "large": 0.3, "spot": 0.05}, **more)


def test_a_pod_pays_for_its_larger_share_of_the_node() -> None:
    state = fleet(
        a=[
            node("small").cpu(2).memory("4Gi").label({TYPE: "small"}),
            node("large").cpu(8).memory("16Gi").label({TYPE: "large"}),
            node("odd").cpu(8).memory("16Gi").label({TYPE: "unheard-of"}),
            node("bare").cpu(8).memory("16Gi"),
        ]
    )
    # one of 2 CPUs at 0.1 is 0.05; one of 8 at 0.3 is 0.0375
    want = {"small": 75, "large": 100, "odd": 87.5, "bare": 87.5}
    assert scores(priced(), pod().cpu(1).memory("1Gi"), state) == want
    # by memory: half of 4 GiB at 0.1, an eighth of 16 at 0.3
    assert scores(priced(), pod().cpu("10m").memory("2Gi"), state)["small"] == 75
    assert scores(make("NodePrice"), pod().cpu(1), state) == {}


def test_a_cluster_has_a_factor() -> None:
    state = fleet(a=[node("n").label({TYPE: "small"})], b=[node("n").label({TYPE: "small"})])
    assert scores(priced(clusters={"b": 0.5}), pod().cpu(1), state) == {"a/n": 50, "b/n": 100}


def test_another_label_may_have_prices() -> None:
    state = fleet(a=[node("n").label({"tier": "spot"}), node("m").label({"tier": "small"})])
    assert scores(priced(label="tier"), pod().cpu(1), state) == {"n": 100, "m": 50}


def test_where_nothing_has_a_price_all_are_alike_and_the_cost_is_unknown() -> None:
    state, plugin = fleet(a=["n", "m"]), priced()
    assert scores(plugin, pod().cpu(1), state) == {"n": 100, "m": 100}
    asked = state_of(plugin, pod().cpu(1), state)
    assert plugin.explain(asked, as_placed(pod()), view_of(state), 0) == {"cost_per_hour": "unknown"}


def test_a_decision_of_long_ago_is_explained_by_the_prices_of_the_labels_as_they_are() -> None:
    state, plugin = fleet(a=[node("n").cpu(1).label({TYPE: "small"})]), priced()
    asked = state_of(plugin, pod().cpu(1), state)
    for at in range(500):  # of a code that came later, or that meant something else
        state.put_node("a", node("n").cpu(1).label({TYPE: f"x{at}"}).build())
    for kind, price in (("large", 0.3), ("spot", 0.05)):
        state.put_node("a", node("n").cpu(1).label({TYPE: kind}).build())
        assert plugin.explain(asked, as_placed(pod()), view_of(state), 0) == {"cost_per_hour": price}


@given(raw=st.lists(st.one_of(st.just(1.0), st.floats(-1e6, -1e-9)), min_size=1))
def test_no_price_is_neither_cheap_nor_dear(raw: list[float]) -> None:
    found = priced().normalize(np.array(raw))
    assert ((found > 0) & (found <= 100)).all()
    known = [float(value) for value, one in zip(found, raw, strict=True) if one < 0]
    unknown = [float(value) for value, one in zip(found, raw, strict=True) if one > 0]
    if known:
        assert all(min(known) - 1e-9 <= value <= max(known) + 1e-9 for value in unknown)


@pytest.mark.parametrize("given_prices", [[], {"": 1}, {"m5": 0}, {"m5": "dear"}, {"m5": float("nan")}])
def test_tables_that_cannot_be_read_are_refused_with_the_profile(given_prices: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        make("NodePrice", prices=given_prices)


def test_with_prices_both_keep_the_laws_of_plugins() -> None:
    assert broken_laws(make("NodePrice", label="disk", prices={"ssd": 0.2, "hdd": 0.1})) == []
    assert broken_laws(make("EgressPrice", prices=PRICES)) == []
