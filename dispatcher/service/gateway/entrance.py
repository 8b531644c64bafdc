"""Lets TLS connections in, a bounded number: who only connects, or holds one certificate, cannot
use up open files.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from dispatcher.service.gateway.certificates import Named, named_in
from dispatcher.service.gateway.handshakes import in_words
from dispatcher.service.gateway.sparing_log import LastingLog, SparingLog

MAX_HANDSHAKES = 256  # at once; beyond, the oldest ends: an honest one takes a fraction of a second
# connections with certificates of one cluster and role; and of all that are not served together
MAX_OF_ONE = 8
_HANDSHAKE_S = 10.0
_BACKLOG = 128
_PAUSE_S = 1.0  # after the system could not give a connection, for example for want of open files


class Entrance:
    """Accepts for an HTTP server. `context` gives the TLS context of the moment, `clusters` are
    those served.
    """

    def __init__(
        self, server: web.Server, context: Callable[[], ssl.SSLContext], clusters: Iterable[str]
    ) -> None:
        self._server = server
        self._context = context
        self._clusters = frozenset(clusters)
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._of: dict[RequestHandler, Named] = {}  # whose each connection is
        self._sparing = SparingLog()
        self._acceptance = LastingLog(
            "a connection cannot be accepted", "connections are accepted again", most=1
        )

    async def listen(self, host: str, port: int) -> int:
        """Accept from now on, at every address of the host; the port. OSError."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(infos):
            listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
            listening.setblocking(False)
            self._listening.append(listening)
        self._accepting = [
            asyncio.create_task(self._accept(one), name="gateway accepts")
            for one in self._listening
        ]
        found: int = self._listening[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Accept no more; connections that are open stay so."""
        await _ended([*self._accepting, *self._handshakes])
        for listening in self._listening:
            listening.close()

    async def begun(self) -> list[RequestHandler]:
        """The connections that there are; handshakes that have begun are ended."""
        await _ended(list(self._handshakes))
        return list(self._server.connections)

    def cut(self, begun: Iterable[RequestHandler]) -> None:
        """End these connections."""
        for handler in begun:
            if handler.transport is not None:
                handler.transport.abort()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                self._acceptance.tell(error.strerror or str(error))
                await asyncio.sleep(_PAUSE_S)
                continue
            self._acceptance.tell("")
            task = asyncio.create_task(self._let_in(connection), name="gateway handshake")
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))
            if len(self._handshakes) > MAX_HANDSHAKES:
                oldest = next(iter(self._handshakes))
                del self._handshakes[oldest]
                oldest.cancel()
                self._sparing.warning(
                    "too many TLS handshakes at once: the oldest are ended", most=MAX_HANDSHAKES
                )

    async def _let_in(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        peer = _address(connection)
        try:
            transport, handler = await loop.connect_accepted_socket(
                self._server, connection, ssl=self._context(), ssl_handshake_timeout=_HANDSHAKE_S
            )
        except (OSError, ssl.SSLError) as error:
            problem, fix = in_words(error)
            self._sparing.warning(
                "a TLS handshake failed", problem, peer=peer, problem=problem, fix=fix
            )
            return
        finally:
            if (task := asyncio.current_task()) is not None:
                self._handshakes.pop(task, None)
        named = named_in(transport.get_extra_info("peercert") or {})
        counted = named if named.cluster in self._clusters else Named()
        open_now = set(self._server.connections)
        self._of = {one: whose for one, whose in self._of.items() if one in open_now}
        if sum(1 for whose in self._of.values() if whose == counted) >= MAX_OF_ONE:
            transport.abort()
            self._sparing.warning(
                "too many connections with certificates of one cluster",
                of=str(named),
                most=MAX_OF_ONE,
            )
            return
        self._of[handler] = counted


def _address(connection: socket.socket) -> str:
    """Who connects, '' if that is over already."""
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return ""


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
