"""Relayed streams of one connection, at the agent's end: bytes both ways, each direction with a
window and an end.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count

from shared.streams import FrameKind, Message, Priority, ProtocolError
from shared.streams.connection import Connection
from shared.streams.frames import CHUNK, OPENED_BY_AGENT, RELAYED, STREAM_WINDOW, amount, amount_of

SUBPROTOCOL = "global-dispatcher.relay.2"  # of the WebSocket: both ends know relayed streams
MAX_STREAMS = 128  # of one connection at once
# of these, between the same two clusters: one alone cannot keep others out
MAX_BETWEEN = MAX_STREAMS // 2
_NUMBERS = 0x3FFF_FFFF
_URGENT = frozenset(
    (FrameKind.OPEN, FrameKind.GRANT, FrameKind.RESET)
)  # not behind DATA, and not counted


class StreamReset(ConnectionError):  # noqa: N818 - reads as what happened
    """The stream ended before its end; the text says why."""


class Stream:
    """One end of a stream. `send` takes a kind and a body of at most CHUNK bytes."""

    def __init__(self, send: Callable[[FrameKind, bytes], None]) -> None:
        self._send = send
        self._arrived: deque[bytes] = deque()
        self._held = 0  # bytes that have arrived and were not granted anew
        self._taken = 0  # bytes of these that were read
        self._room = STREAM_WINDOW
        self._news = asyncio.Event()  # for the reader
        self._more = asyncio.Event()  # for the writer
        self._finished = self._they_finished = False
        self._problem = ""

    @property
    def over(self) -> bool:
        """Whether nothing will come or go any more."""
        return bool(self._problem) or (self._finished and self._they_finished)

    @property
    def finished(self) -> bool:
        """Whether this end has said that it sends no more."""
        return self._finished

    async def read(self) -> bytes:
        """What came next, as it was written: CHUNK bytes at most; b'' at the end. StreamReset."""
        while not self._arrived:
            if self._they_finished:
                return b""
            if self._problem:
                raise StreamReset(self._problem)
            self._news.clear()
            await self._news.wait()
        data = self._arrived.popleft()
        self._taken += len(data)
        if self._taken * 2 >= STREAM_WINDOW and not self._they_finished:
            self._send(FrameKind.GRANT, amount(self._taken))
            self._held = self._held - self._taken
            self._taken = 0
        return data

    async def write(self, data: bytes) -> None:
        """Send, as soon as the other end has room. StreamReset, also after `finish`: the gateway
        ends the whole connection of who sends more.
        """
        if self._finished:
            raise StreamReset("this end has said that it sends no more")
        at = 0
        while at < len(data):
            while self._room <= 0 and not self._problem:
                self._more.clear()
                await self._more.wait()
            if self._problem:
                raise StreamReset(self._problem)
            part = data[at : at + min(CHUNK, self._room)]
            at = at + len(part)
            self._room = self._room - len(part)
            self._send(FrameKind.DATA, part)

    def finish(self) -> None:
        """Nothing more comes from this end; what was written still goes."""
        if not (self._finished or self._problem):
            self._finished = True
            self._send(FrameKind.FINISH, b"")

    def reset(self, why: str) -> None:
        """End it at once, both ways."""
        if not self.over:
            self._send(FrameKind.RESET, why.encode()[:CHUNK])
            self.end(why)

    def end(self, why: str) -> None:
        """It has ended, as the other end or the connection says. What has arrived can still be
        read.
        """
        self._problem = self._problem or why or "the other side ended the stream"
        self._news.set()
        self._more.set()

    def take(self, message: Message) -> None:
        """What the other end sent. ProtocolError: it sent more than it may."""
        kind, _, body = message
        if kind is FrameKind.RESET:
            self.end(body.decode("utf-8", "replace"))
        elif kind is FrameKind.GRANT:
            self._room += amount_of(body)
            if self._room > STREAM_WINDOW:
                raise ProtocolError("more was granted of a relayed stream than was sent")
            self._more.set()
        elif kind is FrameKind.FINISH:
            self._they_finished = True
            self._news.set()
        elif body:
            self._held += len(body)
            if self._held > STREAM_WINDOW or self._they_finished:
                raise ProtocolError("more came over a relayed stream than was granted")
            self._arrived.append(body)
            self._news.set()


class Streams:
    """The streams of one connection, those that we opened and those that the gateway opened."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._streams: dict[int, Stream] = {}
        self._numbers = count()

    def open(self, body: bytes) -> Stream:
        """A new stream; `body` says to the gateway where it goes."""
        self._drop_over()
        number = RELAYED | OPENED_BY_AGENT | (next(self._numbers) & _NUMBERS)
        stream = self._new(number)
        self._send(number, FrameKind.OPEN, body)
        return stream

    def take(self, message: Message) -> tuple[Stream, bytes] | None:
        """Hand a message to its stream; a stream that it opens, with what was said, is the caller's
        to serve.
        """
        kind, number, body = message
        if kind is FrameKind.OPEN:
            self._drop_over()
            if (
                len(self._streams) >= MAX_STREAMS
                or number in self._streams
                or number & OPENED_BY_AGENT
            ):
                self._send(number, FrameKind.RESET, b"too many streams at once")
                return None
            return self._new(number), body
        stream = self._streams.get(number)
        if stream is not None:
            stream.take(message)
            if stream.over:
                del self._streams[number]
        elif kind is FrameKind.DATA:
            self._send(number, FrameKind.RESET, b"no such stream")
        return None

    def end(self, why: str) -> None:
        """The connection has ended."""
        for stream in self._streams.values():
            stream.end(why)
        self._streams.clear()

    def _new(self, number: int) -> Stream:
        def send(kind: FrameKind, body: bytes) -> None:
            if kind is FrameKind.RESET:
                self._connection.drop(number)
            self._send(number, kind, body)

        stream = self._streams[number] = Stream(send)
        return stream

    def _send(self, number: int, kind: FrameKind, body: bytes) -> None:
        self._connection.send(Message(kind, number, body), priority_of(kind))

    def _drop_over(self) -> None:
        self._streams = {number: one for number, one in self._streams.items() if not one.over}


def priority_of(kind: FrameKind) -> Priority:
    """How urgent a message of a relayed stream is."""
    return Priority.CONTROL if kind in _URGENT else Priority.RELAY
