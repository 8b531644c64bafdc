"""One HTTP/1.1 exchange on a connection of its own, which may become a stream of bytes (h11 reads
and writes it).
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import h11

from agents.executor.relayed.relay import Headers
from agents.runtime.relay.spdy import Frames
from shared.kube.pipe import Pipe
from shared.streams.frames import CHUNK
from shared.streams.relayed import Stream

SWITCHING = 101
OK = 200
# after a small piece the next is given this time to grow: frames are costly
_SMALL = CHUNK // 2
_GATHER_S = 0.01
_FAREWELL_S = 5.0  # for the last word to be read
Role = type[h11.CLIENT] | type[h11.SERVER]


class Wire:
    """Either end of an exchange."""

    def __init__(self, pipe: Pipe, role: Role) -> None:
        self.pipe = pipe
        self._http = h11.Connection(role, max_incomplete_event_size=64 * 1024)
        self._ended = False  # the body

    async def next(self) -> h11.Event | type[h11.PAUSED]:
        """What comes next. OSError; h11.RemoteProtocolError: what came is no HTTP, or ended before
        its end.
        """
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # NEED_DATA is the other
            self._http.receive_data(await self.pipe.read())

    async def to(self, stream: Stream) -> None:
        """The rest of a body, and its end, to a stream. As of `next`."""
        while data := await self._body():
            await stream.write(data)
            if len(data) < _SMALL:
                await asyncio.sleep(_GATHER_S)
        stream.finish()

    async def _body(self) -> bytes:
        """What has come of it, chunks put together; b'' at its end."""
        found = bytearray()
        while not self._ended and len(found) < CHUNK:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                found += event.data
            elif event is not h11.NEED_DATA:
                self._ended = True
            elif found:
                break
            else:
                self._http.receive_data(await self.pipe.read())
        return bytes(found)

    async def send(self, *events: h11.Event) -> None:
        """Write. OSError; h11.LocalProtocolError: it is not allowed now, or no HTTP."""
        await self.pipe.write(b"".join(self._http.send(event) or b"" for event in events))

    async def answer(self, status: int, text: str, kind: str = "text/plain") -> None:
        """A whole answer in plain text."""
        body = text.encode()
        headers = [
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        await self.send(
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )

    async def relay(self, stream: Stream, frames: Frames | None = None) -> None:
        """Bytes between this connection, which has switched, and a stream, until both directions
        have ended.

        An end of one is an end of the other; when either breaks, both are cut, so that nobody takes
        it for an end: with a last word where the `frames` of SPDY need one.
        """
        first = self._http.trailing_data[0]
        ways = {
            asyncio.create_task(_to_stream(first, self.pipe, stream)),
            asyncio.create_task(_to_pipe(stream, self.pipe, frames)),
        }
        broken = ""
        try:
            await asyncio.gather(*ways)
        except OSError as error:
            broken = str(error) or type(error).__name__
        finally:
            for one in ways:
                one.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        if broken:  # what was being written goes before the last word
            stream.reset(broken)
            await self._cut(frames.farewell(broken) if frames else b"")

    async def _cut(self, farewell: bytes) -> None:
        if farewell:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_FAREWELL_S):
                    await self.pipe.write(farewell)
                    self.pipe.close()
                    await self.pipe.writer.wait_closed()
        self.pipe.abort()

    async def hung_up(self) -> None:
        """Wait until the other end of the connection is gone; nothing more may come from it."""
        with suppress(OSError):
            while await self.pipe.read():
                pass


async def _to_stream(first: bytes, pipe: Pipe, stream: Stream) -> None:
    data = first or await pipe.read()
    while data:
        await stream.write(data)
        if len(data) < _SMALL:
            await asyncio.sleep(_GATHER_S)
        data = await pipe.read()
    stream.finish()


async def _to_pipe(stream: Stream, pipe: Pipe, frames: Frames | None = None) -> None:
    while data := await stream.read():
        if frames:
            frames.follow(data)
        try:
            await pipe.write(data)
        except (
            OSError
        ):  # nobody reads there any more; what was said before, the other direction still brings
            while await stream.read():
                pass
            return
    pipe.end()


def plain(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers as text, names in lower case."""
    return tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers
    )
