"""What policies that explain whole batches say of a pod that is decided alone, when its record is wanted."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from dispatcher.plugins.fault_domain_spread import FaultDomainSpread
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.framework import FleetView, PluginUse, PodInfo
from dispatcher.scheduling.framework.domain_counts import told_of
from dispatcher.scheduling.framework.value_columns import Fields
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.records.decision import tables_of
from shared.model.tenant import Share, Tenant
from tests.builders import fleet, node, pod


class Raises(FaultDomainSpread):
    """Its story fails."""

    name = "Own"

    def explain_batch(self, state: Any, rows: Any, fleet: FleetView) -> Any:
        def story(ats: Sequence[int]) -> Any:
            raise ValueError("no story")

        return story


class SaysNothing(Raises):
    """Its story is of nobody."""

    def explain_batch(self, state: Any, rows: Any, fleet: FleetView) -> Any:
        return lambda ats: []


class OnlyExplains(FaultDomainSpread):
    """All but `explain` is another policy's."""

    name = "Own"

    def explain(self, state: Any, pod_info: PodInfo, fleet: FleetView, row: int) -> dict[str, Any]:
        return {"mine": row}


def decided(own: Callable[[tuple[()]], FaultDomainSpread]) -> tuple[Scheduler, Decision]:
    profile = replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, PluginUse("Own", 1.0, {})))
    plugins = [*build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(()))), own(())]
    state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at]) for at in range(3)])
    scheduler = Scheduler(profile, plugins, state)
    decision = scheduler.schedule(pod("p").labels(app="x").spread("zone", 1).placed("a"), ("a", "p"))
    assert isinstance(decision, Decision)
    return scheduler, decision


def test_a_policy_with_an_explain_of_its_own_is_heard() -> None:
    _, decision = decided(OnlyExplains)
    assert decision.record()["extras"]["Own"] == {"mine": decision.row}


@pytest.mark.parametrize(
    ("own", "said"),
    [(Raises, "ValueError: no story"), (SaysNothing, "ValueError: explain_batch told of 0 pods of 1")],
)
def test_a_story_that_fails_is_a_fault_once_and_its_error_stands_in_the_record(
    own: type[FaultDomainSpread], said: str
) -> None:
    scheduler, decision = decided(own)
    records = [decision.record(), decision.record()]
    assert [one["extras"]["Own"] for one in records] == [{"error": said}] * 2
    assert scheduler.faults == {"Own": 1}
    assert scheduler.take_troubles() == [f"plugin Own: {said}"]


def test_a_story_of_too_few_pods_is_asked_for_each() -> None:
    found = told_of(lambda ats: [{"at": ats[0]}], [3, 4]).values(2)
    assert found == [{"at": 3}, {"at": 4}]
    nothing = told_of(lambda ats: [], [3, 4]).values(2)
    assert nothing == [{"error": "ValueError: explain_batch told of 0 pods of 1"}] * 2


class OneByOne(TenantQuota):
    """Answers a function a pod."""

    def reserve_all(self, state: Any, pods: Sequence[PodInfo], rows: Sequence[int], fleet: FleetView) -> Any:
        story = super().reserve_all(state, pods, rows, fleet)
        return [lambda at=at: told_of(story, [at]).values(1)[0] for at in range(len(pods))] if story else ()


def test_who_books_many_may_tell_of_each_by_a_function_of_its_own() -> None:
    records = []
    for own in (TenantQuota, OneByOne):
        ledger = QuotaLedger([Tenant("t", ("a/*",), {"cpu": Share(absolute=100_000)})])
        plugins = [own(ledger) if one.name == "TenantQuota" else one for one in build(DEFAULT_PROFILE, PluginContext())]
        scheduler = Scheduler(DEFAULT_PROFILE, plugins, fleet(a=[node("n1").cpu(8)]))
        pods = [pod(f"p{at}").cpu(1).placed("a") for at in range(5)]
        found = scheduler.schedule_class([(("a", one.pod.uid), one) for one in pods])
        records.append([one.record() for one in found])
    assert records[0] == records[1]
    assert [one["extras"]["TenantQuota"]["cpu"]["used_after"] for one in records[0]] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("noted_of_all", [True, False])
def test_what_is_noted_of_each_pod_stands_in_its_record_beside_what_is_said_of_all(noted_of_all: bool) -> None:
    ledger = QuotaLedger([Tenant("t", ("a/*",), {"cpu": Share(absolute=100_000)})])
    state = fleet(a=[node(f"n{at}").cpu(8).labels(zone="xyz"[at]) for at in range(3)])
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext(quota=ledger)), state)
    pods = [pod(f"p{at}").cpu(1).placed("a") for at in range(4)]
    batch = [one for one in scheduler.schedule_class([(("a", one.pod.uid), one) for one in pods]) if one]
    assert [type(one) for one in batch] == [Decision] * 4, batch
    found = [one for one in batch if isinstance(one, Decision)]
    if not noted_of_all:
        found[-1].note("Own", "more")
    tables = list(tables_of(found))
    assert [row for table in tables for row in table.rows()] == [one.record() for one in found]
    used = [row["extras"]["TenantQuota"]["cpu"]["used_before"] for table in tables for row in table.rows()]
    assert used == ["0", "1", "2", "3"]
    columns = [
        dict(zip(one.column.names, one.column.columns, strict=True)) for one in tables if isinstance(one.column, Fields)
    ]
    assert [isinstance(one["extras"], Fields) for one in columns] == [noted_of_all] * len(tables)
