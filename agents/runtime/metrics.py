"""What an agent tells Prometheus: how its API server, its watches, its dispatcher and its sources
of live load do.

All is read at each scrape from what the agent holds anyway. Labels are kinds, verdicts, and names
of sources and signals, which the agent's configuration chooses; no name of a node or a pod.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from aiohttp import web
from prometheus_client import PROCESS_COLLECTOR, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.runtime.settings import MetricsSettings
from shared.messages.telemetry import SourceReport, Telemetry

LOG = structlog.get_logger("agent.metrics")
# until an address that cannot be had is tried again: an actor that died may still hold it
AGAIN_S = 5.0


class Watched(Protocol):
    """What is told of a watch."""

    kind: str
    optional: bool
    unserved: bool
    interruptions: int
    broken_since: float | None


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One look at an agent. `now` and `heard_at` on its monotonic clock; `heard_at`: the
    dispatcher's latest question.

    `outcomes`: of intents, by verdict. `refused`: messages of a dispatcher that were not obeyed, by
    reason; `verified`: those whose signature was good. `owner_uses`: owners of which it is known
    what their pods use. `holds_lease`: of the executor; None where this process is none.
    """

    now: float
    api_up: bool = False
    synced: bool = False
    nodes: int = 0
    pods: int = 0
    heard_at: float | None = None
    epoch: int = 0
    watches: Iterable[Watched] = ()
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    verified: int = 0
    telemetry: Telemetry = field(default_factory=lambda: Telemetry(""))
    owner_uses: int = 0
    owner_uses_dropped: int = 0
    holds_lease: bool | None = None


class AgentCollector(Collector):
    """One look at an agent."""

    def __init__(self, status: AgentStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        status = self._status
        yield _gauge(
            "global_dispatcher_agent_api_server_up",
            "1: the API server answers, and all watches that matter are alive.",
            status.api_up,
        )
        yield _gauge(
            "global_dispatcher_agent_synced", "1: everything was listed once.", status.synced
        )
        yield _gauge(
            "global_dispatcher_agent_nodes",
            "Nodes that the API server has shown, proxies included.",
            status.nodes,
        )
        yield _gauge(
            "global_dispatcher_agent_pods", "Pods that the API server has shown.", status.pods
        )
        yield _gauge(
            "global_dispatcher_agent_obeyed_epoch",
            "Epoch of the dispatcher that is obeyed.",
            status.epoch,
        )
        if status.holds_lease is not None:
            yield _gauge(
                "global_dispatcher_agent_executor_holds_lease",
                "1: this executor acts; 0: it may not, for another one of the cluster does, or "
                "the Lease is out of "
                "reach.",
                status.holds_lease,
            )
        heard = GaugeMetricFamily(
            "global_dispatcher_agent_dispatcher_silence_seconds",
            "Since a dispatcher last asked for changes.",
        )
        if status.heard_at is not None:
            heard.add_metric([], max(0.0, status.now - status.heard_at))
        yield heard
        outcomes = CounterMetricFamily(
            "global_dispatcher_agent_outcomes",
            "Intents carried out or refused.",
            labels=["verdict"],
        )
        for verdict, count in sorted(status.outcomes.items()):
            outcomes.add_metric([verdict], count)
        yield outcomes
        yield from _signatures(status)
        yield _gauge(
            "global_dispatcher_agent_owner_uses",
            "Owners of which it is known what their pods use.",
            status.owner_uses,
        )
        dropped = CounterMetricFamily(
            "global_dispatcher_agent_owner_uses_dropped",
            "Of these, those that gave way to newer ones.",
        )
        dropped.add_metric([], status.owner_uses_dropped)
        yield dropped
        yield from _watches(status)
        yield from _sources(status.telemetry.sources)
        yield from _signals(status.telemetry)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], float(value))
    return family


def _signatures(status: AgentStatus) -> Iterator[Metric]:
    refused = CounterMetricFamily(
        "global_dispatcher_agent_messages_refused",
        "Messages in a dispatcher's name that were not obeyed, by what was wrong with their "
        "signature.",
        labels=["reason"],
    )
    for reason, count in sorted(status.refused.items()):
        refused.add_metric([reason], count)
    verified = CounterMetricFamily(
        "global_dispatcher_agent_messages_verified",
        "Messages of a dispatcher whose signature was good.",
    )
    verified.add_metric([], status.verified)
    yield from (refused, verified)


def _watches(status: AgentStatus) -> Iterator[Metric]:
    restarts = CounterMetricFamily(
        "global_dispatcher_agent_watch_interruptions",
        "Lists and watches that failed and were begun again.",
        labels=["kind"],
    )
    broken = GaugeMetricFamily(
        "global_dispatcher_agent_watch_interrupted_seconds",
        "For how long nothing has come of a kind; 0: its watch is alive.",
        labels=["kind"],
    )
    for watch in status.watches:
        restarts.add_metric([watch.kind], watch.interruptions)
        since = watch.broken_since
        if not (watch.optional and watch.unserved):  # what the server does not have is not missed
            broken.add_metric(
                [watch.kind], max(0.0, status.now - since) if since is not None else 0.0
            )
    yield from (restarts, broken)


