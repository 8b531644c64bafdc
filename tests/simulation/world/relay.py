"""The way between two agents: relayed streams, over which one asks the other for objects that follow pods.

Both ends are the product's. Here are the gateways between, one for each dispatcher that is there, and what becomes of
frames on their way; they hear what is given to whom.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from agents.runtime.relay.far_end import FarEnd
from shared.messages.relay import CONTENT, Given, RelayAsk, decode_given, decode_open, decode_signed_given
from shared.streams import FrameKind, Message
from shared.streams.relayed import Stream, StreamReset
from tests.simulation.world.loop import ORDERS, PROCESS, Process, VirtualLoop
from tests.simulation.world.processes import AgentProcess, LinkWeather

_NUMBER = 1  # of each stream: it has a connection of its own
LOST = "the connection is lost"
ASKER: ContextVar[str] = ContextVar("ASKER")  # whose stream is served
_LATEST = 20  # questions that who passes them on has kept


class Gave(NamedTuple):
    """An object whose content one cluster has given to another, whatever that says its name is."""

    at: float
    giver: str
    asker: str
    namespace: str
    kind: str
    name: str
    content: bytes


class Relays:
    """All gateways. `weather`: of a dispatcher's link to a cluster; `gateways`: names of dispatchers that are there;
    `crossed`: told of what they pass on; `between`: what they make of DATA.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        dice: random.Random,
        members: dict[str, AgentProcess],
        weather: Callable[[str, str], LinkWeather],
        gateways: Callable[[], Iterator[str]],
        gave: Callable[[Gave], None],
        crossed: Callable[[bytes], None],
    ) -> None:
        self.loop, self.dice, self.members, self.weather = loop, dice, members, weather
        self.gateways, self.gave, self.crossed = gateways, gave, crossed
        self.questions: deque[tuple[str, bytes]] = deque(maxlen=_LATEST)  # and whom they went to
        self.between: Callable[[bytes], bytes] = lambda body: body
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, asker: AgentProcess) -> Callable[[bytes], Iterator[Stream]]:
        """Streams of one agent to others, over one gateway after the other."""
        process = asker.process

        def streams(opening: bytes) -> Iterator[Stream]:
            wanted = decode_open(opening).cluster
            for gateway in self.gateways():
                asked = self.members.get(wanted)
                if asked is not None and asked.reached(self.dice, by_orders=False).agent is not None:
                    yield self._stream(gateway, asker, process, wanted, opening)

        return streams

    def _stream(self, gateway: str, asker: AgentProcess, process: Process, wanted: str, opening: bytes) -> Stream:
        asked = self.members[wanted].reached(self.dice, by_orders=False)
        way = _Way(self, gateway, (asker.settings.cluster, process), (wanted, asked.process))
        agent = asked.agent
        assert agent is not None
        far_end = self._overheard(wanted, agent.far_end)
        by = asker.settings.cluster
        way.later(0, lambda: self._spawn(asked.process, by, _served(far_end.serve(way.ends[1], opening))))
        return way.ends[0]

    def _overheard(self, giver: str, far_end: FarEnd) -> FarEnd:
        """The same; what it gives is noted before it is sealed."""
        given_to = far_end._given_to

        async def noted(ask: RelayAsk, body: bytes) -> bytes:
            answer = await given_to(ask, body)
            self._note(giver, ask, decode_given(decode_signed_given(answer).given).given)
            return answer

        vars(far_end).setdefault("_given_to", noted)
        return far_end

    def _note(self, giver: str, ask: RelayAsk, rows: tuple[Given, ...]) -> None:
        objects = [(wants.pod.namespace, one) for wants in ask.wants for one in wants.objects]
        for (namespace, wanted), row in zip(objects, rows, strict=True):
            if row.state == CONTENT:
                of = (namespace, wanted.kind, wanted.name)
                self.gave(Gave(self.loop.time(), giver, ASKER.get(), *of, row.content))

    def _spawn(self, process: Process, asker: str, work: Coroutine[Any, Any, None]) -> None:
        context = self.loop.outside.copy()
        context.run(PROCESS.set, process)
        context.run(ASKER.set, asker)
        context.run(ORDERS.set, "")
        task = self.loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _served(work: Coroutine[Any, Any, None]) -> None:
    with suppress(StreamReset):
        await work


class _Way:
    """One stream: its ends, that of the asker first, and the frames between, which come in order or not at all."""

    def __init__(self, relays: Relays, gateway: str, asker: tuple[str, Process], asked: tuple[str, Process]) -> None:
        self.relays, self.names = relays, (asker[0], asked[0])
        self.processes = (asker[1], asked[1])
        self.weathers = [relays.weather(gateway, name) for name in self.names]
        self.ends = (Stream(partial(self._send, 1)), Stream(partial(self._send, 0)))
        self._due = [0.0, 0.0]

    def _send(self, to: int, kind: FrameKind, body: bytes) -> None:
        if kind is FrameKind.DATA:
            self.relays.crossed(body)
            if to == 1:
                self.relays.questions.append((self.names[1], body))
            body = self.relays.between(body)
        dice = self.relays.dice
        lost = any(one.lose and dice.random() < one.lose for one in self.weathers)
        if lost:
            self._later(0.0, self._lost)
        else:
            self.later(to, partial(self._arrive, to, Message(kind, _NUMBER, body)))

    def later(self, to: int, call: Callable[[], object]) -> None:
        """When what is sent now is there; never, where a way is cut."""
        if any(one.cut_there or one.cut_back or one.relay_cut for one in self.weathers):
            return
        late_s = sum(max(one.late_s, one.relay_late_s) for one in self.weathers)
        now = self.relays.loop.time()
        self._due[to] = max(self._due[to], now + self.relays.dice.random() * late_s)
        self._later(self._due[to] - now, call)

    def _later(self, seconds: float, call: Callable[[], object]) -> None:
        self.relays.loop.call_later(seconds, call, context=self.relays.loop.outside)

    def _arrive(self, to: int, message: Message) -> None:
        if self.processes[to].alive:
            self.ends[to].take(message)
        else:
            self._lost()

    def _lost(self) -> None:
        for end in self.ends:
            end.end(LOST)
