"""What is read at each scrape: gauges and totals that the service, its core and leader election
hold anyway.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.scheduling.core.preemptors import HELD, UNCONFIRMED
from dispatcher.scheduling.core.rebalancing import COUNTER, Result
from dispatcher.scheduling.core.starts import COUNTER as NOT_STARTED
from dispatcher.service.files.reload import Reloader
from dispatcher.service.metrics.counters import RESULTS
from dispatcher.service.queue_metrics import queue_metrics
from dispatcher.service.service import Service
from shared.model.names import SCHEDULER_NAME


class LeaderCollector(Collector):
    """kube-scheduler's gauge of leader election."""

    def __init__(self, leads: Callable[[], bool]) -> None:
        self._leads = leads

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        text = "1: this dispatcher leads, 0: it stands by."
        family = GaugeMetricFamily("leader_election_master_status", text, labels=["name"])
        family.add_metric([SCHEDULER_NAME], float(self._leads()))
        yield family


class ReloadCollector(Collector):
    """What of the configuration's files does not hold as it stands in them; None: there are none."""

    def __init__(self, reloader: Reloader | None) -> None:
        self._reloader = reloader

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        refused = GaugeMetricFamily(
            "global_dispatcher_policies_refused",
            "1: profiles, plugin files or tenants have changed and fail their checks; the old ones "
            "hold.",
        )
        restart = GaugeMetricFamily(
            "global_dispatcher_restart_needed",
            "1: a file that is read at the start alone has changed since, `dispatcher` "
            "(dispatcher.yaml).",
            labels=["file"],
        )
        if self._reloader is not None:
            refused.add_metric([], float(self._reloader.refused))
            for name in self._reloader.start_files:
                restart.add_metric([name], float(name in self._reloader.unread))
        yield from (refused, restart)


class Written(Protocol):
    """A file that the dispatcher keeps."""

    @property
    def failing(self) -> bool:
        """Whether it cannot be written."""
        ...


class WrittenCollector(Collector):
    """Whether the files that the dispatcher keeps can be written; None: it does not keep this one."""

    def __init__(self, files: Mapping[str, Written | None]) -> None:
        self._files = files

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        family = GaugeMetricFamily(
            "global_dispatcher_file_not_written",
            "1: a file cannot be written, `journal` (journal.path: decisions are missing in it) "
            "or `quota_ledger` "
            "(quota.ledger: after a restart tenants wait for clusters that are silent); only "
            "where it is configured.",
            labels=["file"],
        )
        for name, file in self._files.items():
            if file is not None:
                family.add_metric([name], float(file.failing))
        yield family


