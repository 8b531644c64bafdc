"""Accepts the agents' connections. For each role of a cluster there is one: a later one, as of a
restarted agent, takes it over. A connection ends when no role is left to it.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus
from typing import Any, cast

import structlog
from aiohttp import WSCloseCode, web

from dispatcher.config.certificates import ROLES
from dispatcher.config.sections import GatewaySection
from dispatcher.service.errors import CommandError
from dispatcher.service.gateway.agent_connection import AgentConnection
from dispatcher.service.gateway.certificates import (
    Named,
    Refresh,
    ServerTls,
    connection_s,
    named_in,
    remaining_s,
)
from dispatcher.service.gateway.entrance import Entrance
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.gateway.sparing_log import LastingLog, SparingLog, http_logger, shortened
from dispatcher.service.gateway.splices import Objection, RelayLine
from dispatcher.service.gateway.stream_limit import StreamLimit
from dispatcher.service.links.signing import NO_SIGNER, Sealer
from shared.streams import ProtocolError
from shared.streams.calls import EXECUTOR, HEARTBEAT_S, PATH, REPLACED
from shared.streams.frames import CHUNK
from shared.streams.relayed import SUBPROTOCOL

log = structlog.get_logger("gateway")

_PATHS = (f"{PATH}{{cluster}}", f"{PATH}{{cluster}}/{{role:{'|'.join(ROLES)}}}")
_REFRESH_S = 5.0
_CLOSE_S = 2.0
_CONNECTIONS = 10  # of one agent: how many log lines of each kind it gets in a minute
# Whose certificate a handshake failed with nobody knows, so that its reason stands in the log
# alone.
_NEVER = (
    "its agent has never connected to this gateway: the agent's log says why, or the gateway's, "
    "as `a TLS handshake "
    "failed`"
)
_SHOWN_AGAIN = "its certificate ends soon: it connects again with the one that it has now"
_EXPIRED = (
    "the certificate of its agent has expired by the gateway's clock: `global-dispatcher join` "
    "its cluster again"
)


class Gateway:
    """Serves the clusters that are configured to come through it."""

    def __init__(
        self,
        section: GatewaySection,
        clusters: Iterable[str],
        sealer: Sealer = NO_SIGNER,
        *,
        key: str = "gateway",
    ) -> None:
        """`sealer` is for the links alone. `key`: of the configuration, which says where it listens."""
        self._key = key
        self._section = section
        self._sealer = sealer
        self.objection: Objection = lambda home, target, pod: (
            "this dispatcher is starting"
        )  # see RelayLine
        self.beside: Gateway | None = None  # another one of this dispatcher, for other clusters
        self._clusters = frozenset(clusters)
        self.stream_limit = StreamLimit()
        # Why nobody serves a role of a cluster, and who does.
        self._absent = {
            Named(cluster, role): _NEVER for cluster in self._clusters for role in ROLES
        }
        self._lines: dict[Named, tuple[AgentConnection, web.WebSocketResponse]] = {}
        self._cutting = ""  # why all connections end just now
        self._sparing = SparingLog()
        self._of_connections = SparingLog(_CONNECTIONS)
        self.port = section.port

    def link(self, cluster: str, sealer: Sealer | None = None) -> GatewayLink:
        """The dispatcher's way to a cluster's agent. `sealer`: instead of that of all."""
        refused = lambda: self.stream_limit.refused[cluster]  # noqa: E731
        return GatewayLink(
            cluster, lambda role: self._line(Named(cluster, role)), sealer or self._sealer, refused
        )

    def _line(self, served: Named) -> AgentConnection | str:
        held = self._lines.get(served)
        return held[0] if held is not None else self._absent[served]

    def relay_line(self, cluster: str) -> RelayLine | str:
        """Where streams to a cluster go; why there is no way, else."""
        served = Named(cluster, EXECUTOR)
        held = self._lines.get(served)
        if held is None:
            return self._absent.get(
                served, "it does not come through this gateway (`via: gateway`)"
            )
        return (
            held[0].relayed
            if held[1].ws_protocol == SUBPROTOCOL
            else "its agent does not relay: upgrade it"
        )

    def _relay_line_anywhere(self, cluster: str) -> RelayLine | str:
        """As `relay_line`, whichever gateway of this dispatcher the cluster comes through."""
        if cluster in self._clusters or self.beside is None:
            return self.relay_line(cluster)
        return self.beside.relay_line(cluster)

    def objection_now(self, home: str, target: str, pod: str) -> str:
        """As `objection`, which may be set later."""
        return self.objection(home, target, pod)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen meanwhile. CommandError: a file cannot be used, or the port cannot be had."""
        try:
            tls = ServerTls(self._section)
        except (OSError, ssl.SSLError) as error:
            raise CommandError(f"gateway: its certificates cannot be used: {error}") from None
        app = web.Application()
        for path in _PATHS:
            app.router.add_get(path, self._accept)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, logger=http_logger(self._sparing)
        )
        await runner.setup()
        entrance = Entrance(cast("web.Server", runner.server), lambda: tls.context, self._clusters)
        refreshing = asyncio.create_task(
            self._keep_fresh(tls, entrance), name="gateway certificates"
        )
        try:
            await self._listen(entrance)
            yield
        finally:
            refreshing.cancel()
            await entrance.close()
            await asyncio.gather(
                *(_closed(socket, WSCloseCode.GOING_AWAY) for _, socket in self._lines.values())
            )
            await runner.cleanup()

    async def _listen(self, entrance: Entrance) -> None:
        host = self._section.host
        port = self._section.port
        try:
            self.port = await entrance.listen(host, port)
        except OSError as error:
            raise CommandError(
                f"{self._key}: cannot listen at {host}:{port}: {error.strerror or error}"
            ) from None
        log.info("gateway listens", host=host, port=self.port)

    async def _accept(self, request: web.Request) -> web.StreamResponse:
        offered = Named(request.match_info["cluster"], request.match_info.get("role", ""))
        certificate: dict[str, Any] = request.get_extra_info("peercert") or {}
        if (refusal := self._refusal(offered, named_in(certificate))) is not None:
            return refusal
        socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_S,
            max_msg_size=2 * CHUNK,
            timeout=1.0,
            compress=False,
            protocols=[SUBPROTOCOL]
            if SUBPROTOCOL in request.headers.get("Sec-WebSocket-Protocol", "")
            else (),
        )
        await socket.prepare(request)
        await self._serve(offered, socket, remaining_s(certificate))
        await _closed(socket, WSCloseCode.OK)
        return socket

    def _refusal(self, offered: Named, named: Named) -> web.Response | None:
        """Why who has a certificate of `named` may not serve what it offers to; None: it may."""
        if named not in (offered, Named(offered.cluster)):
            why = f"an agent was refused: its certificate is of {str(named)!r}"
            absent = [
                one for one in _served(offered) if one in self._absent and one not in self._lines
            ]
            self._absent |= dict.fromkeys(absent, why)
            self._sparing.warning(
                "an agent is refused: its certificate is of another",
                str(named),
                asked=shortened(str(offered)),
                certificate=str(named),
            )
            return _refused(HTTPStatus.FORBIDDEN, f"the certificate is of {str(named)!r}")
        if (cluster := offered.cluster) not in self._clusters:
            text = "an agent is refused: its cluster does not come through the gateway"
            self._sparing.warning(text, cluster, cluster=cluster)
            return _refused(HTTPStatus.NOT_FOUND, f"{cluster!r} is not configured")
        return None

    async def _serve(self, offered: Named, socket: web.WebSocketResponse, left_s: float) -> None:
        served = _served(offered)
        relays = Named(offered.cluster, EXECUTOR) in served
        find = self._relay_line_anywhere if relays else _relays_nothing
        line = AgentConnection(offered.cluster, socket, find, self.objection_now)
        line.relayed.limit = self.stream_limit
        earlier = {held[1] for one in served if (held := self._lines.get(one)) is not None}
        line.until = time.time() + left_s
        self._lines |= dict.fromkeys(served, (line, socket))
        why, lasting = (
            "its agent has closed the connection",
            asyncio.timeout(lasts_s := connection_s(left_s)),
        )
        try:
            for replaced in earlier - {held[1] for held in self._lines.values()}:
                text = "another agent of a cluster has connected, the earlier connection ends"
                self._of_connections.warning(text, str(offered), agent=str(offered))
                await _closed(replaced, REPLACED)
            self._of_connections.info(
                "agent connected", str(offered), cluster=offered.cluster, agent=str(offered)
            )
            async with lasting:
                await line.run()
        except (ProtocolError, OSError) as error:
            ended = _EXPIRED if lasts_s == left_s else _SHOWN_AGAIN
            why = ended if lasting.expired() else f"the connection of its agent ended: {error}"
        except Exception as error:
            why = (
                "a fault of the gateway, which its log tells, ended the connection of its agent: "
                f"{error!r}"
            )
            raise
        finally:
            left = [one for one in served if self._lines.get(one, (None,))[0] is line]
            for one in left:
                del self._lines[one]
                self._absent[one] = self._cutting or why
            if left:
                problem = self._cutting or why
                self._of_connections.warning(
                    "agent is not connected", str(offered), agent=str(offered), problem=problem
                )

    async def _keep_fresh(self, tls: ServerTls, entrance: Entrance) -> None:
        lasting = LastingLog("the gateway's certificates cannot be read again; the old ones hold")
        while True:
            await asyncio.sleep(_REFRESH_S)
            try:
                found = tls.refresh()
            except Exception as error:  # whatever is wrong with a file, later ones are read
                lasting.tell(str(error))
                continue
            lasting.tell("")
            if found is not Refresh.SAME:
                log.info("the gateway's certificates were read again")
            if found is Refresh.NARROWER:
                await self._end_all(entrance)

    async def _end_all(self, entrance: Entrance) -> None:
        """Whoever is still trusted connects again at once; who is not is refused."""
        log.warning("fewer certificates are trusted than before: all agents have to connect anew")
        self._cutting = (
            "the gateway trusts fewer certificates than before, and its agent has not connected "
            "again"
        )
        try:
            # who is back before the others are closed was let in by what is trusted now
            begun = await entrance.begun()
            await asyncio.gather(
                *(_closed(one, WSCloseCode.SERVICE_RESTART) for _, one in [*self._lines.values()])
            )
            entrance.cut(begun)
            await asyncio.sleep(0)
        finally:
            self._cutting = ""


def _served(offered: Named) -> tuple[Named, ...]:
    """What a connection serves, a role each."""
    return tuple(Named(offered.cluster, role) for role in ROLES if offered.role in ("", role))


def _refused(status: HTTPStatus, why: str) -> web.Response:
    """The last answer of its connection: who asks again pays with a handshake."""
    answer = web.Response(status=status, text=f"{why}\n")
    answer.force_close()
    return answer


def _relays_nothing(cluster: str) -> str:
    return "an observer relays nothing"


async def _closed(socket: web.WebSocketResponse, code: int) -> None:
    """End a connection; one whose peer reads nothing is cut."""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(_CLOSE_S):
            await socket.close(code=code)
