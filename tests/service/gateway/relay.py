"""A way between agent and gateway that can be cut."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Relay:
    """Carries TCP connections to a port of this machine."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[int]:
        """The port; all that it carries is cut at the end."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", port)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """End all connections at once, as a firewall that restarts."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._writers += [writer, far_writer]
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
    writer.close()
