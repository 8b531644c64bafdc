"""A connection as bytes both ways, whose end is told from a break, and from which nothing is lost
at its end.

TLS is done here, over a plain connection: uvloop drops what was not read yet when the peer ends TLS
while reading is paused, and neither uvloop nor asyncio tells the end of TLS (close_notify) from a
connection that broke.
"""

import asyncio
import socket
import ssl
from contextlib import suppress

_READ = 64 * 1024
_FIN_CAME = b"\x08"  # TCP_CLOSE_WAIT, the first byte of Linux' TCP_INFO


class Pipe:
    """A plain connection, or one whose TLS somebody else does. All raise OSError for what the
    network does.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> bytes:
        """What has come, once there is any; b'' at the end."""
        return await self.reader.read(_READ)

    async def write(self, data: bytes) -> None:
        """Send; waits while the connection is full."""
        self.writer.write(data)
        await self.writer.drain()

    def end(self) -> None:
        """Nothing more is sent. Where a half cannot be ended alone, this ends both."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            self.writer.close()

    def close(self) -> None:
        """End it in good order."""
        self.writer.close()

    def abort(self) -> None:
        """End it so that the other end sees that it was cut."""
        self.writer.transport.abort()


class TlsPipe(Pipe):
    """TLS as a client. A connection that breaks is an SSLEOFError, which is an OSError."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext,
        server_name: str,
    ) -> None:
        super().__init__(reader, writer)
        self._came = ssl.MemoryBIO()
        self._goes = ssl.MemoryBIO()
        self._ended = False
        self._tls = context.wrap_bio(self._came, self._goes, server_hostname=server_name)

    async def handshake(self) -> None:
        """Before anything else."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._more()
            except ssl.SSLError:
                await self._flush()  # an alert that says why
                raise
            else:
                await self._flush()
                return

    async def read(self) -> bytes:
        """As of a Pipe."""
        while not (found := self._decrypted()) and not self._ended:
            await self._more()
        return found

    def _decrypted(self) -> bytes:
        """What is at hand: TLS records may be small, and each read costs."""
        found = b""
        while len(found) < _READ and not self._ended:
            try:
                part = self._tls.read(_READ)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:  # comes again with the next read
                if found:
                    break
                raise
            self._ended = not part
            found += part
        return found

    async def write(self, data: bytes) -> None:
        """As of a Pipe. An OSError, too, where the peer has ended its side: API servers end both at
        once, and would answer with a reset, in which the kernel throws away what they said last and
        was not read yet.
        """
        if (
            self.writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
            == _FIN_CAME
        ):
            raise ConnectionResetError("the other side has ended the connection")
        if data:
            self._tls.write(data)
            await self._flush()

    def end(self) -> None:
        """Ends both directions: API servers know no half end of TLS."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        self.writer.write(self._goes.read())
        self.writer.close()

    def close(self) -> None:
        """As of a Pipe."""
        if not self.writer.is_closing():
            self.end()

    async def _more(self) -> None:
        """Let more come; what TLS itself has to say goes first."""
        await self._flush()
        try:
            data = await super().read()
        except (
            RuntimeError
        ) as error:  # uvloop's word for a transport that a failed write has closed
            raise ConnectionResetError(str(error)) from None
        if data:
            self._came.write(data)
        else:
            self._came.write_eof()

    async def _flush(self) -> None:
        await super().write(self._goes.read())
