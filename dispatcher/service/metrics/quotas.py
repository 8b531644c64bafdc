"""Metrics of tenants: their quota, what is lent and borrowed of it, and who waits."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.tenants.tree import TenantNode
from dispatcher.scheduling.views import TenantRows
from shared.model.resources import unit_scale
from shared.model.tenant import resource_of

_AMOUNTS = {
    "global_dispatcher_quota_used": "What a tenant's pods are charged, with those of its parts above "
    "what these keep: cores, bytes or counts.",
    "global_dispatcher_quota_limit": "What they may use together, in the same unit.",
    "global_dispatcher_quota_nominal": "What the tenants file gives to the tenant itself.",
    "global_dispatcher_quota_borrowed": "What it and those that are part of it use above "
    "what was given to them.",
    "global_dispatcher_quota_lent": "What was given to it and others use.",
}


class QuotaCollector(Collector):
    """What each configured tenant uses and may use, of the resources that it is limited in, and how
    many of its pods wait. What counts for one that others are part of is of all of them.
    """

    def __init__(self, ledger: QuotaLedger, core: SchedulerCore) -> None:
        self._ledger = ledger
        self._core = core

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        rows = TenantRows(self._core, self._ledger)
        nodes = rows.nodes()
        families = {
            name: GaugeMetricFamily(name, text, labels=["tenant", "resource"])
            for name, text in _AMOUNTS.items()
        }
        for node in nodes:
            for resource, amounts in sorted(rows.amounts(node).items()):
                scale = unit_scale(resource_of(resource))
                for name, family in families.items():
                    family.add_metric(
                        [node.name, resource], amounts[name.rpartition("_")[2]] / scale
                    )
        yield from families.values()
        yield from self._of_tenants(rows, nodes)

    def _of_tenants(self, rows: TenantRows, nodes: list[TenantNode]) -> Iterator[Metric]:
        share = GaugeMetricFamily(
            "global_dispatcher_tenant_share",
            "What a tenant has borrowed of all that can be, of the resource of which that is most, by "
            "its weight.",
            labels=["tenant"],
        )
        waiting = GaugeMetricFamily(
            "global_dispatcher_tenant_waiting_pods",
            "Pods of a tenant that found no place or are gated.",
            labels=["tenant"],
        )
        starved = GaugeMetricFamily(
            "global_dispatcher_tenant_starved_pods",
            "Those that wait for quota, though with them the tenant would use no more than was "
            "given to it: others have borrowed it.",
            labels=["tenant"],
        )
        waits = rows.waiting()
        starves = rows.starved()
        for node in nodes:
            share.add_metric([node.name], node.share().number)
            waiting.add_metric([node.name], waits[node.name])
            starved.add_metric([node.name], starves[node.name])
        yield from (share, waiting, starved)
