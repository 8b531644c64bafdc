"""Joins telemetry to one cluster: its sources are asked beside each other, and none waits for
another.

Kubelets first, metrics.k8s.io where they do not answer; whatever else the configuration names, by
the same port.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import structlog

from agents.observer.loads import DEFAULT_SOURCE, Loads, Sample
from agents.observer.seen import NodeTarget
from agents.observer.signals import LINK_SPEED
from agents.runtime.kubelet_token import KubeletToken
from agents.runtime.settings import AgentSettings, KubeletSettings
from agents.runtime.telemetry_settings import METRICS_API, NodeExporterSettings
from agents.telemetry.kubelet import Kubelets
from agents.telemetry.load_watcher import LoadWatcher
from agents.telemetry.metrics_api import (
    NODES,
    PODS,
    VERSIONS,
    path_of,
    read_metrics,
    read_pod_metrics,
)
from agents.telemetry.node_exporter import NodeExporters
from agents.telemetry.polls import Polls
from agents.telemetry.prometheus import Prometheus
from agents.telemetry.rounds import Cadence, Rounds
from agents.telemetry.source import Answer, FleetSource, NodeSource, SourceError, Status
from agents.telemetry.static_file import StaticFile
from agents.telemetry.web import Pool, Web
from shared.kube.client import KubeClient, describe
from shared.kube.http import Request
from shared.kube.session import AccessError
from shared.kube.trust import Trust

LOG = structlog.get_logger("agent.telemetry")
RETRY_S = 5.0
NOT_FOUND = 404
MAX_METRICS = 64 * 1024 * 1024


class Asking(Protocol):
    """Keeps asking one source."""

    status: Status

    async def run(self) -> None:
        """Until cancelled."""
        ...


class ClusterKubelets:
    """The cluster's kubelets, asked with rights to their statistics alone (`KubeletToken`).

    Other certificates mean other connections.
    """

    def __init__(self, client: KubeClient, settings: KubeletSettings) -> None:
        self._client = client
        self._settings = settings
        self._token = KubeletToken(client, settings.account)
        self._kubelets: Kubelets | None = None
        self._trust: Trust | None = None
        self._opening = asyncio.Lock()

    async def sample(self, target: NodeTarget) -> Sample:
        """One node's sample; SourceError says why there is none."""
        kubelets = await self._open()
        return await kubelets.sample(target)

    async def page(self, target: NodeTarget, path: str) -> bytes:
        """What a kubelet answers there; SourceError says why there is nothing."""
        kubelets = await self._open()
        return await kubelets.page(target, path)

    async def close(self) -> None:
        """Close all connections."""
        if self._kubelets is not None:
            await self._kubelets.close()

    async def _open(self) -> Kubelets:
        async with self._opening:
            try:
                session = await self._client.session()
                if self._kubelets is not None and self._trust == session.trust:
                    return self._kubelets
                tls = session.kubelet_tls(self._settings.ca_file, self._settings.insecure)
            except (AccessError, OSError) as error:
                raise SourceError(f"no way to ask kubelets: {error}") from None
            await self.close()
            self._kubelets = Kubelets(tls, self._token.headers, self._settings.timeout_s)
            self._trust = session.trust
            return self._kubelets


class MetricsApi:
    """metrics.k8s.io of the cluster's API server."""

    def __init__(self, client: KubeClient, loads: Loads | None = None) -> None:
        self._client = client
        self._loads = loads
        self._version, self._other = VERSIONS

    async def samples(self) -> dict[str, Sample]:
        """By node name; SourceError says why there are none. What pods use goes to `loads`, as far
        as it is told.
        """
        found = read_metrics(await self._ask(NODES))
        if self._loads is not None:
            with suppress(
                SourceError
            ):  # an older chart gives no right to it, and nodes are read without
                self._loads.on_pods(read_pod_metrics(await self._ask(PODS)), time.monotonic(), "")
        return found

    async def _ask(self, plural: str) -> bytes:
        """What the version says that answered last; where it is not served (any more), what the
        other says.
        """
        path = path_of(self._version, plural)
        answer = await self._client.send(Request("GET", path), max_body=MAX_METRICS)
        if answer.status == NOT_FOUND:
            path = path_of(self._other, plural)
            answer = await self._client.send(Request("GET", path), max_body=MAX_METRICS)
            if answer.ok:
                self._version, self._other = self._other, self._version
        if not answer.ok:
            raise SourceError(
                f"{path} answers {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
            )
        return answer.body

    async def sample_all(self, targets: Mapping[str, NodeTarget]) -> Answer:
        """The same as a source for all nodes."""
        answer = Answer()
        for name, sample in (await self.samples()).items():
            if name in targets:
                answer.samples[name] = sample
            else:
                answer.matching.miss(name)
        return answer

    async def close(self) -> None:
        """The API client is not ours."""


