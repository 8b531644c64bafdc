"""Metrics of what clusters have, what is requested of them and what agents read of their nodes."""

from collections.abc import Iterator

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.fleet.columns import RowList, exact_sums
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Readings
from shared.model.resources import CPU, MEMORY, PODS, unit_scale

_QUANTILES = (0.5, 0.9, 1.0)


class LoadCollector(Collector):
    """By cluster, resource and signal; names of nodes are in no label, so nodes are told by
    quantiles.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        """One scrape; with 500,000 nodes 10 to 15 ms for each of three steps."""
        rows = list(self._rows())
        yield from self._resources(rows)
        yield from self._loads(rows)

    def _rows(self) -> Iterator[tuple[str, RowList]]:
        """The rows of each cluster, found in one pass over the fleet."""
        fleet = self._fleet
        live = np.flatnonzero(fleet.live[: fleet.n])
        codes = fleet.cluster[live]
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(fleet.clusters) + 1))
        for at, info in enumerate(fleet.clusters):
            yield info.name, live[order[ends[at] : ends[at + 1]]]

    def _resources(self, found: list[tuple[str, RowList]]) -> Iterator[Metric]:
        labels = ["cluster", "resource"]
        has = GaugeMetricFamily(
            "global_dispatcher_cluster_allocatable",
            "What the nodes of a cluster can give to pods: cores, bytes or counts; proxies not "
            "included.",
            labels=labels,
        )
        asked = GaugeMetricFamily(
            "global_dispatcher_cluster_requested",
            "What pods request of that, in the same unit.",
            labels=labels,
        )
        fleet = self._fleet
        for resource in (CPU, MEMORY, PODS):
            column = fleet.axis.column(resource)
            scale = unit_scale(resource)
            if column is None or column >= len(fleet.requested):
                continue
            for cluster, rows in found:
                (total,) = exact_sums(fleet.allocatable[column : column + 1, rows])
                (requested,) = exact_sums(fleet.requested[column : column + 1, rows])
                has.add_metric([cluster, resource], total / scale)
                asked.add_metric([cluster, resource], requested / scale)
        yield from (has, asked)

    def _loads(self, found: list[tuple[str, RowList]]) -> Iterator[Metric]:
        load = GaugeMetricFamily(
            "global_dispatcher_node_load_ratio",
            "Latest reading of a signal, a share of the node's capacity: quantiles over the "
            "cluster's nodes that have "
            "one, 1 is the hottest. An old reading is still told, with its age beside.",
            labels=["cluster", "signal", "quantile"],
        )
        known = GaugeMetricFamily(
            "global_dispatcher_node_load_known_nodes",
            "Nodes that have a reading of the signal, whatever its age.",
            labels=["cluster", "signal"],
        )
        age = GaugeMetricFamily(
            "global_dispatcher_node_load_age_seconds",
            "Age of the oldest of these readings, as of the last event that the dispatcher "
            "handled.",
            labels=["cluster", "signal"],
        )
        fleet = self._fleet
        signals = fleet.signal_axis.names
        for signal in signals:
            used = fleet.signals.used(signal)
            sampled_at = fleet.signals.sampled_at(signal)
            for cluster, rows in found:
                read = rows[~np.isnan(used[rows])]
                known.add_metric([cluster, signal], len(read))
                if len(read):
                    age.add_metric([cluster, signal], fleet.now - float(sampled_at[read].min()))
        yield from (known, age)
        for signal in signals:
            used = fleet.signals.used(signal)
            for cluster, rows in found:
                for quantile, value in _quantiles_of(used[rows]):
                    load.add_metric([cluster, signal, f"{quantile:g}"], value)
        yield load


def _quantiles_of(used: Readings) -> Iterator[tuple[float, float]]:
    """Of the numbers among them, between two of which it is linear; none of none. A third of what
    np.quantile takes.
    """
    ordered = np.sort(used)  # what is no number comes last
    last = len(ordered) - int(np.count_nonzero(np.isnan(ordered))) - 1
    for quantile in _QUANTILES if last >= 0 else ():
        at = int(quantile * last)
        low = float(ordered[at])
        high = float(ordered[min(at + 1, last)])
        yield quantile, low + (high - low) * (quantile * last - at)
