"""Drives the executor's procedures against one API server, and does its local duties, dispatcher or
not.

Many pods at once, one pod one procedure at a time. What goes wrong inside one procedure is that
pod's outcome, never anybody else's.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import structlog

from agents.executor.context.local import Local, Moment
from agents.executor.context.view import ClusterView
from agents.executor.crossing.policy import ExecutorPolicy
from agents.executor.duties import shadows
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import events
from agents.executor.trust.peers import PEER_TTL_S, PeerTable
from agents.kube.convert import pod_in_full
from agents.runtime.accepted_leader import AcceptedLeader
from agents.runtime.driver import (
    ApiClient,
    BarredError,
    Driver,
    Execution,
    GivenUpError,
    Objection,
    Pauses,
)
from agents.runtime.executor_lease import ExecutorLease, NoRivals
from agents.runtime.reconciler import Events, Reconciler
from agents.runtime.refused_orders import RefusedOrders
from agents.runtime.slot_queue import SlotQueue
from shared.kube.http import Procedure
from shared.kube.verdicts import outcome, within
from shared.messages import (
    STALE,
    UNKNOWN,
    AnyIntent,
    ConfirmNoDelegate,
    CreateDelegate,
    DeleteDelegate,
    IntentBatch,
    Outcome,
    OutcomeBatch,
    Peers,
    PeersAck,
    PodRef,
)
from shared.messages.peers import SERVICE
from shared.model.pod import Pod
from shared.process.keyfile import ephemeral_keys
from shared.security.keys import OwnKeys

_log = structlog.get_logger()
_LOOKS = 4  # at a batch within `answer_s`
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PATIENCE_S = 30.0  # of what waits for no turn, with a server that is too busy
_ENDS = "/ends"  # a lane; no namespace has such a name


class ExecutorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`concurrency`: procedures at once that are answered in time. `event_concurrency`: series of
    events written at once, `event_series`: events in one. `event_patience_s`: while binds wait for
    their turn, events wait so long, then go one series at a time. `answer_s`: a batch of which
    nothing has ended for so long is answered as it stands, if all that is left of it hangs;
    `stalled_s`: the same while some of it only waits for its turn. `tick_s`: seconds between two
    looks at the local duties. `peer_ttl_s`: how long the dispatcher's word about another cluster is
    good enough for new work. `rename_from`: the name under which the cluster was served before.
    """

    concurrency: int = 16
    event_concurrency: int = 4
    event_series: int = 16
    event_patience_s: float = 5.0
    answer_s: float = 1.0
    stalled_s: float = 10.0
    tick_s: float = 1.0
    peer_ttl_s: float = PEER_TTL_S
    policy: ExecutorPolicy = ExecutorPolicy()
    rename_from: str = ""


def read_pod(raw: bytes) -> Pod:
    """A model Pod from a pod's JSON; one that cannot be read says so in `problems`."""
    return pod_in_full(raw) or Pod(
        uid="", namespace="", name="", problems=("it is not readable as a pod",)
    )


@dataclass(frozen=True, slots=True)
class _Running:
    intent: AnyIntent
    task: asyncio.Task[Outcome]
    execution: Execution