class Readings:
    """Keeps `loads` fresh, also while the API server is lost. `status` says how each source does."""

    def __init__(
        self,
        client: KubeClient,
        targets: Mapping[str, NodeTarget],
        loads: Loads,
        settings: AgentSettings,
    ) -> None:
        self._targets = targets
        self._loads = loads
        self._sources: list[NodeSource | FleetSource] = []
        self._asking: list[Asking] = []
        wanted = settings.telemetry.preference().sources()
        if DEFAULT_SOURCE in wanted:
            self._add_kubelets(client, settings.kubelet)
        for one in settings.telemetry.node_exporter:
            if one.name in wanted:
                self._add_exporters(one)
        for name, (source, interval_s) in fleet_sources(client, settings, loads).items():
            if name in wanted:
                self._sources.append(source)
                self._asking.append(Polls(name, source, targets, loads, interval_s))

    @property
    def status(self) -> dict[str, Status]:
        """By source."""
        return {asking.status.name: asking.status for asking in self._asking}

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for asking in self._asking:
                group.create_task(_kept_up(asking))

    async def close(self) -> None:
        """Close all connections."""
        for source in self._sources:
            await source.close()

    def _add_kubelets(self, client: KubeClient, settings: KubeletSettings) -> None:
        kubelets = ClusterKubelets(client, settings)
        cadence = Cadence(settings.interval_s, settings.concurrency)
        rounds = Rounds(
            self._targets,
            self._loads,
            kubelets.sample,
            MetricsApi(client, self._loads).samples,
            cadence,
        )
        self._sources.append(kubelets)
        self._asking.append(rounds)

    def _add_exporters(self, settings: NodeExporterSettings) -> None:
        source = node_exporters(settings)
        cadence = Cadence(settings.interval_s, settings.concurrency)
        self._sources.append(source)
        self._asking.append(
            Rounds(self._targets, self._loads, source.sample, None, cadence, settings.name)
        )


def node_exporters(settings: NodeExporterSettings) -> NodeExporters:
    """The source behind an entry of `telemetry.node_exporter`."""
    at = (settings.scheme, settings.port)
    pool = Pool(settings.tls(), settings.concurrency)
    return NodeExporters(at, settings.limits(), pool, settings.credentials(), settings.interfaces)


def fleet_sources(
    client: KubeClient, settings: AgentSettings, loads: Loads | None = None
) -> dict[str, tuple[FleetSource, float]]:
    """By name (source, seconds between two questions). `loads`: who is told of single pods."""
    telemetry = settings.telemetry
    found = dict[str, tuple[FleetSource, float]]()
    for one in telemetry.prometheus:
        web = Web(one.url, one.limits(), Pool(one.tls()), one.credentials())
        queries = one.all_queries(settings.cluster, wanted_measures(settings))
        found[one.name] = Prometheus(one.name, web, queries, one.node_labels), one.interval_s
    for watcher in telemetry.load_watcher:
        web = Web(watcher.url, watcher.limits(), Pool(watcher.tls()), watcher.credentials())
        found[watcher.name] = LoadWatcher(watcher.name, web), watcher.interval_s
    for file in telemetry.file:
        found[file.name] = StaticFile(file.name, file.path, constant=file.constant), file.interval_s
    if telemetry.metrics_api.enabled:
        found[METRICS_API] = MetricsApi(client, loads), telemetry.metrics_api.interval_s
    return found


def wanted_measures(settings: AgentSettings) -> frozenset[str]:
    """What any signal is made of: nothing else is asked for."""
    return frozenset(
        {LINK_SPEED, *(name for signal in settings.all_signals() for name in signal.of)}
    )


async def _kept_up(asking: Asking) -> None:
    while True:
        try:
            await asking.run()
        except Exception as error:  # a fault of ours must not end the readings of the cluster
            LOG.exception("telemetry failed", source=asking.status.name, problem=describe(error))
            await asyncio.sleep(RETRY_S)


def with_bandwidth(target: NodeTarget, default: int) -> NodeTarget:
    """The target with the bandwidth that holds where the node itself names none."""
    return target if target.bandwidth else replace(target, bandwidth=default)
