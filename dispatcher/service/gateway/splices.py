"""Relayed streams between two clusters' connections: the gateway passes bytes, and sees that both
ends keep the window.

It reads nothing of them. Whether a cluster may ask for a delegate the target's agent judges, by the
signature of the source's cluster; here a stream is refused that is between clusters of which no
such pod is known.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import msgspec

from dispatcher.service.gateway.stream_limit import FRAMES_PER_REFUSAL, StreamLimit
from shared.messages.relay import RelayOpen, decode_open, encode_relay
from shared.streams import FrameKind, Message, Priority, ProtocolError
from shared.streams.frames import OPENED_BY_AGENT, RELAYED, STREAM_WINDOW, amount_of
from shared.streams.relayed import MAX_BETWEEN, MAX_STREAMS, priority_of

_NUMBERS = 0x3FFF_FFFF
# messages that wait before the dispatcher's orders; beyond, nothing is added for other clusters
MAX_URGENT = 256
# as agents grant; many small ones would slow the other end's reading
_LEAST_GRANT = STREAM_WINDOW // 2
_LONGEST_REASON = 1024
_TOO_MANY = "too many streams at once"
# (source, target, UID of the source pod) -> why nothing is relayed, '' if it is
Objection = Callable[[str, str, str], str]


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
    """One end of a relayed stream: `line` and `number` are where messages to it go."""

    line: "RelayLine"
    number: int
    between: frozenset[str]  # the two clusters
    not_granted: int = 0  # bytes that were sent to it, and that it has not granted anew
    finished: bool = False  # it has said that it sends no more
    other: "End" = field(init=False)

    def send(self, kind: FrameKind, body: bytes) -> None:
        """Pass a message on."""
        if kind is FrameKind.RESET:
            self.line.connection.drop(self.number)
        self.line.connection.send(Message(kind, self.number, body), priority_of(kind))


class RelayLine:
    """The relayed streams of one cluster's connection. `find` gives that of another cluster, or why
    there is none.
    """

    def __init__(
        self,
        cluster: str,
        connection: Sending,
        find: "Callable[[str], RelayLine | str]",
        objection: Objection,
    ) -> None:
        self.cluster = cluster
        self.connection = connection
        self._find = find
        self._objection = objection
        self.limit: StreamLimit | None = None
        self._ends: dict[int, End] = {}
        self._numbers = count()

    def take(self, message: Message) -> None:
        """A message of this connection. ProtocolError: it must end."""
        kind, number, body = message
        end = self._ends.get(number)
        if kind is FrameKind.OPEN:
            if end is not None or not number & OPENED_BY_AGENT:
                raise ProtocolError("a relayed stream was opened twice, or under a number of ours")
            self._open(number, body)
        elif end is not None:
            self._pass_on(end, kind, body)
        elif kind is FrameKind.DATA:
            self._refuse(number, "no such stream")

    def _refuse(self, number: int, why: str) -> None:
        if self.connection.urgent >= MAX_URGENT:
            raise ProtocolError(f"{MAX_URGENT} answers wait that its agent does not read")
        self.connection.send(
            Message(FrameKind.RESET, number, why.encode()), priority_of(FrameKind.RESET)
        )

    def close(self, why: str) -> None:
        """The connection has ended: so have all its streams, at their other ends."""
        for end in list(self._ends.values()):
            end.other.send(FrameKind.RESET, why.encode())
            _forget(end)

    def _open(self, number: int, body: bytes) -> None:
        try:
            wanted = decode_open(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"a relayed stream that cannot be read: {error}") from None
        if self.limit is not None and (why := self.limit.admit(self.cluster)):
            self.connection.charge(FRAMES_PER_REFUSAL)
            self._refuse(number, why)
        else:
            self._splice(number, wanted)

    def _way(self, wanted: RelayOpen) -> "RelayLine | str":
        line = self._find(wanted.cluster)
        if isinstance(line, str):
            return f'cluster "{wanted.cluster}" cannot be reached: {line}'
        return (
            self._objection(self.cluster, wanted.cluster, wanted.pod)
            or self._excess(wanted.cluster, line)
            or line
        )

    def _splice(self, number: int, wanted: RelayOpen) -> None:
        """Join a stream to the cluster that it is for, or refuse it."""
        line = self._way(wanted)
        if isinstance(line, str):
            self._refuse(number, line)
            return
        between = frozenset((self.cluster, wanted.cluster))
        near = End(self, number, between)
        far = End(line, line.free_number(), between)
        near.other = far
        far.other = near
        self._ends[number], line._ends[far.number] = near, far
        far.send(FrameKind.OPEN, encode_relay(RelayOpen(self.cluster, wanted.pod)))

    def _excess(self, target: str, line: "RelayLine") -> str:
        """What of it would be too much; '' if nothing is."""
        if max(len(self._ends), len(line._ends)) >= MAX_STREAMS:
            return _TOO_MANY
        between = frozenset((self.cluster, target))
        if sum(1 for end in line._ends.values() if end.between == between) >= MAX_BETWEEN:
            return f"{_TOO_MANY} between {self.cluster} and {target}"
        return "its connection is too slow just now" if line.connection.urgent >= MAX_URGENT else ""

    def free_number(self) -> int:
        """Of a stream that we open."""
        return RELAYED | (next(self._numbers) & _NUMBERS)

    def _pass_on(self, end: End, kind: FrameKind, body: bytes) -> None:
        other = end.other
        if kind is FrameKind.DATA:
            other.not_granted += len(body)
        elif kind is FrameKind.GRANT:
            end.not_granted -= amount_of(body)
        else:
            body = body[:_LONGEST_REASON]
        if breach := _breach(end, kind, body):
            other.send(FrameKind.RESET, b"the other side broke the rules of relayed streams")
            _forget(end)
            raise ProtocolError(f"relayed stream {end.number} of cluster {self.cluster}: {breach}")
        other.send(kind, body)
        end.finished = end.finished or kind is FrameKind.FINISH
        if kind is FrameKind.RESET or (end.finished and other.finished):
            _forget(end)


def _breach(sender: End, kind: FrameKind, body: bytes) -> str:
    """Which rule a message breaks that was just counted; '' if none."""
    if sender.finished and kind in (FrameKind.DATA, FrameKind.FINISH):
        return f"{kind.name} came after its end"
    if kind is FrameKind.DATA and not body:
        return "DATA without a byte"
    if kind is FrameKind.GRANT and amount_of(body) < _LEAST_GRANT:
        return f"a GRANT of {amount_of(body)} bytes, and {_LEAST_GRANT} is the least"
    if sender.not_granted < 0:
        return f"{-sender.not_granted} bytes more were granted than were sent to it"
    over = sender.other.not_granted - STREAM_WINDOW
    return f"{over} bytes more were sent over it than were granted" if over > 0 else ""


def _forget(end: End) -> None:
    for one in (end, end.other):
        one.line._ends.pop(one.number, None)
