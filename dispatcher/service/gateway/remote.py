"""The dispatcher's side of gateway actors: calls of all clusters go out by few messages, and come back by few.

Any actor takes any cluster: they share one port, so an agent whose actor has died is let in by another at once, and
one address is enough for all. Each actor tells which clusters are connected to it; the latest connection counts.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence, Set
from contextlib import asynccontextmanager, suppress
from itertools import count
from time import monotonic
from typing import Protocol

import msgspec

from dispatcher.config.certificates import ROLES
from dispatcher.service.gateway.batches import (
    ANSWER,
    DIED,
    FAULT,
    MISFIT,
    WAY,
    Answered,
    Asked,
    Batch,
    Collected,
    Served,
    Since,
    Way,
    decode_collected,
    decode_way,
    encode_any,
)
from dispatcher.service.gateway.certificates import Named
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.gateway.sparing_log import SparingLog, shortened
from dispatcher.service.gateway.splices import Objection
from dispatcher.service.link import AgentDied, AgentFault, AgentMismatch, LinkError
from dispatcher.service.signing import NO_SIGNER, Sealer
from shared.model.backoff import Backoff
from shared.model.token_buckets import Allowance
from shared.streams.calls import CHANGES, EXECUTOR, Call
from shared.version import version

WAIT_S = 10.0  # a long poll
SILENT_S = 5.0  # beyond that: the actor is hung
GATHER_S = 0.005  # polls of several clusters that are due within this time cross together; orders do not wait
MOST_HELD = 20_000  # answers to questions, and connections to end, that wait to be sent
# What nobody waits for, of one actor: so much at once and so much a second is heard, the rest more slowly. Questions,
# other answers, rows of who serves and KiBs are one each; a message without an answer that is waited for is MESSAGE.
# Twice what 200 clusters ask that open as many streams as they may (`StreamLimit`: 51,200 at once, 10,000 a second).
AT_ONCE = 100_000
PER_S = 20_000.0
MESSAGE = 50
_LONGEST_PAUSE_S = 60.0
_KIB = 1024
_LONGEST_WHY = 500  # characters
_LONGEST_FAILURE = 4_000  # bytes
_MOST_LINES = 10  # of a kind in the log, a minute: an honest actor begins anew a few times
_MOST_NAMES = 20  # in a line
_PAUSES = Backoff(0.1, 2.0)
_STARTING = "its gateway actor has not answered yet"
# How reasons begin that say little of what happened to an agent, the most generic last.
_GENERIC_REASONS = ("its gateway actor ", "its agent has never connected to this gateway", _STARTING)
_ERRORS: Mapping[int, type[LinkError]] = {DIED: AgentDied, FAULT: AgentFault, MISFIT: AgentMismatch}


class Actor(Protocol):
    """What is asked of an actor (`Exchange`, behind Ray). LinkError: it cannot be reached, or is silent."""

    async def send(self, session: str, batch: bytes) -> None:
        """Take a Batch."""
        ...

    async def collect(self, since: bytes, wait_s: float) -> bytes:
        """A Collected."""
        ...


# (source, target, UID of the source pod) -> why not, else the actor that holds the target, and which life of it
Route = Callable[[str, str, str], tuple[str, str, str]]


class RemoteLine:
    """An agent's connection to an actor."""

    def __init__(self, gateway: "RemoteGateway", boot: str, told: Served) -> None:
        self.boot = boot
        self.number = told.line
        self.since = told.since
        self.until = told.until
        self._gateway = gateway

    @property
    def actor(self) -> str:
        """Whose it is."""
        return self._gateway.name

    async def call(self, call: Call) -> bytes:
        """The answer's bytes. AgentDied: what the agent did is unknown; AgentFault, AgentMismatch."""
        return await self._gateway.call(self, call)


