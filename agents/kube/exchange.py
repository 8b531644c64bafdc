"""One request, one answer, over kept connections: HTTP/1.1 for the short calls that binding is made of.

Of aiohttp such a call costs 0.28 ms of CPU, of this 0.16 ms (measured beside each other, TLS, 1 KiB), and a bound pod
is two of them. Lists and watches, whose bodies are long, stay with aiohttp.
"""

import asyncio
import re
import ssl
import time
from typing import cast
from urllib.parse import urlsplit

from agents.kube.answers import Answer, AnswerError, AnswerReader

MAX_CONNECTIONS = 64
IDLE_S = 20.0  # below the time after which servers and balancers close what is idle
_PLAIN = re.compile(r"[!-~]+")
_VALUE = re.compile(r"[ -~]*")


class Exchanges:
    """A pool of connections to one server; calls above MAX_CONNECTIONS wait for one."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str | None, connect_s: float) -> None:
        url = urlsplit(server)
        self._prefix = url.path.rstrip("/")
        self._where = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        self._netloc = url.netloc.rpartition("@")[2]
        self._tls = tls if url.scheme == "https" else None
        self._server_name = server_name if self._tls else None
        self._connect_s = connect_s
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[Exchange] = []
        self._open: set[Exchange] = set()

    async def call(self, method: str, path: str, headers: dict[str, str], body: bytes, max_body: int) -> Answer:
        """Send and wait for the answer. OSError or ValueError when none came: then its effect is unknown."""
        request = self._request(method, path, headers, body)
        async with self._room:
            exchange = self._kept() or await self._connect()
            keep = False
            try:
                answer = await exchange.call(request, max_body)
                keep = answer.keep
                return answer
            finally:
                if keep:
                    self._idle.append(exchange)
                else:  # given up, failed, or not to be used again
                    exchange.close()

    def close(self) -> None:
        """Close all connections; calls under way end with an error."""
        for exchange in list(self._open):
            exchange.close()
        self._idle.clear()

    def _kept(self) -> "Exchange | None":
        oldest = time.monotonic() - IDLE_S
        while self._idle:
            exchange = self._idle.pop()
            if exchange.alive and exchange.used_at > oldest:
                return exchange
            exchange.close()
        return None

    async def _connect(self) -> "Exchange":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_s):
            _, exchange = await loop.create_connection(
                lambda: Exchange(self._open), *self._where, ssl=self._tls, server_hostname=self._server_name
            )
        return exchange

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        target = self._prefix + path
        if not _PLAIN.fullmatch(target) or not all(map(_VALUE.fullmatch, headers.values())):
            raise ValueError(f"not to be sent: {target[:200]!r}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {target} HTTP/1.1\r\nHost: {self._netloc}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


class Exchange(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self, everyone: "set[Exchange]") -> None:
        self.used_at = time.monotonic()
        self._everyone = everyone
        self._reader = AnswerReader(0)
        self._waiting: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def alive(self) -> bool:
        """Whether it can be used."""
        return self._transport is not None and not self._transport.is_closing()

    async def call(self, request: bytes, max_body: int) -> Answer:
        """Send, and wait for the answer."""
        if self._transport is None or self._waiting is not None:
            raise ConnectionError("the connection is not free")
        self._reader.max_body = max_body
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            return await self._waiting
        finally:
            self._waiting = None
            self.used_at = time.monotonic()

    def close(self) -> None:
        """End it at once: what was sent may or may not be done."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open."""
        # Not every event loop's transport inherits from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._everyone.add(self)

    def data_received(self, data: bytes) -> None:
        """A piece of the answer; unasked for, the end of the connection."""
        if self._waiting is None or self._waiting.done():
            self.close()
            return
        try:
            answer = self._reader.feed(data)
        except ValueError as error:
            self._fail(error)
            return
        if answer is not None:
            self._answer(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed by either side."""
        self._transport = None
        self._everyone.discard(self)
        try:
            answer = self._reader.end() if exc is None else None
        except AnswerError as error:
            self._fail(error)
            return
        if answer is not None:
            self._answer(answer)
        else:
            self._fail(ConnectionResetError(str(exc) if exc else "the server closed the connection"))

    def _answer(self, answer: Answer) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.close()
