"""The product's processes as they are: agents and dispatchers, with a wire of the world below and links between."""

import asyncio
import logging
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import structlog
from structlog.typing import EventDict

import agents.runtime.agent as agent_module
from agents.runtime.agent import Agent
from agents.runtime.relay.near_end import OpenStreams
from agents.runtime.settings import AgentSettings
from dispatcher.config import DispatcherConfig
from dispatcher.service.leading.leadership import Leadership
from dispatcher.service.leading.term_runner import TermRunner
from dispatcher.service.links.link import AgentDied, AgentTimeout, Arrived, at_once
from dispatcher.service.term import Term
from shared.kube.client import KubeClient
from shared.kube.elector import Elector, ElectorEnvironment, LeaderTiming
from shared.kube.http import Request, Response
from shared.kube.leader_lease import LeaseRef, LeaseStore
from shared.kube.session import AccessError, ApiSession
from shared.messages import (
    REFUSED,
    Bind,
    Changes,
    Claim,
    CreateDelegate,
    Hello,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    Telemetry,
    decode,
    encode,
)
from shared.model.pod import Record
from shared.model.tenant import Tenant
from tests.simulation.world.loop import ORDERS, PROCESS, Process, VirtualLoop, in_process, running_loop
from tests.simulation.world.net import Stream, Wire

T = TypeVar("T")
R = TypeVar("R", bound=Record)
WIRE: ContextVar[Wire] = ContextVar("WIRE")
LEASE = LeaseRef("kube-node-lease", "global-dispatcher")


class SimClient(KubeClient):
    """The product's client with its retries, over a wire of the world."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.wire = WIRE.get()

    async def session(self) -> ApiSession:
        """There is none: nothing here has an address."""
        raise AccessError("no address")

    async def close(self) -> None:
        """Nothing is open."""

    async def _send_once(self, request: Request, timeout_s: float, max_body: int) -> Response:
        status, body = await self.wire.call(request, timeout_s)
        if status:
            self.last_answer = self.wire.loop.time()
        return Response(status, body)

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        """One after the other, over one connection."""
        return [await self._send_once(request, 10.0, 0) for request in requests]

    @asynccontextmanager
    async def stream(self, request: Request, silence_s: float) -> AsyncIterator[Any]:
        """A watch."""
        stream: Stream = await self.wire.open(request, silence_s)
        try:
            yield stream
        finally:
            stream.end()


def _hear(_logger: Any, _method: str, entry: EventDict) -> EventDict:
    """Nothing is printed; an exception that the product goes on without is kept for a judge."""
    if error := entry.get("exc_info"):
        error = sys.exc_info()[1] if error is True else error
        running_loop().raised.append(f"{PROCESS.get().name}: {entry['event']}: {error!r}"[:300])
    raise structlog.DropEvent


@contextmanager
def sim_client() -> Iterator[None]:
    """Agents are made with the world's client, and of what the product logs only tracebacks are heard."""
    heard = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(processors=[_hear], wrapper_class=heard, cache_logger_on_first_use=False)
    module: Any = agent_module
    real, module.KubeClient = module.KubeClient, SimClient
    try:
        yield
    finally:
        module.KubeClient = real


class AgentProcess:
    """Lives of one cluster's agent, one after the other. `second`: another one of the same cluster, beside it."""

    def __init__(self, settings: AgentSettings, wire: Wire, name: str = "") -> None:
        self.settings, self.wire, self.lives = settings, wire, 0
        self.name = f"agent/{settings.cluster}{name}"
        self.process = Process(f"{self.name}/0")
        self.offset = 0.0
        self.rate = 1.0
        self.agent: Agent | None = None
        self.second: AgentProcess | None = None
        # Where objects follow pods: streams to other agents.
        self.relayed: Callable[[AgentProcess], OpenStreams] | None = None

    def reached(self, dice: random.Random, *, by_orders: bool) -> "AgentProcess":
        """Whom a call reaches. Of two the one that acts reports; orders may be under way to either."""
        if self.second is None or self.second.agent is None:
            return self
        if by_orders:
            return dice.choice((self, self.second))
        lease = self.second.agent.lease
        return self.second if self.agent is None or (lease is not None and not lease.problem) else self

    async def start(self) -> None:
        """A new life, unless another start was quicker: nobody would ever end the first of two."""
        if self.agent is not None:
            return
        self.lives += 1
        self.process = Process(f"{self.name}/{self.lives}", self.offset, self.rate)
        self.wire.loop.processes.append(self.process)
        await in_process(self.process, self._start)

    def _start(self) -> "asyncio.Task[None]":
        WIRE.set(self.wire)
        agent = self.agent = Agent(self.settings, self.name)  # started again in its place: its Lease is still its own
        if self.relayed is not None:
            agent.fetch_over(self.relayed(self))
        return asyncio.create_task(agent.start())

    async def stop(self) -> None:
        """SIGTERM."""
        agent, self.agent = self.agent, None
        if agent is not None:
            await in_process(self.process, lambda: asyncio.create_task(agent.stop()))

    def kill(self) -> None:
        """SIGKILL."""
        self.process.alive = False
        self.agent = None
        for stream in [one for one in self.wire.streams if one.process is self.process]:
            stream.end()


