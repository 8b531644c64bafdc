"""A real core on the default profile, for laws about the whole."""

from collections.abc import Sequence
from functools import partial

from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.core.rebalancing import Mode
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.rebalancing.rules import RebalancingRules


def make_core(
    clusters: Sequence[str],
    *,
    boot_epoch: int = 1,
    timing: CoreTiming | None = None,
    ledger: QuotaLedger | None = None,
    rebalancing: tuple[RebalancingRules, Mode] = (RebalancingRules(), Mode.OFF),
) -> SchedulerCore:
    """As the runtime makes it, with no tenants but those of `ledger`."""
    fleet = FleetState()
    made = partial(build, DEFAULT_PROFILE, PluginContext(quota=ledger or QuotaLedger(())))
    plugins = made()
    profiles = Profiles([Scheduler(DEFAULT_PROFILE, plugins, fleet, anew=made)])
    queue = SchedulingQueue(queue_sort(plugins), profiles.classify, gates=profiles)
    return SchedulerCore(
        clusters, fleet, queue, profiles, boot_epoch=boot_epoch, timing=timing, rebalancing=rebalancing, ledger=ledger
    )
