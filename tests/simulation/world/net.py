"""The way between an agent and its API server, and what happens to requests, replies and watches on it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulation.world.apiserver import ApiServer, status
from tests.simulation.world.loop import ORDERS, PROCESS, VirtualLoop
from tests.simulation.world.objects import place_of
from tests.simulation.world.store import Backup, Write

REFUSED, TIMEOUT, RESET = "connection refused", "timeout", "connection reset by peer"
HANGS_S = 5.0  # after which a call that nobody has answered counts as one that hangs
_BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}\n'
_GONE = (
    b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}\n'
)


class Asked(Protocol):
    """A request, as the product makes them."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def content_type(self) -> str: ...
    @property
    def params(self) -> dict[str, str]: ...


@dataclass
class Weather:
    """What goes wrong on the way now. Shares are of requests; seconds."""

    down: bool = False  # nobody listens
    cut_there: bool = False  # requests vanish
    cut_back: bool = False  # replies vanish
    lose_requests: float = 0.0
    lose_replies: float = 0.0
    answers: dict[int, float] = field(default_factory=dict)  # HTTP status -> share of requests refused with it
    failing: dict[int, float] = field(default_factory=dict)  # HTTP status -> share of writes done and answered with it
    conflicts: float = 0.0  # of patches that somebody else's came before
    late_s: float = 0.01  # longest way, one direction
    watch_late_s: float = 0.0  # how long events are under way
    frozen: bool = False  # half-open: watches stand still, calls go through
    lagging: bool = False  # a frontend whose cache stands still answers reads that allow any version


# (moment, request, actor) -> what to do: "", "lose", "reset", or an HTTP status to answer with
Tap = Callable[[str, Asked, str], str]


class Wire:
    """One agent's connections to one API server. `hang` says how long a webhook holds a request up, seconds."""

    def __init__(self, server: ApiServer, loop: VirtualLoop, dice: random.Random) -> None:
        self.server, self.loop, self.dice = server, loop, dice
        self.weather = Weather()
        self.hang: Callable[[Asked], float] = lambda _: 0.0
        self.tap: Tap = lambda *_: ""
        self.streams: list[Stream] = []
        self._asked: dict[asyncio.Future[tuple[int, bytes]], float] = {}  # calls under way, since when
        self._still: Backup | None = None  # what a lagging frontend shows
        self._back_at = float("-inf")  # when a server that starts anew listens again
        server.store.told.append(self._told)

    # --- calls -------------------------------------------------------------------------------------------------------

    async def call(self, request: Asked, timeout_s: float) -> tuple[int, bytes]:
        """One call; status 0 when no answer came. What was sent is done even if the sender dies meanwhile."""
        actor = f"{PROCESS.get().name} {ORDERS.get()}".rstrip()
        told: asyncio.Future[tuple[int, bytes]] = self.loop.create_future()
        timeout = self._later(timeout_s, _tell, told, (0, TIMEOUT.encode()))
        weather, dice = self.weather, self.dice
        if weather.down or self._stopped:
            self._later(self._way(), _tell, told, (0, REFUSED.encode()))
        elif not weather.cut_there and not (weather.lose_requests and dice.random() < weather.lose_requests):
            action = self.tap("before", request, actor) if request.method != "GET" else ""
            if action.isdigit():
                self._later(self._way(), self._reply, told, _injected(int(action)))
            elif action != "lose":
                self._later(self._way() + self.hang(request), self._arrive, request, actor, told)
        self._asked[told] = self.loop.time()
        try:
            return await told
        finally:
            timeout.cancel()
            del self._asked[told]

    @property
    def hangs(self) -> bool:
        """Whether somebody waits for an answer that was lost: until its own time is over, however well all is now."""
        return any(self.loop.time() - since > HANGS_S for since in self._asked.values())

    def _arrive(self, request: Asked, actor: str, told: "asyncio.Future[tuple[int, bytes]]") -> None:
        weather = self.weather
        if weather.down or self._stopped:
            return
        codes = [code for code, share in weather.answers.items() if self.dice.random() < share]
        if request.method == "PATCH" and weather.conflicts and self.dice.random() < weather.conflicts:
            codes.append(409)
        if codes:
            self._reply(told, _injected(codes[0]))
            return
        reply = self._do(request, actor)
        action = self.tap("after", request, actor) if request.method != "GET" else ""
        failing = weather.failing if request.method != "GET" else {}
        action = next((str(code) for code, share in failing.items() if self.dice.random() < share), action)
        if action == "reset":
            self._later(self._way(), _tell, told, (0, RESET.encode()))
        elif action != "lose":
            self._reply(told, _injected(int(action)) if action.isdigit() else reply)

    def _do(self, request: Asked, actor: str) -> tuple[int, bytes]:
        if self.weather.lagging and self._still is not None and request.params.get("resourceVersion") == "0":
            return 200, self.server.list_of(self._still, request.path)
        limit = int(request.params.get("limit", 0))
        return self.server.handle(actor, request.method, request.path, request.body, request.content_type, limit=limit)

    def _reply(self, told: "asyncio.Future[tuple[int, bytes]]", reply: tuple[int, bytes]) -> None:
        weather = self.weather
        if weather.cut_back or weather.down or (weather.lose_replies and self.dice.random() < weather.lose_replies):
            return
        self._later(self._way(), _tell, told, reply)

    def _way(self) -> float:
        return self.dice.random() * self.weather.late_s

    def _later(self, after_s: float, call: Callable[..., None], *args: Any) -> asyncio.Handle:
        return self.loop.call_later(after_s, call, *args, context=self.loop.outside)

    # --- watches -----------------------------------------------------------------------------------------------------

    async def open(self, request: Asked, silence_s: float) -> "Stream":
        """A watch; raises as a client does when no head of an answer comes."""
        await asyncio.sleep(self._way())
        weather = self.weather
        if weather.down or self._stopped:
            raise ConnectionRefusedError(REFUSED)
        if weather.cut_there or weather.cut_back:
            await asyncio.sleep(10.0)
            raise TimeoutError(TIMEOUT)
        stream = Stream(self, request, silence_s)
        store, since = self.server.store, int(request.params["resourceVersion"])
        for code, share in weather.answers.items():
            if self.dice.random() < share:
                stream.refuse(code, status(code, f"injected {code}")[1])
                return stream
        place = place_of(request.path)
        if request.path.startswith(self.server.hidden):
            stream.refuse(404, status(404, "no such resource")[1])
        elif since < store.compacted:
            stream.push(_GONE)
            stream.end()
        else:
            for line in store.since(since, place.resource):
                stream.push(line)
            stream.after = since
            self.streams.append(stream)
        return stream

    def _told(self, write: Write) -> None:
        if not self.streams:
            return
        line = b""
        for stream in self.streams:
            if stream.resource == write.place.resource and write.revision > stream.after:
                if not line:
                    _, event, raw = self.server.store.history[write.place.resource][-1]
                    line = b'{"type":"%s","object":%s}\n' % (event.encode(), raw)
                stream.push(line)

    def bookmark(self) -> None:
        """As real servers do about every minute, to every watch."""
        for stream in self.streams:
            stream.push(_BOOKMARK % self.server.store.revision)

    def cut(self, *, compacted: bool = False) -> None:
        """All watches end; with `compacted` they cannot be resumed."""
        if compacted:
            self.server.store.compact()
        for stream in list(self.streams):
            stream.end()

    @property
    def _stopped(self) -> bool:
        return self.loop.time() < self._back_at

    def restart(self, seconds: float) -> None:
        """The server stops, as for a restore of its etcd it has to, and listens again after so long."""
        self._back_at = self.loop.time() + seconds
        self.cut()

    def stand_still(self) -> None:
        """One frontend's cache stops following."""
        self._still, self.weather.lagging = self.server.store.backup(), True

    def thaw(self) -> None:
        """What stood still goes on."""
        self.weather.frozen = False
        for stream in self.streams:
            stream.stir()