@dataclass
class LinkWeather:
    """What goes wrong between a dispatcher and an agent now."""

    cut_there: bool = False
    cut_back: bool = False
    lose: float = 0.0
    twice: float = 0.0  # the share of batches that arrive once more, later
    late_s: float = 0.01
    twice_after_s: float = 30.0
    relay_cut: bool = False  # streams between agents
    relay_late_s: float = 0.0


@dataclass
class SimLink:
    """An agent as one dispatcher reaches it, through the bytes that would cross."""

    executor_apart: ClassVar[bool | None] = None
    actor: ClassVar[str] = ""

    cluster: str
    target: AgentProcess
    weather: LinkWeather
    loop: VirtualLoop
    dice: Any
    ordered: dict[tuple[str, str], float] = field(default_factory=dict)  # (cluster, pod) -> first order of a delegate
    kept: dict[tuple[str, str], float] = field(default_factory=dict)  # the same -> newest refusal of a claim for it
    heard: dict[str, set[str]] = field(default_factory=dict)  # a dispatcher's term -> clusters that have reported to it
    placed: dict[str, float] = field(default_factory=dict)  # pod -> newest order to its cluster to claim or bind it
    crossed: Callable[[bytes], None] = lambda _: None  # told of what is sent and answered

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is."""
        answer: Hello = await self._call(Hello, lambda agent: agent.hello(), timeout_s)
        return answer

    async def changes(
        self, incarnation: str, since: int, wait_s: float, *, timeout_s: float, arrived: Arrived = at_once
    ) -> Changes:
        """What changed after `since`."""
        wanted = (incarnation, since, wait_s)
        answer: Changes = await self._call(Changes, lambda agent: agent.changes(*wanted), timeout_s)
        await arrived(encode(answer))
        if answer.synced:
            self.heard.setdefault(PROCESS.get().term, set()).add(self.cluster)
        return answer

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents."""
        raw = encode(batch)
        self.crossed(raw)
        call = partial(_execute, raw)
        for one in batch.intents:
            if isinstance(one, CreateDelegate):
                self.ordered.setdefault((self.cluster, one.pod.uid), self.loop.time())
            elif isinstance(one, Claim | Bind):
                self.placed[one.pod.uid] = self.loop.time()
        answer: OutcomeBatch = await self._call(OutcomeBatch, call, timeout_s, batch)
        for one, outcome in zip(batch.intents, answer.outcomes, strict=True):
            if isinstance(one, Claim) and outcome.verdict == REFUSED:
                self.kept[one.cluster, one.pod.uid] = self.loop.time()
        return answer

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show."""
        raw = encode(peers)
        call = partial(_set_peers, raw)
        answer: PeersAck = await self._call(PeersAck, call, timeout_s, peers)
        return answer

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """How its sources of live load do."""
        answer: Telemetry = await self._call(Telemetry, lambda agent: agent.telemetry(), timeout_s)
        return answer

    async def _call(
        self,
        kind: Any,
        call: Callable[[Agent], Awaitable[Any]],
        timeout_s: float,
        orders: IntentBatch | Peers | None = None,
    ) -> Any:
        told: asyncio.Future[Any] = self.loop.create_future()
        weather, dice = self.weather, self.dice
        told_by = title(PROCESS.get(), orders.dispatcher_epoch) if orders is not None else ""
        lost = weather.cut_there or (weather.lose and dice.random() < weather.lose)
        if not lost:
            self.loop.call_later(dice.random() * weather.late_s, self._arrive, call, told, told_by)
            if isinstance(orders, IntentBatch) and weather.twice and dice.random() < weather.twice:
                nobody: asyncio.Future[Any] = self.loop.create_future()
                self.loop.call_later(dice.random() * weather.twice_after_s, self._arrive, call, nobody, told_by)
        timer = self.loop.call_later(timeout_s, _fail, told, AgentTimeout(f"agent of cluster {self.cluster}: timeout"))
        try:
            answer = await told
        finally:
            timer.cancel()
        return decode(kind, answer)

    def _arrive(self, call: Callable[[Agent], Awaitable[Any]], told: "asyncio.Future[Any]", by: str) -> None:
        target = self.target.reached(self.dice, by_orders=bool(by))
        agent, process = target.agent, target.process
        if agent is None:
            _fail(told, AgentDied(f"agent of cluster {self.cluster} is not there"))
            return
        in_process(process, self._serve, agent, call, told, PROCESS.get(), by)

    def _serve(
        self, agent: Agent, call: Callable[[Agent], Awaitable[Any]], told: Any, caller: Process, by: str
    ) -> None:
        async def serve() -> None:
            ORDERS.set(by)
            answer = await call(agent)
            raw = encode(answer) if isinstance(answer, Record) else b""
            self.crossed(raw)
            weather = self.weather
            if not weather.cut_back and not (weather.lose and self.dice.random() < weather.lose):
                late_s = self.dice.random() * weather.late_s
                in_process(caller, self.loop.call_later, late_s, _tell, told, raw)

        asyncio.create_task(serve())  # noqa: RUF006 - the loop keeps what is under way


class LeaseClient:
    """A dispatcher's way to the server that holds the Lease."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """One call."""
        return Response(*await self._wire.call(request, timeout_s))


