"""What is done to the dispatcher, phase by phase, and what its process took for it."""

import asyncio
import multiprocessing
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

import httpx
import numpy as np

from benchmarks.fleet import dispatcher
from benchmarks.fleet.cluster import FakeCluster, now
from benchmarks.fleet.dispatcher import Way
from benchmarks.fleet.load import Load
from benchmarks.fleet.processes import cpu_s
from benchmarks.fleet.wire import CHANGES, EXECUTE, HELLO, decode, encode, poll_asked, serve
from shared.messages import Changes, IntentBatch, Peers

_PROBE_S = 0.05
LATE_S = 3.0  # so long all others wait for the cluster that cannot be listed
_PATIENCE_S = 600.0
LOOK_S = 2.0  # between two looks at whether the process is quiet
_QUIET = 0.25  # share of a core below which it has nothing left to do


class TooSlow(RuntimeError):  # noqa: N818 - reads as what happened
    """Something that was waited for has not come."""


@dataclass
class Taken:
    """What a phase took: seconds of CPU and of wall, the longest stalls, and latencies of pods
    (seconds). `plain`: CPU seconds to decode the reports that came and keep what they tell as dicts
    by name: what can hardly be saved.
    """

    cpu: float = 0.0
    plain: float = 0.0
    wall: float = 0.0
    stall_cpu: float = 0.0
    probes: list[float] = field(default_factory=list)
    deciding: list[float] = field(
        default_factory=list
    )  # CPU seconds of each round that decided a pod

    def probe(self, share: float) -> float:
        """A quantile of the latencies, in seconds; NaN without any."""
        return float(np.quantile(self.probes, share)) if self.probes else float("nan")


