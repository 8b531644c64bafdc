"""One agent: the observer and the executor of one cluster in one event loop. Knows no Ray."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
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
from agents.observer.change_feed import ChangeFeed, Health, Identity
from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads
from agents.observer.mark_verifier import MarkVerifier
from agents.observer.owner_uses import OwnerUses
from agents.observer.seen import NODES, PODS, WrongSchedulerName
from agents.runtime.coalescing import coalesce_changes
from agents.runtime.executor_loop import ExecutorLoop, ExecutorSettings
from agents.runtime.health import HealthMonitor
from agents.runtime.keyfile import load_keys
from agents.runtime.metrics import MetricsServer, Told
from agents.runtime.probing import PeerProbes
from agents.runtime.readings import Readings
from agents.runtime.relay.near_end import OpenStreams
from agents.runtime.relay.relaying import far_end, serve_endpoint
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AgentSettings, ApiSettings
from agents.runtime.telemetry_report import report
from agents.runtime.watch_handler import WatchHandler
from agents.runtime.watch_verifier import WatchVerifier
from agents.telemetry.source import Status
from dispatcher.model.messages import Changes, Hello, IntentBatch, OutcomeBatch, Peers, PeersAck, PodRef, Telemetry

LOG = structlog.get_logger("agent")
MAX_WAIT_S = 60.0
CANCEL_AGAIN_S = 0.5
HOUSEKEEPING_S = 1.0
RECALL_S = 5.0  # between two looks at what the executor has stored, while that is not known or wrong
HELLO_S = 1.0  # how long a greeting waits for it


class Agent:
    """Serves one cluster. `start` returns at once: hello and changes answer from then on, synced or not."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.incarnation = uuid.uuid4().hex
        self._news = asyncio.Event()
        self._telemetry: asyncio.Task[Telemetry] | None = None  # the last report of sources, or the one in the making
        self._log = ChangeLog(max_graves=settings.max_graves, on_change=self._news.set)
        self.cache = ClusterCache(self._log, (kind.name for kind in KINDS))
        self._loads = Loads(
            self._log,
            tau_s=settings.kubelet.smoothing_s,
            signals=settings.all_signals(),
            preference=settings.telemetry.preference(),
        )
        self._uses = OwnerUses(self._log, self.cache.pod_by_name)
        self._loads.on_pods = self._uses.add
        self._follow = ChangeFeed(self.cache, self._loads, self._uses)
        api = settings.api
        self._client = KubeClient(Access(settings.kubeconfig, settings.context), Patience(api.connect_s, api.request_s))
        keys = load_keys(settings.key_file, settings.cluster)
        self._keys = keys.endorsed_keys()
        self._watch_handler = watch_handler = WatchHandler(
            self.cache, settings.kubelet.bandwidth, MarkVerifier(keys.public)
        )
        pace = _pace(api)
        self._watches = (
            ListWatch(self._client, NODES, "/api/v1/nodes", node_seen, watch_handler, pace),
            ListWatch(self._client, PODS, "/api/v1/pods", pod_seen, watch_handler, pace),
            *(
                ListWatch(self._client, kind.name, kind.path, kind.seen, watch_handler, pace, optional=True)
                for kind in KINDS
            ),
        )
        self._health = HealthMonitor(self._client, self._watches, api, self._log.bump, self._rewatch)
        self._watch_verifier = WatchVerifier(self._client, self._watches, api, self._reopen, self._went_back)
        self._readings = Readings(self._client, self.cache.targets, self._loads, settings)
        self._probes = PeerProbes(settings.links, lambda: self._health.cluster_uid)
        executor = executor_settings(settings)
        self._policy = executor.policy
        self._executor = ExecutorLoop(self._client, self.cache, settings.cluster, settings=executor, keys=keys)
        self.far_end = far_end(self._executor, self._client)
        self.cache.on_bound = self._executor.shown
        self._executor.accepted_leader.remote_pods = self._remote_pods
        self._executor.accepted_leader.confirm_restored = self.confirm_restored
        self._heard_at: float | None = None
        self._outcomes: Counter[str] = Counter()
        self.metrics = MetricsServer(settings.metrics, self._told)
        self._watching: dict[str, asyncio.Task[None]] = {}
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
                self._spawn(self._watch_verifier.run(), "watch_verifier"),
                self._spawn(self._readings.run(), "readings"),
                self._spawn(self._probes.run(), "probes"),
                self._spawn(self._executor.run(), "executor"),
                self._spawn(self._keep_house(), "housekeeping"),
                self._spawn(self._keep_memory(), "memory"),
                self._spawn(self.metrics.run(), "metrics"),
            ]

    async def stop(self) -> None:
        """End everything; calls still waiting are answered as they stand."""
        await self._executor.stop()
        await _end(self._tasks)
        await _end(self._watching.values())
        await self._readings.close()
        await self._client.close()
        LOG.info("agent stopped", cluster=self.settings.cluster)

    def _went_back(self, known: int, found: int) -> None:
        """The API server shows an older version than it did."""
        self._executor.server_went_back()
        self._health.went_back(known, found)

    def _rewatch(self) -> None:
        """(Re)open the watches; each resumes where it was."""
        for watch in self._watches:
            self._reopen(watch)

    def _reopen(self, watch: ListWatch) -> None:
        if watch.kind in self._watching:
            self._watching[watch.kind].cancel()
        self._watching[watch.kind] = self._spawn(watch.run(), f"watch {watch.kind}")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_report)
        return task

    def serve_kubelet_endpoint(self, settings: RelaySettings, streams: OpenStreams) -> None:
        """Serve logs and exec of remote pods until `stop`; `streams` lead to other clusters."""
        served = serve_endpoint(self._executor, self._client, settings, streams)
        self._tasks.append(self._spawn(served, "kubelet endpoint"))

    async def _keep_house(self) -> None:
        """Hand over what the executor learns from the observer: the cluster's UID, pods to warn about."""
        while True:
            self._executor.cluster_uid = self._health.cluster_uid
            for pod in self.cache.take_warnings(self.settings.cluster):
                ref = PodRef(pod.namespace, pod.name, pod.uid)
                if isinstance(pod, WrongSchedulerName):
                    self._executor.warn_foreign(ref, pod.scheduler_name)
                else:
                    self._executor.warn_invalid_annotation(ref, pod.reason, pod.text)
            forged = self._watch_handler.take_forged()
            for ref, text in () if self._executor.accepted_leader.wrong_key else forged:
                self._executor.warn_invalid_annotation(ref, "UnverifiedMark", text)
            await asyncio.sleep(HOUSEKEEPING_S)

    async def _keep_memory(self) -> None:
        """Know whom the executor has obeyed, and under which name its cluster is served."""
        while True:
            await self._executor.accepted_leader.recall()
            await asyncio.sleep(RECALL_S)

    def _remote_pods(self) -> int | None:
        """Sources that went elsewhere and delegates that came, None while not everything is listed."""
        if not self.cache.synced:
            return None
        return sum(pod.has_finalizer or pod.source is not None for pod in self.cache.pods())

    # --- what the dispatcher calls -----------------------------------------------------------------------------------

    @property
    def health(self) -> Health:
        """Whether the API server answers and is the right one, and why not."""
        problem = self._executor.accepted_leader.not_ours
        return Health(problem=problem) if problem else self._health.now

    @property
    def sources(self) -> dict[str, Status]:
        """How each source of readings does."""
        return self._readings.status

    async def telemetry(self) -> Telemetry:
        """The same for whoever asks from afar, with what each source tells of which nodes."""
        if self._telemetry is None or self._telemetry.done():  # one at a time, however many ask: it takes a while
            made = report(self.settings, self.sources, self._loads, self.cache.targets.keys(), time.monotonic())
            self._telemetry = asyncio.create_task(made)
        return await asyncio.shield(self._telemetry)

    async def _told(self) -> Told:
        """For metrics."""
        return Told(
            time.monotonic(),
            api_up=self.health.api_ok,
            synced=self.cache.synced,
            nodes=self.cache.count(NODES),
            pods=self.cache.count(PODS),
            heard_at=self._heard_at,
            epoch=self._executor.obeys,
            watches=self._watches,
            outcomes=self._outcomes,
            telemetry=await self.telemetry(),
            owner_uses=len(self._uses),
            owner_uses_dropped=self._uses.dropped,
        )

    def confirm_restored(self) -> None:
        """An operator says that what the API server shows since it went back in time is meant."""
        self._health.confirm_restored()

    def highest_seen(self) -> dict[str, int]:
        """The highest resourceVersion seen of each kind, to be given to `remember_highest` of the agent's next life."""
        return self._health.highest_seen()

    def remember_highest(self, seen: Mapping[str, int]) -> None:
        """What an earlier life saw; at any time. A server that is behind it went back in between."""
        self._watch_verifier.remember(seen)

    def _who(self) -> Identity:
        """Nobody's, as far as a dispatcher may know, where the cluster is another agent's, by its name or its keys."""
        uid = "" if self._executor.accepted_leader.not_ours else self._health.cluster_uid
        policy = self._policy
        return Identity(self.settings.cluster, uid, self.incarnation, policy.evict_foreign, self._keys, policy.openings)

    async def hello(self) -> Hello:
        """Who this is. `cluster_uid` is empty until the API server has answered."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HELLO_S):
                await self._executor.accepted_leader.recall()
        who, server, obeys = self._who(), self._health.server_version, self._executor.obeys
        return Hello(who.cluster, who.cluster_uid, who.incarnation, server_version=server, keys=self._keys, obeys=obeys)

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        """Long poll: what changed after `since` as soon as there is any, else nothing new after `wait_s` seconds."""
        self._heard_at = time.monotonic()
        deadline = self._heard_at + max(0.0, min(wait_s, MAX_WAIT_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline - time.monotonic()):
                while not self._follow.has_news(self._who(), incarnation, since):
                    self._news.clear()
                    await self._news.wait()
                    await coalesce_changes(
                        lambda: self._log.revision,
                        lambda: asyncio.sleep(self.settings.coalesce_s),
                        lambda: self._log.urgent > since,
                    )
        return self._follow.since(self._who(), incarnation, since, self.health, time.monotonic())

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out intents; one outcome each, in their order."""
        self._executor.cluster_uid = self._health.cluster_uid
        answer = await self._executor.execute(batch)
        self._outcomes.update(outcome.verdict for outcome in answer.outcomes)
        return answer

    async def set_peers(self, peers: Peers) -> PeersAck:
        """What the proxy nodes of this cluster shall show; and whom to probe, unless a newer dispatcher is obeyed."""
        heard = await self._executor.set_peers(peers)
        if peers.dispatcher_epoch >= self._executor.obeys:
            self._probes.follow(peers.peers)
        return msgspec.structs.replace(heard, probe=self._probes.address, links=self._probes.readings())


def executor_settings(settings: AgentSettings) -> ExecutorSettings:
    """The executor's settings and policy from the agent's."""
    options = settings.executor
    rows = tuple(Accept(**row.model_dump()) for row in options.accept)
    return msgspec.structs.replace(
        ExecutorSettings(),
        concurrency=options.concurrency,
        peer_ttl_s=options.peer_ttl_s,
        policy=ExecutorPolicy(rows, evict_foreign=options.evict_foreign, closed=options.closed, relay=options.relay),
        rename_from=settings.rename_from,
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


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel until all have ended: aiohttp loses a cancellation that comes together with a timeout of its own."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)


def _report(task: asyncio.Task[None]) -> None:
    """A task of an agent never ends by itself: if one does, say so."""
    if not task.cancelled() and task.exception() is not None:
        LOG.error("a task of the agent ended", task=task.get_name(), problem=repr(task.exception()))
