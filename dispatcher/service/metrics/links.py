"""Metrics of the ways between clusters: as they were measured, with their age, and what counts."""

from collections.abc import Iterator, Sequence
from itertools import permutations

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.fleet.fleet import FleetState

_WAY = ("from", "to")


class LinkCollector(Collector):
    """A gauge a direction between two clusters; what is not known has none."""

    def __init__(self, clusters: Sequence[str], fleet: FleetState) -> None:
        self._clusters = tuple(clusters)
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        rtt = _gauge(
            "global_dispatcher_link_rtt_seconds", "Round trip to another cluster's agent, a median."
        )
        jitter = _gauge(
            "global_dispatcher_link_jitter_seconds",
            "Mean difference of one such round trip and the next.",
        )
        loss = _gauge(
            "global_dispatcher_link_loss_ratio", "Share of such round trips that were lost."
        )
        age = _gauge("global_dispatcher_link_age_seconds", "Since the last probe that came back.")
        counts = _gauge(
            "global_dispatcher_link_counts_seconds", "The round trip that decisions go by."
        )
        links = self._fleet.links
        now = self._fleet.now
        for way in permutations(self._clusters, 2):
            told = links.measured(*way)
            counted = links.between(*way, now)
            if told is not None:
                rtt.add_metric(way, told.rtt_ms / 1e3)
                jitter.add_metric(way, told.jitter_ms / 1e3)
                loss.add_metric(way, told.loss)
                age.add_metric(way, max(0.0, now - told.at))
            if counted is not None:
                counts.add_metric(way, counted.rtt_ms / 1e3)
        yield from (rtt, jitter, loss, age, counts)


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=_WAY)
