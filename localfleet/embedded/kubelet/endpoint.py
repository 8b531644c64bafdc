"""The kubelets' HTTPS endpoint: one address a node, one port for all, never a wildcard address."""

import hmac
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from aiohttp import web

from localfleet.embedded.addresses import listen
from localfleet.embedded.kubelet.kubelets import Kubelets
from localfleet.embedded.kubelet.summary import node_summary

_NODES_PER_CERTIFICATE = 64
_OPEN_PATHS = frozenset(("/healthz",))


class KubeletEndpoint:
    """Serves /stats/summary (bearer token) and /healthz of each node on the node's own address.

    Sockets of nodes known at the start are handed in; a node that joins later gets its own.
    """

    def __init__(
        self,
        kubelets: Kubelets,
        contexts: Callable[[Sequence[str]], ssl.SSLContext],
        *,
        token: str,
        port: int,
        clock: Callable[[], float],
    ) -> None:
        self._kubelets = kubelets
        self._contexts = contexts
        self._token = token.encode()
        self._port = port
        self._clock = clock
        self._listening: set[str] = set()
        app = web.Application(middlewares=[self._authenticate])
        app.router.add_get("/stats/summary", self._summary)
        app.router.add_get("/healthz", _healthz)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on listening sockets, all of this cluster's port."""
        await self._runner.setup()
        for first in range(0, len(sockets), _NODES_PER_CERTIFICATE):
            group = sockets[first : first + _NODES_PER_CERTIFICATE]
            context = self._contexts([listener.getsockname()[0] for listener in group])
            for listener in group:
                await self._serve(listener, context)

    async def add(self, address: str) -> None:
        """Serve one more node's address; nothing to do when it is served already."""
        if address not in self._listening:
            (listener,) = listen([address], self._port)
            await self._serve(listener, self._contexts([address]))

    async def stop(self) -> None:
        """Close all sockets and connections."""
        await self._runner.cleanup()

    async def _serve(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        self._listening.add(listener.getsockname()[0])
        await web.SockSite(self._runner, listener, ssl_context=context).start()

    @web.middleware
    async def _authenticate(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode()
        if request.path not in _OPEN_PATHS and not hmac.compare_digest(given, b"Bearer " + self._token):
            return web.Response(status=401, text="Unauthorized")
        return await handler(request)

    async def _summary(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        address = transport.get_extra_info("sockname")[0] if transport else ""
        node = self._kubelets.by_address.get(address)
        if node is None or node.down:
            # A lost node does not answer at all.
            if transport:
                transport.abort()
            return web.Response(status=503)
        body = msgspec.json.encode(node_summary(node, self._clock()))
        return web.Response(body=body, content_type="application/json")


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")
