"""Pods of one class of which the first finds no place: what is told of the others without looking at nodes again."""

from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.cycle import Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework import Plugin
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, fleet, node, pod
from tests.scheduling.tiny_plugins import Fit, profile


def scheduler(state: FleetState, *more: Plugin) -> Scheduler:
    chosen = (Fit(), *more)
    return Scheduler(profile(**{one.name: 1.0 for one in chosen}), chosen, state)


def items(*pods: PodBuilder) -> list[Item]:
    return [(("a", one.pod.uid), one) for one in (each.placed() for each in pods)]


def test_one_that_is_promised_room_gets_it_though_others_of_its_class_before_it_found_none() -> None:
    one = scheduler(fleet(a=[node("n1").cpu(4)]))
    asking = items(*(pod(f"p{at}").cpu(4).priority(7) for at in range(3)))
    pod_id, promised = asking[1]
    one.nominations.put(Nominee(pod_id, promised, "a", "n1", frozenset()))
    assert [getattr(result, "node", "") for result in one.schedule_class(asking)] == ["", "n1", ""]


def test_each_is_refused_for_the_quota_of_its_own_tenant_though_another_tenants_pod_found_no_room() -> None:
    tenants = [Tenant(name, (name,), {"cpu": Share(absolute=most)}) for name, most in (("red", 100_000), ("blue", 1))]
    one = scheduler(fleet(a=[node("n1").cpu(1)]), TenantQuota(QuotaLedger(tenants)))
    asking = items(*(pod(f"{name}-{at}").namespace(name).cpu(4) for at, name in enumerate(("red", "blue", "red"))))
    refused = [result.reasons for result in one.schedule_class(asking) if isinstance(result, Unschedulable)]
    assert refused == [{Reasons.INSUFFICIENT}, {Reasons.QUOTA}, {Reasons.INSUFFICIENT}]


def test_the_words_of_a_refusal_are_of_the_nodes_that_there_are_now() -> None:
    state = fleet(a=[node("n1").cpu(1)])
    one, told = scheduler(state), list[str]()
    for name in ("n2", "n3"):
        (result,) = one.schedule_class(items(pod(f"before-{name}").cpu(4)))
        assert isinstance(result, Unschedulable)
        told.append(result.message)
        state.put_node("a", node(name).cpu(1).build())
    assert [message.partition(":")[0] for message in told] == ["0/1 nodes are available", "0/2 nodes are available"]
