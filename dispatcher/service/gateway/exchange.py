"""A gateway actor's side of the exchange: many calls to many agents by one message in, what they say by one out.

It carries bytes. It reads answers only to keep from the dispatcher what is malformed or beyond its bounds; the
dispatcher reads them again, for it does not go by what an actor has checked.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from dispatcher.service.gateway.batches import (
    ANSWER,
    DIED,
    FAULT,
    MISFIT,
    WAY,
    Answered,
    Asked,
    Collected,
    RelayWay,
    Served,
    Way,
    decode_batch,
    decode_since,
    encode_any,
)
from dispatcher.service.gateway.peers import PassOn, Peers
from dispatcher.service.gateway.stream_limit import StreamLimit
from dispatcher.service.link import AgentDied, AgentFault
from shared.messages import Changes, Hello, OutcomeBatch, PeersAck, Telemetry, WireError, decode
from shared.model.pod import Record
from shared.streams.calls import CHANGES, EXECUTE, HELLO, SET_PEERS, TELEMETRY
from shared.version import version

if TYPE_CHECKING:
    from dispatcher.service.gateway.gateway import Gateway
    from dispatcher.service.gateway.line import Line
    from dispatcher.service.gateway.splices import RelayLine
    from shared.messages.relay import RelayOpen

LINGER_S = 0.03  # reports of several clusters that come within this time cross together; nothing else waits for them
MOST_BYTES = 8 * 2**20  # of answers in one message, unless a single one is longer
MOST_ANSWERS = 10_000  # in one message; the dispatcher takes MAX_ANSWERS
_LONGEST_WHY = 1_000  # characters
_NOT_KNOWN = "(not known here)"  # clusters that the actor was not told of, all together
FORGOTTEN_S = 60.0  # a dispatcher that has not asked for so long is gone
WAY_S = 5.0  # for a dispatcher to say whether a stream is relayed
_KINDS: Mapping[str, type[Record]] = {
    HELLO: Hello,
    CHANGES: Changes,
    EXECUTE: OutcomeBatch,
    SET_PEERS: PeersAck,
    TELEMETRY: Telemetry,
}


class Session:
    """What one dispatcher has under way, and what it has not heard of yet."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.urgent = asyncio.Event()
        self.under_way: dict[int, asyncio.Task[None]] = {}
        self.asked_at = monotonic()
        self.asking = 0
        self._answers: deque[tuple[int, Answered]] = deque()
        self._numbers = count(1)

    def add(self, answer: Answered, *, urgent: bool) -> None:
        """Tell it with the next message."""
        self._answers.append((next(self._numbers), answer))
        self.wake(urgent=urgent)

    def wake(self, *, urgent: bool) -> None:
        """Something is to be told: at once, or soon."""
        self.news.set()
        if urgent:
            self.urgent.set()

    def after(self, upto: int) -> tuple[int, tuple[Answered, ...]]:
        """Answers beyond `upto`, and up to which; those before are known to have arrived, and go."""
        while self._answers and self._answers[0][0] <= upto:
            self._answers.popleft()
        told: list[Answered] = []
        size = 0
        for number, answer in self._answers:
            size += len(answer.body)
            if told and (size > MOST_BYTES or len(told) >= MOST_ANSWERS):
                break
            told.append(answer)
            upto = number
        if not self._answers or upto >= self._answers[-1][0]:
            self.news.clear()
            self.urgent.clear()
        return upto, tuple(told)

    def drop_way(self, number: int) -> None:
        """The question of this number is over: it is told to nobody any more."""
        self._answers = deque(one for one in self._answers if (one[1].verdict, one[1].number) != (WAY, number))

    def end(self) -> None:
        """Nobody waits for its calls any more."""
        for task in self.under_way.values():
            task.cancel()


class _Question:
    """Whether a stream is relayed: yes, if one of the dispatchers that were asked says so; else what the last says."""

    def __init__(self, number: int, asked: set[str]) -> None:
        self.asked = asked
        self.answer = asyncio.get_running_loop().create_future()
        self.said = Way(number, "no dispatcher has said whether it is relayed")

    def take(self, session: str, way: Way) -> None:
        """What a dispatcher says."""
        self.said = way
        self.asked.discard(session)
        if not self.answer.done() and (not way.why or not self.asked):
            self.answer.set_result(None)


async def _nobody(actor: str, passed: bytes) -> bool:
    return False


