"""A request to upgrade its connection, passed on to a kubelet, and then bytes both ways until one
side ends.

As k8s.io/apimachinery does, pkg/util/proxy/upgradeaware.go: headers go on, but for Authorization; a
refusal is told as it came; the end of either side is the end of the other.
"""

import asyncio
import ssl
from contextlib import closing, suppress

import h11
from aiohttp import web

from localfleet.embedded.apiserver.status import unexplained
from localfleet.embedded.rest.kubelet_wire import (
    FAILURES,
    Head,
    KubeletWire,
    copy_body,
    dial,
    while_client_stays,
)
from localfleet.embedded.rest.location import Kubelet
from shared.kube.pipe import Pipe

_ANSWER_S = 60.0
_READ = 64 * 1024
_NOT_FORWARDED = frozenset(
    (b"authorization", b"content-length", b"transfer-encoding", b"x-forwarded-for")
)
_SWITCHING = 101
_REFUSED = 400


def is_upgrade(request: web.Request) -> bool:
    """Whether its connection shall become something else."""
    return any("upgrade" in value.lower() for value in request.headers.getall("Connection", []))


async def passed_on(
    request: web.Request, kubelet: Kubelet, target: str, context: ssl.SSLContext
) -> web.StreamResponse:
    """The kubelet's answer; an upgraded connection has ended when this returns. ApiError 500
    without a sound answer.
    """
    try:
        wire = await dial(kubelet, context)
    except ConnectionError as error:
        raise unexplained(f"error dialing backend: {error}") from None
    with closing(wire.pipe):
        try:
            async with asyncio.timeout(_ANSWER_S):
                head = await while_client_stays(request, wire.ask(_forwarded(request, target)))
        except FAILURES as error:
            raise unexplained(str(error) or "i/o timeout") from None
        if head.status_code == _SWITCHING:
            return await _switched(request, head, wire)
        if head.status_code < _REFUSED:
            raise unexplained(f"invalid upgrade response: status code {head.status_code}")
        return await while_client_stays(request, copy_body(request, _refusal(head), wire.body()))


def _forwarded(request: web.Request, target: str) -> h11.Request:
    """ProtocolError: the client's headers are no HTTP."""
    headers = [
        (name, value) for name, value in request.raw_headers if name.lower() not in _NOT_FORWARDED
    ]
    came_by = [*request.headers.getall("X-Forwarded-For", []), request.remote or ""]
    headers.append(
        (b"X-Forwarded-For", ", ".join(filter(None, came_by)).encode(errors="surrogateescape"))
    )
    if request.method == "POST":
        headers.append((b"Content-Length", b"0"))
    return h11.Request(method=request.method, target=target, headers=headers)


def _refusal(head: Head) -> web.StreamResponse:
    """Its head as it came, but for how its length is told."""
    response = web.StreamResponse(status=head.status_code, reason=head.reason.decode("latin-1"))
    for name, value in head.headers:
        if name not in (b"transfer-encoding", b"connection"):
            response.headers.add(name.decode(), value.decode("latin-1"))
    response.force_close()
    return response


async def _switched(request: web.Request, head: Head, wire: KubeletWire) -> web.StreamResponse:
    reader, writer = _take_over(request)
    lines = [
        b"HTTP/1.1 101 " + head.reason,
        *(name + b": " + value for name, value in head.headers.raw_items()),
    ]
    writer.write(b"\r\n".join([*lines, b"", wire.after_switch]))
    ways = {
        asyncio.create_task(_to_client(wire.pipe, writer)),
        asyncio.create_task(to_kubelet(reader, wire.pipe)),
    }
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.close()
    return web.Response()  # for aiohttp alone: the connection is closed


async def _to_client(pipe: Pipe, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await pipe.read():
            writer.write(data)
            await writer.drain()


async def to_kubelet(reader: asyncio.StreamReader, pipe: Pipe) -> None:
    """Until the client ends, also when the kubelet takes no more: what it has sent is still being
    passed on.
    """
    writable = True
    with suppress(OSError):
        while data := await reader.read(_READ):
            try:
                if writable:
                    await pipe.write(data)
            except OSError:
                writable = False


class _RawReader(asyncio.StreamReaderProtocol):
    """Reads raw bytes in place of aiohttp, whose only upgrades are WebSockets."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.Protocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        """Also end what aiohttp keeps of the connection."""
        super().connection_lost(exc)
        self._before.connection_lost(exc)


def _take_over(request: web.Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request's connection, taken from aiohttp. No bytes are lost: clients send nothing more
    before the answer.
    """
    transport = request.transport
    loop = asyncio.get_running_loop()
    if transport is None:
        raise unexplained("the client has gone")
    reader = asyncio.StreamReader()
    protocol = _RawReader(reader, request.protocol)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    transport.resume_reading()  # aiohttp has paused it, if a body came before the answer
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
