"""Tenants that share: whose pod is next, how many in a row, and what is asked to know it."""

from itertools import chain, groupby

import pytest

from dispatcher.plugins.priority_sort import PrioritySort
from dispatcher.scheduling.fair_order import FairPods
from dispatcher.scheduling.queue import IN_A_ROW
from shared.model.reasons import Reasons
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, pod
from tests.scheduling.sharing import FairSort, FakeShares, SharedQueue, by_app

LATER = 1000.0


def pods(
    tenant: str, count: int, *, app: str = "", priority: int = 0, cpu: str = "100m", first: int = 0
) -> list[PodBuilder]:
    return [
        pod(f"{tenant}-{priority}-{first + number}")
        .labels(tenant=tenant, app=app or tenant)
        .priority(priority)
        .cpu(cpu)
        for number in range(count)
    ]


def nobodys(count: int) -> list[PodBuilder]:
    return [pod(f"nobody-{number}").labels(app="nobody").cpu("100m") for number in range(count)]


def placed(queue: SharedQueue, most: int, limit: int = 1000) -> list[str]:
    """Whose pods are placed one after the other."""
    found: list[str] = []
    while len(found) < most and (batch := queue.pop_class(LATER, min(limit, most - len(found)))):
        found += queue.place(batch)
    return found


def test_the_tenant_with_the_lowest_share_is_next_whoever_came_first() -> None:
    queue = SharedQueue(FakeShares())
    queue.shares.charge("red", {"cpu": 1000}, 2)
    queue.shares.charge("blue", {"cpu": 1000}, 1)
    queue.come(*pods("red", 3), now=1.0)
    queue.come(*pods("blue", 3), now=500.0)
    assert placed(queue, 1) == ["blue"]


def test_what_is_given_back_counts_at_once() -> None:
    queue = SharedQueue(FakeShares())
    queue.shares.charge("red", {"cpu": 1000}, 2)
    queue.shares.charge("blue", {"cpu": 1000}, 1)
    queue.come(*pods("red", 1), *pods("blue", 1))
    queue.shares.charge("red", {"cpu": 1000}, -2)
    assert placed(queue, 1) == ["red"]


def test_higher_priority_goes_first_whatever_the_shares() -> None:
    queue = SharedQueue(FakeShares())
    queue.shares.charge("red", {"cpu": 1000}, 100)
    queue.come(*pods("blue", 2), *pods("red", 2, priority=5))
    assert placed(queue, 4) == ["red", "red", "blue", "blue"]


def test_the_other_order_is_share_first_and_priority_within_the_tenant() -> None:
    queue = SharedQueue(FakeShares(), share_first=True)
    queue.shares.charge("red", {"cpu": 1000}, 100)
    queue.come(*pods("red", 1, priority=5), *pods("blue", 1), *pods("blue", 1, priority=3))
    popped = [item.pod_info.pod.priority for item in iter(lambda: queue.pop(LATER), None)]
    assert popped == [3, 0, 5]


def test_tenants_of_equal_demand_get_room_by_their_weights() -> None:
    queue = SharedQueue(FakeShares({"red": 5, "green": 3, "blue": 2}))
    for tenant in ("red", "green", "blue"):
        queue.come(*pods(tenant, 2000))
    found = placed(queue, 2000)
    shares = {tenant: found.count(tenant) / len(found) for tenant in ("red", "green", "blue")}
    assert shares == pytest.approx({"red": 0.5, "green": 0.3, "blue": 0.2}, abs=0.02)
    small = found[:10]
    assert [small.count(tenant) for tenant in ("red", "green", "blue")] == [5, 3, 2]


def test_a_burst_of_one_tenant_holds_up_the_first_pod_of_another_by_one_row_at_most() -> None:
    queue = SharedQueue(FakeShares())
    queue.come(*pods("red", 2000))
    assert placed(queue, 500) == ["red"] * 500
    queue.come(*pods("blue", 1), now=999.0)
    assert placed(queue, 1) == ["blue"]


def test_a_tenant_that_came_late_has_no_credit_for_the_time_that_it_was_away() -> None:
    """Both have equal shares, as of tenants who use less than their own."""
    queue = SharedQueue(FakeShares())
    queue.shares.share_of = lambda node: 0  # type: ignore[method-assign,assignment,return-value]
    queue.come(*pods("red", 1000))
    placed(queue, 400)
    queue.come(*pods("blue", 1000))
    found = placed(queue, 400)
    assert abs(found.count("red") - found.count("blue")) <= IN_A_ROW


def test_pods_of_nobody_and_of_tenants_take_turns() -> None:
    queue = SharedQueue(FakeShares())
    queue.come(*nobodys(300), *pods("red", 300), *pods("blue", 300))
    found = placed(queue, 400)
    assert abs(found.count("") - 200) <= IN_A_ROW
    assert abs(found.count("red") - found.count("blue")) <= IN_A_ROW