class Exchange:
    """The calls of all dispatchers to the agents that are connected to one gateway, and its relayed streams."""

    def __init__(
        self, gateway: "Gateway", name: str = "", pass_on: PassOn = _nobody, passed_over: tuple[str, ...] = ()
    ) -> None:
        """`name` is the actor's; `pass_on` is the way to the others, as of Peers; `passed_over` is for Collected."""
        self.boot = secrets.token_hex(8)
        self.peers = Peers(name, self.boot, pass_on, self._way_here)
        self._questions: dict[int, _Question] = {}
        gateway.route = self._way
        self._gateway = gateway
        self._clusters: frozenset[str] = frozenset()
        # Each has limited its own agents. Twice as many: they come unevenly, and by way of two where an agent moves.
        self.from_others = StreamLimit(times=2)
        self._code = (version(), passed_over)
        self._sessions: dict[str, Session] = {}
        self._numbers = count(1)
        self._lines: dict[int, Line] = {}
        self._since: dict[int, float] = {}
        self._served: tuple[Served, ...] = ()
        self._state = 0
        gateway.on_change = self._changed
        self._changed()

    async def send(self, session: str, data: bytes) -> None:
        """Begin the calls of a Batch, end those that are given up. Of another life of this actor: do nothing."""
        batch = decode_batch(data)
        if batch.boot != self.boot:
            return
        mine = self._session(session)
        for number in batch.replaced:
            if (line := self._lines.get(number)) is not None:
                self._gateway.replace(line)
        for way in batch.ways:
            if (question := self._questions.get(way.number)) is not None:
                question.take(session, way)
        for asked in batch.calls:
            task = asyncio.create_task(self._ask(mine, asked), name=f"call {asked.call.method}")
            mine.under_way[asked.number] = task
            task.add_done_callback(partial(_done, mine, asked.number))
        for number in batch.given_up:  # also of a call that comes with this very message: it does not begin
            if (begun := mine.under_way.get(number)) is not None:
                begun.cancel()

    async def collect(self, data: bytes, wait_s: float) -> bytes:
        """A Collected of what came in after a Since; waits up to `wait_s` seconds for something."""
        known = decode_since(data)
        mine = self._session(known.session)
        same = known.boot == self.boot
        mine.asking += 1
        try:
            if same and known.state == self._state:
                await _something(mine, wait_s)
        finally:
            mine.asking -= 1
            mine.asked_at = monotonic()
        upto, answers = mine.after(known.upto if same else 0)
        served = None if same and known.state == self._state else self._served
        refused = dict(self._gateway.stream_limit.refused)
        return encode_any(Collected(self.boot, upto, answers, self._state, served, refused, *self._code))

    async def _way(self, wanted: "RelayOpen", home: str) -> "RelayLine | str":
        """Where a stream goes that an agent here opens, or why it is not relayed."""
        way = await self._told(wanted, home)
        if way.why:
            return way.why
        return self._here(wanted) if way.boot == self.boot else self.peers.to(way.actor, way.boot)

    async def _way_here(self, wanted: "RelayOpen", home: str) -> "RelayLine | str":
        """The same of a stream that another actor opens: it is asked here, too, and goes no further."""
        if why := self.from_others.admit(home if home in self._clusters else _NOT_KNOWN):
            return why
        way = await self._told(wanted, home)
        if way.boot == self.boot or way.why:
            return way.why or self._here(wanted)
        return f'cluster "{wanted.cluster}" has just connected to another gateway actor: try again'

    def _here(self, wanted: "RelayOpen") -> "RelayLine | str":
        line = self._gateway.relay_line(wanted.cluster)
        return f'cluster "{wanted.cluster}" cannot be reached: {line}' if isinstance(line, str) else line

    async def _told(self, wanted: "RelayOpen", home: str) -> Way:
        self._forget_sessions()
        number = next(self._numbers)
        question = self._questions[number] = _Question(number, set(self._sessions))
        body = encode_any(RelayWay(home, wanted.cluster, wanted.pod))
        for session in self._sessions.values():
            session.add(Answered(number, WAY, body), urgent=True)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAY_S):
                    await question.answer
        finally:
            del self._questions[number]
            for session in self._sessions.values():
                session.drop_way(number)
        return question.said

    def _forget_sessions(self, name: str = "") -> None:
        """Of dispatchers that are gone; `name` is one that asks just now."""
        long_ago = monotonic() - FORGOTTEN_S
        for other, one in list(self._sessions.items()):
            if not one.asking and one.asked_at < long_ago and other != name:
                one.end()
                del self._sessions[other]

    def _session(self, name: str) -> Session:
        self._forget_sessions(name)
        return self._sessions.setdefault(name, Session())

    async def _ask(self, session: Session, asked: Asked) -> None:
        method = asked.call.method
        try:
            if method not in _KINDS:
                raise AgentFault(f"this gateway actor knows no call {method[:64]!r}: its build is another")
            if (line := self._lines.get(asked.line)) is None:
                raise AgentDied("the connection ended before the call was sent")
            verdict, body = ANSWER, await line.call(asked.call)
            decode(_KINDS[method], body)
        except AgentDied as error:
            verdict = DIED
            body = str(error).encode()
        except AgentFault as error:
            verdict = FAULT
            body = str(error).encode()
        except WireError as error:
            verdict = MISFIT
            body = str(error).encode()
        session.add(Answered(asked.number, verdict, body), urgent=method != CHANGES or verdict != ANSWER)

    def _changed(self) -> None:
        """Someone has connected or gone."""
        numbers = {id(line): number for number, line in self._lines.items()}
        lines: dict[int, Line] = {}
        served = []
        for named, held in self._gateway.lines().items():
            if isinstance(held, str):
                served.append(Served(named.cluster, named.role, reason=held[:_LONGEST_WHY]))
                continue
            number = numbers.setdefault(id(held), 0) or next(self._numbers)
            numbers[id(held)], lines[number] = number, held
            served.append(Served(named.cluster, named.role, number, held.since, until=held.until))
        self._lines = lines
        self._served = tuple(served)
        self._clusters = frozenset(one.cluster for one in served)
        self._state += 1
        for session in self._sessions.values():
            session.wake(urgent=False)  # who comes and goes all the time is told of with others


def _done(session: Session, number: int, _: asyncio.Task[None]) -> None:
    session.under_way.pop(number, None)


async def _something(session: Session, wait_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await session.news.wait()
    if session.news.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await session.urgent.wait()
