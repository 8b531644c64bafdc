"""How long nothing is decided when the leader ends: killed, or stopped, beside a warm standby and a cold one.

Two dispatchers at a time. The leader ends, and a pod is submitted every 20 ms: the time until one is bound by order of
the next leader. Then another standby is started, and once it has settled, that leader ends; warm and cold by turns.
"""

import asyncio
import multiprocessing
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.fail_over import dispatcher
from benchmarks.fail_over.cluster import SharedCluster
from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import TooSlow, cpu_s, resident
from benchmarks.fleet.wire import CHANGES, EXECUTE, HELLO, decode, encode, poll_asked, serve
from benchmarks.report.rows import Row
from dispatcher.model.messages import IntentBatch, Peers
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet

_PROBE_S = 0.02
_PATIENCE_S = 120.0
_LOOK_S = 1.0
_QUIET = 0.15  # of a core
_SETTLED_S = 2.0  # a leader renews, and a standby has seen it


def fail_over(share: int) -> list[Row]:
    """20 clusters x 500 nodes: 20 kills and 6 stops each; `share` 10: a few."""
    return asyncio.run(measure(Load(clusters=20, nodes=500, pods=500), *((20, 6) if share == 1 else (3, 1))))


def fail_over_of_100_clusters(share: int) -> list[Row]:
    """100 clusters x 1,000 nodes: 20 kills each; `share` 10: a few, of a tenth of the clusters."""
    load = Load(clusters=100, nodes=1_000, pods=500)
    return asyncio.run(measure(load, 20, 4) if share == 1 else measure(Load(clusters=10, nodes=1_000), 2, 1))


@dataclass
class Taken:
    """Seconds from the end of the leader to the first decision of the next; bytes of the standby before."""

    undecided: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)

    def p(self, share: float) -> float:
        """A quantile of the seconds."""
        return float(np.quantile(self.undecided, share))


class One:
    """A dispatcher's process, and the agents' socket that it alone uses."""

    def __init__(self, process: Any, server: asyncio.Server) -> None:
        self.process, self._server = process, server

    async def settled(self) -> None:
        """Until it has nothing left to do."""
        while True:
            before = cpu_s(self.process.pid)
            await asyncio.sleep(_LOOK_S)
            if cpu_s(self.process.pid) - before < _QUIET * _LOOK_S:
                return

    async def end(self, number: int) -> float:
        """By a signal; when."""
        os.kill(self.process.pid, number)
        ended = monotonic()
        if number == signal.SIGKILL:
            await asyncio.to_thread(self.process.join)
        return ended

    def close(self) -> None:
        """Nothing of it is left."""
        self.process.kill()
        self.process.join()
        self._server.close()


class Pair:
    """Fake clusters and the dispatchers over them."""

    def __init__(self, load: Load, folder: str, kubeconfig: Path) -> None:
        self.load, self._folder, self._kubeconfig = load, folder, str(kubeconfig)
        self.clusters: dict[str, SharedCluster] = {}
        for number, name in enumerate(load.names):
            self.clusters[name] = SharedCluster(load, number, self.clusters, self._seen)
        self._started = 0
        self._bound = asyncio.Event()

    def _seen(self, what: str, uid: str) -> None:
        self._bound.set()

    async def start(self, *, warm: bool) -> One:
        """Another dispatcher."""
        self._started += 1
        path = f"{self._folder}/{self._started}"
        server = await serve(path, self._answer)
        context = multiprocessing.get_context("spawn")
        wanted = dispatcher.Wanted(path, self.load.names, self._kubeconfig, warm)
        process = context.Process(target=dispatcher.run, args=(wanted,), daemon=True)
        process.start()
        return One(process, server)

    async def _answer(self, name: str, what: int, body: bytes) -> bytes:
        cluster = self.clusters[name]
        if what == HELLO:
            return encode(cluster.hello())
        if what == CHANGES:
            return encode(await cluster.changes(*poll_asked(body)))
        if what == EXECUTE:
            return encode(cluster.execute(decode(IntentBatch, body)))
        return encode(cluster.set_peers(decode(Peers, body)))

    @property
    def _epoch(self) -> int:
        return max(one.epoch for one in self.clusters.values())

    async def until_decided(self) -> float:
        """Submit pods until one is bound by a newer leader than any so far; when."""
        before, homes, until = self._epoch, cycle(self.clusters.values()), monotonic() + _PATIENCE_S
        while monotonic() < until:
            self._bound.clear()
            home = next(homes)
            home.submit(f"r{home.number}", templates=1)  # for its own cluster: a remote pod waits for two answers
            try:
                async with asyncio.timeout(_PROBE_S):
                    await self._bound.wait()
            except TimeoutError:
                continue
            if self._epoch > before:
                return monotonic()
        raise TooSlow(f"nothing was decided for {_PATIENCE_S:g} s")


def _lease_server(folder: str) -> EmbeddedFleet:
    return EmbeddedFleet.start([ClusterSpec("lease", nodes=1)], Path(folder) / "lease")


@asynccontextmanager
async def pair(load: Load) -> AsyncIterator[Pair]:
    """With a server for the Lease."""
    with tempfile.TemporaryDirectory() as folder, _lease_server(folder) as fleet:
        yield Pair(load, folder, fleet.kubeconfig)


async def measure(load: Load, kills: int, stops: int) -> list[Row]:
    """So many fail-overs of each kind."""
    order: list[int] = [*[signal.SIGKILL] * kills, *[signal.SIGTERM] * stops]
    taken: dict[tuple[int, bool], Taken] = {(number, warm): Taken() for number in set(order) for warm in (True, False)}
    async with pair(load) as two:
        leader = await two.start(warm=True)
        await two.until_decided()
        for number in order:
            for warm in (True, False):
                standby = await two.start(warm=warm)
                await asyncio.sleep(_SETTLED_S)
                await standby.settled()
                await leader.settled()
                await _one(two, leader, standby, number, taken[number, warm])
                leader.close()
                leader = standby
        leader.close()
        await asyncio.sleep(_PROBE_S)  # its connections end
    return list(_rows(load, taken))


async def _one(two: Pair, leader: One, standby: One, number: int, taken: Taken) -> None:
    taken.resident.append(resident(standby.process.pid))
    ended = await leader.end(number)
    taken.undecided.append(await two.until_decided() - ended)


def _rows(load: Load, taken: dict[tuple[int, bool], Taken]) -> Iterator[Row]:
    lease = f"Lease of {dispatcher.QUICK.lease_s:g} s"
    for number, name, what in ((signal.SIGKILL, "kill", "kill -9 of the leader"), (signal.SIGTERM, "stop", "SIGTERM")):
        warm, cold = taken.get((number, True)), taken.get((number, False))
        if warm is None or cold is None:
            continue
        n, count, beside = load.all_nodes, len(warm.undecided), f"{load.clusters} clusters, a standby that begins empty"
        text = f"from {what} to the first pod that is bound by the next, {lease}, {count} times"
        for share, target in ((0.5, None), (0.99, 5.0)):
            key = f"fail_over_{name}_p{100 * share:.0f}"
            yield Row(key, n, load.all_pods, warm.p(share), "s", target, cold.p(share), text, beside)
    warm, cold = (taken[signal.SIGKILL, one] for one in (True, False))
    memory = [float(np.median(one.resident)) / 2**20 for one in (warm, cold)]
    text = "resident memory of the standby"
    yield Row("fail_over_standby_rss", load.all_nodes, load.all_pods, memory[0], "MiB", None, memory[1], text, beside)


CASES = (fail_over, fail_over_of_100_clusters)
