"""What is counted of shards, in Prometheus' form."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.shards.coordinator import Shards, Status

_Read = Callable[[Status], float]
_GAUGES: tuple[tuple[str, str, _Read], ...] = (
    ("global_dispatcher_shard_rows", "Nodes that a shard looks at.", lambda one: one.rows),
    ("global_dispatcher_shard_up", "1: it takes questions.", lambda one: one.state == "up"),
)
_COUNTERS: tuple[tuple[str, str, str, dict[str, _Read]], ...] = (
    ("global_dispatcher_shard_busy_seconds", "Time that it worked.", "", {"": lambda one: one.seconds}),
    (
        "global_dispatcher_shard_questions",
        "Passes over its nodes, by what became of them; what is missed the driver does itself.",
        "result",
        {"answered": lambda one: one.counts.answered, "missed": lambda one: one.counts.missed},
    ),
    (
        "global_dispatcher_shard_bytes",
        "Bytes to it and from it.",
        "way",
        {"sent": lambda one: one.counts.bytes_sent, "got": lambda one: one.counts.bytes_got},
    ),
)


class ShardCollector(Collector):
    """Reads the shards at each scrape."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        statuses = list(enumerate(self._shards.statuses()))
        for name, text, read in _GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=["shard"])
            for number, one in statuses:
                gauge.add_metric([str(number)], float(read(one)))
            yield gauge
        for name, text, label, reads in _COUNTERS:
            counter = CounterMetricFamily(name, text, labels=["shard", label] if label else ["shard"])
            for number, one in statuses:
                for value, read in reads.items():
                    counter.add_metric([str(number), value] if label else [str(number)], read(one))
            yield counter
