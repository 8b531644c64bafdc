"""Relayed streams between two gateway actors: the clusters of a stream need not be connected to the same one.

A *link* carries the streams that one actor has opened towards another: a RelayLine at either end, whose messages cross
in numbered batches. One batch of a link is under way at a time and each way, so they arrive in order, and a full one
holds up the next. What of a batch is lost is lost for good: the link ends at both ends, and its streams are reset.

Example: gateway-0 opens a link to gateway-1 for a log of west that east asks for. Batch 0 has the OPEN; gateway-1 makes
its end, asks a dispatcher itself whether there is such a pod, and sends the challenge of west in batch 0 of its own.
gateway-1 is killed: the next batch of gateway-0, an empty one after KEEP_S at the latest, is answered with False by its
next life, and east is told that the stream has ended.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic

import msgspec

from dispatcher.service.gateway.batches import Passed, RelayWay, decode_passed, decode_way, encode_any
from dispatcher.service.gateway.sparing_log import SparingLog, shortened
from dispatcher.service.gateway.splices import RelayLine, Route
from shared.messages.relay import RelayOpen
from shared.streams import Kind, Message, Priority, ProtocolError
from shared.streams.frames import CHUNK, OPENED_BY_AGENT, RELAY_KINDS

KEEP_S = 5.0  # an empty batch after so long, while there are streams
SILENT_S = 5.0  # for the other actor to take a batch
IDLE_S = 60.0  # without streams: the link ends; its other end waits longer, so that it is not the first
MOST_BYTES = 2**20  # of a batch, unless one message is longer
MOST_MESSAGES = 4096  # of a batch; MAX_ROWS are taken
LONGEST = 2 * MOST_BYTES  # of a batch that is taken, as it is encoded
MAX_STREAMS = 4096  # of a link
MAX_LINKS = 128  # that others have begun; beyond, the oldest one without streams ends
_LOST = "the gateway actor of the other cluster has ended, or is cut off"

PassOn = Callable[[str, bytes], Awaitable[bool]]  # a Passed to the actor of this name; False: it knows no such link


class _Queue:
    """What waits to cross."""

    urgent = 0  # each stream is bounded by its window

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._waiting: deque[Message] = deque()

    def send(self, message: Message, priority: Priority) -> None:
        """Queue a message."""
        self._waiting.append(message)
        self.news.set()

    def drop(self, stream: int) -> bool:
        """Send nothing more of a stream that the other end knows; whether something was left."""
        left = [one for one in self._waiting if one.stream != stream or one.kind is Kind.OPEN]
        dropped = len(left) < len(self._waiting)
        self._waiting = deque(left)
        return dropped

    def charge(self, frames: int) -> None:
        """Nothing: the other actor limits its own agents."""

    def take(self) -> tuple[tuple[int, int, bytes], ...]:
        """The next batch."""
        found = list[tuple[int, int, bytes]]()
        size = 0
        while self._waiting and size < MOST_BYTES and len(found) < MOST_MESSAGES:
            kind, stream, body = self._waiting.popleft()
            found.append((int(kind), stream, body))
            size += len(body)
        if not self._waiting:
            self.news.clear()
        return tuple(found)


class _PeerLine(RelayLine):
    """The streams of a link. An OPEN says which clusters a stream is between."""

    most = MAX_STREAMS

    def free_number(self) -> int:
        """Of a stream that we open."""
        return super().free_number() | OPENED_BY_AGENT

    def opening(self, home: str, wanted: RelayOpen) -> bytes:
        """As of RelayLine."""
        return encode_any(RelayWay(home, wanted.cluster, wanted.pod))

    def _wanted(self, body: bytes) -> tuple[str, RelayOpen]:
        told = decode_way(body)
        return told.home, RelayOpen(told.target, told.pod)


class _Link:
    """One end of a link."""

    def __init__(self, token: str, peer: str, peer_boot: str, opens: bool, route: Route) -> None:
        self.token = token
        self.peer = peer
        self.peer_boot = peer_boot
        self.opens = opens
        self.queue = _Queue()
        self.line = _PeerLine(peer, self.queue, lambda cluster: _LOST, lambda *_: _LOST, route)
        self.taken = 0  # batches
        self.sending: asyncio.Task[None] | None = None


class Peers:
    """The links of one actor. `route` is asked for streams that another actor opens here."""

    def __init__(self, name: str, boot: str, pass_on: PassOn, route: Route) -> None:
        self._name = name
        self._boot = boot
        self._pass_on = pass_on
        self._route = route
        self._links: dict[tuple[str, bool], _Link] = {}
        self._log = SparingLog()

    def to(self, peer: str, boot: str) -> RelayLine:
        """Where streams go that are for a cluster at this life of another actor."""
        for link in self._links.values():
            if link.opens and (link.peer, link.peer_boot) == (peer, boot):
                return link.line
        return self._begin(_Link(secrets.token_hex(8), peer, boot, True, self._route)).line

    async def take(self, data: bytes) -> bool:
        """A Passed of another actor; False: its link is not there any more, or it says more than it may."""
        try:
            passed = _read(data)
        except ValueError as error:
            return self._refuse(str(error))
        if passed.to_boot != self._boot:
            return False
        link = self._links.get((passed.link, not passed.opens))
        if link is None:
            if not passed.opens or passed.number:
                return False
            if not self._makes_room():
                return self._refuse(f"others have begun {MAX_LINKS} links, all of them with streams")
            link = self._begin(_Link(passed.link, passed.sender, passed.boot, False, self._route))
        try:
            if passed.number != link.taken:
                raise ProtocolError("a batch is missing")
            link.taken += 1
            for kind, stream, body in passed.messages:
                if kind not in RELAY_KINDS or len(body) > CHUNK:
                    raise ProtocolError("what is no message of a relayed stream")
                link.line.take(Message(Kind(kind), stream, body))
        except ProtocolError:
            self._end(link)
            return False
        return True

    def _refuse(self, why: str) -> bool:
        self._log.warning("what another gateway actor passes on is refused", problem=shortened(why))
        return False

    def _makes_room(self) -> bool:
        """Whether another may begin a link: of those that others have begun, one without streams may have to end."""
        begun = [link for link in self._links.values() if not link.opens]
        idle = next((link for link in begun if link.line.idle), None)
        if len(begun) >= MAX_LINKS and idle is not None:
            self._end(idle)
        return len(begun) < MAX_LINKS or idle is not None

    def close(self) -> None:
        """End all."""
        for link in list(self._links.values()):
            self._end(link)

    def _begin(self, link: _Link) -> _Link:
        self._links[link.token, link.opens] = link
        link.sending = asyncio.create_task(self._send(link), name=f"relayed streams with {link.peer}")
        return link

    def _end(self, link: _Link) -> None:
        self._links.pop((link.token, link.opens), None)
        link.line.close(_LOST)
        if link.sending is not None and link.sending is not asyncio.current_task():
            link.sending.cancel()

    async def _send(self, link: _Link) -> None:
        used = monotonic()
        number = 0
        idle_s = IDLE_S if link.opens else 2 * IDLE_S
        while not link.line.idle or link.queue.news.is_set() or monotonic() - used < idle_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_S):
                    await link.queue.news.wait()
            messages = link.queue.take()
            if not messages and link.line.idle:
                continue
            used = monotonic()
            passed = Passed(self._name, self._boot, link.peer_boot, link.token, link.opens, number, messages)
            number += 1
            try:
                async with asyncio.timeout(SILENT_S):
                    known = await self._pass_on(link.peer, encode_any(passed))
            except Exception:  # whatever the way to an actor does: the streams end, and are opened anew
                known = False
            if not known:
                break
        self._end(link)


def _read(data: bytes) -> Passed:
    """ValueError: it is malformed, or beyond the limits of `batches`."""
    if len(data) > LONGEST:
        raise ValueError(f"a batch of {len(data)} bytes: {LONGEST} are taken at most")
    try:
        return decode_passed(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"it is malformed or beyond its limits: {error}") from None
