"""What the dispatcher counts, in Prometheus' form; `scheduler_*` names, labels and buckets are kube-scheduler's.

No label value is chosen by a user: clusters, queues, results and kinds of intents are all there is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest
from prometheus_client import Counter as PromCounter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.model.messages import AnyIntent
from dispatcher.model.names import SCHEDULER_NAME
from dispatcher.scheduling.events import Answered, Event, Unanswered
from dispatcher.scheduling.shards.crew import Shards
from dispatcher.service.shards.metrics import ShardCollector

if TYPE_CHECKING:
    from dispatcher.service.service import Service

_ATTEMPT_BUCKETS = tuple(0.00001 * 4**step for step in range(12))
disable_created_metrics()  # type: ignore[no-untyped-call]  # twice the series, for a start time nobody asks for
_SLI_BUCKETS = tuple(0.01 * 2**step for step in range(20))
_RESULTS = ("scheduled", "unschedulable")  # of an attempt; each is counted by profile


class Metrics:
    """Counters that the loop feeds. `watch` adds what is read from a service at each scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._attempt = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Mean time of a decision (scheduling algorithm, without the bind), by Tick.",
            ["profile"],
            buckets=_ATTEMPT_BUCKETS,
            registry=self.registry,
        )
        self._sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's creation to its decision, on the dispatcher's clock.",
            buckets=_SLI_BUCKETS,
            registry=self.registry,
        )
        self._errors = self._counter("global_dispatcher_core_errors", "Events that the core failed on.", "event")
        self._intents = self._counter("global_dispatcher_intents", "Intents handed to agents.", "cluster", "intent")
        self._outcomes = self._counter("global_dispatcher_outcomes", "Answers of agents.", "cluster", "verdict")
        self._seen: Counter[str] = Counter()

    def _counter(self, name: str, text: str, *labels: str) -> PromCounter:
        return PromCounter(name, text, labels, registry=self.registry)

    def core_error(self, event: str) -> None:
        """The core raised on an event of this type."""
        self._errors.labels(event).inc()

    def intents(self, cluster: str, intents: Iterable[AnyIntent]) -> None:
        """These intents leave for a cluster."""
        for kind, count in Counter(type(intent).__name__ for intent in intents).items():
            self._intents.labels(cluster, kind).inc(count)

    def event(self, event: Event) -> None:
        """An event went into the core."""
        if isinstance(event, Answered):
            for verdict, count in Counter(outcome.verdict for outcome in event.outcomes).items():
                self._outcomes.labels(event.cluster, verdict[:16]).inc(count)
        elif isinstance(event, Unanswered):
            self._outcomes.labels(event.cluster, "unanswered").inc(len(event.intent_ids))

    def tick(self, spent_s: float, counters: Mapping[tuple[str, str], int]) -> None:
        """A Tick took this long; the decisions that it made share the time."""
        so_far: Counter[str] = Counter()
        for (result, profile), count in counters.items():
            if result in _RESULTS:
                so_far[profile] += count
        made, self._seen = so_far - self._seen, so_far
        for profile in made:
            self._attempt.labels(profile).observe(spent_s / made.total())

    def decided(self, created: float, now: float) -> None:
        """A pod that was created at that time (0: not known) was placed."""
        if 0 < created <= now:
            self._sli.observe(now - created)

    def watch(self, service: "Service") -> None:
        """Read the rest from this service at each scrape."""
        self.registry.register(_ServiceCollector(service))

    def watch_shards(self, shards: Shards) -> None:
        """And what becomes of questions to shards."""
        self.registry.register(ShardCollector(shards))

    def watch_leader(self, leads: Callable[[], bool]) -> None:
        """And whether this dispatcher leads."""
        self.registry.register(_LeaderCollector(leads))

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)


class _LeaderCollector(Collector):
    """kube-scheduler's gauge of leader election."""

    def __init__(self, leads: Callable[[], bool]) -> None:
        self._leads = leads

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        text = "1: this dispatcher leads, 0: it stands by."
        family = GaugeMetricFamily("leader_election_master_status", text, labels=["name"])
        family.add_metric([SCHEDULER_NAME], float(self._leads()))
        yield family


class _ServiceCollector(Collector):
    """Gauges and totals that the service and its core hold anyway."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        yield self._pending()
        yield self._attempts()
        yield from self._clusters()
        yield from self._boxes()

    def _pending(self) -> Metric:
        family = GaugeMetricFamily("scheduler_pending_pods", "Pods that wait, by queue.", labels=["queue"])
        for queue, count in sorted(self._service.core.queue.counts().items()):
            family.add_metric([queue], count)
        return family

    def _attempts(self) -> Metric:
        family = CounterMetricFamily(
            "scheduler_schedule_attempts", "Attempts to schedule pods.", labels=["result", "profile"]
        )
        for (result, profile), count in sorted(self._service.core.counters.items()):
            if result in _RESULTS:
                family.add_metric([result, profile], count)
        return family

    def _clusters(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("global_dispatcher_cluster_ready", "1: new pods may go there.", labels=["cluster"])
        age = GaugeMetricFamily(
            "global_dispatcher_cluster_report_age_seconds", "Since the agent last answered.", labels=["cluster"]
        )
        nodes = GaugeMetricFamily("global_dispatcher_cluster_nodes", "Nodes, proxies included.", labels=["cluster"])
        pods = GaugeMetricFamily("global_dispatcher_cluster_pods", "Pods that count.", labels=["cluster"])
        for name, view in sorted(self._service.core.clusters.items()):
            ready.add_metric([name], float(view.ready))
            if view.last_report_at > 0:
                age.add_metric([name], self._service.clock() - view.last_report_at)
            nodes.add_metric([name], len(view.nodes))
            pods.add_metric([name], len(view.pods))
        yield from (ready, age, nodes, pods)

    def _boxes(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("global_dispatcher_intents_waiting", "Intents not sent yet.", labels=["cluster"])
        flying = GaugeMetricFamily("global_dispatcher_calls_in_flight", "Calls without answer.", labels=["cluster"])
        for name, box in sorted(self._service.senders.items()):
            waiting.add_metric([name], box.depth)
            flying.add_metric([name], box.in_flight)
        yield from (waiting, flying)
