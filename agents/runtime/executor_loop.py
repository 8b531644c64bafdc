"""Drives the executor's procedures against one API server, and does its local duties, dispatcher or not.

Many pods at once, one pod one procedure at a time. What goes wrong inside one procedure is that pod's outcome, never
anybody else's.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec
import structlog

from agents.executor import events
from agents.executor.answer import TOO_BUSY, outcome
from agents.executor.http import Procedure, Request, Response
from agents.executor.local import Local, Moment, PodReader
from agents.executor.peers import PEER_TTL_S, PeerTable
from agents.executor.policy import ExecutorPolicy
from agents.executor.procedures import carry_out
from agents.executor.proxy import ProxyNodes, stranded
from agents.executor.view import ClusterView
from agents.kube.convert import pod_seen
from dispatcher.model.messages import (
    STALE,
    UNKNOWN,
    AnyIntent,
    CreateDelegate,
    DeleteDelegate,
    IntentBatch,
    Outcome,
    OutcomeBatch,
    Peers,
    PodRef,
)
from dispatcher.model.pod import Pod

T = TypeVar("T")
_log = structlog.get_logger()
_MAX_STRANDED = 64  # in one tick; the rest waits for the next


class ApiClient(Protocol):
    """What is needed of a client. It never raises for what the server or the network does."""

    async def send(self, request: Request) -> Response:
        """One call; status 0 when no answer came."""

    async def send_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Calls that the server does one after the other, cheaper than each for itself; an answer for each."""


class ExecutorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`concurrency`: procedures at once. `event_concurrency`: series of events written at once, `event_series`: events
    in one. `event_patience_s`: while binds wait for their turn, events wait so long, then go one series at a time.
    `tick_s`: seconds between two looks at the local duties. `peer_ttl_s`: how long proxy nodes are kept fresh while
    the dispatcher is silent.
    """

    concurrency: int = 16
    event_concurrency: int = 4
    event_series: int = 16
    event_patience_s: float = 5.0
    tick_s: float = 1.0
    peer_ttl_s: float = PEER_TTL_S
    policy: ExecutorPolicy = ExecutorPolicy()


def read_pod(raw: bytes) -> Pod:
    """A model Pod from a pod's JSON; one that cannot be read says so in `problems`."""
    seen = pod_seen(raw)
    if seen is None or seen.pod is None:
        return Pod(uid="", namespace="", name="", problems=("it is not readable as a pod",))
    return seen.pod


@dataclass(frozen=True, slots=True)
class _Running:
    intent: AnyIntent
    task: asyncio.Task[Outcome]


