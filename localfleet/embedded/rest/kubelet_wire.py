"""The API server as the client of kubelets that are no part of its process: those that agents serve
for proxy nodes.

As kube-apiserver does without --kubelet-certificate-authority: it shows its client certificate, and
verifies none. It asks for one thing on a connection of its own, follows no redirect, and waits only
as long as its own client does.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import TypeVar, cast

import h11
from aiohttp import web

from localfleet.embedded.apiserver.status import unexplained
from localfleet.embedded.rest.location import Kubelet
from shared.kube.pipe import TlsPipe

_CONNECT_S = 10.0
_LOOK_S = 0.3
FAILURES = (
    OSError,
    EOFError,
    h11.ProtocolError,
)  # of a kubelet or of the network, once a connection is there
Head = h11.Response | h11.InformationalResponse
_Result = TypeVar("_Result")


class KubeletWire:
    """One exchange over HTTP/1.1, which may turn the connection, `pipe`, into a stream of bytes."""

    def __init__(self, pipe: TlsPipe) -> None:
        self.pipe = pipe
        self._http = h11.Connection(h11.CLIENT)

    async def ask(self, request: h11.Request) -> Head:
        """Send a request that has no body: the head of the answer. One of FAILURES."""
        await self.pipe.write(
            (self._http.send(request) or b"") + (self._http.send(h11.EndOfMessage()) or b"")
        )
        return cast(Head, await self._next())  # h11 lets nothing else come first

    async def body(self) -> AsyncIterator[bytes]:
        """What follows the head, as it comes. One of FAILURES, also where it ends before its end."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    @property
    def after_switch(self) -> bytes:
        """What came together with the head of a 101, and is no HTTP any more."""
        return self._http.trailing_data[0]

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            try:
                data = await self.pipe.read()
            except ssl.SSLEOFError:  # cut, and not ended
                data = b""
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise EOFError("unexpected EOF")
            self._http.receive_data(data)
        return event


async def dial(kubelet: Kubelet, context: ssl.SSLContext) -> KubeletWire:
    """A connection, whose `pipe` the caller closes. `context` has the client certificate.
    ConnectionError in words of Go: nobody answers there, or the node tells an address or a port
    that is none.
    """
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(*kubelet)
            try:
                pipe = TlsPipe(reader, writer, context, kubelet.address)
                await pipe.handshake()
            except BaseException:
                writer.transport.abort()
                raise
    except (OSError, ValueError, OverflowError) as error:
        raise ConnectionError(_go_text(error, kubelet)) from None
    return KubeletWire(pipe)


def _go_text(error: Exception, kubelet: Kubelet) -> str:
    """The error in Go's words, as kube-apiserver passes them on; those of Python where Go's are not
    known.
    """
    if isinstance(error, ssl.SSLError):
        return "EOF" if isinstance(error, ssl.SSLEOFError) else f"tls: {error.reason}"
    if isinstance(error, socket.gaierror | ValueError):  # ValueError: it cannot even be asked for
        return f"dial tcp: lookup {kubelet.address}: no such host"
    if isinstance(error, OverflowError):
        return f"dial tcp: address {kubelet.port}: invalid port"
    number = error.errno if isinstance(error, OSError) else None
    why = f"connect: {os.strerror(number).lower()}" if number else "i/o timeout"
    return f"dial tcp {kubelet.authority}: {why}"


async def copy_body(
    request: web.Request, response: web.StreamResponse, body: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Send a body to the client as far as it comes. kube-apiserver, too, ends an answer that breaks
    off as if whole.
    """
    with suppress(*FAILURES):
        await response.prepare(request)
        async for data in body:
            await response.write(data)
    return response


async def while_client_stays(
    request: web.Request, work: Coroutine[object, object, _Result]
) -> _Result:
    """The result of work for a client. It is cancelled when the client disconnects: ApiError, which
    nobody reads.
    """
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_S)
            if request.transport is None and not task.done():
                raise unexplained("the client has gone")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
