"""What the dispatcher counts, in Prometheus' form; `scheduler_*` are names of kube-scheduler.

No label value is chosen by a user: clusters, profiles, queues, results and kinds of intents are all
there is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from prometheus_client import (
    PROCESS_COLLECTOR,
    CollectorRegistry,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client import Counter as PromCounter
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.events import Answered, Event, FoldOn, Unanswered
from dispatcher.service.metrics.attempt_times import AttemptTimes, Outcome
from dispatcher.service.metrics.plugin_times import PluginTimes
from shared.messages import AnyIntent
from shared.model.pod import PodId

disable_created_metrics()  # type: ignore[no-untyped-call]  # twice the series, for a start time nobody asks for
RESULTS = ("scheduled", "unschedulable")  # of an attempt; each is counted by profile


class Metrics:
    """Counters that the loop feeds. `watch` adds what is read at each scrape (`collectors.py`)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._attempts = AttemptTimes()
        self.registry.register(self._attempts)
        self.registry.register(PROCESS_COLLECTOR)
        self.report_parts: Counter[str] = Counter()  # by cluster
        self._errors = self._counter(
            "global_dispatcher_core_errors", "Events that the core failed on.", "event"
        )
        for event in get_args(Event):
            self._errors.labels(
                event.__name__
            )  # at 0, so that the first error shows as an increase
        self._intents = self._counter(
            "global_dispatcher_intents", "Intents handed to agents.", "cluster", "intent"
        )
        self._outcomes = self._counter(
            "global_dispatcher_outcomes", "Answers of agents.", "cluster", "verdict"
        )
        self.plugin_times = PluginTimes(self.registry)
        self._seen: Counter[Outcome] = Counter()

    def _counter(self, name: str, text: str, *labels: str) -> PromCounter:
        return PromCounter(name, text, labels, registry=self.registry)

    def core_error(self, event: str) -> None:
        """The core raised on an event of this type."""
        self._errors.labels(event).inc()

    def intents(self, cluster: str, intents: Iterable[AnyIntent]) -> None:
        """These intents leave for a cluster."""
        for kind, count in Counter(type(intent).__name__ for intent in intents).items():
            self._intents.labels(cluster, kind).inc(count)

    def event(self, event: Event, now: float) -> None:
        """An event went into the core."""
        if isinstance(event, Answered):
            self._attempts.answered(event, now)
            for verdict, count in Counter(outcome.verdict for outcome in event.outcomes).items():
                self._outcomes.labels(event.cluster, verdict[:16]).inc(count)
        elif isinstance(event, Unanswered):
            self._outcomes.labels(event.cluster, "unanswered").inc(len(event.intent_ids))
        elif isinstance(event, FoldOn):
            self.report_parts[event.cluster] += 1

    def tick(self, spent_s: float, counters: Mapping[tuple[str, str], int]) -> int:
        """Deciding took this long in a Tick; the decisions that it made share the time. How many
        these are.
        """
        so_far = Counter(
            {outcome: count for outcome, count in counters.items() if outcome[0] in RESULTS}
        )
        made = so_far - self._seen
        self._seen = so_far
        self._attempts.round(made, spent_s)
        return made.total()

    def without_decisions(self, cpu_s: float) -> None:
        """So much CPU was spent from the end of one round of decisions to the end of the next."""
        self._attempts.without_decisions(cpu_s)

    def decided(self, pod_id: PodId, attempts: int, queued_at: float) -> None:
        """A pod that came into the queue at that time was given its place at this attempt, 1 the
        first.
        """
        self._attempts.decided(pod_id, attempts, queued_at)

    def watch(self, collector: Collector) -> None:
        """Read this, too, at each scrape."""
        self.registry.register(collector)

    def render(self) -> bytes:
        """The exposition text."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The same, a metric at a time: all of them take too long at once where clusters are many."""
        return (generate_latest(_Single(one)) for one in self.registry.collect())


class _Single(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric
