"""Keeps one connection to each gateway, for ever: a cut of any length ends in another attempt,
never in a restart.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import structlog

from agents.runtime.outbound.answering import Answer, Answering, Serve, serve_none
from agents.runtime.outbound.problems import in_words
from agents.runtime.outbound.settings import GatewaySettings
from shared.kube.elector import awake
from shared.model.backoff import Backoff
from shared.streams import ProtocolError
from shared.streams.calls import BOTH, HEARTBEAT_S, PATH, REPLACED
from shared.streams.connection import Connection
from shared.streams.frames import CHUNK
from shared.streams.relayed import SUBPROTOCOL, Stream

LOG = structlog.get_logger("gateway")
CONNECT_S = 10.0
LOOK_S = 0.2  # between two looks at whether this executor may connect
FIRST_PAUSE_S = 0.5
LASTING_S = 10.0  # a connection that lived for that long was a good one: the next attempt is soon
_CLOSE_S = 2.0
_MANY = 30  # failures after which the pause is the longest
_NOT_TRIED = "no attempt yet"


class Replaced(ConnectionError):  # noqa: N818 - reads as what happened
    """Another agent of this cluster has connected."""


Failure = (
    aiohttp.ClientError,
    ProtocolError,
    OSError,
    TimeoutError,
    ValueError,
)  # the last: an address that is none


class Lease(Protocol):
    """By which one executor of a cluster acts (`agents.runtime.executor_lease.ExecutorLease`).
    `unreached_s`: for how long no gateway has let it in.
    """

    unreached_s: Callable[[], float]

    def keeps_away(self, *, replaced: bool) -> str:
        """Why not to connect now."""
        ...


class Dialler:
    """The connections of one agent. `problems` has a line for each gateway that is not connected.

    `serve` is called for each relayed stream that another cluster opens; the stream ends when it
    returns. `lease`: of the executor; one that waits for it does not take the holder's place at a
    gateway.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        cluster: str,
        answers: Mapping[str, Answer],
        serve: Serve = serve_none,
        role: str = BOTH,
        lease: Lease | None = None,
    ) -> None:
        self._settings = settings
        self._answers = answers
        self._serve = serve
        self._path = path_of(cluster, role)
        self._lease = lease
        self._relaying: dict[str, Answering] = {}  # by gateway, those that know relayed streams
        self.problems = dict.fromkeys(settings.urls, _NOT_TRIED)
        self._reached_at = awake()  # when a connection that lasted has ended, or this began
        if lease is not None:
            lease.unreached_s = self.unreached_s

    @property
    def connected(self) -> bool:
        """Whether at least one dispatcher reaches us."""
        return len(self.problems) < len(self._settings.urls)

    def unreached_s(self) -> float:
        """For how long there was no connection, or none that lasted."""
        return 0.0 if self.connected else awake() - self._reached_at

    def open_streams(self, opening: bytes) -> Iterator[Stream]:
        """A new relayed stream over one gateway after the other, for as long as the caller wants
        another.
        """
        for answering in [*self._relaying.values()]:
            yield answering.streams.open(opening)  # whether there are too many the gateway says

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for url in self._settings.urls:
                group.create_task(self._keep(url), name=f"gateway {url}")

    async def _keep(self, url: str) -> None:
        failures = 0
        replaced = False
        pauses = Backoff(FIRST_PAUSE_S, self._settings.longest_pause_s)
        while True:
            if self._lease is not None and (why := self._lease.keeps_away(replaced=replaced)):
                self.problems[url] = why
                await asyncio.sleep(LOOK_S)
                continue
            began = time.monotonic()
            ended = await self._attempt(url)
            problem = in_words(ended, url.removeprefix("wss://").partition("/")[0], self._settings)
            if self.problems.get(url) != problem:
                LOG.warning("not connected", gateway=url, problem=problem)
            self.problems[url] = problem
            failures = 1 if time.monotonic() - began > LASTING_S else failures + 1
            replaced = isinstance(ended, Replaced)
            if replaced:
                failures = _MANY  # two agents that take it from each other in turn help nobody
            await asyncio.sleep(pauses.after(failures) * random.uniform(0.5, 1.0))

    async def _attempt(self, url: str) -> Exception:
        """Be connected as long as that lasts; how it ended."""
        try:
            await self._connect(url)
        except Failure as error:
            return error
        return ConnectionError("the gateway has closed the connection")

    async def _connect(self, url: str) -> None:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_connect=CONNECT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            asyncio.timeout(3 * CONNECT_S) as opening,  # also for an answer that never comes
            session.ws_connect(
                url.rstrip("/") + self._path,
                ssl=trust(self._settings),
                server_hostname=self._settings.server_name or None,
                proxy=_proxy(url, self._settings.proxy),
                heartbeat=HEARTBEAT_S,
                max_msg_size=2 * CHUNK,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
                protocols=[SUBPROTOCOL],
            ) as socket,
        ):
            opening.reschedule(None)
            self.problems.pop(url, None)
            connected_at = awake()
            LOG.info("connected", gateway=url)
            connection = Connection(socket)
            answering = Answering(connection, self._answers, self._serve)
            if socket.protocol == SUBPROTOCOL:
                self._relaying[url] = answering
            try:
                await answering.run()
            finally:
                self._relaying.pop(url, None)
                if awake() - connected_at > LASTING_S:
                    self._reached_at = awake()
            if connection.closed_with == REPLACED:
                raise Replaced("another agent of this cluster has connected: end one of them")


