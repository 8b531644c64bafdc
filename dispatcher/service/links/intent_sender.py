"""Sends one cluster's intents: in order, in batches, a bounded number at once, and an answer for
every intent.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import msgspec
import structlog

from dispatcher.scheduling.events import (
    Answered,
    Event,
    PeersAcknowledged,
    PeersRefused,
    SendPeers,
    Unanswered,
    Unsent,
)
from dispatcher.service.links.link import (
    AgentDied,
    AgentFault,
    AgentLink,
    AgentMissing,
    AgentTimeout,
    LinkError,
)
from dispatcher.service.term import Deposed, Term
from dispatcher.service.timing import ServiceTiming
from shared.messages import (
    AnyIntent,
    ConfirmNoDelegate,
    CreateDelegate,
    Evict,
    IntentBatch,
    MirrorStatus,
    Outcome,
    OutcomeBatch,
    Peer,
    Peers,
    UpdateDelegate,
)
from shared.model.bounds import MAX_CALL

log = structlog.get_logger("sender")

Emit = Callable[[Event], None]
# characters of what an agent says
_SHOWN = 256
_LONGEST_REFUSAL = 500
_QUESTIONS = 64  # about ends, in a call
_ORDER = 1024  # bytes of an intent, and of its answer, beside what `_size` counts
_HEAVY = 16 * 1024  # bytes from which on an intent stands in a line of its own
_LEAST_CALL = 16 * 1024  # bytes of a call, however slow the line is


def _asks_about_end(intent: AnyIntent) -> bool:
    return isinstance(intent, ConfirmNoDelegate) and intent.ended


def _size(intent: AnyIntent) -> int:
    """Bytes that it takes in a call, nearly."""
    if isinstance(intent, CreateDelegate | UpdateDelegate | Evict):
        return _ORDER + len(intent.manifest)
    return _ORDER + (len(intent.status) if isinstance(intent, MirrorStatus) else 0)


@dataclass(slots=True)
class _Lane:
    """Intents that wait behind each other, with their bytes. `most`: intents in a call, `at_once`:
    calls.
    """

    most: int
    at_once: int
    waiting: deque[tuple[int, AnyIntent]] = field(default_factory=deque)
    calls: set[asyncio.Task[None]] = field(default_factory=set)


class IntentSender:
    """One cluster's queue of intents.

    Batches begin in order. An intent for a pod waits while an earlier one for the same pod is in
    flight, and so do those behind it: an agent never sees two orders about one pod at once. Nothing
    leaves outside of the term.

    A call carries so many bytes of orders, and asks for so many of answers: half as many after a
    call that was not answered in time, or whose connection ended before (a ping behind it is late,
    too), as the line may be slow, and twice as many after one that was answered in half of the
    time.

    Two kinds of intents stand in lines of their own, with one call at a time beside those of
    orders: large ones and claims whose answers are large, so that nobody's small pods wait behind
    them; and questions whether pods have ended, as an observer can have any number of them asked (a
    few in a call, behind the orders of their round).
    """

    def __init__(
        self,
        link: AgentLink,
        emit: Emit,
        timing: ServiceTiming,
        term: Term,
        depose: Callable[[Deposed], None],
    ) -> None:
        self.cluster = link.cluster
        self._link = link
        self._emit = emit
        self._timing = timing
        self._term = term
        self._depose = depose
        self._silenced = False
        self._orders = _Lane(timing.batch, timing.in_flight)
        self._heavy = _Lane(timing.batch, 1)
        self._questions = _Lane(_QUESTIONS, 1)
        self._lanes = (self._orders, self._heavy, self._questions)
        self._room = MAX_CALL  # bytes of a call now
        self._busy: set[str] = set()  # UIDs of pods with an intent in flight
        self._obeyed = False  # whether the executor has obeyed this term
        self._due = False  # whether what waits is about to be sent
        self._peers: SendPeers | None = None
        self._peers_call: asyncio.Task[None] | None = None
        self._word = ""  # of the agent's last answer to peers
        # why the agent has not taken the last that was sent, such as orders that it does not verify
        self.refusal = ""

    @property
    def depth(self) -> int:
        """Intents that wait to be sent."""
        return sum(len(lane.waiting) for lane in self._lanes)

    @property
    def in_flight(self) -> int:
        """Calls without an answer yet."""
        return sum(len(lane.calls) for lane in self._lanes)

    def put(self, intents: tuple[AnyIntent, ...]) -> None:
        """Send these after all that was put before, with what else is put before the event loop
        goes on.
        """
        behind = {
            one.pod.uid for _, one in self._heavy.waiting
        }  # its pod's earlier intent is not overtaken
        for intent in intents:
            size = _size(intent)
            if _asks_about_end(intent):
                lane = self._questions
            elif size > _HEAVY or intent.pod.uid in behind:
                lane = self._heavy
                behind.add(intent.pod.uid)
            else:
                lane = self._orders
            lane.waiting.append((size, intent))
        self._send_soon()

    def put_peers(self, told: SendPeers) -> None:
        """Send this list of peers, and the shadow budgets; what still waits is replaced."""
        self._peers = told
        if self._peers_call is None:
            self._peers_call = asyncio.create_task(self._send_peers(), name=f"peers {self.cluster}")

    def stop_sending(self) -> None:
        """Send nothing any more."""
        self._silenced = True

    def _may_speak(self) -> bool:
        return not self._silenced and self._term.valid()

    async def close(self) -> None:
        """Give up all calls, and begin no other."""
        self._silenced = True
        tasks = [call for lane in self._lanes for call in lane.calls]
        if self._peers_call is not None:
            tasks.append(self._peers_call)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._send_more)

    def _send_more(self) -> None:
        self._due = False
        for lane in self._lanes:
            while lane.waiting and len(lane.calls) < lane.at_once and self._may_speak():
                intents = self._next_batch(lane)
                if not intents:
                    break
                call = asyncio.create_task(
                    self._send(lane, intents), name=f"execute {self.cluster}"
                )
                lane.calls.add(call)
                call.add_done_callback(partial(self._ended, lane))

    def _ended(self, lane: _Lane, call: asyncio.Task[None]) -> None:
        lane.calls.discard(call)
        if not call.cancelled():
            self._send_soon()

    def _next_batch(self, lane: _Lane) -> list[AnyIntent]:
        batch: list[AnyIntent] = []
        uids: set[str] = set()
        room = self._room
        # Executors of an older version answer without a limit: fewer orders, then, make smaller
        # answers.
        most = max(1, lane.most * room // MAX_CALL)
        while lane.waiting and len(batch) < most:
            size, intent = lane.waiting[0]
            uid = intent.pod.uid
            if uid in self._busy or uid in uids or (batch and size > room):
                break
            room -= size
            uids.add(uid)
            batch.append(intent)
            lane.waiting.popleft()
        self._busy |= uids
        return batch

    async def _send(self, lane: _Lane, intents: list[AnyIntent]) -> None:
        room = self._room
        batch = IntentBatch(
            self._term.identity,
            self._term.epoch,
            tuple(intents),
            self._timing.deadline_s,
            answer_bytes=room,
        )
        begun = asyncio.get_running_loop().time()
        try:
            if not self._may_speak():  # this process may have slept since the batch was made
                raise AgentMissing(
                    f"nothing may be sent to the agent of cluster {self.cluster} now"
                )
            answer = await self._link.execute(batch, timeout_s=self._timing.execute_s)
        except LinkError as error:
            self._note(error)
            if isinstance(error, AgentTimeout | AgentDied):
                self._room = max(_LEAST_CALL, min(self._room, room // 2))
            log.warning(
                "batch unanswered", cluster=self.cluster, intents=len(intents), problem=str(error)
            )
            ids = tuple(intent.id for intent in intents)
            unsent = isinstance(error, AgentMissing)
            self._emit(
                Unsent(self.cluster, ids) if unsent else Unanswered(self.cluster, ids, str(error))
            )
        except Exception as error:  # a fault of ours: what else is due is sent all the same
            log.exception("a batch could not be sent", cluster=self.cluster, intents=len(intents))
            self._emit(
                Unanswered(
                    self.cluster, tuple(intent.id for intent in intents), repr(error)[:_SHOWN]
                )
            )
        else:
            self.refusal = ""
            in_half = 2 * (asyncio.get_running_loop().time() - begun) <= self._timing.execute_s
            if room == self._room and in_half:
                self._room = min(MAX_CALL, 2 * room)
            if against := self._against_us(answer):
                self._depose(against)
                self._emit(
                    Unanswered(self.cluster, tuple(intent.id for intent in intents), against.why)
                )
            else:
                self._answered(lane, intents, answer.outcomes)
        finally:
            self._busy -= {intent.pod.uid for intent in intents}

    def _note(self, error: LinkError) -> None:
        if isinstance(error, AgentFault):
            self.refusal = _takes_none(str(error))

    def _against_us(self, answer: OutcomeBatch) -> Deposed | None:
        newer = answer.obeys > self._term.epoch
        twin = answer.obeys == self._term.epoch and answer.leader not in ("", self._term.identity)
        if newer or twin:
            who = f"dispatcher {answer.leader[:_SHOWN]!r}"
            why = f"the executor of cluster {self.cluster} obeys {who}"
            return Deposed(answer.obeys, why, self.cluster, first=twin and not self._obeyed)
        self._obeyed = True
        return None

    def _answered(
        self, lane: _Lane, intents: list[AnyIntent], outcomes: tuple[Outcome, ...]
    ) -> None:
        asked = {intent.id: intent for intent in intents}
        if any(one.left_out or one.manifest_of for one in outcomes):
            outcomes = self._completed(lane, asked, outcomes)
        known = tuple(outcome for outcome in outcomes if outcome.id in asked)
        if known:
            self._emit(Answered(self.cluster, known))
        missing = tuple(sorted(asked.keys() - {outcome.id for outcome in known}))
        if missing:
            self._emit(
                Unanswered(self.cluster, missing, "the agent's answer left these intents out")
            )

    def _completed(
        self, lane: _Lane, asked: dict[str, AnyIntent], outcomes: tuple[Outcome, ...]
    ) -> tuple[Outcome, ...]:
        """With the manifests that stand in others. Intents whose manifest had no room in the answer
        are taken from `asked` and sent once more, with few others.
        """
        manifests = {one.id: one.manifest for one in outcomes if one.manifest}
        found = []
        for one in outcomes:
            if one.left_out and one.id in asked and lane is not self._heavy:
                self._heavy.waiting.append((_ORDER + one.left_out, asked.pop(one.id)))
            elif one.manifest_of:
                found.append(
                    msgspec.structs.replace(one, manifest=manifests.get(one.manifest_of, b""))
                )
            else:
                found.append(one)
        return tuple(found)

    async def _send_peers(self) -> None:
        try:
            while self._peers is not None and self._may_speak():
                told = self._peers
                self._peers = None
                peers = cast("tuple[Peer, ...]", told.encoded) or told.peers
                try:
                    by = (self._term.identity, self._term.epoch)
                    lease_s = self._timing.delegate_lease_s
                    message = Peers(
                        *by,
                        peers,
                        echo=self._word,
                        lease_s=lease_s,
                        shadows=told.shadows,
                        network=told.network,
                    )
                    answer = await self._link.set_peers(message, timeout_s=self._timing.execute_s)
                except LinkError as error:  # the core tells the peers anew every few seconds
                    self._note(error)
                    if isinstance(
                        error, AgentFault
                    ):  # no user has a say in peers: it would take no orders, either
                        self._emit(PeersRefused(self.cluster))
                    log.debug("peers not told", cluster=self.cluster, problem=str(error))
                except Exception:  # a fault of ours: it is tried anew with the next that is told
                    log.exception("peers could not be told", cluster=self.cluster)
                else:
                    refuses = bool(answer.problem)
                    self.refusal = _takes_none(answer.problem) if refuses else ""
                    self._word = answer.word
                    # Before the word is echoed.
                    said = (answer.probe, answer.links, refuses, answer.follows)
                    pods = (answer.pod_address, answer.reaches)
                    self._emit(PeersAcknowledged(self.cluster, *said, *pods))
        finally:
            self._peers_call = None


def _takes_none(why: str) -> str:
    return f"takes no orders: {why}"[:_LONGEST_REFUSAL]
