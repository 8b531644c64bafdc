"""Answers a dispatcher's calls over one connection, each in a task of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec
import structlog

from agents.executor.trust.orders import Refused
from shared.messages import (
    IntentBatch,
    Peers,
    decode,
    encode,
)
from shared.security.seals import ORDERS, PEERS, Header
from shared.streams import FrameKind, Message, Priority
from shared.streams.calls import (
    BOTH,
    CHANGES,
    EXECUTE,
    EXECUTOR,
    HELLO,
    OBSERVER,
    PRIORITIES,
    SET_PEERS,
    TELEMETRY,
    Call,
    Called,
    decode_call,
)
from shared.streams.connection import Connection
from shared.streams.frames import RELAY_KINDS
from shared.streams.relayed import Stream, StreamReset, Streams

LOG = structlog.get_logger("gateway")
MAX_CALLS = 64  # under way at once, as for an actor
Answer = Callable[[Call], Awaitable[bytes]]
Serve = Callable[[Stream, bytes], Awaitable[None]]  # one relayed stream, and what its opening said


async def serve_none(stream: Stream, opening: bytes) -> None:
    """What an agent does that relays nothing."""
    stream.reset("the agent relays nothing")


_SERVED = {
    OBSERVER: frozenset((HELLO, CHANGES, SET_PEERS, TELEMETRY)),
    EXECUTOR: frozenset((HELLO, EXECUTE, SET_PEERS)),
    BOTH: frozenset(PRIORITIES),
}


class Gate(Protocol):
    """What looks at a message before it is decoded (`agents.runtime.order_gate.OrderGate`). Both
    raise Refused.
    """

    def let_in(self, kind: str, body: bytes, seal: bytes) -> Header | None:
        """What was signed of it, None where nothing has to be."""
        ...

    def same_epoch(self, kind: str, header: Header | None, epoch: int) -> None:
        """Whether the message says what its seal says."""
        ...


class _Open:
    """The gate of an agent that verifies nothing."""

    def let_in(self, kind: str, body: bytes, seal: bytes) -> None:
        """Everything."""

    def same_epoch(self, kind: str, header: Header | None, epoch: int) -> None:
        """Always."""


async def obey(agent: Called, gate: Gate, body: bytes, seal: bytes) -> bytes:
    """An IntentBatch in, an OutcomeBatch out; Refused: the leader has not signed it for this
    cluster.
    """
    header = gate.let_in(ORDERS, body, seal)
    batch = decode(IntentBatch, body)
    gate.same_epoch(ORDERS, header, batch.dispatcher_epoch)
    return encode(await agent.execute(batch))


async def hear_of_peers(agent: Called, gate: Gate, body: bytes, seal: bytes) -> bytes:
    """A Peers in, a PeersAck out; Refused: as of `obey`."""
    header = gate.let_in(PEERS, body, seal)
    peers = decode(Peers, body)
    gate.same_epoch(PEERS, header, peers.dispatcher_epoch)
    return encode(await agent.set_peers(peers))


_OPEN = _Open()


def answers_of(agent: Called, role: str = BOTH, gate: Gate = _OPEN) -> Mapping[str, Answer]:
    """What an agent, or one half of it, says to each call that it serves, as bytes."""

    async def hello(_: Call) -> bytes:
        return encode(await agent.hello())

    async def changes(call: Call) -> bytes:
        return encode(await agent.changes(call.incarnation, call.since, call.wait_s))

    async def execute(call: Call) -> bytes:
        return await obey(agent, gate, call.body, call.seal)

    async def set_peers(call: Call) -> bytes:
        return await hear_of_peers(agent, gate, call.body, call.seal)

    async def telemetry(_: Call) -> bytes:
        return encode(await agent.telemetry())

    every = {
        HELLO: hello,
        CHANGES: changes,
        EXECUTE: execute,
        SET_PEERS: set_peers,
        TELEMETRY: telemetry,
    }
    return {method: answer for method, answer in every.items() if method in _SERVED[role]}


class Answering:
    """One connection's calls. A call that fails is answered with a FAULT: it ends neither the
    connection nor others.
    """

    def __init__(
        self, connection: Connection, answers: Mapping[str, Answer], serve: Serve = serve_none
    ) -> None:
        self._connection = connection
        self._answers = answers
        self._serve = serve
        self.streams = Streams(connection)
        self._serving: set[asyncio.Task[None]] = set()
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the connection ends; then nothing of it goes on. ProtocolError, ConnectionError."""
        try:
            async for message in self._connection.messages():
                if message.kind in RELAY_KINDS:
                    self._relay(message)
                else:
                    self._take(message)
        finally:
            self.streams.end("the connection to the dispatcher ended")
            tasks = [*self._under_way.values(), *self._serving]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _relay(self, message: Message) -> None:
        opened = self.streams.take(message)
        if opened is not None:
            task = asyncio.create_task(self._serve_one(*opened), name="relayed stream")
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve_one(self, stream: Stream, opening: bytes) -> None:
        try:
            await self._serve(stream, opening)
        except StreamReset:
            return
        except Exception as error:
            LOG.warning("a relayed stream failed", error=repr(error))
            stream.reset(repr(error)[:300])
        finally:
            stream.reset("the agent has ended the stream")

    def _take(self, message: Message) -> None:
        kind, stream, body = message
        if kind is FrameKind.CANCEL:
            self._cancel(stream)
        elif (
            kind is FrameKind.CALL
            and len(self._under_way) < MAX_CALLS
            and stream not in self._under_way
        ):
            task = self._under_way[stream] = asyncio.create_task(self._answer(stream, body))
            task.add_done_callback(lambda _: self._under_way.pop(stream, None))
        elif kind is FrameKind.CALL:
            self._connection.send(
                Message(FrameKind.FAULT, stream, b"too many calls at once"), Priority.CONTROL
            )

    def _cancel(self, stream: int) -> None:
        if stream in self._under_way:
            self._under_way[stream].cancel()
        if self._connection.drop(
            stream
        ):  # the dispatcher's end holds a part of an answer that will not be finished
            self._connection.send(Message(FrameKind.CANCEL, stream, b""), Priority.CONTROL)

    async def _answer(self, stream: int, body: bytes) -> None:
        priority = Priority.CONTROL
        try:
            call = decode_call(body)
            priority, answer = PRIORITIES[call.method], self._answers[call.method]
        except (msgspec.MsgspecError, KeyError) as error:
            self._send_fault(stream, f"a call that this agent does not know: {error}", priority)
            return
        try:
            told = await answer(call)
        except Refused as refusal:  # who refused has logged it, and no more often than is good
            self._send_fault(stream, str(refusal), priority)
        except Exception as error:
            LOG.warning("a call failed", method=call.method, error=repr(error))
            self._send_fault(stream, repr(error), priority)
        else:
            self._connection.send(Message(FrameKind.ANSWER, stream, told), priority)

    def _send_fault(self, stream: int, text: str, priority: Priority) -> None:
        self._connection.send(Message(FrameKind.FAULT, stream, text.encode()), priority)