class RemoteGateway:
    """One actor as the dispatcher sees it. `heard` is called when others are connected than before, `route` when it
    asks where a relayed stream goes.
    """

    def __init__(
        self, name: str, actor: Actor, clusters: Iterable[str], heard: Callable[[], None], route: Route
    ) -> None:
        self.name = name
        self._actor = actor
        self._heard = heard
        self._route = route
        self._log = SparingLog(_MOST_LINES)
        self._allowance = Allowance(AT_ONCE, PER_S, _LONGEST_PAUSE_S)
        self._floods = SparingLog()
        self._nobody = dict.fromkeys((Named(cluster, role) for cluster in clusters for role in ROLES), _STARTING)
        self._clusters = frozenset(one.cluster for one in self._nobody)
        self.served: dict[Named, RemoteLine | str] = {**self._nobody}
        self._silence = ""  # why it does not answer
        self._unlisted: frozenset[str] = frozenset()  # clusters that the actor was not told of
        self._known = Since(secrets.token_hex(8))
        self.refused = Counter[str]()  # by cluster, streams refused by all lives of the actor (`StreamLimit.refused`)
        self._refused_before = Counter[str]()  # by those before this one
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._calls: list[Asked] = []
        self._given_up: list[int] = []
        self._replaced: list[int] = []
        self._ways: list[Way] = []
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()

    async def call(self, line: RemoteLine, call: Call) -> bytes:
        """As of RemoteLine."""
        if line.boot != self._known.boot:
            raise AgentDied(f"gateway actor {self.name} has restarted")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._calls.append(Asked(number, line.number, call))
        self._wake(urgent=call.method != CHANGES)
        try:
            body: bytes = await answer
            return body
        finally:
            del self._waiting[number]
            if answer.cancelled():
                self._given_up.append(number)
                self._wake(urgent=False)

    def replace(self, line: int) -> None:
        """Another connection, to another actor, has taken over what this one serves: it is told so, and ends."""
        if len(self._replaced) < MOST_HELD:
            self._replaced.append(line)
            self._wake(urgent=True)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collect(), name=f"{self.name} collects")
            group.create_task(self._send(), name=f"{self.name} sends")

    def _wake(self, *, urgent: bool) -> None:
        self._news.set()
        if urgent:
            self._urgent.set()

    async def _send(self) -> None:
        while True:
            await self._news.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_S):
                    await self._urgent.wait()
            self._news.clear()
            self._urgent.clear()
            ended = (tuple(self._given_up), tuple(self._replaced))
            batch = Batch(self._known.boot, tuple(self._calls), *ended, tuple(self._ways))
            self._calls = []
            self._given_up = []
            self._replaced = []
            self._ways = []
            try:
                await self._actor.send(self._known.session, encode_any(batch))
            except Exception as error:  # as above
                self._fail((asked.number for asked in batch.calls), f"{self.name}: {_said(error)}")

    async def _collect(self) -> None:
        failures = 0
        while True:
            data = b""
            try:
                data = await self._actor.collect(encode_any(self._known), WAIT_S)
                collected = _read(data)
            except Exception as error:  # whatever an actor does, it is asked again
                failures += 1
                self._lost(f"its gateway actor {self.name} does not answer: {_said(error)}")
                await asyncio.sleep(_PAUSES.after(failures))
                await self._slow_down(MESSAGE + len(data) // _KIB)
                continue
            failures = 0
            await self._slow_down(self._take(collected, len(data)))

    async def _slow_down(self, unasked: int) -> None:
        """Wait where the actor tells too much that nobody waits for: a captured one has no more of this process."""
        if pause := self._allowance.take(monotonic(), unasked):
            self._floods.warning(
                "a gateway actor tells much that nobody waits for: it is heard more slowly",
                actor=self.name,
                fix="begin it anew if that lasts, and look at who runs code on its Ray node",
            )
            await asyncio.sleep(pause)

    def _take(self, collected: Collected, size: int = 0) -> int:
        """How much of it, of `size` bytes, nobody waits for (see AT_ONCE)."""
        if collected.boot != self._known.boot:
            self.served = {**self._nobody}
            self._refused_before = self.refused
            self._drop_all(f"gateway actor {self.name} has restarted")
            self._meet(collected)
        elif self._silence:
            self._log.info("gateway actor answers again", actor=self.name)
        self._silence = ""
        self._known = Since(self._known.session, collected.boot, collected.upto, collected.state)
        known = {cluster: number for cluster, number in collected.refused.items() if cluster in self._clusters}
        self.refused = self._refused_before + Counter(known)
        if collected.served is not None:
            self._connected(collected.served)
        awaited = [len(one.body) for one in collected.answers if self._answer(one)]
        rows = len(collected.served or ()) + len(collected.answers) - len(awaited)
        return rows + (size - sum(awaited)) // _KIB + (0 if awaited else MESSAGE)

    def _answer(self, answered: Answered) -> bool:
        """Whether it is to a call that is waited for: not to one given up meanwhile, and no question."""
        if answered.verdict == WAY:
            self._asked_for(answered)
            return False
        future = self._waiting.get(answered.number)
        if future is None or future.done():
            return False
        if answered.verdict == ANSWER:
            future.set_result(answered.body)
        else:
            kind = _ERRORS.get(answered.verdict, AgentFault)
            future.set_exception(kind(answered.body[:_LONGEST_FAILURE].decode("utf-8", "replace")))
        return True

    def _meet(self, actor: Collected) -> None:
        """The first that is heard of a life of the actor."""
        build = shortened(actor.build)
        self._log.info("gateway actor answers", actor=self.name, version=build)
        if actor.passed_over:
            self._log.warning(
                "a gateway actor passes over settings that its version does not know",
                actor=self.name,
                settings=[shortened(one) for one in actor.passed_over[:_MOST_NAMES]],
                version=build,
                dispatcher=version(),
            )

    def _asked_for(self, question: Answered) -> None:
        if len(self._ways) >= MOST_HELD:
            return  # nobody waits for so many: the actor refuses the stream after WAY_S
        try:
            told = decode_way(question.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # of an actor that is out of its mind
            return
        self._ways.append(Way(question.number, *self._route(told.home, told.target, told.pod)))
        self._wake(urgent=True)

    def _connected(self, told: Sequence[Served]) -> None:
        before = {one.number: one for one in self._lines()}
        self.served = {**self._nobody}
        self._note_unlisted({one.cluster for one in told})
        for one in told:
            if (named := Named(one.cluster, one.role)) not in self._nobody:
                continue
            if not one.line:
                self.served[named] = one.reason
                continue
            line = before.get(one.line)
            if line is None:
                line = before[one.line] = RemoteLine(self, self._known.boot, one)
            self.served[named] = line
        self._heard()

    def _note_unlisted(self, listed: Set[str]) -> None:
        """Who made the actor knows other clusters than this dispatcher does."""
        before = self._unlisted
        self._unlisted = frozenset(one.cluster for one in self._nobody) - listed
        why = f"{self.name} was made by a dispatcher that does not list this cluster"
        self.served |= {one: why for one in self._nobody if one.cluster in self._unlisted}
        if self._unlisted - before:
            self._log.warning(
                "a gateway actor was made by a dispatcher that does not list all clusters of this one",
                actor=self.name,
                clusters=sorted(self._unlisted),
                fix="give all dispatchers of a fleet the same clusters, and each fleet a Ray cluster of its own",
            )

    def _lines(self) -> list[RemoteLine]:
        return [one for one in self.served.values() if isinstance(one, RemoteLine)]

    def _lost(self, why: str) -> None:
        """What was under way is unknown, and nobody is known to be connected."""
        if why != self._silence:  # also of one that serves nobody: the others may serve all, so nothing else tells
            self._log.warning("gateway actor does not answer", actor=self.name, problem=why)
        self._silence = why
        self.served = dict.fromkeys(self._nobody, why)
        # Of another session: an answer that did not get through, too large perhaps, must not be sent again for ever.
        self._known = Since(secrets.token_hex(8), self._known.boot)
        self._drop_all(why)

    def _drop_all(self, why: str) -> None:
        """Of another life of the actor, or before it was silent: nothing of it is sent again."""
        self._calls = []
        self._given_up = []
        self._replaced = []
        self._ways = []
        self._fail(list(self._waiting), why)

    def _fail(self, numbers: Iterable[int], why: str) -> None:
        for number in numbers:
            future = self._waiting.get(number)
            if future is not None and not future.done():
                future.set_exception(AgentDied(why))


class GatewaySite:
    """All gateway actors of a fleet."""

    def __init__(self, actors: Mapping[str, Actor], clusters: Iterable[str], sealer: Sealer = NO_SIGNER) -> None:
        """`sealer` signs what goes to executors, in this process: actors carry it."""
        names = tuple(clusters)
        self._sealer = sealer
        self.objection: Objection = lambda home, target, pod: "this dispatcher is starting"  # see RelayLine
        self._gateways = [
            RemoteGateway(name, actor, names, self._settle, self._route) for name, actor in actors.items()
        ]

    def link(self, cluster: str) -> GatewayLink:
        """The dispatcher's way to a cluster's agent."""
        refused = lambda: sum(one.refused[cluster] for one in self._gateways)  # noqa: E731
        return GatewayLink(cluster, lambda role: self._find(Named(cluster, role)), self._sealer, refused)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Follow the actors meanwhile."""
        tasks = [asyncio.create_task(one.run(), name=one.name) for one in self._gateways]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _find(self, named: Named) -> RemoteLine | str:
        found = [one.served[named] for one in self._gateways]
        lines = [one for one in found if isinstance(one, RemoteLine)]
        if lines:
            return max(lines, key=lambda line: line.since)
        return min((one for one in found if isinstance(one, str)), key=_generic_rank, default=_STARTING)

    def _route(self, home: str, target: str, pod: str) -> tuple[str, str, str]:
        if why := self.objection(home, target, pod):
            return why, "", ""
        served = Named(target, EXECUTOR)
        if not any(served in one.served for one in self._gateways):
            return f'cluster "{target}" does not come through this gateway (`via: gateway`)', "", ""
        line = self._find(served)
        if isinstance(line, str):
            return f'cluster "{target}" cannot be reached: {line}', "", ""
        return "", line.actor, line.boot

    def _settle(self) -> None:
        """Connections that nothing goes over any more, as another actor has a later one of their cluster, end."""
        every = {(one, line) for one in self._gateways for line in one.served.values() if isinstance(line, RemoteLine)}
        used = {self._find(named) for one in self._gateways for named in one.served}
        for gateway, line in every:
            if line not in used:
                gateway.replace(line.number)


def _read(data: bytes) -> Collected:
    """AgentDied: it is malformed, or beyond the limits of `batches`."""
    try:
        return decode_collected(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AgentDied(f"what it says is malformed or beyond its limits: {error}") from None


def _said(error: Exception) -> str:
    return str(error)[:_LONGEST_WHY]


def _generic_rank(reason: str) -> int:
    """0: it says what happened to the agent, as the actor does that it came to."""
    return max((rank for rank, begins in enumerate(_GENERIC_REASONS, 1) if reason.startswith(begins)), default=0)
