"""What policies that look further than the chosen node say of it, of a pod alone and of the pods of a batch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dispatcher.plugins.fault_domain_spread import FaultDomainSpread
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.framework import FleetView, Plugin, PluginUse, PodInfo
from dispatcher.scheduling.framework.value_columns import Fields
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.records.decision import tables_of
from shared.model.tenant import Share, Tenant
from tests.builders import fleet, node, pod

BY_CPU = Tenant("t", ("a/*",), {"cpu": Share(absolute=100_000)})


class Raises(FaultDomainSpread):
    """It fails."""

    name = "Own"

    def explain(self, state: Any, pod_info: PodInfo, fleet: FleetView, row: int) -> dict[str, Any]:
        raise ValueError("no story")


class SaysNothing(FaultDomainSpread):
    """It tells of nobody, where it is asked of several."""

    name = "Own"

    def explain_rows(self, state: Any, pod_info: PodInfo, fleet: FleetView, rows: Any) -> Any:
        return []


class OnlyExplains(FaultDomainSpread):
    """All but `explain` is another policy's."""

    name = "Own"

    def explain(self, state: Any, pod_info: PodInfo, fleet: FleetView, row: int) -> dict[str, Any]:
        return {"mine": row}


class OneByOne(TenantQuota):
    """Is asked of each pod alone, though it books many."""

    def explain(self, state: None, pod_info: PodInfo, fleet: FleetView, row: int) -> dict[str, Any]:
        return {"mine": pod_info.pod.name}


def scheduler_with(*more: Plugin, quota: Callable[[QuotaLedger], TenantQuota] = TenantQuota) -> Scheduler:
    uses = tuple(PluginUse(one.name, 1.0, {}) for one in more)
    ledger = QuotaLedger([BY_CPU])
    built = build(DEFAULT_PROFILE, PluginContext(quota=ledger))
    plugins = [quota(ledger) if one.name == "TenantQuota" else one for one in built]
    state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at]) for at in range(3)])
    return Scheduler(replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, *uses)), [*plugins, *more], state)


def decided(scheduler: Scheduler, count: int, start: int = 0) -> list[Decision]:
    pods = [pod(f"p{at}").cpu(1).labels(app="x").spread("zone", 1).placed("a") for at in range(start, start + count)]
    found = scheduler.schedule_class([(("a", one.pod.uid), one) for one in pods])
    return [one for one in found if isinstance(one, Decision)]


@pytest.mark.parametrize("count", [1, 5], ids=["alone", "of a batch"])
def test_a_policy_with_an_explain_of_its_own_is_heard(count: int) -> None:
    for decision in decided(scheduler_with(OnlyExplains(())), count):
        assert decision.record()["extras"]["Own"] == {"mine": decision.row}


@pytest.mark.parametrize(
    ("own", "count", "said"),
    [
        (Raises, 1, "ValueError: no story"),
        (Raises, 5, "ValueError: no story"),
        (SaysNothing, 5, "explain_rows told of 0 rows of 5"),
    ],
)
def test_one_that_cannot_explain_is_a_fault_and_the_decisions_stand(
    own: type[FaultDomainSpread], count: int, said: str
) -> None:
    scheduler = scheduler_with(own(()))
    found = decided(scheduler, count)
    assert ["Own" in one.record()["extras"] for one in found] == [False] * count
    assert scheduler.faults == {"Own": 1}
    assert scheduler.take_troubles() == [f"plugin Own: {said}"]


def test_a_batch_is_told_the_counts_at_its_beginning() -> None:
    scheduler = scheduler_with()
    decided(scheduler, 2)
    found = [one.record() for one in decided(scheduler, 5, start=2)]
    assert [one["batch"] for one in found] == [{"place": at, "of": 5} for at in range(1, 6)]
    spread = [one["extras"]["FaultDomainSpread"]["zone"] for one in found]
    assert {tuple(one["counts"].values()) for one in spread} == {(1, 1, 0)}
    assert [one["skew"] for one in spread] == [one["counts"][one["domain"]] for one in spread]
    quota = [one["extras"]["TenantQuota"]["cpu"] for one in found]
    assert [(one["used_before"], one["used_after"]) for one in quota] == [("2", "3")] * 5


def test_who_books_many_and_explains_pods_alone_is_asked_of_each() -> None:
    found = decided(scheduler_with(quota=OneByOne), 5)
    assert [one.record()["extras"]["TenantQuota"] for one in found] == [{"mine": f"p{at}"} for at in range(5)]


@pytest.mark.parametrize("noted_of_all", [True, False])
def test_what_is_noted_of_each_pod_stands_in_its_record_beside_what_is_said_of_all(noted_of_all: bool) -> None:
    found = decided(scheduler_with(), 4)
    for one in found if noted_of_all else found[-1:]:
        one.note("Own", one.pod_info.pod.name)
    (table,) = tables_of(found)
    assert table.rows() == [one.record() for one in found]
    assert [row["extras"].get("Own") for row in table.rows()][-1] == "p3"
    assert isinstance(table.column, Fields)
    extras = dict(zip(table.column.names, table.column.columns, strict=True))["extras"]
    assert isinstance(extras, Fields) is noted_of_all


def test_some_of_a_batch_are_told_what_all_of_it_is() -> None:
    found = decided(scheduler_with(), 5)
    some = [found[at] for at in (0, 2, 3)]
    assert [row for table in tables_of(some) for row in table.rows()] == [one.record() for one in some]
