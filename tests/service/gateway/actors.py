"""Gateway actors without Ray: the exchange in this process, lives that end, and a fleet of agents that dial."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agents.runtime.outbound.settings import GatewaySettings
from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway.batches import decode_batch, decode_collected
from dispatcher.service.gateway.exchange import Exchange
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.remote import GatewaySite
from dispatcher.service.link import AgentDied
from shared.messages import Bind, IntentBatch, PodRef
from tests.service.fakes import FakeAgent
from tests.service.gateway.test_gateway import dialling

CLUSTERS = tuple(f"c{number:02d}" for number in range(12))


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """Bound, so that nobody else gets it, and shared with the actors."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class InProcess:
    """An actor without Ray: `begin` and `kill` are its lives. Counts the messages that cross."""

    def __init__(self, section: GatewaySection) -> None:
        self.section = section
        self._exchange: Exchange | None = None
        self._stack = contextlib.AsyncExitStack()
        self._asked = set[asyncio.Task[bytes]]()  # long polls under way: they end with the actor, as Ray's calls do
        self.clusters = CLUSTERS
        self.passed_over: tuple[str, ...] = ()
        self.batches: list[int] = []  # of each message in, how many calls it had
        self.collected: list[int] = []  # of each message out, how many answers

    async def begin(self) -> None:
        gateway = Gateway(self.section, self.clusters)
        self._exchange = Exchange(gateway, passed_over=self.passed_over)
        await self._stack.enter_async_context(gateway.serving())

    async def kill(self) -> None:
        self._exchange = None
        for asked in self._asked:
            asked.cancel()
        await self._stack.aclose()

    async def send(self, session: str, batch: bytes) -> None:
        self.batches.append(len(decode_batch(batch).calls))
        await self._alive().send(session, batch)

    async def collect(self, since: bytes, wait_s: float) -> bytes:
        exchange = self._alive()
        asked = asyncio.create_task(exchange.collect(since, wait_s))
        self._asked.add(asked)
        try:
            await asyncio.wait((asked,))
        finally:
            asked.cancel()
            self._asked.discard(asked)
        if exchange is not self._exchange:
            raise AgentDied("it died")
        data = asked.result()
        self.collected.append(len(decode_collected(data).answers))
        return data

    def _alive(self) -> Exchange:
        if self._exchange is None:
            raise AgentDied("it is not there")
        return self._exchange


class Fleet:
    """Two actors at one port, a dispatcher's side, and agents that dial."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self.port = folder, port
        section = GatewaySection(
            port=port,
            actors=2,
            cert_file=str(folder / "gateway.crt"),
            key_file=str(folder / "gateway.key"),
            client_ca_file=str(folder / "ca.crt"),
        )
        self.actors = {f"gateway-{number}": InProcess(section) for number in range(2)}
        self.agents = {cluster: FakeAgent(cluster) for cluster in CLUSTERS}

    def settings(self, cluster: str) -> GatewaySettings:
        return GatewaySettings(
            urls=(f"wss://localhost:{self.port}",),
            ca_file=str(self._folder / "ca.crt"),
            cert_file=str(self._folder / f"cluster-{cluster}.crt"),
            key_file=str(self._folder / f"cluster-{cluster}.key"),
            longest_pause_s=1,
        )

    @contextlib.asynccontextmanager
    async def dialled(self, *clusters: str) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for cluster in clusters:
                await stack.enter_async_context(dialling(self.settings(cluster), cluster, self.agents[cluster]))
            yield

    @contextlib.asynccontextmanager
    async def dispatcher(self) -> AsyncIterator[GatewaySite]:
        site = GatewaySite(self.actors, CLUSTERS)
        async with site.serving():
            yield site


def orders(cluster: str) -> IntentBatch:
    return IntentBatch(cluster, 1, (Bind("i1", PodRef("default", "web", "u1"), 1, "node-1"),), 20.0)


def answering(lines: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """What a dispatcher's log says of an actor that it has met."""
    return [line for line in lines if (line["event"], line.get("actor")) == ("gateway actor answers", name)]
