"""Virtual time for candidates, and a server that holds leases as kube-apiserver does."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

import msgspec

from shared.kube.elector import Elector, ElectorEnvironment, LeaderTiming
from shared.kube.http import Request, Response
from shared.kube.leader_lease import LeaseRef, LeaseStore, Object

PLACE = LeaseRef("kube-node-lease", "global-dispatcher")


class Time:
    """Seconds that pass when a test lets them."""

    def __init__(self) -> None:
        self.now = 0.0
        self._number = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        """Wake up when that time has passed."""
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._number), waker))
        await waker

    async def passes(self, seconds: float) -> None:
        """Let time pass, and everybody do what they do meanwhile."""
        until = self.now + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            at, _, waker = heapq.heappop(self._sleepers)
            self.now = max(self.now, at)
            if not waker.done():
                waker.set_result(None)
            await _settle()
        self.now = until


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Server:
    """Leases with versions. `fault` may answer in its place, or answer otherwise than it did."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.version = 0
        self.writes: list[tuple[str, int]] = []  # holder, transitions
        self.fault: Callable[[Request, Callable[[], Response]], Response] = lambda _, answer: answer()

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        await asyncio.sleep(0)
        return self.fault(request, lambda: self._answer(request))

    @property
    def transitions(self) -> int:
        """Of the stored Lease."""
        return int(self.lease["spec"]["leaseTransitions"]) if self.lease else 0

    def _answer(self, request: Request) -> Response:
        if request.method == "GET":
            return _ok(self.lease) if self.lease is not None else Response(404)
        given: Object = msgspec.json.decode(request.body)
        version = given["metadata"].get("resourceVersion", "")
        if version != (str(self.version) if self.lease is not None else ""):
            return Response(409, b'{"message":"the object has been modified"}')
        self.version += 1
        given["metadata"]["resourceVersion"] = str(self.version)
        self.lease = given
        self.writes.append((given["spec"]["holderIdentity"], given["spec"]["leaseTransitions"]))
        return _ok(given)


def _ok(obj: Object) -> Response:
    return Response(200, msgspec.json.encode(obj))


class Candidate:
    """A dispatcher's elector with a clock of its own; `path` is its own way to the server."""

    def __init__(self, name: str, time: Time, server: Server, *, behind: float = 0.0) -> None:
        self.name, self.time, self.server = name, time, server
        self.cut_off = False
        self.asleep: asyncio.Event | None = None
        world = ElectorEnvironment(
            clock=lambda: time.now - behind, wall=lambda: 1.7e9 + time.now - behind, sleep=self._sleep, dice=lambda: 0.5
        )
        self.elector = Elector(LeaseStore(self, PLACE), name, LeaderTiming(), world)
        self.terms: list[int] = []
        self.ended: list[str] = []
        self._task = asyncio.create_task(self._live())

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        if self.cut_off:
            await self.time.sleep(timeout_s)
            return Response(0, b"no route")
        return await self.server.send(request, timeout_s=timeout_s)

    async def _sleep(self, seconds: float) -> None:
        await self.time.sleep(seconds)
        while self.asleep is not None:  # SIGSTOP: time goes on, this process does not
            await self.asleep.wait()

    async def _live(self) -> None:
        while True:
            await self.elector.acquire()
            self.terms.append(self.elector.transitions)
            self.ended.append(await self.elector.hold())

    def stop(self) -> None:
        """SIGSTOP."""
        self.asleep = asyncio.Event()

    def go_on(self) -> None:
        """SIGCONT."""
        if self.asleep is not None:
            self.asleep.set()
            self.asleep = None

    async def die(self) -> None:
        """Kill -9."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