class ExecutorLoop:
    """The executor of one cluster. `cluster_uid` may be set later, when the API server has told it."""

    def __init__(
        self,
        client: ApiClient,
        view: ClusterView,
        cluster: str,
        cluster_uid: str = "",
        settings: ExecutorSettings | None = None,
        *,
        reader: PodReader = read_pod,
        clock: Callable[[], Moment] = lambda: Moment(time.monotonic(), time.time()),
    ) -> None:
        self._settings = settings or ExecutorSettings()
        self._client = client
        self._clock = clock
        self._local = Local(view, cluster, reader, cluster_uid, self._settings.policy)
        self._local.peers = PeerTable(cluster, self._settings.peer_ttl_s)
        self._proxies = ProxyNodes(self._local)
        self._room = asyncio.Semaphore(self._settings.concurrency)
        self._running: dict[tuple[type, str, int], _Running] = {}
        self._last: dict[str, asyncio.Task[Outcome]] = {}
        self._duties: dict[str, asyncio.Task[None]] = {}
        self._problems: dict[str, str] = {}
        self._stopping = asyncio.Event()
        self._full_since: float | None = None  # since when binds wait for their turn

    @property
    def cluster_uid(self) -> str:
        """UID of the cluster's kube-system namespace, '' while unknown."""
        return self._local.cluster_uid

    @cluster_uid.setter
    def cluster_uid(self, uid: str) -> None:
        self._local.cluster_uid = uid

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out a batch; one outcome per intent, in their order. Never raises for what an intent holds."""
        late = self._local.fence.superseded(batch.dispatcher, batch.dispatcher_epoch)
        if late or self._stopping.is_set():
            verdict = (STALE, late) if late else (UNKNOWN, "the executor is stopping")
            return self._answers(tuple(outcome(intent, *verdict) for intent in batch.intents))
        deadline = self._clock().mono + batch.deadline_s
        tasks = [self._start(intent, batch, deadline) for intent in batch.intents]
        # Only waited for: a caller that gives up does not undo what other callers wait for.
        if tasks:
            await asyncio.wait(tasks)
        return self._answers(tuple(map(_outcome_of, batch.intents, tasks)))

    async def set_peers(self, peers: Peers) -> None:
        """Take over what the proxy nodes shall show; ignored from a superseded dispatcher."""
        if not self._local.fence.superseded(peers.dispatcher, peers.dispatcher_epoch):
            self._local.peers.update(peers.peers, self._clock().mono)

    def warn_foreign(self, ref: PodRef, scheduler: str) -> None:
        """Write the event for a pod that asks for us by annotation but names another scheduler."""
        events.foreign_scheduler(self._local, ref, scheduler, self._clock())

    async def run(self) -> None:
        """Local duties until `stop`: proxy nodes, pods stranded on them, events."""
        await asyncio.gather(self._every(self.tend), self._every(self._write_events))

    async def stop(self) -> None:
        """End `run` and every procedure under way; what they had begun is found again by the next executor."""
        self._stopping.set()
        tasks = [*(running.task for running in self._running.values()), *self._last.values(), *self._duties.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- intents -----------------------------------------------------------------------------------------------------

    def _answers(self, outcomes: tuple[Outcome, ...]) -> OutcomeBatch:
        return OutcomeBatch(cluster=self._local.cluster, outcomes=outcomes)

    def _start(self, intent: AnyIntent, batch: IntentBatch, deadline: float) -> asyncio.Task[Outcome]:
        """Begin an intent behind the last one of the same pod, or join it if it is the very same."""
        key = (type(intent), intent.pod.uid, intent.epoch)
        running = self._running.get(key)
        if running is not None and running.intent == msgspec.structs.replace(intent, id=running.intent.id):
            return running.task
        turn = self._turn(intent)
        task = asyncio.create_task(self._one(intent, batch, deadline, self._last.get(turn)))
        self._running[key], self._last[turn] = _Running(intent, task), task
        task.add_done_callback(lambda done: self._ended(done, key, turn))
        return task

    def _turn(self, intent: AnyIntent) -> str:
        """Whose turn it is: creating and deleting the delegate of one source are one matter."""
        delegate = self._local.view.pod(intent.pod.uid) if isinstance(intent, DeleteDelegate) else None
        return delegate.source.uid if delegate is not None and delegate.source is not None else intent.pod.uid

    def _ended(self, task: asyncio.Task[Outcome], key: tuple[type, str, int], turn: str) -> None:
        if key in self._running and self._running[key].task is task:
            del self._running[key]
        if self._last.get(turn) is task:
            del self._last[turn]

    async def _one(
        self, intent: AnyIntent, batch: IntentBatch, deadline: float, before: asyncio.Task[Outcome] | None
    ) -> Outcome:
        if before is not None:
            await asyncio.wait([before])
        async with self._room:
            now = self._clock()
            if now.mono > deadline:
                # A delegate may be there from an earlier send of the order: only a look could deny it.
                verdict = UNKNOWN if isinstance(intent, CreateDelegate) else STALE
                return outcome(intent, verdict, f"not begun within its {batch.deadline_s:g} s")
            late = self._local.fence.superseded(batch.dispatcher, batch.dispatcher_epoch)
            if late:
                return outcome(intent, STALE, late)
            try:
                return await self._drive(carry_out(intent, batch.dispatcher_epoch, self._local, now))
            except Exception as error:
                where = f"{intent.pod.namespace}/{intent.pod.name}"
                _log.exception("procedure failed", pod=where, intent=type(intent).__name__)
                return outcome(intent, UNKNOWN, f"pod {where}: {type(error).__name__}: {error}")

    async def _drive(self, procedure: Procedure[T]) -> T:
        try:
            request = next(procedure)
            while True:
                request = procedure.send(await self._client.send(request))
        except StopIteration as end:
            result: T = end.value
            return result

    # --- local duties ------------------------------------------------------------------------------------------------

    async def _every(self, duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while not self._stopping.is_set():
            try:
                await duty()
            except Exception:
                _log.exception("local duty failed", cluster=self._local.cluster)
            try:
                await asyncio.wait_for(self._stopping.wait(), self._settings.tick_s)
            except TimeoutError:
                continue

    async def tend(self) -> None:
        """Begin what is due of the local duties now; `run` does so every tick."""
        now = self._clock()
        self._local.ledger.settle(self._local.view, now.mono)
        left = islice(stranded(self._local.view), _MAX_STRANDED)
        for name, procedure in (*self._proxies.due(now), *left):
            if name not in self._duties:
                self._duties[name] = asyncio.create_task(self._duty(name, procedure))

    async def _duty(self, name: str, procedure: Procedure[str]) -> None:
        try:
            problem = await self._drive(procedure)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            del self._duties[name]
        if problem and self._problems.get(name) != problem:
            _log.warning("local duty not done", cluster=self._local.cluster, object=name, problem=problem)
        if problem:
            self._problems[name] = problem
        elif self._problems.pop(name, None):
            _log.info("local duty done again", cluster=self._local.cluster, object=name)

    async def _write_events(self) -> None:
        waiting = self._local.events
        while waiting and not self._stopping.is_set() and (at_once := self._series_at_once()):
            series = [some for _ in range(at_once) if (some := self._next_events())]
            answers = await asyncio.gather(*map(self._client.send_all, series))
            left = [
                event
                for events, said in zip(series, answers, strict=True)
                for event, answer in zip(events, said, strict=True)
                if answer.status == TOO_BUSY
            ]
            waiting.extendleft(reversed(left))
            if left or any(answer.unknown for said in answers for answer in said):
                return  # the server is in trouble: events are the last that it needs now

    def _series_at_once(self) -> int:
        """What an event costs the server, a bind would have to wait for: binds go first, though not for ever."""
        if not self._room.locked():
            self._full_since = None
            return self._settings.event_concurrency
        now = self._clock().mono
        self._full_since = now if self._full_since is None else self._full_since
        return int(now - self._full_since >= self._settings.event_patience_s)

    def _next_events(self) -> list[Request]:
        waiting = self._local.events
        return [waiting.popleft() for _ in range(min(len(waiting), self._settings.event_series))]


def _outcome_of(intent: AnyIntent, task: asyncio.Task[Outcome]) -> Outcome:
    """What an ended task came to, under the id that this caller gave."""
    if task.cancelled() or task.exception() is not None:
        return outcome(intent, UNKNOWN, "the executor stopped before it knew")
    result = task.result()
    return result if result.id == intent.id else msgspec.structs.replace(result, id=intent.id)
