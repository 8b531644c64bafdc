"""One WebSocket with many calls over it, from either end: a task that writes, a loop that reads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from aiohttp import WSMessage, WSMsgType

from shared.streams import Message, Multiplexer, Priority

LITTLE_PER_S = 2000  # frames a second that may bring little: honest peers send one or two a call
CUT = (
    "it broke off without being closed: the other end's process was killed, or something on the "
    "way cut it"
)


class Pace:
    """How long to wait after so many events in all, for no more than `per_s` a second beyond a
    second's worth.
    """

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._counted = 0
        self._free_at = float("-inf")  # when all that was counted would have been due

    def pause(self, total: int, now: float) -> float:
        """Seconds, 0.0 if there were not too many."""
        new = total - self._counted
        self._counted = total
        self._free_at = max(self._free_at, now - 1.0) + new / self._per_s
        return max(0.0, self._free_at - now)


class Socket(Protocol):
    """What is needed of aiohttp's WebSockets, of a client and of a server alike."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a binary message; waits while the transport is full."""
        ...

    async def receive(self) -> WSMessage:
        """The next message, also of the end."""
        ...


class Connection:
    """Messages of any length over a WebSocket. Only `_write` sends: a cancelled sender would end
    all others'.
    """

    def __init__(self, socket: Socket, wanted: Callable[[int], bool] | None = None) -> None:
        """`wanted`: as of Multiplexer."""
        self._socket = socket
        self._streams = Multiplexer(wanted=wanted)
        self._news = asyncio.Event()
        self._pace = Pace(LITTLE_PER_S)
        # The peer's close code: the one that aiohttp keeps is lost where the peer is gone before it
        # is answered.
        self.closed_with: int | None = None

    def send(self, message: Message, priority: Priority) -> None:
        """Queue a message."""
        self._streams.send(message, priority)
        self._news.set()

    @property
    def urgent(self) -> int:
        """As of Multiplexer."""
        return self._streams.urgent

    def charge(self, frames: int) -> None:
        """Count so many more frames against the peer's pace (LITTLE_PER_S): it is read more slowly."""
        self._streams.little += frames

    def drop(self, stream: int) -> bool:
        """Send nothing more of a stream; whether something was left."""
        return self._streams.drop(stream)

    def forget(self, stream: int) -> None:
        """Keep nothing of what has arrived of a stream."""
        self._streams.forget(stream)

    async def messages(self) -> AsyncIterator[Message]:
        """What arrives, until the connection ends. ProtocolError, ConnectionError."""
        writer = asyncio.create_task(self._write(), name="connection writer")
        try:
            while (received := await self._socket.receive()).type is WSMsgType.BINARY:
                message = self._streams.receive(received.data)
                if pause := self._pace.pause(
                    self._streams.little, asyncio.get_running_loop().time()
                ):
                    await asyncio.sleep(pause)  # whoever floods us is read more slowly
                self._news.set()  # the peer may have made room, or have to be told of ours
                if message is not None:
                    yield message
            if received.type is WSMsgType.CLOSE:
                self.closed_with = received.data
            if received.type is WSMsgType.ERROR and isinstance(received.data, Exception):
                raise ConnectionError(_why(received.data))
            if (
                received.type is WSMsgType.CLOSED
            ):  # its bytes ended, and no close frame was among them
                raise ConnectionError(CUT)
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self) -> None:
        while True:
            self._news.clear()
            while (frame := self._streams.next_frame()) is not None:
                await self._socket.send_bytes(frame)
            await self._news.wait()


def _why(error: Exception) -> str:
    """aiohttp's own words for a peer that has vanished are of PONG."""
    if isinstance(error, TimeoutError):
        return "the other end answers no ping: it hangs, or the way to it is cut"
    return str(error) or repr(error)
