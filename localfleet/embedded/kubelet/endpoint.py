"""The kubelets' HTTPS endpoint: one address a node, one port for all, never a wildcard address.

No container really runs here. So what asks for one (exec, attach, port-forward) is refused, as by a
kubelet whose runtime cannot: in words, with nothing invented.
"""

import hmac
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from aiohttp import web

from localfleet.embedded.addresses import listen
from localfleet.embedded.kubelet.kubelets import Kubelets
from localfleet.embedded.kubelet.node import SimulatedNode
from localfleet.embedded.kubelet.resource_page import CONTENT_TYPE, resource_page
from localfleet.embedded.kubelet.summary import node_summary
from localfleet.embedded.tls import MASTERS

_NODES_PER_CERTIFICATE = 64
_OPEN_PATHS = frozenset(("/healthz",))
_WITHOUT = {
    "exec": "nothing can be executed in it",
    "attach": "there is nothing to attach to",
    "portForward": "nothing listens on its ports",
}


class KubeletEndpoint:
    """Serves each node on its own address: what its pods use, refusals of exec and the like, and
    /healthz for all.

    Who asks shows one of the bearer tokens, or a certificate as the API server has it.

    Sockets of nodes known at the start are handed in; a node that joins later gets its own.
    """

    def __init__(
        self,
        kubelets: Kubelets,
        contexts: Callable[[Sequence[str]], ssl.SSLContext],
        *,
        tokens: Sequence[str],
        port: int,
        clock: Callable[[], float],
    ) -> None:
        self._kubelets = kubelets
        self._contexts = contexts
        self._tokens = [f"Bearer {token}".encode() for token in tokens]
        self._port = port
        self._clock = clock
        self._listening: set[str] = set()
        app = web.Application(middlewares=[self._authenticate])
        app.router.add_get("/stats/summary", self._summary)
        app.router.add_get("/metrics/resource", self._resources)
        for path in (
            "/exec/{namespace}/{pod}/{container}",
            "/attach/{namespace}/{pod}/{container}",
        ):
            app.router.add_route("*", path, self._container_wanted)
        app.router.add_route("*", "/portForward/{namespace}/{pod}", self._container_wanted)
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
        known = any(hmac.compare_digest(given, one) for one in self._tokens) or _is_masters(request)
        if request.path not in _OPEN_PATHS and not known:
            return web.Response(status=401, text="Unauthorized")
        return await handler(request)

    async def _summary(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.encode(node_summary(self._node(request), self._clock()))
        return web.Response(body=body, content_type="application/json")

    async def _resources(self, request: web.Request) -> web.StreamResponse:
        node = self._node(request)
        body = resource_page(node, self._kubelets.containers_on(node), self._clock())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _container_wanted(self, request: web.Request) -> web.StreamResponse:
        node = self._node(request)
        asked = request.match_info
        run = self._kubelets.by_name.get((asked["namespace"], asked["pod"]))
        if run is None or run.node != node.name:
            return web.Response(status=404, text="pod does not exist")
        if "container" in asked and not run.uses:
            return web.Response(status=500, text=f'container not found ("{asked["container"]}")')
        why = _WITHOUT[request.path.split("/")[1]]
        # No colon in it: kubectl 1.32 reads "a: b" as a Status in YAML, and shows nothing.
        where = "simulated by an embedded cluster, where no container really runs"
        return web.Response(status=500, text=f"pod {run.namespace}/{run.name} is {where}, so {why}")

    def _node(self, request: web.Request) -> SimulatedNode:
        """Whose address this is. A lost node does not answer at all."""
        transport = request.transport
        node = (
            self._kubelets.by_address.get(transport.get_extra_info("sockname")[0])
            if transport
            else None
        )
        if node is None or node.down:
            if transport:
                transport.abort()
            raise web.HTTPServiceUnavailable
        return node


def _is_masters(request: web.Request) -> bool:
    """By a certificate that the cluster's authority has signed, as TLS has verified."""
    certificate = request.transport.get_extra_info("peercert") if request.transport else None
    return ("organizationName", MASTERS) in (
        pair for part in (certificate or {}).get("subject", ()) for pair in part
    )


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")
