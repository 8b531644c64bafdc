"""Relayed streams between two clusters' connections: the gateway passes bytes, and sees that both ends keep the window.

It reads nothing of them. Whether a cluster may ask for a delegate the target's agent judges, by the signature of the
source's cluster; here a stream is refused that is between clusters of which no such pod is known.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import msgspec

from agents.runtime.outbound.connection import Connection
from agents.runtime.outbound.relayed import MAX_BETWEEN, MAX_STREAMS, priority_of
from dispatcher.model.messages.relay import decode_open, encode_relay
from dispatcher.model.streams import Kind, Message, ProtocolError
from dispatcher.model.streams.frames import OPENED_BY_AGENT, RELAYED, STREAM_WINDOW, amount_of

_NUMBERS = 0x3FFF_FFFF
MAX_URGENT = 256  # messages that wait before the dispatcher's orders; beyond, nothing is added for other clusters
_LEAST_GRANT = STREAM_WINDOW // 2  # as agents grant; many small ones would slow the other end's reading
_LONGEST_REASON = 1024
# (source, target, UID of the source pod) -> why nothing is relayed, '' if it is
Objection = Callable[[str, str, str], str]


@dataclass(slots=True, eq=False)
class End:
    """One end of a relayed stream: `line` and `number` are where messages to it go; `on_the_way` are bytes of DATA that
    were sent to it and that it has not granted anew.
    """

    line: "RelayLine"
    number: int
    on_the_way: int = 0
    finished: bool = False  # it has said that it sends no more
    other: "End" = field(init=False)

    def send(self, kind: Kind, body: bytes) -> None:
        """Pass a message on."""
        if kind is Kind.RESET:
            self.line.connection.drop(self.number)
        self.line.connection.send(Message(kind, self.number, body), priority_of(kind))


class RelayLine:
    """The relayed streams of one cluster's connection. `find` gives that of another cluster, or why there is none."""

    def __init__(
        self, cluster: str, connection: Connection, find: "Callable[[str], RelayLine | str]", objection: Objection
    ) -> None:
        self.cluster, self.connection = cluster, connection
        self._find, self._objection = find, objection
        self._ends: dict[int, End] = {}
        self._numbers = count()

    def take(self, message: Message) -> None:
        """A message of this connection. ProtocolError: it must end."""
        kind, number, body = message
        end = self._ends.get(number)
        if kind is Kind.OPEN:
            if end is not None or not number & OPENED_BY_AGENT:
                raise ProtocolError("a relayed stream was opened twice, or under a number of ours")
            if why := self._opened(number, body):
                self._refuse(number, why)
        elif end is not None:
            self._pass_on(end, kind, body)
        elif kind is Kind.DATA:
            self._refuse(number, "no such stream")

    def _refuse(self, number: int, why: str) -> None:
        if self.connection.urgent >= MAX_URGENT:
            raise ProtocolError(f"{MAX_URGENT} answers wait that its agent does not read")
        self.connection.send(Message(Kind.RESET, number, why.encode()), priority_of(Kind.RESET))

    def close(self, why: str) -> None:
        """The connection has ended: so have all its streams, at their other ends."""
        for end in list(self._ends.values()):
            end.other.send(Kind.RESET, why.encode())
            _forget(end)

    def _opened(self, number: int, body: bytes) -> str:
        """Splice a stream to the cluster that it is for; why not, else ''."""
        try:
            wanted = decode_open(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"a relayed stream that cannot be read: {error}") from None
        line = self._find(wanted.cluster)
        if isinstance(line, str):
            return f'cluster "{wanted.cluster}" cannot be reached: {line}'
        if why := self._objection(self.cluster, wanted.cluster, wanted.pod):
            return why
        if max(len(self._ends), len(line._ends)) >= MAX_STREAMS:
            return "too many streams at once"
        if sum(1 for end in line._ends.values() if end.other.line is self) >= MAX_BETWEEN:
            return f"too many streams at once between {self.cluster} and {wanted.cluster}"
        if line.connection.urgent >= MAX_URGENT:
            return "its connection is too slow just now"
        near, far = End(self, number), End(line, line.free_number())
        near.other, far.other = far, near
        self._ends[number], line._ends[far.number] = near, far
        far.send(Kind.OPEN, encode_relay(msgspec.structs.replace(wanted, cluster=self.cluster)))
        return ""

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
