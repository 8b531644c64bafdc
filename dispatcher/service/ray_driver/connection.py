"""One side of the connection between the dispatcher and the Ray driver."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from dispatcher.service.ray_driver.messages import MAX_FRAME, ToDispatcher, ToDriver, encode

_LENGTH = 4  # bytes


class BadMessage(Exception):  # noqa: N818 - reads as what came
    """The peer says what it must not: the connection ends."""


class Connection(asyncio.Protocol):
    """Hands each message to `take`, and why the connection has ended to `lost`, once.

    A peer whose messages are too long, cannot be read or are refused by `take` (BadMessage), or that leaves more than
    `most_unsent` bytes unread, loses it.
    """

    def __init__(
        self,
        decode: Callable[[memoryview], Any],
        take: Callable[[Any], None],
        lost: Callable[[str], None],
        most_unsent: int = 2 * MAX_FRAME,
    ) -> None:
        self.unheard = 0  # counted up by the owner: times that it would have been glad of a sign of life
        self._decode = decode
        self._take = take
        self._lost = lost
        self._most_unsent = most_unsent
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As of asyncio."""
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """As of asyncio."""
        self.end(str(exc) if exc else "the other side has ended the connection")

    def end(self, why: str) -> None:
        """Nothing is taken any more."""
        if self._over:
            return
        self._over = True
        self._buffer = bytearray()
        if self._transport is not None:
            self._transport.abort()
        self._lost(why)

    def send(self, message: ToDriver | ToDispatcher) -> None:
        """Does not wait; nothing, once it is over. BadMessage: it is too long to be taken, and was not sent."""
        if self._over or self._transport is None:
            return
        frame = encode(message)
        if len(frame) > MAX_FRAME:
            raise BadMessage(f"a message of {len(frame)} bytes: {MAX_FRAME} are taken at most")
        if self._transport.get_write_buffer_size() > self._most_unsent:
            self.end("the other side does not read what it is sent")
            return
        self._transport.writelines((len(frame).to_bytes(_LENGTH, "big"), frame))

    def data_received(self, data: bytes) -> None:
        """As of asyncio."""
        self.unheard = 0
        self._buffer += data
        try:
            while not self._over and (message := self._next()) is not None:
                self._take(message)
        except (BadMessage, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.end(f"it sends what cannot be taken: {error}")

    def _next(self) -> Any:
        """The next message, None while it is not there as a whole."""
        if len(self._buffer) < _LENGTH:
            return None
        size = int.from_bytes(self._buffer[:_LENGTH], "big")
        if size > MAX_FRAME:
            raise BadMessage(f"a message of {size} bytes: {MAX_FRAME} are taken at most")
        end = _LENGTH + size
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as whole, whole[_LENGTH:end] as frame:
            message = self._decode(frame)
        del self._buffer[:end]
        return message
