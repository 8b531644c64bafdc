"""One agent: the observer and the executor of one cluster in one event loop. Knows no Ray."""

import asyncio
import dataclasses
import time
import uuid
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from agents.executor.crossing.live import minor_of
from agents.executor.crossing.policy import Accept, ExecutorPolicy, ForeignBytes, MadeNamespaces
from agents.observer.change_feed import Health, Identity
from agents.observer.mark_verifier import MarkVerifier
from agents.observer.seen import NODES, PODS, WrongSchedulerName
from agents.runtime.executor_lease import ExecutorLease
from agents.runtime.executor_loop import ExecutorLoop, ExecutorSettings
from agents.runtime.executor_record import ExecutorRecord
from agents.runtime.metrics import AgentStatus, MetricsServer
from agents.runtime.observing import Observing
from agents.runtime.order_gate import OrderGate
from agents.runtime.pod_probing import PodProbes
from agents.runtime.probing import PeerProbes
from agents.runtime.readings import ClusterKubelets
from agents.runtime.relay.fetching import Fetching
from agents.runtime.relay.near_end import OpenStreams
from agents.runtime.relay.relaying import far_end, serve_endpoint
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AgentSettings
from agents.runtime.watching import Watching
from agents.telemetry.source import Status
from shared.kube.client import KubeClient, Patience
from shared.kube.session import Access
from shared.messages import (
    Changes,
    Hello,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    PodRef,
    Telemetry,
)
from shared.process.keyfile import load_keys
from shared.security.seals import Audience
from shared.streams.calls import EXECUTOR, OBSERVER
from shared.version import version

LOG = structlog.get_logger("agent")
CANCEL_AGAIN_S = 0.5
HOUSEKEEPING_S = 1.0
# between two looks at what the executor has stored, while that is not known or wrong
RECALL_S = 5.0
HELLO_S = 1.0  # how long a greeting waits for it


class WrongRole(RuntimeError):  # noqa: N818 - reads as what happened
    """This process was asked for what only the cluster's other one does."""


