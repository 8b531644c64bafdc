"""Metrics of tenants' quota."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.resources import unit_scale


class QuotaCollector(Collector):
    """What each configured tenant uses and may use, of the resources that it is limited in."""

    def __init__(self, ledger: QuotaLedger, fleet: FleetState) -> None:
        self._ledger = ledger
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        labels = ["tenant", "resource"]
        used = GaugeMetricFamily(
            "global_dispatcher_quota_used",
            "What a tenant's pods are charged: cores, bytes or counts.",
            labels=labels,
        )
        limit = GaugeMetricFamily(
            "global_dispatcher_quota_limit",
            "What they may use together, in the same unit.",
            labels=labels,
        )
        totals = self._fleet.allocatable_total()
        for tenant in self._ledger.tenants:
            usage = self._ledger.usage(tenant.name)
            for resource, most in sorted(self._ledger.limits(tenant.name, totals).items()):
                scale = unit_scale(resource)
                used.add_metric([tenant.name, resource], usage.get(resource, 0) / scale)
                limit.add_metric([tenant.name, resource], most / scale)
        yield from (used, limit)
