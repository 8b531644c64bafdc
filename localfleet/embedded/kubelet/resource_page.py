"""The kubelet's page /metrics/resource, from the load model: metrics-server reads it, and agents
for other clusters.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from localfleet.embedded.kubelet.lifecycle import PodRun
from localfleet.embedded.kubelet.node import SimulatedNode

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LABELS = ("container", "namespace", "pod")


def resource_page(
    node: SimulatedNode, containers: Iterable[tuple[PodRun, list[str]]], now: float
) -> bytes:
    """Of a node, and of the containers (by name) of its pods that run; a pod's use is split evenly
    over them.
    """
    node.load.advance(now)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(node, list(containers), now))
    return generate_latest(registry)


class _Page(Collector):
    def __init__(
        self, node: SimulatedNode, containers: list[tuple[PodRun, list[str]]], now: float
    ) -> None:
        self._node = node
        self._containers = containers
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """As kubelets order them: by family."""
        now = self._now
        load = self._node.load
        total, parts = load.rates(now)
        cpu = CounterMetricFamily(
            "container_cpu_usage_seconds", "CPU time of the container", labels=_LABELS
        )
        memory = GaugeMetricFamily(
            "container_memory_working_set_bytes", "Of the container", labels=_LABELS
        )
        started = GaugeMetricFamily(
            "container_start_time_seconds", "Since the epoch", labels=_LABELS
        )
        for run, names in self._containers:
            for name in names:
                labels = (name, run.namespace, run.name)
                cpu.add_metric(labels, load.pods[run.uid].used.cpu_s / len(names), timestamp=now)
                memory.add_metric(labels, int(parts[run.uid].memory / len(names)), timestamp=now)
                started.add_metric(labels, run.started)
        yield from (cpu, memory, started)
        node_cpu = CounterMetricFamily("node_cpu_usage_seconds", "CPU time of the node")
        node_cpu.add_metric((), load.used.cpu_s, timestamp=now)
        node_memory = GaugeMetricFamily("node_memory_working_set_bytes", "Of the node")
        node_memory.add_metric((), int(total.memory), timestamp=now)
        yield from (node_cpu, node_memory)
