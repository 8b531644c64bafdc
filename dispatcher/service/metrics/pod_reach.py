"""A metric of which clusters' pods reach those of others at their addresses, as agents tried."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.clusters import ClusterView, share_network
from shared.model.names import REACHED, UNTRIED


class PodReachCollector(Collector):
    """A gauge a direction between two clusters of one pod network; what is not known has none."""

    def __init__(self, clusters: Callable[[], Mapping[str, ClusterView]]) -> None:
        self._clusters = clusters

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        family = GaugeMetricFamily(
            "global_dispatcher_pods_reached",
            "1: the agent of one cluster, a pod, reaches that of another of its `network` by the "
            "pod's address, 0: it does not.",
            labels=("from", "to"),
        )
        clusters = self._clusters()
        for name, view in clusters.items():
            for one in () if view.silent else view.reaches:
                other = clusters.get(one.cluster)
                if one.state != UNTRIED and other is not None and share_network(view, other):
                    family.add_metric((name, one.cluster), float(one.state == REACHED))
        yield family