# name, meaning, value; None: not known yet.
_OF_SOURCE: tuple[tuple[str, str, Callable[[SourceReport], float | None]], ...] = (
    (
        "global_dispatcher_agent_source_up",
        "1: its latest question was answered in full; of kubelets and node_exporters: no node "
        "fails.",
        lambda one: float(one.asked > 0 and not (one.failing or one.problem)),
    ),
    (
        "global_dispatcher_agent_source_age_seconds",
        "Since the source last answered.",
        lambda one: one.answered_s,
    ),
    (
        "global_dispatcher_agent_source_lag_seconds",
        "How long its latest answer took.",
        lambda one: one.lag_s if one.asked else None,
    ),
    (
        "global_dispatcher_agent_source_nodes",
        "Nodes of which it tells something fresh.",
        lambda one: float(one.nodes),
    ),
    (
        "global_dispatcher_agent_source_silent_nodes",
        "Nodes of which it tells nothing fresh.",
        lambda one: float(one.silent),
    ),
    (
        "global_dispatcher_agent_source_failing_nodes",
        "Nodes that do not answer, where each is asked by itself.",
        lambda one: float(one.failing),
    ),
    (
        "global_dispatcher_agent_source_unmatched_series",
        "Series of its latest answer that are about no known node.",
        lambda one: float(one.unmatched),
    ),
    (
        "global_dispatcher_agent_source_ambiguous_series",
        "Series of its latest answer that may be about several nodes.",
        lambda one: float(one.ambiguous),
    ),
)


def _sources(sources: Iterable[SourceReport]) -> Iterator[Metric]:
    for name, text, value in _OF_SOURCE:
        gauge = GaugeMetricFamily(name, text, labels=["source"])
        for one in sources:
            if (number := value(one)) is not None:
                gauge.add_metric([one.name], number)
        yield gauge
    asked = CounterMetricFamily(
        "global_dispatcher_agent_source_questions", "Questions to the source.", labels=["source"]
    )
    errors = CounterMetricFamily(
        "global_dispatcher_agent_source_errors", "Questions without an answer.", labels=["source"]
    )
    rejected = CounterMetricFamily(
        "global_dispatcher_agent_source_rejected",
        "Numbers that were not believed, by reason.",
        labels=["source", "reason"],
    )
    for one in sources:
        asked.add_metric([one.name], one.asked)
        errors.add_metric([one.name], one.errors)
        for reason, count in sorted(one.rejected.items()):
            rejected.add_metric([one.name, reason], count)
    yield from (asked, errors, rejected)


def _signals(telemetry: Telemetry) -> Iterator[Metric]:
    ages = GaugeMetricFamily(
        "global_dispatcher_agent_reading_age_seconds",
        "Age of what a source tells, over all nodes: the median (quantile 0.5) and the oldest (1).",
        labels=["source", "signal", "quantile"],
    )
    for one in telemetry.sources:
        for signal, (_, median, oldest) in sorted(one.ages.items()):
            ages.add_metric([one.name, signal, "0.5"], median)
            ages.add_metric([one.name, signal, "1"], oldest)
    unread = GaugeMetricFamily(
        "global_dispatcher_agent_unread_nodes",
        "Nodes of which no source tells a fresh signal (younger than telemetry.stale_s): "
        "placement uses the last "
        "readings until the profile's stale_s, then requests.",
        labels=["signal"],
    )
    missing = {signal: 0 for one in telemetry.sources for signal in one.ages} | {
        one.signal: one.nodes for one in telemetry.unread
    }
    for signal, nodes in sorted(missing.items()):
        unread.add_metric([signal], nodes)
    yield from (ages, unread)


class MetricsServer:
    """Serves /metrics where the settings say so. An address that cannot be had stops nothing else
    of the agent.
    """

    def __init__(
        self, settings: MetricsSettings, look: Callable[[], Awaitable[AgentStatus]]
    ) -> None:
        self._settings = settings
        self._look = look
        self.address: tuple[str, int] | None = None  # where it listens

    async def run(self) -> None:
        """Until cancelled."""
        if not self._settings.enabled:
            return
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        host = self._settings.host
        port = self._settings.port
        logged = False
        while True:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                if not logged:
                    LOG.warning(
                        "no metrics",
                        address=f"{host}:{port}",
                        problem=str(error),
                        fix="choose another metrics.port",
                    )
                logged = True
                await asyncio.sleep(AGAIN_S)
            else:
                self.address = runner.addresses[0][:2]
                LOG.info("serving metrics", address="http://{}:{}/metrics".format(*self.address))
                return

    async def _metrics(self, _: web.Request) -> web.Response:
        registry = CollectorRegistry()
        registry.register(AgentCollector(await self._look()))
        registry.register(PROCESS_COLLECTOR)
        return web.Response(
            body=generate_latest(registry),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )
