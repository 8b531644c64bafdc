"""Joins telemetry to one cluster: kubelets first, metrics.k8s.io where they do not answer."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog

from agents.executor.http import Request
from agents.kube.client import KubeClient, describe
from agents.kube.session import AccessError
from agents.observer.loads import Loads, Sample
from agents.observer.seen import NodeTarget
from agents.runtime.settings import KubeletSettings
from agents.telemetry.kubelet import Kubelets, SourceError
from agents.telemetry.metrics_api import PATH, read_metrics
from agents.telemetry.rounds import Cadence, Rounds

LOG = structlog.get_logger("agent.telemetry")
RETRY_S = 5.0
MAX_METRICS = 64 * 1024 * 1024


class Readings:
    """Keeps `loads` fresh, also while the API server is lost: only other certificates mean other connections."""

    def __init__(
        self, client: KubeClient, targets: Mapping[str, NodeTarget], loads: Loads, settings: KubeletSettings
    ) -> None:
        self._client = client
        self._targets = targets
        self._settings = settings
        self._kubelets: Kubelets | None = None
        self._trust: tuple[str, ...] = ()
        self._opening = asyncio.Lock()
        cadence = Cadence(settings.interval_s, settings.concurrency)
        self._rounds = Rounds(targets, loads, self._ask_node, self._ask_all, cadence)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._rounds.run()
            except Exception as error:  # a fault of ours must not end the readings of the cluster
                LOG.exception("telemetry failed", problem=describe(error))
                await asyncio.sleep(RETRY_S)

    async def close(self) -> None:
        """Close all connections."""
        if self._kubelets is not None:
            await self._kubelets.close()

    async def _ask_node(self, target: NodeTarget) -> Sample:
        kubelets = await self._open()
        return await kubelets.sample(target)

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
            self._kubelets = Kubelets(tls, self._authorization, self._settings.timeout_s)
            self._trust = session.trust
            return self._kubelets

    async def _authorization(self) -> dict[str, str]:
        session = await self._client.session()
        authorization = await session.authorization()
        return {"Authorization": authorization} if authorization else {}

    async def _ask_all(self) -> dict[str, Sample]:
        answer = await self._client.send(Request("GET", PATH), max_body=MAX_METRICS)
        if not answer.ok:
            raise SourceError(f"{PATH} answers {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}")
        return read_metrics(answer.body)


def with_bandwidth(target: NodeTarget, default: int) -> NodeTarget:
    """The target with the bandwidth that holds where the node itself names none."""
    return target if target.bandwidth else replace(target, bandwidth=default)
