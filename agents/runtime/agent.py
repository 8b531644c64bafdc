"""One agent: the observer and the executor of one cluster in one event loop. Knows no Ray."""

import asyncio
import time
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from agents.executor.policy import Accept, ExecutorPolicy
from agents.kube.client import KubeClient, Patience
from agents.kube.convert import pod_seen
from agents.kube.listwatch import ListWatch, Pace
from agents.kube.nodes import node_seen
from agents.kube.objects import KINDS
from agents.kube.session import Access
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.follow import Follow, Health, Identity
from agents.observer.loads import Loads
from agents.observer.seen import NODES, PODS
from agents.runtime.company import wait_for_company
from agents.runtime.executor_loop import ExecutorLoop, ExecutorSettings
from agents.runtime.health import HealthMonitor
from agents.runtime.intake import Intake
from agents.runtime.readings import Readings
from agents.runtime.settings import AgentSettings, ApiSettings, ExecutorOptions
from dispatcher.model.messages import Changes, Hello, IntentBatch, OutcomeBatch, Peers, PodRef

LOG = structlog.get_logger("agent")
MAX_WAIT_S = 60.0
HOUSEKEEPING_S = 1.0


class Agent:
    """Serves one cluster. `start` returns at once: hello and changes answer from then on, synced or not."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.incarnation = uuid.uuid4().hex
        self._news = asyncio.Event()
        self._log = ChangeLog(max_graves=settings.max_graves, on_change=self._news.set)
        self.cache = ClusterCache(self._log, (kind.name for kind in KINDS))
        self._loads = Loads(self._log, tau_s=settings.kubelet.smoothing_s)
        self._follow = Follow(self.cache, self._loads)
        api = settings.api
        self._client = KubeClient(Access(settings.kubeconfig, settings.context), Patience(api.connect_s, api.request_s))
        intake = Intake(self.cache, settings.kubelet.bandwidth)
        pace = _pace(api)
        self._watches = (
            ListWatch(self._client, NODES, "/api/v1/nodes", node_seen, intake, pace),
            ListWatch(self._client, PODS, "/api/v1/pods", pod_seen, intake, pace),
            *(ListWatch(self._client, kind.name, kind.path, kind.seen, intake, pace, optional=True) for kind in KINDS),
        )
        self._health = HealthMonitor(self._client, self._watches, api, self._log.bump, self._rewatch)
        self._readings = Readings(self._client, self.cache.targets, self._loads, settings.kubelet)
        self._executor = ExecutorLoop(
            self._client, self.cache, settings.cluster, settings=executor_settings(settings.executor)
        )
        self._watching: list[asyncio.Task[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to watch, measure and keep up the local duties."""
        # Tasks take over the context: every log line of this agent names its cluster.
        with structlog.contextvars.bound_contextvars(cluster=self.settings.cluster):
            LOG.info("agent starts", incarnation=self.incarnation)
            self._rewatch()
            self._tasks = [
                self._spawn(self._health.run(), "health"),
                self._spawn(self._readings.run(), "readings"),
                self._spawn(self._executor.run(), "executor"),
                self._spawn(self._keep_house(), "housekeeping"),
            ]

    async def stop(self) -> None:
        """End everything; calls still waiting are answered as they stand."""
        await self._executor.stop()
        tasks = [*self._tasks, *self._watching]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._readings.close()
        await self._client.close()
        LOG.info("agent stopped", cluster=self.settings.cluster)

    def _rewatch(self) -> None:
        """(Re)open the watches; each resumes where it was."""
        for task in self._watching:
            task.cancel()
        self._watching = [self._spawn(watch.run(), f"watch {watch.kind}") for watch in self._watches]

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_report)
        return task

    async def _keep_house(self) -> None:
        """Hand over what the executor learns from the observer: the cluster's UID, pods to warn about."""
        while True:
            self._executor.cluster_uid = self._health.cluster_uid
            for pod in self.cache.take_warnings():
                self._executor.warn_foreign(PodRef(pod.namespace, pod.name, pod.uid), pod.scheduler_name)
            await asyncio.sleep(HOUSEKEEPING_S)

    # --- what the dispatcher calls -----------------------------------------------------------------------------------

    @property
    def health(self) -> Health:
        """Whether the API server answers, and why not."""
        return self._health.now

    def _who(self) -> Identity:
        consent = self.settings.executor.evict_foreign
        return Identity(self.settings.cluster, self._health.cluster_uid, self.incarnation, consent)

    async def hello(self) -> Hello:
        """Who this is. `cluster_uid` is empty until the API server has answered."""
        who = self._who()
        return Hello(who.cluster, who.cluster_uid, who.incarnation, server_version=self._health.server_version)

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        """Long poll: what changed after `since` as soon as there is any, else nothing new after `wait_s` seconds."""
        deadline = time.monotonic() + max(0.0, min(wait_s, MAX_WAIT_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline - time.monotonic()):
                while not self._follow.has_news(self._who(), incarnation, since):
                    self._news.clear()
                    await self._news.wait()
                    await wait_for_company(
                        lambda: self._log.revision,
                        lambda: asyncio.sleep(self.settings.coalesce_s),
                        lambda: self._log.urgent > since,
                    )
        return self._follow.since(self._who(), incarnation, since, self._health.now, time.monotonic())

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out intents; one outcome each, in their order."""
        self._executor.cluster_uid = self._health.cluster_uid
        return await self._executor.execute(batch)

    async def set_peers(self, peers: Peers) -> None:
        """What the proxy nodes of this cluster shall show."""
        await self._executor.set_peers(peers)


def executor_settings(options: ExecutorOptions) -> ExecutorSettings:
    """The executor's settings and policy from the agent's."""
    rows = tuple(Accept(row.clusters, row.namespaces) for row in options.accept)
    return msgspec.structs.replace(
        ExecutorSettings(),
        concurrency=options.concurrency,
        peer_ttl_s=options.peer_ttl_s,
        policy=ExecutorPolicy(rows, evict_foreign=options.evict_foreign),
    )


def _pace(api: ApiSettings) -> Pace:
    return Pace(
        silence_s=api.silence_s,
        watch_s=api.watch_s,
        list_s=api.list_s,
        backoff_s=api.backoff_s,
        max_backoff_s=api.max_backoff_s,
        page=api.page,
    )


def _report(task: asyncio.Task[None]) -> None:
    """A task of an agent never ends by itself: if one does, say so."""
    if not task.cancelled() and task.exception() is not None:
        LOG.error("a task of the agent ended", task=task.get_name(), problem=repr(task.exception()))
