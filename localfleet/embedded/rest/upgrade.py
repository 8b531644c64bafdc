"""A request to upgrade its connection, passed on to a kubelet, and then bytes both ways until one side ends.

As k8s.io/apimachinery does, pkg/util/proxy/upgradeaware.go: headers go on, but for Authorization; a refusal is told as
it came; the end of either side is the end of the other.
"""

import asyncio
import os
import socket
import ssl
from contextlib import suppress

import h11
from aiohttp import web

from agents.kube.pipe import Pipe, TlsPipe
from localfleet.embedded.apiserver.status import unexplained
from localfleet.embedded.rest.location import Kubelet

_CONNECT_S, _ANSWER_S = 10.0, 60.0
_READ = 64 * 1024
_OURS = frozenset((b"authorization", b"content-length", b"transfer-encoding", b"x-forwarded-for"))  # not passed on
_SWITCHING, _REFUSED = 101, 400


def is_upgrade(request: web.Request) -> bool:
    """Whether its connection shall become something else."""
    return any("upgrade" in value.lower() for value in request.headers.getall("Connection", []))


async def passed_on(request: web.Request, kubelet: Kubelet, target: str, context: ssl.SSLContext) -> web.StreamResponse:
    """The kubelet's answer; it has ended when this returns, if the connection was upgraded. ApiError 500."""
    pipe = await _dialled(kubelet, context)
    try:
        wire = h11.Connection(h11.CLIENT)
        try:
            await pipe.write((wire.send(_asked(request, target)) or b"") + (wire.send(h11.EndOfMessage()) or b""))
            async with asyncio.timeout(_ANSWER_S):
                head = await _next(wire, pipe)
        except (OSError, EOFError, h11.ProtocolError) as error:
            raise unexplained(str(error) or "i/o timeout") from None
        if isinstance(head, h11.InformationalResponse) and head.status_code == _SWITCHING:
            return await _switched(request, head, wire.trailing_data[0], pipe)
        if not isinstance(head, h11.Response):
            raise unexplained("malformed HTTP response")
        if head.status_code < _REFUSED:
            raise unexplained(f"invalid upgrade response: status code {head.status_code}")
        return await _refused(head, wire, pipe)
    finally:
        pipe.close()


async def _dialled(kubelet: Kubelet, context: ssl.SSLContext) -> TlsPipe:
    try:
        async with asyncio.timeout(_CONNECT_S):
            pipe = TlsPipe(*await asyncio.open_connection(*kubelet), context, kubelet.address)
            try:
                await pipe.handshake()
            except BaseException:
                pipe.abort()
                raise
    except OSError as error:
        raise unexplained(f"error dialing backend: {_told(error, kubelet)}") from None
    return pipe


def _told(error: OSError, kubelet: Kubelet) -> str:
    """As Go says it, where that is known."""
    if isinstance(error, ssl.SSLError):
        return "EOF" if isinstance(error, ssl.SSLEOFError) else f"tls: {error.reason}"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {kubelet.address}: no such host"
    why = f"connect: {os.strerror(error.errno).lower()}" if error.errno else "i/o timeout"
    return f"dial tcp {kubelet.authority}: {why}"


def _asked(request: web.Request, target: str) -> h11.Request:
    headers = [(name, value) for name, value in request.raw_headers if name.lower() not in _OURS]
    came_by = [*request.headers.getall("X-Forwarded-For", []), request.remote or ""]
    headers.append((b"X-Forwarded-For", ", ".join(filter(None, came_by)).encode()))
    if request.method == "POST":
        headers.append((b"Content-Length", b"0"))
    return h11.Request(method=request.method, target=target, headers=headers)


async def _next(wire: h11.Connection, pipe: TlsPipe) -> object:
    """The next event. OSError; EOFError: the kubelet ended without a word; ProtocolError: what it said is no HTTP."""
    while (event := wire.next_event()) is h11.NEED_DATA:
        try:
            data = await pipe.read()
        except ssl.SSLEOFError:  # cut, and not ended
            data = b""
        if not data and wire.their_state is h11.SEND_RESPONSE:
            raise EOFError("unexpected EOF")
        wire.receive_data(data)
    return event


async def _refused(head: h11.Response, wire: h11.Connection, pipe: TlsPipe) -> web.Response:
    """As it came, but for how its length is told."""
    body = b""
    with suppress(OSError, h11.ProtocolError):
        async with asyncio.timeout(_CONNECT_S):
            while isinstance(event := await _next(wire, pipe), h11.Data):
                body += event.data
    response = web.Response(status=head.status_code, body=body)
    for name, value in head.headers:
        if name not in (b"content-length", b"transfer-encoding", b"connection"):
            response.headers[name.decode()] = value.decode("latin-1")
    response.force_close()
    return response


async def _switched(
    request: web.Request, head: h11.InformationalResponse, first: bytes, pipe: TlsPipe
) -> web.StreamResponse:
    reader, writer = _taken_over(request)
    lines = [b"HTTP/1.1 101 " + head.reason, *(name + b": " + value for name, value in head.headers.raw_items())]
    writer.write(b"\r\n".join([*lines, b"", first]))
    ways = {
        asyncio.create_task(_to_client(pipe, writer)),
        asyncio.create_task(to_kubelet(reader, pipe)),
    }
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.close()
    return web.Response()  # nobody hears it: the connection is closed


async def _to_client(pipe: TlsPipe, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await pipe.read():
            writer.write(data)
            await writer.drain()


async def to_kubelet(reader: asyncio.StreamReader, pipe: Pipe) -> None:
    """Until the client ends: a kubelet that hears no more may have said things that are still to be passed on."""
    hears = True
    with suppress(OSError):
        while data := await reader.read(_READ):
            try:
                if hears:
                    await pipe.write(data)
            except OSError:
                hears = False


class _Taken(asyncio.StreamReaderProtocol):
    """Reads in the place of aiohttp, which knows WebSockets alone, and tells it when the connection is gone."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.Protocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell both."""
        super().connection_lost(exc)
        self._before.connection_lost(exc)


def _taken_over(request: web.Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The connection of a request. Nothing of it is lost: clients wait for the answer before they say more."""
    transport, loop = request.transport, asyncio.get_running_loop()
    if transport is None:
        raise unexplained("the client has gone")
    reader = asyncio.StreamReader()
    protocol = _Taken(reader, request.protocol)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
