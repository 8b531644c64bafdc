"""Shares by what was used lately: exact in any history, and who borrowed much lately goes after who did not."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.priority_sort import PrioritySort
from dispatcher.scheduling.fair_shares import DecayedShares
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.tenant import Share, Tenant
from tests.builders import pod
from tests.laws.examples import examples

HALF = 100.0
TENANTS = (
    Tenant("all", (), {"cpu": Share(absolute=1000)}),
    Tenant("red", ("red",), {}, parent="all"),
    Tenant("blue", ("blue",), {}, parent="all", weight=2000),
    Tenant("spare", ("spare",), {}, parent="all", weight=0),
)


def by_namespace(pod_info: PodInfo) -> str:
    return pod_info.pod.namespace


class World:
    """A ledger, and a queue that goes by what was used lately."""

    def __init__(self) -> None:
        self.ledger = QuotaLedger(TENANTS)
        self.ledger.tree.settle({})
        self.queue = SchedulingQueue(PrioritySort(self.ledger, half_life_s=HALF), by_namespace)
        self.came = 0

    def come(self, *namespaces: str) -> None:
        for namespace in namespaces:
            self.came += 1
            one = pod(f"p{self.came}").namespace(namespace).cpu("1m").placed()
            self.queue.add(("a", one.pod.uid), one, 0.0)

    def next(self, now: float) -> str:
        item = self.queue.pop(now)
        assert item is not None
        return item.pod_info.pod.namespace

    def use(self, tenant: str, cpu: int) -> None:
        self.ledger.charge(("a", tenant), tenant, {"cpu": cpu})


def test_who_has_borrowed_much_lately_waits_for_who_has_not_though_now_they_use_the_same() -> None:
    world = World()
    world.come("blue", "blue", "blue")
    world.use("red", 500)
    assert [world.next(0.0), world.next(300.0)] == ["blue", "blue"]
    world.ledger.release(("a", "red"))
    world.come("red")
    assert world.next(310.0) == "blue", "though red uses nothing now"
    assert world.next(310.0) == "red"


def test_what_is_long_ago_counts_no_more() -> None:
    world = World()
    world.use("red", 500)
    world.come("blue", "red", "blue")
    world.next(0.0)
    world.next(300.0)
    world.ledger.release(("a", "red"))
    world.use("blue", 10)
    assert world.next(300.0 + 20 * HALF) == "red"


def test_what_is_taken_counts_at_once() -> None:
    world = World()
    world.come("red", "red", "blue")
    first = world.next(5.0)
    world.use(first, 900)
    assert world.next(5.0) != first


def test_a_tenant_without_weight_is_the_last_whatever_it_used() -> None:
    world = World()
    world.use("red", 900)
    world.come("spare", "red")
    assert world.next(500.0) == "red"


@settings(max_examples=examples(100), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("red", "blue")), st.integers(0, 1000), st.floats(0.0, 500.0)),
        min_size=1,
        max_size=12,
    )
)
def test_the_past_is_the_mean_by_halving_weights(steps: list[tuple[str, int, float]]) -> None:
    """Computed anew from all that was used since the start, for each tenant."""
    ledger = QuotaLedger(TENANTS)
    ledger.tree.settle({})
    shares = DecayedShares(ledger, HALF)
    now = 0.0
    history: list[tuple[float, str, int]] = []
    shares.at(now)
    shares.take_changed()
    for tenant, cpu, pause in steps:
        ledger.charge(("a", tenant), tenant, {"cpu": cpu})
        history.append((now, tenant, cpu))
        shares.take_changed()
        now += pause
        shares.at(now)
        shares.take_changed()
    for tenant, weight in (("red", 1), ("blue", 2)):
        used = [(at, cpu) for at, whose, cpu in history if whose == tenant] or [(0.0, 0)]
        ends = [*(at for at, _ in used[1:]), now]
        past = sum(
            float(Fraction(cpu, 1000) / weight) * (0.5 ** ((now - end) / HALF) - 0.5 ** ((now - at) / HALF))
            for (at, cpu), end in zip(used, ends, strict=True)
        )
        ahead = 0.5**0.1
        want = ahead * past + (1 - ahead) * used[-1][1] / 1000 / weight
        assert shares.share_of(tenant).number == pytest.approx(want, abs=1e-6)
