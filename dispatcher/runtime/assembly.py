"""Puts a dispatcher together: profile, plugins and quota into a core; core and links into a service."""

from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.model.tenant import Tenant
from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.runtime.clock import Clock
from dispatcher.runtime.fleet_views import CoreViews
from dispatcher.runtime.journal import Journal
from dispatcher.runtime.link import AgentLink
from dispatcher.runtime.metrics import Metrics
from dispatcher.runtime.service import Service
from dispatcher.runtime.timing import ServiceTiming
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.cycle import Scheduler
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger


@dataclass(frozen=True)
class Dispatcher:
    """A service and what can be asked of it."""

    service: Service
    views: CoreViews


def assemble(
    links: Sequence[AgentLink],
    profile: Profile,
    tenants: Sequence[Tenant] = (),
    *,
    timing: ServiceTiming | None = None,
    journal: Journal | None = None,
) -> Dispatcher:
    """A dispatcher over these links, one a cluster, that decides by `profile` under the quotas of `tenants`."""
    clock, metrics, fleet, ledger = Clock(), Metrics(), FleetState(), QuotaLedger(tenants)
    plugins = build(profile, PluginContext(quota=ledger))
    scheduler = Scheduler(profile, plugins, fleet)
    queue = SchedulingQueue(queue_sort(plugins), scheduler.classify)
    clusters = [link.cluster for link in links]
    core = SchedulerCore(clusters, fleet, queue, scheduler, boot_epoch=clock.boot_epoch)
    service = Service(core, links, clock=clock, metrics=metrics, journal=journal, timing=timing)
    metrics.watch(service)
    return Dispatcher(service, CoreViews(core, ledger))
