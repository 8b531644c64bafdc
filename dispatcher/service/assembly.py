"""Puts a dispatcher together: profile, plugins and quota into a core; core and links into a
service.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client.registry import Collector

from dispatcher.config import DispatcherConfig
from dispatcher.config.gateway import GATEWAY
from dispatcher.config.sections import JournalSection, TimingSection, TracingSection
from dispatcher.plugins.registry import PluginContext, build, shared_queue_sort
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.core.rebalancing import Mode
from dispatcher.scheduling.core.reload import take_profiles
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import QueueSort
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.service.clock import Clock
from dispatcher.service.collectors import ServiceCollector, WrittenCollector
from dispatcher.service.files.changed_tenants import changed_tenants
from dispatcher.service.files.journal import Journal
from dispatcher.service.files.quota_file import QuotaFile, read_quota
from dispatcher.service.fleet_views import CoreViews
from dispatcher.service.gateway.metrics import CertificateCollector, RelayCollector
from dispatcher.service.links.link import AgentLink
from dispatcher.service.metrics.counters import Metrics
from dispatcher.service.metrics.links import LinkCollector
from dispatcher.service.metrics.load import LoadCollector
from dispatcher.service.metrics.owners import OwnerUseCollector
from dispatcher.service.metrics.pod_reach import PodReachCollector
from dispatcher.service.metrics.quotas import QuotaCollector
from dispatcher.service.obeyed_epochs import ObeyedEpochs
from dispatcher.service.service import Service
from dispatcher.service.term import NOBODY, Term
from dispatcher.service.timing import ServiceTiming
from dispatcher.service.traces.otel import exporter
from dispatcher.service.traces.pod_traces import PodTraces


@dataclass(frozen=True)
class Dispatcher:
    """A service, what can be asked of it, and how it takes over the profiles of a changed
    configuration.

    `lead`: of one that follows, once its service has stopped: a dispatcher for a term, with the
    same fleet. `loads`: what is known of the load of its clusters.
    """

    service: Service
    views: CoreViews
    take_policies: Callable[[DispatcherConfig], None]
    lead: Callable[[Term], "Dispatcher"]
    loads: LoadCollector


def assemble(
    links: Sequence[AgentLink],
    config: DispatcherConfig,
    term: Term | None = None,
    obeyed: ObeyedEpochs | None = None,
) -> Dispatcher:
    """A dispatcher over these links, one a cluster, by the profiles, quotas and times of `config`,
    for one term.

    `obeyed` is what agents have said in earlier terms. In the term NOBODY it follows the fleet,
    until it is to lead.
    """
    term = term or Term()
    _pod_traces(config.tracing)  # what is missing for it shows at the start, also of a standby
    clock = Clock()
    fleet = FleetState()
    fleet.links.configure(
        {row.clusters: row.rtt_ms for row in config.links.between}, config.links.stale_s
    )
    ledger = QuotaLedger(config.tenants)
    core = _core(links, config, (fleet, ledger), _policies(config, fleet, ledger), term)

    def take_policies(changed: DispatcherConfig) -> None:
        policies = _policies(changed, fleet, ledger)
        with changed_tenants(changed.tenants, ledger, fleet):
            take_profiles(core, *policies, clock())

    def serving(term: Term, before: Service | None = None) -> Dispatcher:
        journal = _journal(config.journal) if term is not NOBODY else None
        service = Service(
            core,
            links,
            clock=clock,
            metrics=Metrics(),
            journal=journal,
            timing=_service_timing(config.timing),
            term=term,
            obeyed=obeyed,
            before=before,
        )
        service.pod_traces = _pod_traces(config.tracing) if term is not NOBODY else None
        service.quota_file = _quota_file(config, ledger, fleet) if term is not NOBODY else None
        service.metrics.watch(
            WrittenCollector({"journal": journal, "quota_ledger": service.quota_file})
        )
        for collector in (*_collectors(config, service, core, ledger), RelayCollector(links)):
            service.metrics.watch(collector)
        return Dispatcher(
            service,
            CoreViews(core, ledger, service.pollers, service.senders),
            take_policies,
            lambda term: lead(term, service),
            LoadCollector(fleet),
        )

    def lead(term: Term, before: Service) -> Dispatcher:
        core.take_over(term.first_attempt)
        return serving(term, before)

    return serving(term)


def _core(
    links: Sequence[AgentLink],
    config: DispatcherConfig,
    books: tuple[FleetState, QuotaLedger],
    policies: tuple[Profiles, QueueSort],
    term: Term,
) -> SchedulerCore:
    profiles, sort = policies
    fleet, ledger = books
    core = SchedulerCore(
        [link.cluster for link in links],
        fleet,
        _queue(profiles, sort, config.timing),
        profiles,
        boot_epoch=term.first_attempt,
        timing=_core_timing(config.timing),
        rebalancing=(config.rebalancing.rules, Mode(config.rebalancing.mode)),
        ledger=ledger,
    )
    for section in config.clusters:
        if section.name in core.clusters:
            core.pin(
                section.name, section.uid, section.key, section.network, section.report_mib * 2**20
            )
    if term is NOBODY:
        core.follow()
    return core


def _collectors(
    config: DispatcherConfig, service: Service, core: SchedulerCore, ledger: QuotaLedger
) -> Iterator[Collector]:
    fleet = core.fleet
    yield ServiceCollector(service)
    yield LinkCollector(tuple(service.senders), fleet)
    yield PodReachCollector(lambda: service.core.clusters)
    yield OwnerUseCollector(fleet)
    yield LoadCollector(fleet)
    yield QuotaCollector(ledger, core)
    if config.signing.cert_file or any(entry.via == GATEWAY for entry in config.clusters):
        gateway = config.gateway
        yield CertificateCollector(
            gateway.cert_file, gateway.client_ca_file, config.signing.cert_file
        )


def _policies(
    config: DispatcherConfig, fleet: FleetState, ledger: QuotaLedger
) -> tuple[Profiles, QueueSort]:
    built = [
        (profile, build(profile, PluginContext(quota=ledger), config.registry))
        for profile in config.profiles
    ]
    schedulers = [
        Scheduler(
            profile,
            plugins,
            fleet,
            anew=partial(build, profile, PluginContext(quota=ledger), config.registry),
        )
        for profile, plugins in built
    ]
    return Profiles(schedulers), shared_queue_sort(built)


def _queue(profiles: Profiles, sort: QueueSort, timing: TimingSection) -> SchedulingQueue:
    return SchedulingQueue(
        sort,
        profiles.classify,
        gates=profiles,
        first_s=timing.backoff_first_s,
        longest_s=timing.backoff_longest_s,
        flush_s=timing.unschedulable_flush_s,
    )


def _quota_file(
    config: DispatcherConfig, ledger: QuotaLedger, fleet: FleetState
) -> QuotaFile | None:
    """Clusters that are not heard in this term are charged as the file says now; it is kept from
    here on.
    """
    section = config.quota
    path = Path(section.ledger).expanduser() if section.ledger else None
    remembered = read_quota(path, ledger.tenants) if path and ledger.tenants else None
    ledger.unsynced.begin(remembered, wait=section.unheard == "wait")
    return QuotaFile(path, ledger, fleet.clusters, remembered) if path else None


def _core_timing(timing: TimingSection) -> CoreTiming:
    return CoreTiming(
        absence_grace_s=timing.absence_grace_s,
        peers_s=timing.peers_s,
        cluster_lost_s=timing.cluster_lost_s,
        mirror_s=timing.mirror_s,
        start_s=timing.start_s,
        node_wait_s=timing.node_wait_s,
        fenced_per_s=timing.fenced_per_s,
        evictions_abroad_per_s=timing.evictions_abroad_per_s,
        reclaims_per_s=timing.reclaims_per_s,
        delegate_lease_s=timing.delegate_lease_s,
    )


def _service_timing(timing: TimingSection) -> ServiceTiming:
    return ServiceTiming(
        poll_wait_s=timing.poll_wait_s,
        silent_s=timing.cluster_silent_s,
        first_sync_s=timing.first_sync_s,
        deadline_s=timing.deadline_s,
        execute_s=timing.execute_s,
        delegate_lease_s=timing.delegate_lease_s,
        tick_s=timing.tick_s,
    )


def _pod_traces(section: TracingSection) -> PodTraces | None:
    return PodTraces(section.share, exporter(section.endpoint)) if section.enabled else None


def _journal(section: JournalSection) -> Journal | None:
    return (
        Journal(Path(section.path).expanduser(), section.max_mib * 1024 * 1024)
        if section.path
        else None
    )