class Leading(Leadership):
    """The product's, with a note of the order in which terms begin."""

    def __init__(self, process: Process, ranks: dict[str, int], *args: Any) -> None:
        super().__init__(*args)
        self._process, self._ranks = process, ranks

    def _begin(self, epoch: int) -> Term:
        term = super()._begin(epoch)
        self._process.term = title(self._process, term.epoch)
        self._ranks[self._process.term] = len(self._ranks)
        return term


def title(process: Process, epoch: int) -> str:
    """One term of one life of a dispatcher, as writes name it."""
    return f"{process.name}#{epoch}"


class DispatcherProcess:
    """Lives of one dispatcher, each a candidate of its own for the Lease. `ranks`: terms in the order they began."""

    def __init__(
        self,
        name: str,
        config: DispatcherConfig,
        links: Callable[[], Sequence[SimLink]],
        ranks: dict[str, int],
        lease: Wire,
    ) -> None:
        self.name, self.config, self.links, self.lives, self.ranks = name, config, links, 0, ranks
        self.lease = lease
        self.process = Process(f"{name}/0")
        self.offset = 0.0
        self.dispatcher: TermRunner | None = None

    def start(self) -> None:
        """A new life."""
        self.lives += 1
        self.process = Process(f"{self.name}/{self.lives}", self.offset)
        running_loop().processes.append(self.process)
        in_process(self.process, self._start)

    def _start(self) -> None:
        loop, links, section = running_loop(), self.links(), self.config.leader_election
        environment = ElectorEnvironment(loop.time, wall=time.time, dice=random.random)
        timing = LeaderTiming(section.lease_s, section.renew_deadline_s, section.retry_s)
        elector = Elector(LeaseStore(LeaseClient(self.lease), LEASE), self.process.name, timing, environment)
        stage = self.dispatcher = TermRunner(links, self.config, Leading(self.process, self.ranks, elector, links))
        self._task = asyncio.create_task(stage.run())

    def take_tenants(self, tenants: Sequence[Tenant], after_s: float, taken: Callable[[], None]) -> None:
        """Its file of tenants has changed; it sees that in a moment, and then `taken` is told."""
        self.config = replace(self.config, tenants=tuple(tenants))

        def take() -> None:
            if self.dispatcher is not None:
                self.dispatcher.take_policies(self.config)
                taken()

        in_process(self.process, running_loop().call_later, after_s, take)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.alive = False
        self.dispatcher = None


async def _set_peers(raw: bytes, agent: Agent) -> PeersAck:
    return await agent.set_peers(decode(Peers, raw))


async def _execute(raw: bytes, agent: Agent) -> OutcomeBatch:
    return await agent.execute(decode(IntentBatch, raw))


def _tell(told: "asyncio.Future[Any]", answer: Any) -> None:
    if not told.done():
        told.set_result(answer)


def _fail(told: "asyncio.Future[Any]", error: Exception) -> None:
    if not told.done():
        told.set_exception(error)
