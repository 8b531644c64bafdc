"""Quota that is given back in another cluster than the claimant's: its own cluster confirms it first."""

from functools import partial

import pytest

from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import NO_PRIORITY, STALE
from shared.model.tenant import ANY_PRIORITY, Share, Tenant
from tests.laws.cores import make_core
from tests.scheduling.core import test_preemptors
from tests.scheduling.core.test_preemptors import World, outcome, signed, unanswered

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
