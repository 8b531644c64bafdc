"""Relayed streams between two clusters' connections: the gateway passes bytes, and sees that both ends keep the window.

It reads nothing of them. Whether a cluster may ask for a delegate the target's agent judges, by the signature of the
source's cluster; here a stream is refused that is between clusters of which no such pod is known.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import msgspec

from dispatcher.service.gateway.stream_limit import FRAMES_PER_REFUSAL, StreamLimit
from shared.messages.relay import RelayOpen, decode_open, encode_relay
from shared.streams import Kind, Message, Priority, ProtocolError
from shared.streams.frames import OPENED_BY_AGENT, RELAYED, STREAM_WINDOW, amount_of
from shared.streams.relayed import MAX_BETWEEN, MAX_STREAMS, priority_of

_NUMBERS = 0x3FFF_FFFF
MAX_URGENT = 256  # messages that wait before the dispatcher's orders; beyond, nothing is added for other clusters
_LEAST_GRANT = STREAM_WINDOW // 2  # as agents grant; many small ones would slow the other end's reading
_LONGEST_REASON = 1024
_TOO_MANY = "too many streams at once"
# (source, target, UID of the source pod) -> why nothing is relayed, '' if it is
Objection = Callable[[str, str, str], str]
# The same, where others have to be asked: the line that leads to the target, or why nothing is relayed.
Route = Callable[[RelayOpen, str], Awaitable["RelayLine | str"]]


class Sending(Protocol):
    """What is needed of a connection (`Connection`)."""

    @property
    def urgent(self) -> int:
        """As of Multiplexer."""
        ...

    def send(self, message: Message, priority: Priority) -> None:
        """Queue a message."""
        ...

    def drop(self, stream: int) -> bool:
        """Send nothing more of a stream; whether something was left."""
        ...

    def charge(self, frames: int) -> None:
        """As of Connection."""
        ...


@dataclass(slots=True, eq=False)
class End:
    """One end of a relayed stream: `line` and `number` are where messages to it go; `on_the_way` are bytes of DATA that
    were sent to it and that it has not granted anew.
    """

    line: "RelayLine"
    number: int
    between: frozenset[str]  # the two clusters
    on_the_way: int = 0
    finished: bool = False  # it has said that it sends no more
    other: "End" = field(init=False)

    def send(self, kind: Kind, body: bytes) -> None:
        """Pass a message on."""
        if kind is Kind.RESET:
            self.line.connection.drop(self.number)
        self.line.connection.send(Message(kind, self.number, body), priority_of(kind))


class RelayLine:
    """The relayed streams of one cluster's connection. `find` gives that of another cluster, or why there is none;
    `route`, where there is one, is asked instead of it and of `objection`.
    """

    most = MAX_STREAMS

    def __init__(
        self,
        cluster: str,
        connection: Sending,
        find: "Callable[[str], RelayLine | str]",
        objection: Objection,
        route: Route | None = None,
    ) -> None:
        self.cluster = cluster
        self.connection = connection
        self._find = find
        self._objection = objection
        self._route = route
        self.limit: StreamLimit | None = None  # None between actors: each limits its own agents
        self._ends: dict[int, End] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}  # streams of which the way is being asked for
        self._numbers = count()

    @property
    def idle(self) -> bool:
        """Whether there are no streams."""
        return not self._ends and not self._asking

    def take(self, message: Message) -> None:
        """A message of this connection. ProtocolError: it must end."""
        kind, number, body = message
        end = self._ends.get(number)
        if kind is Kind.OPEN:
            if end is not None or number in self._asking or not number & OPENED_BY_AGENT:
                raise ProtocolError("a relayed stream was opened twice, or under a number of ours")
            self._open(number, body)
        elif end is not None:
            self._pass_on(end, kind, body)
        elif (asking := self._asking.pop(number, None)) is not None:
            asking.cancel()
            if kind is not Kind.RESET:
                self._refuse(number, "it was used before the other end had answered")
        elif kind is Kind.DATA:
            self._refuse(number, "no such stream")

    def _refuse(self, number: int, why: str) -> None:
        if self.connection.urgent >= MAX_URGENT:
            raise ProtocolError(f"{MAX_URGENT} answers wait that its agent does not read")
        self.connection.send(Message(Kind.RESET, number, why.encode()), priority_of(Kind.RESET))

    def close(self, why: str) -> None:
        """The connection has ended: so have all its streams, at their other ends."""
        for asking in self._asking.values():
            asking.cancel()
        self._asking.clear()
        for end in list(self._ends.values()):
            end.other.send(Kind.RESET, why.encode())
            _forget(end)

    def _open(self, number: int, body: bytes) -> None:
        try:
            home, wanted = self._wanted(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"a relayed stream that cannot be read: {error}") from None
        if self.limit is not None and (why := self.limit.admit(self.cluster)):
            self.connection.charge(FRAMES_PER_REFUSAL)
            self._refuse(number, why)
        elif self._route is None:
            self._splice(number, home, wanted, self._way(home, wanted))
        elif len(self._asking) + len(self._ends) >= self.most:
            self._refuse(number, _TOO_MANY)
        else:
            asked = self._ask(self._route, number, home, wanted)
            self._asking[number] = asyncio.create_task(asked, name="way of a relayed stream")

    async def _ask(self, route: Route, number: int, home: str, wanted: RelayOpen) -> None:
        line = await route(wanted, home)
        if self._asking.pop(number, None) is not None:
            with suppress(ProtocolError):  # who reads no answers is cut with the next message
                self._splice(number, home, wanted, line)

    def _way(self, home: str, wanted: RelayOpen) -> "RelayLine | str":
        line = self._find(wanted.cluster)
        if isinstance(line, str):
            return f'cluster "{wanted.cluster}" cannot be reached: {line}'
        return self._objection(home, wanted.cluster, wanted.pod) or line

    def _splice(self, number: int, home: str, wanted: RelayOpen, line: "RelayLine | str") -> None:
        """Join a stream to the cluster that it is for, over `line`; where that is a reason, refuse it."""
        if isinstance(line, str):
            self._refuse(number, line)
            return
        if why := self._excess(home, wanted.cluster, line):
            self._refuse(number, why)
            return
        between = frozenset((home, wanted.cluster))
        near = End(self, number, between)
        far = End(line, line.free_number(), between)
        near.other = far
        far.other = near
        self._ends[number], line._ends[far.number] = near, far
        far.send(Kind.OPEN, line.opening(home, wanted))

    def _excess(self, home: str, target: str, line: "RelayLine") -> str:
        """What of it would be too much; '' if nothing is."""
        if len(self._ends) >= self.most or len(line._ends) >= line.most:
            return _TOO_MANY
        between = frozenset((home, target))
        if sum(1 for end in line._ends.values() if end.between == between) >= MAX_BETWEEN:
            return f"{_TOO_MANY} between {home} and {target}"
        return "its connection is too slow just now" if line.connection.urgent >= MAX_URGENT else ""

    def _wanted(self, body: bytes) -> tuple[str, RelayOpen]:
        """By which cluster what is wanted; msgspec.MsgspecError."""
        return self.cluster, decode_open(body)

    def opening(self, home: str, wanted: RelayOpen) -> bytes:
        """How the other end of this line is told of a stream."""
        return encode_relay(RelayOpen(home, wanted.pod))

    def free_number(self) -> int:
        """Of a stream that we open."""
        return RELAYED | (next(self._numbers) & _NUMBERS)

    def _pass_on(self, end: End, kind: Kind, body: bytes) -> None:
        other = end.other
        idle = kind is Kind.DATA and not body
        if kind is Kind.DATA:
            other.on_the_way += len(body)
        elif kind is Kind.GRANT:
            end.on_the_way -= amount_of(body)
            idle = amount_of(body) < _LEAST_GRANT
        else:
            body = body[:_LONGEST_REASON]
        after_the_end = end.finished and kind in (Kind.DATA, Kind.FINISH)
        if idle or after_the_end or end.on_the_way < 0 or other.on_the_way > STREAM_WINDOW:
            other.send(Kind.RESET, b"the other side broke the rules of relayed streams")
            _forget(end)
            raise ProtocolError("more came over a relayed stream than was granted, or nothing at all")
        other.send(kind, body)
        end.finished = end.finished or kind is Kind.FINISH
        if kind is Kind.RESET or (end.finished and other.finished):
            _forget(end)


def _forget(end: End) -> None:
    for one in (end, end.other):
        one.line._ends.pop(one.number, None)