def test_a_tenant_without_weight_waits_for_everybody_else() -> None:
    queue = SharedQueue(FakeShares({"spare": 0}))
    queue.come(*pods("spare", 2, priority=1000), *nobodys(1), *pods("red", 1))
    assert sorted(placed(queue, 2)) == ["", "red"]
    assert placed(queue, 4) == ["spare", "spare"]


def test_shares_are_compared_among_siblings_from_the_root_down() -> None:
    """Team a/1 uses nothing, but its organization uses more than the other one."""
    queue = SharedQueue(FakeShares())
    queue.shares.charge("a/2", {"cpu": 1000}, 100)
    queue.shares.charge("b/1", {"cpu": 1000}, 50)
    queue.come(*pods("a/1", 1), *pods("a/2", 1), *pods("b/1", 1))
    assert placed(queue, 3) == ["b/1", "a/1", "a/2"]


def test_pods_of_one_class_are_decided_together_though_their_tenants_take_turns() -> None:
    queue = SharedQueue(FakeShares())
    queue.come(*pods("red", 300, app="web"), *pods("blue", 300, app="web"))
    batch = queue.pop_class(LATER, 200)
    rows = [(tenant, len(list(some))) for tenant, some in groupby(queue.place(batch))]
    assert len(batch) == 200
    assert abs(sum(count for tenant, count in rows if tenant == "red") - 100) <= 100 // 32


def test_alone_a_tenant_is_decided_as_without_tenants() -> None:
    queue = SharedQueue(FakeShares())
    queue.come(*pods("red", 1000))
    assert len(queue.pop_class(LATER, 1000)) == 1000


def test_rows_grow_with_what_a_tenant_has_placed() -> None:
    queue = SharedQueue(FakeShares())
    queue.come(*pods("red", 9000), *pods("blue", 9000))
    rows = []
    while len(batch := queue.pop_class(LATER, 1000)):
        rows.append(len(batch))
        queue.place(batch)
        if sum(rows) > 10_000:
            break
    assert rows[:4] == [1, 1, 1, 1]
    assert max(rows) == 64


def test_pods_that_were_taken_and_not_decided_cost_their_tenant_no_turn() -> None:
    queue = SharedQueue(FakeShares())
    queue.shares.share_of = lambda node: 0  # type: ignore[method-assign,assignment,return-value]
    queue.shares.charge("red", {"pods": 1}, 32 * 50)
    queue.come(*pods("red", 100), *pods("blue", 100))
    batch = queue.pop_class(LATER, 1000)
    assert len(batch) == 50
    queue.put_back(batch)
    assert placed(queue, 2) == ["blue", "red"]


def test_pods_that_wait_for_an_event_hold_up_nobody() -> None:
    queue = SharedQueue(FakeShares({"spare": 0}))
    queue.come(*pods("red", 3, priority=9), *pods("spare", 1))
    queue.unschedulable_all(queue.pop_class(LATER, 3), frozenset((Reasons.QUOTA,)), LATER)
    assert placed(queue, 1) == ["spare"]
    queue.wake(WakeEvent.QUOTA_FREED, LATER + 20)
    assert queue.pop(LATER + 20) is not None


def test_of_thousands_of_tenants_that_wait_those_alone_are_asked_about_that_were_charged() -> None:
    queue = SharedQueue(FakeShares())
    queue.come(*chain.from_iterable(pods(f"t{number}", 3) for number in range(2000)))
    queue.shares.asked = 0
    for _ in range(100):
        queue.place(queue.pop_class(LATER, 1))
    assert queue.shares.asked <= 100 * 5


def test_other_policies_hold_for_all_that_wait() -> None:
    queue = SharedQueue(FakeShares())
    queue.shares.charge("red", {"cpu": 1000}, 5)
    queue.come(*pods("red", 2))
    queue.come(*pods("blue", 2), now=7.0)
    queue.take_policies(PrioritySort(), by_app, 8.0)
    assert placed(queue, 1) == ["red"]
    queue.take_policies(FairSort(queue.shares), by_app, 9.0)
    assert placed(queue, 1) == ["blue"]
    assert queue.counts()["active"] == 2


def test_ranks_whose_pods_left_are_forgotten_while_a_higher_one_waits() -> None:
    queue = SharedQueue(FakeShares())
    queue.come(*pods("red", 1, priority=10**9))
    for priority in range(300):
        (gone,) = queue.come(*pods("blue", 1, priority=priority))
        queue.remove(gone)
    active = queue._active
    assert isinstance(active, FairPods)
    assert len(active._ranks) < 100
    assert placed(queue, 2) == ["red"]