class Agent:
    """Serves one cluster, or one half of it (`settings.role`): its observer, which holds no key and
    writes nothing, or its executor. `start` returns at once: hello and changes answer from then on,
    synced or not.

    `identity`: under which an executor stands for its Lease; empty: one that is new.
    """

    def __init__(self, settings: AgentSettings, identity: str = "") -> None:
        self.settings = settings
        api = settings.api
        self.incarnation = uuid.uuid4().hex
        self._news = asyncio.Event()
        self._client = KubeClient(
            Access(settings.kubeconfig, settings.context), Patience(api.connect_s, api.request_s)
        )
        keys = load_keys(settings.key_file, settings.cluster) if settings.role != OBSERVER else None
        self._keys = keys.endorsed_keys() if keys is not None else ()
        self._marks = MarkVerifier(keys.public if keys is not None else ())
        self._watching = Watching(self._client, settings, self._marks, self._news.set)
        self.cache = self._watching.cache
        self._health = self._watching.health
        options = executor_settings(settings)
        self._policy = options.policy
        self._kubelets = ClusterKubelets(self._client, settings.kubelet)  # for other clusters
        self._identity = identity
        self._fetching = Fetching(self._client)
        self._executing: ExecutorLoop | None = None
        self.lease: ExecutorLease | None = None  # an observer alone has none
        if keys is not None:
            self._executing = self._executor_of(
                ExecutorLoop(
                    self._fetching, self.cache, settings.cluster, settings=options, keys=keys
                )
            )
        self._record: ExecutorRecord | None = None
        if settings.role == OBSERVER:
            self._record = ExecutorRecord(settings.cluster, self._take_keys, self.confirm_restored)
            self._watching.on_went_back = self._record.went_back
        self._observing: Observing | None = None
        if settings.role != EXECUTOR:
            observed = (
                self._client,
                self._watching,
                settings,
                self._news,
                self._who,
                lambda: self.health,
            )
            self._observing = Observing(*observed)
        self.gate = OrderGate(
            settings.orders,
            lambda: Audience(settings.cluster, self._health.cluster_uid, self.incarnation),
        )
        self._probes = PeerProbes(settings.links, lambda: self._health.cluster_uid)
        self._pods = PodProbes(
            settings.links, lambda: self._health.cluster_uid, self.cache.targets.values
        )
        self._outcomes: Counter[str] = Counter()
        self.metrics = MetricsServer(settings.metrics, self._status)
        self._tasks: list[asyncio.Task[None]] = []

    def _executor_of(self, executor: ExecutorLoop) -> ExecutorLoop:
        """Joined to what is watched."""
        self.far_end = far_end(executor, self._client, self.cache.targets, self._kubelets.page)
        self.cache.on_bound = executor.shown
        self._watching.on_went_back = executor.server_went_back
        executor.accepted_leader.remote_pods = self._remote_pods
        executor.accepted_leader.confirm_restored = self.confirm_restored
        call_s = self.settings.api.request_s
        lease = ExecutorLease(self._client, executor.accepted_leader, call_s, self._identity)
        lease.on_held = executor.server_went_back
        executor.lease = self.lease = lease
        return executor

    @property
    def _executor(self) -> ExecutorLoop:
        if self._executing is None:
            raise WrongRole("this is the cluster's observer: orders are its executor's")
        return self._executing

    @property
    def _observer(self) -> Observing:
        if self._observing is None:
            raise WrongRole("this is the cluster's executor: reports are its observer's")
        return self._observing

    # --- life
    # ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to watch, measure and keep up the local duties."""
        # Tasks take over the context: every log line of this agent names its cluster.
        with structlog.contextvars.bound_contextvars(cluster=self.settings.cluster):
            LOG.info("agent starts", incarnation=self.incarnation)
            if self._record is None:  # else once it is known whose marks are whose
                self._watching.open(self._spawn)
            self._tasks = [
                self._spawn(self._health.run(), "health"),
                self._spawn(self._watching.verifier.run(), "watch_verifier"),
                self._spawn(self._keep_memory(), "memory"),
                self._spawn(self.metrics.run(), "metrics"),
            ]
            if self._observing is not None:
                self._tasks += [
                    self._spawn(*self._observing.work()),
                    self._spawn(self._probes.run(), "probes"),
                    self._spawn(self._pods.run(), "pod probes"),
                ]
            if self._executing is not None and self.lease is not None:
                self._tasks += [
                    self._spawn(self.lease.run(), "executor lease"),
                    self._spawn(self._executing.run(), "executor"),
                    self._spawn(self._keep_house(self._executing), "housekeeping"),
                ]

    async def stop(self) -> None:
        """End everything; calls still waiting are answered as they stand."""
        if self._executing is not None:
            await self._executing.stop()
        await _end(self._tasks)
        await _end(self._watching.tasks.values())
        if self.lease is not None:
            await self.lease.release()
        if self._observing is not None:
            await self._observing.close()
        await self._kubelets.close()
        await self._client.close()
        LOG.info("agent stopped", cluster=self.settings.cluster)

    def _take_keys(self, keys: tuple[str, ...]) -> None:
        """The public keys of this cluster, of which an observer alone learns from what the executor
        has stored.
        """
        LOG.info("marks are verified by the keys that the executor has stored", keys=keys)
        first = not self._marks.keys
        self._marks.keys = keys
        if first:
            self._watching.open(self._spawn)
        else:
            self._watching.start_over()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_report)
        return task

    def serve_kubelet_endpoint(self, settings: RelaySettings, streams: OpenStreams) -> None:
        """Serve logs and exec of remote pods until `stop`; `streams` lead to other clusters."""
        served = serve_endpoint(self._executor, self._client, settings, streams)
        self._tasks.append(self._spawn(served, "kubelet endpoint"))

    def fetch_over(self, streams: OpenStreams) -> None:
        """Fetch what pods of other clusters name; `streams` lead to these."""
        self._fetching.begin(self._executor.local, streams)

    async def _keep_house(self, executor: ExecutorLoop) -> None:
        """Hand over what the executor learns from the watches: the cluster's UID, pods to warn
        about.
        """
        while True:
            executor.cluster_uid = self._health.cluster_uid
            executor.local.server_minor = minor_of(self._health.server_version)
            waits = self.lease is not None and self.lease.another  # the other executor tells
            warnings = self.cache.take_warnings(self.settings.cluster)
            for pod in () if waits else warnings:
                ref = PodRef(pod.namespace, pod.name, pod.uid)
                if isinstance(pod, WrongSchedulerName):
                    executor.warn_foreign(ref, pod.scheduler_name)
                else:
                    executor.warn_invalid_annotation(ref, pod.reason, pod.text)
            forged = self._watching.handler.take_forged()
            for ref, text in () if waits or executor.accepted_leader.wrong_key else forged:
                executor.warn_invalid_annotation(ref, "UnverifiedMark", text)
            await asyncio.sleep(HOUSEKEEPING_S)

    async def _keep_memory(self) -> None:
        """Know whom the executor has obeyed, and under which name its cluster is served."""
        while True:
            if self._record is not None:
                await self._record.read(self._client)
                self.cache.take_warnings()  # they are the executor's to tell
                self._watching.handler.take_forged()
            else:
                await self._executor.accepted_leader.recall()
            await asyncio.sleep(RECALL_S)

    def _remote_pods(self) -> int | None:
        """Sources that went elsewhere and delegates that came, None while not everything is listed."""
        if not self.cache.synced:
            return None
        return sum(pod.has_finalizer or pod.source is not None for pod in self.cache.pods())

    # --- what the dispatcher calls
    # -----------------------------------------------------------------------------------

    @property
    def health(self) -> Health:
        """Whether the API server answers and is the right one, and why not."""
        problem = self._not_ours or (
            self._record.problem if self._record is not None and not self._marks.keys else ""
        )
        if problem:
            return Health(problem=problem)
        now = self._health.now
        waits = self.lease.problem if now.api_ok and self.lease is not None else ""
        return Health(problem=waits) if waits else now

    @property
    def _not_ours(self) -> str:
        if self._record is not None:
            return self._record.not_ours
        return self._executor.accepted_leader.not_ours

    @property
    def sources(self) -> dict[str, Status]:
        """How each source of readings does."""
        return self._observer.sources

    async def telemetry(self) -> Telemetry:
        """The same for whoever asks from afar, with what each source tells of which nodes."""
        return await self._observer.telemetry()

    async def _status(self) -> AgentStatus:
        """For metrics."""
        status = AgentStatus(
            time.monotonic(),
            api_up=self.health.api_ok,
            synced=self.cache.synced,
            nodes=self.cache.count(NODES),
            pods=self.cache.count(PODS),
            epoch=self._obeys,
            watches=self._watching.watches,
            outcomes=self._outcomes,
            refused=self.gate.refused,
            verified=self.gate.verified,
            holds_lease=None if self.lease is None else not self.lease.problem,
        )
        if self._observing is None:
            return status
        uses = self._observing.uses
        return dataclasses.replace(
            status,
            heard_at=self._observing.heard_at,
            telemetry=await self._observing.telemetry(),
            owner_uses=len(uses),
            owner_uses_dropped=uses.dropped,
        )

    def confirm_restored(self) -> None:
        """An operator says that what the API server shows since it went back in time is meant."""
        self._health.confirm_restored()

    def highest_seen(self) -> dict[str, int]:
        """The highest resourceVersion seen of each kind, to be given to `remember_highest` of the
        agent's next life.
        """
        return self._health.highest_seen()

    def remember_highest(self, seen: Mapping[str, int]) -> None:
        """What an earlier life saw; at any time. A server that is behind it went back in between."""
        self._watching.verifier.remember(seen)

    def _who(self) -> Identity:
        """Nobody's, as far as a dispatcher may know, where the cluster is another agent's, by its
        name or its keys.
        """
        uid = "" if self._not_ours else self._health.cluster_uid
        policy = self._policy
        return Identity(
            self.settings.cluster,
            uid,
            self.incarnation,
            policy.evict_foreign,
            self._keys,
            policy.openings,
        )

    @property
    def _obeys(self) -> int:
        return self._record.epoch if self._record is not None else self._executor.obeys

    async def hello(self) -> Hello:
        """Who this is. `cluster_uid` is empty until the API server has answered."""
        if self._executing is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(HELLO_S):
                    await self._executing.accepted_leader.recall()
        who = self._who()
        return Hello(
            who.cluster,
            who.cluster_uid,
            who.incarnation,
            server_version=self._health.server_version,
            keys=self._keys,
            obeys=self._obeys,
            agent_version=version(),
            now=time.time(),
        )

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        """Long poll: what changed after `since` as soon as there is any, else nothing new after
        `wait_s` seconds.
        """
        return await self._observer.changes(incarnation, since, wait_s)

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out intents; one outcome each, in their order."""
        self._executor.cluster_uid = self._health.cluster_uid
        answer = await self._executor.execute(batch)
        self._outcomes.update(outcome.verdict for outcome in answer.outcomes)
        return answer

    async def set_peers(self, peers: Peers) -> PeersAck:
        """What the proxy nodes of this cluster shall show; and whom to probe, unless a newer
        dispatcher is obeyed.

        An observer alone only probes, and has no word that could renew a lease.
        """
        if self._executing is not None:
            heard = await self._executing.set_peers(peers)
        else:
            heard = PeersAck(self.settings.cluster)
        if self._observing is None:
            return heard
        if peers.dispatcher_epoch >= self._obeys:
            self._probes.follow(peers.peers)
            self._pods.follow(peers.network, peers.peers)
        return msgspec.structs.replace(
            heard,
            probe=self._probes.address,
            links=self._probes.readings(),
            pod_address=self._pods.address,
            reaches=self._pods.readings(),
        )


def executor_settings(settings: AgentSettings) -> ExecutorSettings:
    """The executor's settings and policy from the agent's."""
    options = settings.executor
    rows = tuple(Accept(**row.model_dump()) for row in options.accept)
    return msgspec.structs.replace(
        ExecutorSettings(),
        concurrency=options.concurrency,
        peer_ttl_s=options.peer_ttl_s,
        policy=ExecutorPolicy(
            rows,
            evict_foreign=options.evict_foreign,
            closed=options.closed,
            relay=options.relay,
            foreign_bytes=ForeignBytes(**options.foreign_bytes.model_dump()),
            namespaces=MadeNamespaces(**options.namespaces.model_dump()),
            services=options.services,
        ),
        rename_from=settings.rename_from,
    )


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel until all have ended: aiohttp loses a cancellation that comes together with a timeout
    of its own.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)


def _report(task: asyncio.Task[None]) -> None:
    """A task of an agent never ends by itself: if one does, say so."""
    if not task.cancelled() and task.exception() is not None:
        LOG.error("a task of the agent ended", task=task.get_name(), problem=repr(task.exception()))
