"""Room and quota."""

from typing import Any

from tests.simulation.planted.table import Patches, plant


@plant("an agent does not remember what it has just bound", "watches", "links", "rivals")
def no_bookings(patches: Patches) -> None:
    from agents.executor.ledger import Ledger

    patches.set(Ledger, "book", lambda self, booking: None)


@plant("an agent binds whatever it is told to", "nodes", "watches", "dispatchers")
def no_second_look(patches: Patches) -> None:
    from agents.executor import bind, delegate

    for module in (bind, delegate):
        patches.set(module, "refusal", lambda pod, node, local, now: "")


@plant("the dispatcher forgets what it has decided until it sees it", "watches", "links")
def nothing_is_assumed(patches: Patches) -> None:
    from agents.executor import bind, delegate
    from dispatcher.scheduling import core
    from dispatcher.scheduling.delegation import tracking

    def place_of(tracked: Any) -> Any:
        source = tracked.source
        placed = source is not None and source.node and not source.claim and not source.terminal
        return (source, tracked.home, source.node) if placed else None

    patches.set(tracking, "place_of", place_of)
    patches.set(core, "place_of", place_of)
    for module in (bind, delegate):
        patches.set(module, "refusal", lambda pod, node, local, now: "")


@plant("quota is not looked at", "quota")
def no_quota(patches: Patches) -> None:
    from dispatcher.scheduling.quota import QuotaLedger

    patches.set(QuotaLedger, "exceeded", lambda self, tenant, asked, totals: None)