class Fleet:
    """The fake clusters, the dispatcher's process beside them, and when pods were submitted, bound
    and running.
    """

    def __init__(self, load: Load, *, all_listed: bool = False) -> None:
        """`all_listed`: also the last cluster, which is else heard of while others are decided."""
        self.load = load
        self.clusters: dict[str, FakeCluster] = {}
        self.submitted: dict[str, float] = {}
        self.reached: dict[tuple[str, str], float] = {}  # ("bound" or "running", uid) -> when
        for number, name in enumerate(load.names):
            self.clusters[name] = FakeCluster(load, number, self.clusters, self._seen)
        self.chance = Random(load.seed)
        if load.clusters > 2 and not all_listed:
            self.clusters[load.names[-1]].listed = False
        self._first = {name: encode(one.full()) for name, one in self.clusters.items()}
        self.first_bytes = sum(map(len, self._first.values()))
        self._reports: list[bytes] = []  # of this phase
        self.pid, self._http = 0, ""
        self._pipe: Connection | None = None
        self._server: asyncio.Server | None = None

    def _seen(self, what: str, uid: str) -> None:
        self.reached.setdefault((what, uid), now())

    async def answer(self, name: str, what: int, body: bytes) -> bytes:
        """One call."""
        cluster = self.clusters[name]
        if what == HELLO:
            return encode(cluster.hello())
        if what == CHANGES:
            asked = poll_asked(body)
            first = self._first.pop(name, None) if not asked[0] and cluster.listed else None
            told = encode(await cluster.changes(*asked)) if first is None else first
            self._reports.append(told)
            return told
        if what == EXECUTE:
            return encode(cluster.execute(decode(IntentBatch, body)))
        return encode(cluster.set_peers(decode(Peers, body)))

    @asynccontextmanager
    async def dispatcher(self, *, profile: bool = False) -> AsyncIterator[None]:
        """The process, ready to begin; ended afterwards."""
        context = multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory() as folder:
            way = await self.way(Path(folder))
            self._pipe, theirs = context.Pipe()
            settings = (theirs, way, self.load, LATE_S, profile)
            process = context.Process(target=dispatcher.run, args=settings, daemon=True)
            with _without_interrupts():  # Ctrl-C reaches it, too: it is told to stop instead
                process.start()
            theirs.close()
            try:
                self._http = f"http://127.0.0.1:{await asyncio.to_thread(self._pipe.recv)}"
                self.pid = process.pid or 0
                yield
            finally:
                self._pipe.send("stop")
                await asyncio.to_thread(process.join, 20)
                process.kill()
                self.leave()

    async def way(self, folder: Path) -> Way:
        """Where the process reaches the agents from now on, until `leave`."""
        path = str(folder / "agents")
        self._server = await serve(path, self.answer)
        return path

    def leave(self) -> None:
        """The agents are reached no more."""
        if self._server is not None:
            self._server.close()

    async def ask(self, ended: str) -> dict[str, Any]:
        """The process's own figures since it was asked before; "go": it begins."""
        pipe = self._pipe
        if pipe is None:
            raise TooSlow("there is no dispatcher")
        pipe.send(ended)
        return {} if ended == "go" else dict(await asyncio.to_thread(pipe.recv))

    async def read(self, path: str) -> int:
        """GET from the process's HTTP API, as a command or a browser does; the bytes of the answer."""
        async with httpx.AsyncClient(trust_env=False, timeout=_PATIENCE_S) as client:
            return len((await client.get(self._http + path)).raise_for_status().content)

    def submit(
        self,
        count: int,
        regions: Callable[[FakeCluster], str] = lambda home: "",
        templates: int = 0,
    ) -> list[str]:
        """Pods of ours in clusters by chance, of so many templates (0: of any); their UIDs."""
        here = [one for one in self.clusters.values() if one.listed]
        uids = []
        for _ in range(count):
            home = self.chance.choice(here)
            uid = home.submit(regions(home), templates)
            self.submitted[uid] = now()
            uids.append(uid)
        return uids

    async def until(self, what: str, uids: list[str]) -> None:
        """Wait for all of these. TooSlow."""
        deadline = now() + _PATIENCE_S
        while left := sum((what, uid) not in self.reached for uid in uids):
            if now() > deadline:
                raise TooSlow(f"{left} of {len(uids)} pods are not {what} after {_PATIENCE_S:g} s")
            await asyncio.sleep(0.01)

    async def until_quiet(self) -> None:
        """Wait until the process has worked off what it has."""
        deadline = now() + _PATIENCE_S
        while now() < deadline:
            before = cpu_s(self.pid)
            await asyncio.sleep(LOOK_S)
            if cpu_s(self.pid) - before < _QUIET * LOOK_S:
                return

    def latencies(self, what: str, uids: list[str]) -> list[float]:
        """Seconds from submission."""
        return [
            self.reached[what, uid] - self.submitted[uid]
            for uid in uids
            if (what, uid) in self.reached
        ]

    @asynccontextmanager
    async def phase(self, name: str, *, probes: bool = False) -> AsyncIterator[Taken]:
        """Measure what happens within; with `probes` a pod is submitted every 50 ms."""
        taken, uids = Taken(), list[str]()

        async def probing() -> None:
            while True:
                uids.extend(self.submit(1, templates=self.load.burst_templates))
                await asyncio.sleep(_PROBE_S)

        await self.ask(f"before {name}")
        self._reports = []
        cpu, wall = cpu_s(self.pid), now()
        task = asyncio.create_task(probing()) if probes else None
        try:
            yield taken
        finally:
            if task is not None:
                task.cancel()
                await self.until("bound", uids)
            taken.cpu, taken.wall = cpu_s(self.pid) - cpu, now() - wall
            figures = await self.ask(name)
            taken.stall_cpu = figures["stall_cpu"]
            taken.deciding = figures["deciding"]
            taken.probes = self.latencies("bound", uids)
            taken.plain = _decoding(self._reports)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignored, and also by processes that are started within, for good."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _decoding(reports: list[bytes]) -> float:
    """See `Taken.plain`."""
    kept: dict[str, object] = {}
    started = thread_time()
    for told in reports:
        report = decode(Changes, told)
        kept |= {one.uid: one for one in report.pods}
        kept |= {one.name: one for one in report.nodes}
        kept |= {one.node: one for one in report.readings}
    return thread_time() - started
