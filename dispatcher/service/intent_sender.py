"""Sends one cluster's intents: in order, in batches, a bounded number at once, and an answer for every intent."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import structlog

from dispatcher.model.messages import (
    AnyIntent,
    ConfirmNoDelegate,
    IntentBatch,
    Outcome,
    OutcomeBatch,
    Peer,
    Peers,
)
from dispatcher.scheduling.events import Answered, Event, PeersAcknowledged, PeersRefused, SendPeers, Unanswered, Unsent
from dispatcher.service.link import AgentFault, AgentLink, AgentMissing, LinkError, through
from dispatcher.service.term import Deposed, Term
from dispatcher.service.timing import ServiceTiming

log = structlog.get_logger("sender")

Emit = Callable[[Event], None]
_SHOWN, _LONGEST_REFUSAL = 256, 500  # characters of what an agent says
_QUESTIONS = 64  # about ends, in a call


def _asks_about_end(intent: AnyIntent) -> bool:
    return isinstance(intent, ConfirmNoDelegate) and intent.ended


class IntentSender:
    """One cluster's queue of intents.

    Batches begin in order. An intent for a pod waits while an earlier one for the same pod is in flight, and so do
    those behind it: an agent never sees two orders about one pod at once. Nothing leaves outside of the term.

    Questions whether pods have ended stand in a line of their own, as an observer can have any number of them asked:
    behind the orders of their round, a few at a time, in a call beside those of orders.
    """

    def __init__(
        self, link: AgentLink, emit: Emit, timing: ServiceTiming, term: Term, depose: Callable[[Deposed], None]
    ) -> None:
        self.cluster = link.cluster
        self._link, self._emit, self._timing = link, emit, timing
        self._term, self._depose, self._silenced = term, depose, False
        self._waiting: deque[AnyIntent] = deque()
        self._questions: deque[AnyIntent] = deque()
        self._busy: set[str] = set()  # UIDs of pods with an intent in flight
        self._calls: set[asyncio.Task[None]] = set()
        self._asking: asyncio.Task[None] | None = None  # a call of questions
        self._obeyed = False  # whether the executor has obeyed this term
        self._due = False  # whether what waits is about to be sent
        self._peers: SendPeers | None = None
        self._peers_call: asyncio.Task[None] | None = None
        self._word = ""  # of the agent's last answer to peers
        self.refusal = ""  # why the agent has not taken the last that was sent, such as orders that it does not verify

    @property
    def depth(self) -> int:
        """Intents that wait to be sent."""
        return len(self._waiting) + len(self._questions)

    @property
    def in_flight(self) -> int:
        """Calls without an answer yet."""
        return len(self._calls) + (self._asking is not None)

    def put(self, intents: tuple[AnyIntent, ...]) -> None:
        """Send these after all that was put before, with what else is put before the event loop goes on."""
        questions = [one for one in intents if _asks_about_end(one)]
        self._questions.extend(questions)
        self._waiting.extend([one for one in intents if not _asks_about_end(one)] if questions else intents)
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
        tasks = [*self._calls, *(call for call in (self._asking, self._peers_call) if call is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._send_more)

    def _send_more(self) -> None:
        self._due = False
        while self._waiting and len(self._calls) < self._timing.in_flight and self._may_speak():
            intents = self._next_batch(self._waiting, self._timing.batch)
            if not intents:
                break
            self._calls.add(self._begin(intents))
        if self._questions and self._asking is None and self._may_speak():
            questions = self._next_batch(self._questions, _QUESTIONS)
            self._asking = self._begin(questions) if questions else None

    def _begin(self, intents: list[AnyIntent]) -> asyncio.Task[None]:
        call = asyncio.create_task(self._send(intents), name=f"execute {self.cluster}")
        call.add_done_callback(self._ended)
        return call

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if call is self._asking:
            self._asking = None
        if not call.cancelled():
            self._send_soon()

    def _next_batch(self, waiting: deque[AnyIntent], most: int) -> list[AnyIntent]:
        batch: list[AnyIntent] = []
        uids: set[str] = set()
        while waiting and len(batch) < most:
            uid = waiting[0].pod.uid
            if uid in self._busy or uid in uids:
                break
            uids.add(uid)
            batch.append(waiting.popleft())
        self._busy |= uids
        return batch

    async def _send(self, intents: list[AnyIntent]) -> None:
        batch = IntentBatch(self._term.identity, self._term.epoch, tuple(intents), self._timing.deadline_s)
        try:
            if not self._may_speak():  # this process may have slept since the batch was made
                raise AgentMissing(f"nothing may be sent to the agent of cluster {self.cluster} now")
            answer = await self._link.execute(batch, timeout_s=self._timing.execute_s)
        except LinkError as error:
            self._note(error)
            log.warning("batch unanswered", cluster=self.cluster, intents=len(intents), problem=str(error))
            ids = tuple(intent.id for intent in intents)
            unsent = isinstance(error, AgentMissing)
            self._emit(Unsent(self.cluster, ids) if unsent else Unanswered(self.cluster, ids, str(error)))
        except Exception as error:  # a fault of ours: what else is due is sent all the same
            log.exception("a batch could not be sent", cluster=self.cluster, intents=len(intents))
            self._emit(Unanswered(self.cluster, tuple(intent.id for intent in intents), repr(error)[:_SHOWN]))
        else:
            self.refusal = ""
            if against := self._against_us(answer):
                self._depose(against)
                self._emit(Unanswered(self.cluster, tuple(intent.id for intent in intents), against.why))
            else:
                self._answered(intents, answer.outcomes)
        finally:
            self._busy -= {intent.pod.uid for intent in intents}

    def _note(self, error: LinkError) -> None:
        if isinstance(error, AgentFault):
            self.refusal = f"takes no orders: {error}"[:_LONGEST_REFUSAL]

    def _against_us(self, answer: OutcomeBatch) -> Deposed | None:
        newer = answer.obeys > self._term.epoch
        twin = answer.obeys == self._term.epoch and answer.leader not in ("", self._term.identity)
        if newer or twin:
            who = f"dispatcher {answer.leader[:_SHOWN]!r}{through(self._link.actor)}"
            why = f"the executor of cluster {self.cluster} obeys {who}"
            return Deposed(answer.obeys, why, self.cluster, first=twin and not self._obeyed)
        self._obeyed = True
        return None

    def _answered(self, intents: list[AnyIntent], outcomes: tuple[Outcome, ...]) -> None:
        asked = {intent.id for intent in intents}
        known = tuple(outcome for outcome in outcomes if outcome.id in asked)
        if known:
            self._emit(Answered(self.cluster, known))
        missing = tuple(sorted(asked - {outcome.id for outcome in known}))
        if missing:
            self._emit(Unanswered(self.cluster, missing, "the agent's answer left these intents out"))

    async def _send_peers(self) -> None:
        try:
            while self._peers is not None and self._may_speak():
                told, self._peers = self._peers, None
                peers = cast("tuple[Peer, ...]", told.encoded) or told.peers
                try:
                    by, lease_s = (self._term.identity, self._term.epoch), self._timing.delegate_lease_s
                    message = Peers(*by, peers, echo=self._word, lease_s=lease_s, shadows=told.shadows)
                    answer = await self._link.set_peers(message, timeout_s=self._timing.execute_s)
                except LinkError as error:  # the core tells the peers anew every few seconds
                    self._note(error)
                    if isinstance(error, AgentFault):  # no user has a say in peers: it would take no orders, either
                        self._emit(PeersRefused(self.cluster))
                    log.debug("peers not told", cluster=self.cluster, problem=str(error))
                except Exception:  # a fault of ours: it is tried anew with the next that is told
                    log.exception("peers could not be told", cluster=self.cluster)
                else:
                    self.refusal, self._word = "", answer.word
                    self._emit(PeersAcknowledged(self.cluster, answer.probe, answer.links))  # before the word is echoed
        finally:
            self._peers_call = None
