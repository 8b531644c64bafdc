"""Room and quota."""

from typing import Any

from tests.simulation.planted import stories
from tests.simulation.planted.scripted import Hint
from tests.simulation.planted.table import Patches, plant


@plant(
    "an agent does not remember what it has just bound", hint=Hint(stories.two_pods_and_a_blind_agent, stories.SMALL)
)
def no_bookings(patches: Patches) -> None:
    from agents.executor.context.ledger import Ledger

    patches.set(Ledger, "book", lambda self, booking: None)


@plant("an agent binds whatever it is told to", hint=Hint(stories.full_when_the_order_comes, stories.SMALL))
def no_second_look(patches: Patches) -> None:
    from agents.executor.intents import bind, delegate

    for module in (bind, delegate):
        patches.set(module, "refusal", lambda pod, node, local, now: "")


@plant("the dispatcher forgets what it has decided until it sees it", "watches", "links")
def nothing_is_assumed(patches: Patches) -> None:
    from agents.executor.intents import bind, delegate
    from dispatcher.scheduling.core import reconciler
    from dispatcher.scheduling.delegation import tracking

    def place_of(tracked: Any, fenced: Any = frozenset()) -> Any:
        source = tracked.source
        placed = source is not None and source.node and not source.claim and not source.terminal
        return (source, tracked.home, source.node) if placed else None

    patches.set(tracking, "place_of", place_of)
    patches.set(reconciler, "place_of", place_of)
    for module in (bind, delegate):
        patches.set(module, "refusal", lambda pod, node, local, now: "")


@plant("quota is not looked at", "quota")
def no_quota(patches: Patches) -> None:
    from dispatcher.scheduling.tenants.tree import TenantNode

    patches.set(TenantNode, "binding", lambda self, resource, amount: None)
    patches.set(TenantNode, "available", lambda self, resource: None)


@plant("what a tenant borrows is not counted where it is from", "quota")
def borrowed_from_nowhere(patches: Patches) -> None:
    from dispatcher.scheduling.tenants.tree import TenantNode

    def use(self: TenantNode, resource: str, more: int) -> None:
        self.usage[resource] = self.usage.get(resource, 0) + more

    patches.set(TenantNode, "_use", use)


@plant("quota is taken back from who has borrowed nothing", "quota")
def taken_from_owners(patches: Patches) -> None:
    from dispatcher.scheduling.tenants import reclaim

    patches.set(reclaim._Search, "_may_take", lambda self, tenant, unit, missing: True)


@plant("a delegate that a webhook made larger is bound all the same", hint=Hint(stories.enlarged, stories.SMALL))
def enlarged_delegates_bound(patches: Patches) -> None:
    from agents.executor.intents import delegate

    patches.set(delegate, "_unplaceable", lambda actual, intent, local, now: None)


@plant("what silent clusters use of a quota is forgotten", hint=Hint(stories.quota_of_the_silent, stories.SCARCE))
def quota_of_the_silent_forgotten(patches: Patches) -> None:
    from dispatcher.scheduling.unsynced_usage import UnsyncedUsage

    patches.set(UnsyncedUsage, "unknown", lambda self: "")
    patches.set(UnsyncedUsage, "unseen", lambda self, tenant: {})


@plant("whoever asks first has all slots of an API server", hint=Hint(stories.hanging_webhook))
def slots_without_shares(patches: Patches) -> None:
    from agents.executor.bounds.slots import Slots
    from agents.runtime import executor_loop

    patches.set(executor_loop, "lane_of", lambda intent: "")
    patches.set(Slots, "_notice", lambda self, now: None)


@plant("hard spread over zones is not looked at", hint=Hint(stories.spread_over_zones))
def no_spread(patches: Patches) -> None:
    from dispatcher.plugins.fault_domain_spread import FaultDomainSpread

    patches.set(FaultDomainSpread, "_rules", lambda self, pod_info, fleet: ())


@plant("pods are replaced however many clusters are lost", hint=Hint(stories.two_lost_of_three))
def no_halt(patches: Patches) -> None:
    from agents.executor.trust.peers import PeerTable

    patches.set(PeerTable, "too_many_lost", property(lambda self: ""))
