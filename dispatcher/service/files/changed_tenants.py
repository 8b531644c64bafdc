"""Other tenants while the dispatcher runs: charged anew, and told."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.tenants.changes import Standing, changes
from shared.model.tenant import Tenant

log = structlog.get_logger("tenants")

MOST_LINES = 100


@contextmanager
def changed_tenants(
    tenants: Sequence[Tenant], ledger: QuotaLedger, fleet: FleetState
) -> Iterator[None]:
    """These tenants hold from now on; within, the places of all pods are to be booked anew. What it
    means is logged at the end, if they are others than before.
    """
    if tuple(tenants) == ledger.tenants:
        yield
        return
    before = Standing.of(ledger.tree, fleet.allocatable_total(ledger.tree.of_parts))
    ledger.take(tenants)
    yield
    totals = fleet.allocatable_total(ledger.tree.of_parts)
    told = list(changes(before, Standing.of(ledger.tree, totals)))
    for line in told[:MOST_LINES]:
        log.info("changed tenants", what=line)
    more = len(told) - MOST_LINES
    log.info(
        "changed tenants hold from now on",
        tenants=len(tenants),
        changes=len(told),
        **({"not_shown": more} if more > 0 else {}),
    )