class ExecutorLoop:
    """The executor of one cluster. `cluster_uid` may be set later, when the API server has answered
    it. `lease` says whether it may write.
    """

    def __init__(  # noqa: PLR0913 - what a process decides, a simulation decides otherwise
        self,
        client: ApiClient,
        view: ClusterView,
        cluster: str,
        cluster_uid: str = "",
        settings: ExecutorSettings | None = None,
        *,
        keys: OwnKeys | None = None,
        clock: Callable[[], Moment] = lambda: Moment(_seconds(), time.time()),
        pauses: Pauses | None = None,
    ) -> None:
        """`pauses` are of the same time as `clock`."""
        self._settings = settings or ExecutorSettings()
        self._clock = clock
        self._local = Local(
            view, cluster, read_pod, keys or ephemeral_keys(), cluster_uid, self._settings.policy
        )
        self._local.peers = PeerTable(cluster, self._settings.peer_ttl_s)
        pauses = pauses or Pauses()
        self._sleep = pauses.sleep
        self._slot_queue = SlotQueue(self._settings.concurrency, self._seconds, pauses.sleep)
        self.lease: ExecutorLease | NoRivals = NoRivals()
        self._driver = Driver(client, self._slot_queue, self._seconds, pauses)
        self._driver.permit = self._permit
        self._reconciler = Reconciler(self._local, self._driver, clock)
        self._events = Events(self._local, client, self._slot_queue, self._seconds)
        self._events.at_once = self._settings.event_concurrency
        self._events.series = self._settings.event_series
        self._events.patience_s = self._settings.event_patience_s
        self._events.barred = lambda: self.lease.problem
        self.accepted_leader = AcceptedLeader(
            self._local, self._at_once, clock, self._settings.rename_from
        )
        self._refused = RefusedOrders(cluster, self._seconds)
        self._running: dict[tuple[type, str, int], _Running] = {}
        self._last: dict[str, _Running] = {}
        # the newest that waits to be taken over
        self._newest_peers: tuple[Peers, bool] | None = None
        # one at a time: whether to believe it is being looked up
        self._taking_over: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def _seconds(self) -> float:
        return self._clock().mono

    def _permit(self) -> Objection:
        return self.lease.permit()

    @property
    def cluster_uid(self) -> str:
        """UID of the cluster's kube-system namespace, '' while unknown."""
        return self._local.cluster_uid

    @cluster_uid.setter
    def cluster_uid(self, uid: str) -> None:
        self._local.cluster_uid = uid

    @property
    def local(self) -> Local:
        """What the executor knows."""
        return self._local

    @property
    def obeys(self) -> int:
        """The highest dispatcher epoch that was obeyed, 0 while none is known."""
        return self._local.state.epoch

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out a batch; one outcome per intent, in their order. Never raises for what an
        intent holds.
        """
        late = self.lease.problem or await self.accepted_leader.late(
            batch.dispatcher, batch.dispatcher_epoch
        )
        if late or self._stopping.is_set():
            # What earlier sends of these orders did is not looked at here, so nothing may be
            # concluded from the answer.
            why = late or "the executor is stopping"
            return self._answers(tuple(outcome(intent, UNKNOWN, why) for intent in batch.intents))
        deadline = self._clock().mono + batch.deadline_s
        started = [self._start(intent, batch, deadline) for intent in batch.intents]
        await self._wait_for(started)
        outcomes = tuple(map(_outcome_of, batch.intents, (one.task for one in started)))
        return self._answers(
            within(outcomes, batch.answer_bytes) if batch.answer_bytes else outcomes
        )

    async def _wait_for(self, started: list[_Running]) -> None:
        """Until all have ended, or what is left hangs: that must not keep the answers to the
        others.

        What waits for its turn while others get on is waited for: it has not hung yet. Only waited
        for: a caller that gives up does not undo what other callers wait for. What goes on is
        joined when the dispatcher asks for it again.
        """
        executions = {one.task: one.execution for one in started}
        left = set(executions)
        ended_at = self._seconds()
        if not left:
            return
        whole = asyncio.ensure_future(asyncio.wait(left))
        try:
            while left:
                await self._look_after(whole)
                before, left = len(left), {task for task in left if not task.done()}
                now = self._seconds()
                ended_at = now if len(left) < before else ended_at
                hangs = all(self._driver.hangs(executions[task]) for task in left)
                if now - ended_at >= (
                    self._settings.answer_s if hangs else self._settings.stalled_s
                ):
                    return
        finally:
            whole.cancel()

    async def _look_after(self, whole: asyncio.Future[Any]) -> None:
        """Until all have ended, or it is time for a look at them."""
        alarm = asyncio.ensure_future(self._sleep(self._settings.answer_s / _LOOKS))
        try:
            await asyncio.wait((alarm, whole), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()

    def shown(self, namespace: str, name: str) -> None:
        """The watch shows a pod on a node: what was booked for it is in the view, also if it goes
        again at once.
        """
        self._local.ledger.drop(namespace, name)

    async def set_peers(self, peers: Peers) -> PeersAck:
        """Take over what the proxy nodes shall show, soon; ignored from a superseded dispatcher.
        Its echo counts at once: an API server that does not tell whom to obey must not end what
        runs.

        Only the newest word waits while the API server is slow to say who is obeyed.
        """
        if not self._stopping.is_set():
            newest = peers.dispatcher_epoch >= self._local.epoch_guard.dispatcher_epoch
            current = newest and self._local.renewals.renew(peers.echo, peers.lease_s)
            if (
                self._newest_peers is None
                or peers.dispatcher_epoch >= self._newest_peers[0].dispatcher_epoch
            ):
                self._newest_peers = (peers, current)
            if self._taking_over is None or self._taking_over.done():
                self._taking_over = asyncio.create_task(self._take_over_newest())
        word = self._local.renewals.token(*self._clock())
        problem = self.lease.problem or self.accepted_leader.lasting_problem
        follows = (*self._local.follows, *((SERVICE,) if self._local.serves else ()))
        return PeersAck(self._local.cluster, word, problem=problem, follows=follows)

    async def _take_over_newest(self) -> None:
        while self._newest_peers is not None:
            newest = self._newest_peers
            self._newest_peers = None
            await self._take_over(*newest)

    async def _take_over(self, peers: Peers, current: bool) -> None:
        """`current`: sent after our last answer but one. Leases in an older call may have ended
        since.
        """
        if await self.accepted_leader.late(peers.dispatcher, peers.dispatcher_epoch):
            return
        named = [
            one if current else msgspec.structs.replace(one, unrenewed_s=0.0) for one in peers.peers
        ]
        self._local.peers.update(tuple(named), self._clock().mono, peers.lease_s, peers.network)
        self._local.shadows = peers.shadows
        shadows.warn_uncounted(self._local, self._clock())
        for peer in peers.peers:
            self._reconciler.note(
                f"keys of {peer.cluster}",
                self._local.trusted.trust(peer.cluster, peer.uid, peer.keys),
            )
        self._reconciler.note("other clusters", self._local.peers.too_many_lost)
        if not self.lease.problem:
            self._reconciler.note("keys of other clusters", await self.accepted_leader.keep_keys())

    async def _at_once(self, procedure: Procedure[str]) -> str:
        """Drive what waits for no turn."""
        execution = Execution(self._seconds() + _PATIENCE_S, None, own_state=True)
        try:
            await self._driver.begin(execution)
            return await self._driver.drive(procedure, execution)
        except GivenUpError as error:
            return str(error)
        finally:
            self._driver.end(execution)

    def server_went_back(self) -> None:
        """What was written is not remembered any more: the server may have lost it."""
        self._local.server_went_back()

    def warn_foreign(self, ref: PodRef, scheduler: str) -> None:
        """Write the event for a pod that asks for us by annotation but names another scheduler."""
        events.foreign_scheduler(self._local, ref, scheduler, self._clock())

    def warn_invalid_annotation(self, ref: PodRef, reason: str, text: str) -> None:
        """Write the event for something on a pod that means nothing, or not what its owner takes it
        for.
        """
        events.invalid_annotation(self._local, ref, reason, text, self._clock())

    async def run(self) -> None:
        """Local duties until `stop`: proxy nodes, pods stranded on them, events."""
        await asyncio.gather(self._every(self.tend), self._every(self._events.write))

    async def stop(self) -> None:
        """End `run` and every procedure under way; what they had begun is found again by the next
        executor.
        """
        self._stopping.set()
        self._slot_queue.stop()
        tasks = [
            one.task for one in (*self._running.values(), *self._last.values())
        ] + self._reconciler.tasks
        tasks += [self._taking_over] if self._taking_over is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- intents
    # ----------------------------------------------------------------------------------------------

    def _answers(self, outcomes: tuple[Outcome, ...]) -> OutcomeBatch:
        state = self._local.state
        return OutcomeBatch(
            self._local.cluster, outcomes, obeys=state.epoch, leader=state.dispatcher
        )

    def _start(self, intent: AnyIntent, batch: IntentBatch, deadline: float) -> _Running:
        """Begin an intent behind the last one of the same pod, or join it if it is the very same."""
        key = (type(intent), intent.pod.uid, intent.epoch)
        running = self._running.get(key)
        if running is not None and running.intent == msgspec.structs.replace(
            intent, id=running.intent.id
        ):
            return running
        turn = self._turn(intent)
        before = self._last.get(turn)
        objection = partial(
            self._local.epoch_guard.superseded, batch.dispatcher, batch.dispatcher_epoch
        )
        execution = Execution(
            deadline, lane_of(intent), objection, behind=before.execution if before else None
        )
        task = asyncio.create_task(
            self._one(intent, batch, execution, before.task if before else None)
        )
        started = self._running[key] = self._last[turn] = _Running(intent, task, execution)
        task.add_done_callback(lambda done: self._ended(done, key, turn))
        return started

    def _turn(self, intent: AnyIntent) -> str:
        """Whose turn it is: creating and deleting the delegate of one source are one matter."""
        delegate = (
            self._local.view.pod(intent.pod.uid) if isinstance(intent, DeleteDelegate) else None
        )
        return (
            delegate.source.uid
            if delegate is not None and delegate.source is not None
            else intent.pod.uid
        )

    def _ended(self, task: asyncio.Task[Outcome], key: tuple[type, str, int], turn: str) -> None:
        if key in self._running and self._running[key].task is task:
            del self._running[key]
        if turn in self._last and self._last[turn].task is task:
            del self._last[turn]

    async def _one(
        self,
        intent: AnyIntent,
        batch: IntentBatch,
        execution: Execution,
        before: asyncio.Task[Outcome] | None,
    ) -> Outcome:
        if before is not None:
            await asyncio.wait([before])
            execution.behind = None
        try:
            await self._driver.begin(execution)
            return await self._in_turn(intent, batch, execution)
        finally:
            self._driver.end(execution)

    async def _in_turn(
        self, intent: AnyIntent, batch: IntentBatch, execution: Execution
    ) -> Outcome:
        now = self._clock()
        if now.mono > execution.deadline:
            return _not_done(intent, f"not begun within its {batch.deadline_s:g} s")
        if late := execution.objection():
            return outcome(intent, UNKNOWN, late)
        try:
            procedure = carry_out(intent, batch.dispatcher_epoch, self._local, now)
            found = await self._driver.drive(procedure, execution)
        except BarredError as error:
            return outcome(intent, UNKNOWN, str(error))
        except GivenUpError as error:
            return (
                outcome(intent, UNKNOWN, str(error))
                if execution.wrote
                else _not_done(intent, str(error))
            )
        except Exception as error:
            where = f"{intent.pod.namespace}/{intent.pod.name}"
            _log.exception("procedure failed", pod=where, intent=type(intent).__name__)
            return outcome(intent, UNKNOWN, f"pod {where}: {type(error).__name__}: {error}")
        self._refused.look_at(intent, found, batch)
        return found

    # --- local duties
    # ----------------------------------------------------------------------------------------------

    async def _every(self, duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while not self._stopping.is_set():
            try:
                await duty()
            except Exception:
                _log.exception("local duty failed", cluster=self._local.cluster)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.tick_s):
                    await self._stopping.wait()

    async def tend(self) -> None:
        """Begin what is due of the local duties now; `run` does so every tick."""
        self._local.ledger.settle(self._local.view, self._seconds())
        # With a wrong key: whose pods are whose is known to another executor alone.
        if not self.accepted_leader.wrong_key and not self.lease.problem:
            self._reconciler.begin()


def _seconds() -> float:
    """Monotonic, and going on while the machine is suspended: leases lapse then, too."""
    return time.clock_gettime(_CLOCK)


def lane_of(intent: AnyIntent) -> str:
    """Where an order waits for its turn. Admission webhooks of a namespace that hang hold up what
    is created there, so that binds of the same namespace go beside it. How many pods are said to
    have ended may be a lie of the observer's: questions about that take turns with all else as if
    they were of one namespace.
    """
    if isinstance(intent, ConfirmNoDelegate) and intent.ended:
        return _ENDS
    return (
        f"{intent.pod.namespace}/create"
        if isinstance(intent, CreateDelegate)
        else intent.pod.namespace
    )


def _not_done(intent: AnyIntent, why: str) -> Outcome:
    """Nothing was sent. A delegate may be there from an earlier send of the order: only a look
    could deny it.
    """
    return outcome(intent, UNKNOWN if isinstance(intent, CreateDelegate) else STALE, why)


def _outcome_of(intent: AnyIntent, task: asyncio.Task[Outcome]) -> Outcome:
    """What an ended task came to, under the id that this caller gave."""
    if not task.done():
        return outcome(
            intent, UNKNOWN, "still under way: its namespace, or the API server, answers slowly"
        )
    if task.cancelled() or task.exception() is not None:
        return outcome(intent, UNKNOWN, "the executor stopped before it knew")
    result = task.result()
    return result if result.id == intent.id else msgspec.structs.replace(result, id=intent.id)