class Content:
    """The part of an HTTP answer that a list-watch reads."""

    def __init__(self, stream: "Stream") -> None:
        self._stream = stream

    async def read(self, size: int = -1) -> bytes:
        """The body of a refusal."""
        return self._stream.body[:size]

    def iter_any(self) -> AsyncIterator[bytes]:
        """Chunks as they come."""
        return self._stream.chunks()


class Stream:
    """One open watch."""

    def __init__(self, wire: Wire, request: Asked, silence_s: float) -> None:
        self.wire, self.silence_s = wire, silence_s
        self.resource = place_of(request.path).resource
        self.status, self.body, self.after = 200, b"", 0
        self.content = Content(self)
        self.process = PROCESS.get()
        self._lines: list[tuple[float, bytes]] = []
        self._over = self._dead = False
        self._wake: asyncio.Future[None] | None = None
        self._ends = wire.loop.time() + float(request.params.get("timeoutSeconds", 300))

    def refuse(self, code: int, body: bytes) -> None:
        """No watch but an answer."""
        self.status, self.body = code, body

    def push(self, line: bytes) -> None:
        """An event sets out."""
        if self._dead:
            return
        wire = self.wire
        due = wire.loop.time() + wire.weather.watch_late_s
        if self._lines:
            due = max(due, self._lines[-1][0])
        self._lines.append((due, line))
        self.stir()

    def end(self) -> None:
        """The server ends it; what is under way still arrives."""
        self._over = True
        if self in self.wire.streams:
            self.wire.streams.remove(self)
        self.stir()

    def die(self) -> None:
        """Nothing comes any more, not even an end."""
        self._dead, self._lines, self._ends = True, [], float("inf")

    def stir(self) -> None:
        """Look again."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def chunks(self) -> AsyncIterator[bytes]:
        """What has arrived; ends with the watch, raises TimeoutError after `silence_s` of nothing."""
        loop, heard = self.wire.loop, self.wire.loop.time()
        while True:
            now, weather = loop.time(), self.wire.weather
            deaf = weather.frozen or weather.cut_back
            if weather.down:
                raise ConnectionResetError("the server is gone")
            if not deaf and self._lines and self._lines[0][0] <= now:
                due = [line for at, line in self._lines if at <= now]
                del self._lines[: len(due)]
                heard = now
                yield b"".join(due)
                continue
            if self._over and not self._lines and not deaf:
                return
            if now >= self._ends and not deaf and not self._over:
                self.end()
                continue
            if now - heard >= self.silence_s:
                raise TimeoutError("silence")
            until = [heard + self.silence_s]
            if not deaf:
                if not self._over:
                    until.append(self._ends)
                if self._lines:
                    until.append(self._lines[0][0])
            await self._sleep(min(until) - now)

    async def _sleep(self, seconds: float) -> None:
        loop = self.wire.loop
        self._wake = loop.create_future()
        timer = loop.call_later(max(seconds, 0.001), self.stir)
        try:
            await self._wake
        finally:
            timer.cancel()
            self._wake = None


def _injected(code: int) -> tuple[int, bytes]:
    """What a server answers of itself: of a write with 409 nothing was done, with 500 and 504 perhaps."""
    return status(code, f"injected {code}", "Conflict" if code == 409 else "")


def _tell(told: "asyncio.Future[tuple[int, bytes]]", reply: tuple[int, bytes]) -> None:
    if not told.done():
        told.set_result(reply)
