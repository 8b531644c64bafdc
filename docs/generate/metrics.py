"""The page of metrics, read from the collectors themselves."""

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.core import Metric

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.shards.coordinator import Shards
from dispatcher.service.collectors import LeaderCollector, ServiceCollector
from dispatcher.service.link_metrics import LinkCollector
from dispatcher.service.metrics import Metrics
from dispatcher.service.shards.metrics import ShardCollector
from docs.generate.markdown import code, page, table


def families() -> list[Metric]:
    """All that /metrics can have, of a dispatcher that has seen nothing yet."""
    metrics = Metrics()
    queue = SimpleNamespace(counts=dict)
    service = SimpleNamespace(
        core=SimpleNamespace(queue=queue, counters={}, clusters={}), senders={}, clock=lambda: 0.0
    )
    metrics.watch(ServiceCollector(cast(Any, service)))
    metrics.watch(LinkCollector((), FleetState()))
    metrics.watch(LeaderCollector(lambda: True))
    metrics.watch(ShardCollector(cast(Shards, SimpleNamespace(statuses=list))))
    return sorted(metrics.registry.collect(), key=lambda family: family.name)


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def render() -> str:
    """The page."""
    return page(
        "Metrics",
        "At `/metrics` of the HTTP API. Names that begin with `scheduler_` mean what they mean in kube-scheduler. No label is "
        "chosen by a user.",
        table(("metric", "type", "meaning"), ((code(_name(one)), one.type, one.documentation) for one in families())),
    )