class ServiceCollector(Collector):
    """Gauges and totals that the service and its core hold anyway."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        yield from queue_metrics(self._service.core)
        yield self._attempts()
        yield from self._preemption()
        yield from self._clusters()
        yield from self._reports()
        yield from self._boxes()
        yield self._moves()
        yield self._not_started()
        yield self._compared()
        yield from self._classes()

    def _moves(self) -> Metric:
        family = CounterMetricFamily(
            "global_dispatcher_rebalancing_moves",
            "Pods moved off hot nodes, or planned to be (dry run), by what came of it.",
            labels=["result"],
        )
        for result in Result:
            family.add_metric([result.value], self._service.core.counters.get((COUNTER, result), 0))
        return family

    def _not_started(self) -> Metric:
        family = CounterMetricFamily(
            "global_dispatcher_not_started",
            "Remote pods of which no container has run for timing.start_s: told, and moved on to "
            "another place.",
            labels=["result"],
        )
        for result in ("told", "moved"):
            family.add_metric([result], self._service.core.counters.get((NOT_STARTED, result), 0))
        return family

    def _compared(self) -> Metric:
        family = CounterMetricFamily(
            "global_dispatcher_canary_decisions",
            "First pods of batches that a canary decided, by what the profile it stands for would "
            "have done.",
            labels=["profile", "of", "result"],
        )
        for labels, count in self._service.core.compared.items():
            family.add_metric(labels, count)
        return family

    def _classes(self) -> Iterator[Metric]:
        kept = GaugeMetricFamily(
            "global_dispatcher_classes_kept",
            "Classes (pods that are judged alike) for which it is kept what each node is worth.",
            labels=["profile"],
        )
        dropped = CounterMetricFamily(
            "global_dispatcher_classes_dropped",
            "Classes that made room for others.",
            labels=["profile"],
        )
        passes = CounterMetricFamily(
            "global_dispatcher_class_passes",
            "Decisions on pods of classes that are not kept, each by one pass over all nodes.",
            labels=["profile"],
        )
        for profile, counts in self._service.core.profiles.class_counts.items():
            kept.add_metric([profile], counts.kept)
            dropped.add_metric([profile], counts.dropped)
            passes.add_metric([profile], counts.passes)
        yield from (kept, dropped, passes)

    def _reports(self) -> Iterator[Metric]:
        in_parts = GaugeMetricFamily(
            "global_dispatcher_cluster_report_in_parts",
            "1: a large report of its agent is being taken in part by part, with decisions "
            "between the parts.",
            labels=["cluster"],
        )
        parts = CounterMetricFamily(
            "global_dispatcher_cluster_report_parts",
            "Parts of large reports that were taken in, but for the first of each.",
            labels=["cluster"],
        )
        folding = self._service.core.folding
        for name in sorted(self._service.core.clusters):
            in_parts.add_metric([name], float(name in folding))
            parts.add_metric([name], self._service.metrics.report_parts[name])
        yield from (in_parts, parts)

    def _attempts(self) -> Metric:
        family = CounterMetricFamily(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods.",
            labels=["result", "profile"],
        )
        for (result, profile), count in sorted(self._service.core.counters.items()):
            if result in RESULTS:
                family.add_metric([result, profile], count)
        return family

    def _preemption(self) -> Iterator[Metric]:
        counters = self._service.core.counters
        attempts = CounterMetricFamily(
            "scheduler_preemption_attempts",
            "Pods nominated to a node from which others are evicted for them; kube-scheduler "
            "counts failed tries, too.",
        )
        attempts.add_metric([], counters.get(("preemption_attempts", "nominated"), 0))
        victims = CounterMetricFamily(
            "global_dispatcher_preemption_victims",
            "Evictions ordered for pods of higher priority.",
            labels=["cluster"],
        )
        for (what, cluster), count in sorted(counters.items()):
            if what == "preemption_victims":
                victims.add_metric([cluster], count)
        reclaimed = CounterMetricFamily(
            "global_dispatcher_reclaimed_pods",
            "Evictions ordered to give back what tenants have borrowed, by the tenant that gets it.",
            labels=["tenant"],
        )
        for (what, tenant), count in sorted(counters.items()):
            if what == "reclaims":
                reclaimed.add_metric([tenant], count)
        held = CounterMetricFamily(
            "global_dispatcher_preemptors_held_back",
            "Times that nobody was evicted elsewhere for a pod of this cluster: not confirmed, or "
            "too many at once.",
            labels=["cluster", "reason"],
        )
        for cluster in sorted(self._service.core.clusters):
            held.add_metric([cluster, "unconfirmed"], counters.get((UNCONFIRMED, cluster), 0))
            held.add_metric([cluster, "pace"], counters.get((HELD, cluster), 0))
        yield from (attempts, victims, reclaimed, held)

    def _clusters(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily(
            "global_dispatcher_cluster_ready", "1: new pods may go there.", labels=["cluster"]
        )
        age = GaugeMetricFamily(
            "global_dispatcher_cluster_report_age_seconds",
            "Since the agent last answered.",
            labels=["cluster"],
        )
        nodes = GaugeMetricFamily(
            "global_dispatcher_cluster_nodes", "Nodes, proxies included.", labels=["cluster"]
        )
        pods = GaugeMetricFamily(
            "global_dispatcher_cluster_pods", "Pods that count.", labels=["cluster"]
        )
        memory = GaugeMetricFamily(
            "global_dispatcher_cluster_memory_bytes",
            "What its last reports take here, about; at most report_mib of its entry in clusters.",
            labels=["cluster"],
        )
        quarantined = GaugeMetricFamily(
            "global_dispatcher_cluster_quarantined",
            "1: its agent says that it obeys another dispatcher, and is not believed.",
            labels=["cluster"],
        )
        for name, view in sorted(self._service.core.clusters.items()):
            ready.add_metric([name], float(view.ready))
            if view.last_report_at > 0:
                age.add_metric([name], self._service.clock() - view.last_report_at)
            nodes.add_metric([name], len(view.nodes))
            pods.add_metric([name], len(view.pods))
            memory.add_metric([name], view.memory)
            quarantined.add_metric([name], float(bool(self._service.obeyed.distrust(name))))
        yield from (ready, age, nodes, pods, memory, quarantined)

    def _boxes(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily(
            "global_dispatcher_intents_waiting", "Intents not sent yet.", labels=["cluster"]
        )
        flying = GaugeMetricFamily(
            "global_dispatcher_calls_in_flight", "Calls without answer.", labels=["cluster"]
        )
        for name, box in sorted(self._service.senders.items()):
            waiting.add_metric([name], box.depth)
            flying.add_metric([name], box.in_flight)
        yield from (waiting, flying)
