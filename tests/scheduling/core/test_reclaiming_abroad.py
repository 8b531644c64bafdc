"""Quota that is given back in another cluster than the claimant's: its own cluster confirms it first."""

from functools import partial

import pytest
from msgspec.structs import replace

from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import NO_PRIORITY, STALE
from shared.model import names
from shared.model.node import Node
from shared.model.tenant import ANY_PRIORITY, Share, Tenant
from tests.laws.cores import make_core
from tests.scheduling.core import test_preemptors
from tests.scheduling.core.test_preemptors import SIZE, World, a_pod, outcome, signed, unanswered

TENANTS = (
    Tenant("all", (), {}, reclaim=ANY_PRIORITY),
    Tenant("red", ("east/default",), {"cpu": Share(absolute=4000)}, parent="all"),
    Tenant("blue", ("west/default",), {}, parent="all"),
)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> QuotaLedger:
    """Of the worlds: blue's pods in west use what red of east was given."""
    found = QuotaLedger(TENANTS)
    monkeypatch.setattr(test_preemptors, "make_core", partial(make_core, ledger=found))
    return found


def test_the_claimants_own_cluster_confirms_it_before_anybody_goes(ledger: QuotaLedger) -> None:
    world = World(answer=unanswered)
    world.submit()
    world.run(5.0)
    assert [one.preempts for one in world.asked] == ["west"]
    assert ledger.holds(("east", "uid-high0"))
    assert world.orders == []


def test_the_order_says_whose_quota_it_is_and_names_no_priority(ledger: QuotaLedger) -> None:
    world = World(answer=lambda intent, _: signed(intent))
    world.submit()
    world.run(5.0)
    (order,) = world.orders
    assert order.pod.name == "low0"
    assert order.reclaimed == "of tenant blue, for pod default/high0 of cluster east and tenant red"
    assert (order.priority, order.manifest, order.source) == (NO_PRIORITY, b"", None)


def test_for_a_pod_that_is_not_confirmed_nobody_goes_and_nothing_is_kept(ledger: QuotaLedger) -> None:
    world = World(answer=lambda intent, _: outcome(intent, STALE, message="there is no such pod"))
    world.submit()
    world.run(5.0)
    assert world.orders == []
    assert not ledger.holds(("east", "uid-high0"))


def test_nobody_goes_at_home_while_others_would_have_to_go_where_the_pod_may_not_ask(
    ledger: QuotaLedger,
) -> None:
    ledger.take((*TENANTS[:2], Tenant("blue", ("west/default", "east/blue"), {}, parent="all")))
    world = World(nodes=0, answer=lambda intent, _: outcome(intent, STALE, message="there is no such pod"))
    half = {"cpu": 2000}
    low = a_pod("low", requests=half, node="w0", phase="Running")
    world.report("west", nodes=(Node("w0", ready=True, allocatable=SIZE),), pods=(low,))

    def borrow(name: str) -> None:
        borrower = replace(a_pod(name, requests=half, node="e0", phase="Running"), namespace="blue")
        world.report("east", nodes=(Node("e0", ready=True, allocatable=SIZE),), pods=(borrower,))

    borrow("first")
    world.submit()
    world.run(5.0)
    assert [one.pod.name for one in world.orders] == ["first"]
    world.report("east", pods_gone=("uid-first",))
    borrow("second")
    world.run(40.0)
    assert [one.pod.name for one in world.orders] == ["first"]


@pytest.mark.parametrize(("clusters", "asked"), [("east,west", ["west"]), ("east,south", [])])
def test_nobody_goes_in_a_cluster_that_the_claimant_does_not_allow(
    ledger: QuotaLedger, clusters: str, asked: list[str]
) -> None:
    """Its own cluster would not confirm it there."""
    world = World(answer=unanswered)
    world.report("east", nodes=(Node("e0", ready=True, allocatable=SIZE),))
    claimant = a_pod("high0", priority=1000, annotations={names.CLUSTERS: clusters})
    world.report("east", pods=(claimant,))
    world.run(5.0)
    assert [one.preempts for one in world.asked] == asked
    assert world.orders == []
    assert ledger.holds(("east", "uid-high0")) == bool(asked)
