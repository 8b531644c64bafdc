"""The page of metrics, read from the collectors themselves."""

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import PROCESS_COLLECTOR
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from agents.runtime.metrics import AgentCollector, AgentStatus
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.service.collectors import (
    LeaderCollector,
    ReloadCollector,
    ServiceCollector,
    WrittenCollector,
)
from dispatcher.service.gateway.metrics import CertificateCollector, RelayCollector
from dispatcher.service.metrics.counters import Metrics
from dispatcher.service.metrics.links import LinkCollector
from dispatcher.service.metrics.load import LoadCollector
from dispatcher.service.metrics.owners import OwnerUseCollector
from dispatcher.service.metrics.pod_reach import PodReachCollector
from dispatcher.service.metrics.quotas import QuotaCollector
from docs.generate.markdown import code, page, table


def families() -> list[Metric]:
    """All of ours that /metrics can have, of a dispatcher that has seen nothing yet."""
    metrics = Metrics()
    metrics.registry.unregister(PROCESS_COLLECTOR)
    queue = SimpleNamespace(counts=dict, parked=tuple, incoming={})
    profiles = SimpleNamespace(class_counts={})
    core = SimpleNamespace(
        queue=queue, counters={}, clusters={}, compared={}, profiles=profiles, folding=()
    )
    service = SimpleNamespace(core=core, senders={}, clock=lambda: 0.0)
    counted = [
        (one, one.describe())
        for one in metrics.registry._collector_to_names
        if isinstance(one, MetricWrapperBase)
    ]
    labels = {family.name: one._labelnames for one, described in counted for family in described}
    metrics.watch(ServiceCollector(cast(Any, service)))
    metrics.watch(LinkCollector((), FleetState()))
    metrics.watch(PodReachCollector(dict))
    metrics.watch(OwnerUseCollector(FleetState()))
    metrics.watch(LoadCollector(FleetState()))
    metrics.watch(QuotaCollector(QuotaLedger(), cast(Any, SimpleNamespace(fleet=FleetState()))))
    metrics.watch(CertificateCollector("", ""))
    metrics.watch(RelayCollector(()))
    metrics.watch(LeaderCollector(lambda: True))
    metrics.watch(ReloadCollector(None))
    metrics.watch(WrittenCollector({}))
    found = sorted(metrics.registry.collect(), key=lambda family: family.name)
    for family in found:
        if family.name in labels:  # without a sample the library does not tell them
            vars(family)["_labelnames"] = labels[family.name]
    return found


def name_of(family: Metric) -> str:
    """As Prometheus calls it."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def of_agents() -> list[Metric]:
    """All of ours that /metrics of an agent can have."""
    return sorted(
        AgentCollector(AgentStatus(0.0, holds_lease=True)).collect(), key=lambda family: family.name
    )


def labels_of(family: Metric) -> tuple[str, ...]:
    """Names of its labels."""
    return tuple(
        getattr(family, "_labelnames", ())
    )  # of one made for a scrape; `families` adds those of the others


def _table(found: list[Metric]) -> str:
    return table(("metric", "labels", "meaning"), map(_row, found))


def _row(family: Metric) -> tuple[str, str, str]:
    """(name, labels, meaning); of a histogram the meaning says so."""
    kind = "Histogram. " if family.type == "histogram" else ""
    labels = ", ".join(map(code, labels_of(family)))
    return code(name_of(family)), labels, f"{kind}{family.documentation.removesuffix('.')}"


def render() -> str:
    """The page."""
    return page(
        "Metrics",
        "Counters end in `_total`; what is not called a histogram is a gauge. Each process also "
        "has what Prometheus' client library tells on Linux: `process_resident_memory_bytes`, "
        "`process_cpu_seconds_total`, its start and its open files, without processes of Ray "
        "beside it.",
        "## The dispatcher",
        "At `/metrics` of the HTTP API. Names that begin with `scheduler_` are kube-scheduler's; "
        "what differs from there is said "
        "in the row. No value of a label is chosen by users; names of clusters and profiles are "
        "the administrator's.",
        _table(families()),
        "## An agent",
        "At `/metrics` on the port `metrics.port` of the agent, where `metrics.enabled` is true "
        "(in the chart: `metrics.enabled` "
        "and `metrics.port`). Labels are kinds of objects, verdicts, and the names of sources and "
        "signals in the agent's "
        "configuration; no name of a node or pod. `global-dispatcher doctor` says in words what "
        "is wrong with sources, of all "
        "clusters at once.",
        _table(of_agents()),
    )