def path_of(cluster: str, role: str) -> str:
    """Where an agent connects, or one half of it: what it offers to serve."""
    return f"{PATH}{cluster}" if role == BOTH else f"{PATH}{cluster}/{role}"


def trust(settings: GatewaySettings) -> ssl.SSLContext:
    """Whom we trust and who we are. OSError, ssl.SSLError: a file is missing or is none."""
    for file in (settings.ca_file, settings.cert_file, settings.key_file):
        with open(file, "rb"):  # ssl does not say which one is missing
            pass
    context = ssl.create_default_context(cafile=settings.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def _proxy(url: str, given: str) -> str | None:
    """`given`, else as HTTPS_PROXY and NO_PROXY say; aiohttp itself does not look at them for wss.
    ValueError.
    """
    host = urlsplit(url).hostname or ""
    found = given or (None if _bypassed(host) else getproxies().get("https"))
    if not found:
        return None
    name = "gateway.proxy" if given else "HTTPS_PROXY"
    scheme, there, rest = found.partition("://")
    if there and not rest.strip("/"):
        raise ValueError(
            f"{name} names no host: write http://HOST:PORT"
        )  # aiohttp would dial past it
    if there and scheme.isalnum() and scheme.lower() != "http":
        raise ValueError(
            f"{name} names a proxy of the kind {scheme}: only http://HOST:PORT can be asked to "
            "CONNECT"
        )
    # without a scheme it is meant so, as curl and kubectl take it
    address = f"http://{rest if there else found}"
    if not _is_address(address) or (there and not scheme.isalnum()):
        raise ValueError(
            f"{name} is no http://USER:SECRET@HOST:PORT (not shown: it may hold a secret; "
            "/ # ? @ in one are %2F %23 %3F %40)"
        )
    return address


def _bypassed(host: str) -> bool:
    """As NO_PROXY says. Networks in it, such as 10.0.0.0/8, count as for kubectl and all of Go;
    Python reads names.
    """
    if proxy_bypass(host):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in _networks(getproxies().get("no", "")))


def _networks(words: str) -> Iterator[IPv4Network | IPv6Network]:
    for word in words.split(","):
        with suppress(ValueError):
            yield ip_network(word.strip(), strict=False)


def _is_address(url: str) -> bool:
    """Whether aiohttp takes it for a proxy's: else its error would show all of it."""
    try:
        parts = urlsplit(url)
        url.encode("latin-1")  # as a user and a password are sent
        return bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
    except ValueError:
        return False
