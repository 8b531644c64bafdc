"""What people are told of tenants: the tree, one of them in full, whether pods would pass, and what frees quota."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.tenants.lending import lent, missing, split
from dispatcher.service.fleet_views import CoreViews
from shared.model.pod import Group
from shared.model.tenant import FleetPart, Share, Tenant, quota_key
from tests.builders import pod
from tests.scheduling.tenants.naive import RESOURCES, TOTALS, trees
from tests.service.tenant_world import World, tenant


def views(world: World) -> CoreViews:
    return CoreViews(world.core, world.ledger, {}, {})


def lending() -> World:
    """`b` has borrowed all that `a` was given."""
    world = World(tenant("all", "-", cpu=0), tenant("a", cpu=3, parent="all"), tenant("b", cpu=1, parent="all"))
    world.come("b", "b1", "b2", "b3", "b4")
    world.come("a", "a1")
    return world


def test_the_tree_is_told_from_the_top_down_with_what_each_has_uses_lends_and_borrows() -> None:
    keys = ("tenant", "level", "nominal", "used", "borrowed", "lent", "limit", "share", "waiting")
    rows = [tuple(row[key] for key in keys) for row in views(lending()).tenants()]
    assert rows == [
        ("all", 0, "0", "4", "0", "0", "4", 0.0, 1),
        ("a", 1, "3", "0", "0", "3", "4", 0.0, 1),
        ("b", 1, "1", "4", "3", "0", "4", 0.75, 0),
    ]


def test_a_tenant_without_limits_is_a_row_of_its_own() -> None:
    (row,) = views(World(tenant("free"))).tenants()
    assert (row["tenant"], row["resource"], row["waiting"]) == ("free", "", 0)
    assert "used" not in row


def test_one_tenant_is_told_with_its_arithmetic_and_the_rules_of_those_that_it_is_part_of() -> None:
    world = World(
        tenant("all", "-", cpu=2, max_priority=7),
        tenant("a", cpu=3, parent="all", lending_limit={"cpu": Share(absolute=1000)}, weight=2000, spread=True),
        tenant("b", cpu=1, parent="all", borrowing_limit={"cpu": Share(absolute=2000)}),
    )
    world.come("b", "b1", "b2")
    told = views(world).tenant("a")
    assert told is not None
    assert (told["path"], told["weight"], told["rules"]) == (
        ["all", "a"],
        2.0,
        {"all": {"max_priority": 7}, "a": {"spread": True}},
    )
    (cpu,) = told["resources"]
    assert {key: cpu[key] for key in ("quota", "kept", "available", "limit", "limited_by", "lent")} == {
        "quota": "3",
        "kept": "2",
        "available": "4",
        "limit": "6",
        "limited_by": "all",
        "lent": "0",
    }
    b = views(world).tenant("b")
    assert b is not None
    (cpu,) = b["resources"]
    assert (cpu["borrowed"], cpu["available"], cpu["limit"], cpu["limited_by"]) == ("1", "1", "3", "b")
    assert b["share"] == 0.25
    assert b["not_limited"] == {"pods": "2"}
    assert views(world).tenant("nobody") is None


def test_a_pod_that_waits_is_told_what_would_free_its_quota() -> None:
    told = views(lending()).explain("a", "a1")
    assert told is not None
    assert told["quota"] == {
        "tenant": "a",
        "node": "all",
        "resource": "cpu",
        "missing": "1",
        "within_own": True,
        "borrowers": [{"tenant": "b", "borrowed": "3"}],
        "text": "1 of cpu has to come free in tenant all; borrowed of it: b (3); it is within what the tenant was "
        "given: others use it",
    }


def test_a_pod_that_is_refused_again_is_explained_with_the_figures_of_now() -> None:
    world = World(tenant("a", cpu=3))
    world.come("a", "p1", "p2", "p3", "p4")
    world.change(tenant("a", cpu=2))
    told = views(world).explain("a", "p4")
    assert told is not None
    assert told["decision"]["message"].endswith("used 3, limit 2")
    assert told["message"] == told["decision"]["message"]


def test_a_pod_at_the_limit_of_its_own_tenant_waits_for_pods_of_that() -> None:
    world = World(tenant("a", cpu=1))
    world.come("a", "p1", "p2")
    told = views(world).explain("a", "p2")
    assert told is not None
    assert told["quota"]["text"] == "pods of tenant a that have 1 of cpu have to end"
    placed = views(world).explain("a", "p1")
    assert placed is not None
    assert placed["quota"] is None


def test_all_members_of_a_group_that_waits_are_counted() -> None:
    world = lending()
    group = Group("annotation", "train", "", 3, "cluster")
    world.submit(*(replace(pod(f"g{at}").namespace("a").cpu(1).build(), group=group) for at in range(3)))
    world.tick()
    world.submit(*(replace(pod(f"h{at}").namespace("b").cpu(1).build(), group=replace(group, name="x")) for at in "12"))
    world.tick()
    assert {row["tenant"]: row["waiting"] for row in views(world).tenants()} == {"all": 6, "a": 4, "b": 2}
    told = views(world).tenant("a")
    assert told is not None
    assert told["starved"] == 4, "the group would be within what is its own"
    explained = views(world).explain("a", "g1")
    assert explained is not None
    assert explained["quota"]["missing"] == "3", "for all of them"


@pytest.mark.parametrize(
    ("namespace", "cpu", "priority", "replicas", "fits", "why"),
    [
        ("a", 1, 0, 3, 3, ""),
        ("a", 1, 0, 5, 3, "tenant a: cpu asked 5, used 0, limit 3"),
        ("a", 4, 0, 1, 0, "tenant a: cpu asked 4, used 0, limit 3"),
        ("a", 1, 9, 1, 0, "priority 9 is above max_priority 7 of tenant a"),
        ("nobodys", 99, 0, 4, 4, ""),
    ],
)
def test_a_manifest_is_checked_against_quota_as_it_is_now(
    namespace: str, cpu: int, priority: int, replicas: int, fits: int, why: str
) -> None:
    world = World(tenant("a", cpu=3, max_priority=7))
    told = views(world).quota("", pod().namespace(namespace).cpu(cpu).priority(priority).build(), replicas)
    assert (told["fits"], told["why"]) == (fits, why)
    if (namespace, replicas) == ("a", 5):
        assert told["frees"]["missing"] == "2"


def test_what_a_pod_would_borrow_and_where_it_could_not_go_is_told() -> None:
    key = quota_key("cpu", FleetPart("", (("pool", "x"),)))
    part = Tenant("b", ("b",), {"cpu": Share(absolute=1000), key: Share(absolute=0)}, "all")
    told = views(World(tenant("all", "-", cpu=9), part)).quota("a", pod().namespace("b").cpu(3).build(), 1)
    assert (told["borrows"], told["closed"]) == ({"cpu": "2"}, ["nodes with pool=x"])


def test_a_namespace_of_several_tenants_is_of_none_without_its_cluster() -> None:
    world = World(tenant("a", "a/x", cpu=1), tenant("b", "x", cpu=1))
    world.core.fleet.set_cluster("other", ready=True, synced=True)
    names = CoreViews.cluster_names
    shown = views(world)
    shown.cluster_names = lambda: [*names(shown), "other"]  # type: ignore[method-assign]
    asking = pod().namespace("x").cpu(1).build()
    with pytest.raises(ValueError, match="namespace x is of several tenants"):
        shown.quota("", asking, 1)
    assert shown.quota("other", asking, 1)["tenant"] == "b"


# --- laws ------------------------------------------------------------------------------------------------------------

parts = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 50))


@given(parts, st.data())
def test_what_is_split_adds_up_and_nobody_gets_more_than_is_theirs(some: dict[str, int], data: st.DataObject) -> None:
    whole = sum(some.values())
    amount = data.draw(st.integers(0, whole))
    found = split(amount, some)
    assert sum(found.values()) == amount
    assert all(0 <= found[name] <= part for name, part in some.items())
    assert all(abs(found[name] * whole - amount * part) < max(whole, 1) for name, part in some.items())


charges = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(RESOURCES), st.integers(1, 12)), max_size=12)


@given(trees(), charges, st.integers(0, 6), st.sampled_from(RESOURCES), st.integers(1, 12))
def test_once_what_is_missing_has_come_free_the_pod_fits_or_the_next_limit_is_told(
    tenants: list[Tenant], some: list[tuple[int, str, int]], at: int, resource: str, amount: int
) -> None:
    ledger = QuotaLedger(tenants)
    for number, (of, name, much) in enumerate(some):
        ledger.charge(("home", str(number)), tenants[of % len(tenants)].name, {name: much})
    node = ledger.node(tenants[at % len(tenants)].name, TOTALS)
    asked = {resource: amount}
    found: Any = missing(node, asked)
    assert (found is None) is (ledger.exceeded(node.name, asked, TOTALS) is None)
    if found is not None:
        where = ledger.tree.nodes[found.node]
        where.charge({resource: -found.amount})
        again = missing(node, asked)
        assert again is None or again.node != found.node


@given(trees(), charges)
def test_no_more_is_lent_than_is_unused_and_than_is_borrowed(
    tenants: list[Tenant], some: list[tuple[int, str, int]]
) -> None:
    ledger = QuotaLedger(tenants)
    for number, (of, name, much) in enumerate(some):
        ledger.charge(("home", str(number)), tenants[of % len(tenants)].name, {name: much})
    for one in tenants:
        node = ledger.node(one.name, TOTALS)
        for name in node.quota:
            found = lent(node, name)
            unused = {c.name: c.quota[name] - max(c.kept[name], c.usage.get(name, 0)) for c in node.children}
            assert all(0 <= found[child] <= max(0, unused[child]) for child in found)
            borrowed = sum(child.borrowed(name) for child in node.children) + node.own.get(name, 0)
            assert sum(found.values()) <= borrowed
