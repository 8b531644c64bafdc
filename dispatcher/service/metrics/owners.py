"""Metrics of what agents have told of single owners' pods."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.fleet.fleet import FleetState


class OwnerUseCollector(Collector):
    """How many owners are known; names of theirs are in no label."""

    def __init__(self, fleet: FleetState) -> None:
        self._uses = fleet.uses

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        known = GaugeMetricFamily(
            "global_dispatcher_owner_uses", "Owners of which it is known what their pods use."
        )
        known.add_metric([], len(self._uses))
        dropped = CounterMetricFamily(
            "global_dispatcher_owner_uses_dropped",
            "Reports of that which were absurd, or gave way to newer ones.",
        )
        dropped.add_metric([], self._uses.dropped)
        yield from (known, dropped)
