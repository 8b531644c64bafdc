"""How long nothing is decided when the leader ends: killed, or stopped, beside a warm standby and a
cold one.

Two dispatchers at a time. The leader ends, and a pod is submitted every 20 ms: the time until one
is bound by order of the next leader. Then another standby is started, and once it has settled, that
leader ends; warm and cold by turns. A leader may be paused instead: the next one leads meanwhile,
and what the paused one orders once it wakes is counted.
"""

import asyncio
import multiprocessing
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.fail_over import dispatcher
from benchmarks.fail_over.cluster import SharedCluster
from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import TooSlow
from benchmarks.fleet.processes import cpu_s, resident
from benchmarks.fleet.wire import CHANGES, EXECUTE, HELLO, decode, encode, poll_asked, serve
from benchmarks.report.rows import Row
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from shared.messages import IntentBatch, Peers

_PROBE_S = 0.02
_PATIENCE_S = 120.0
_LOOK_S = 1.0
_QUIET = 0.15  # of a core
_SETTLED_S = 2.0  # a leader renews, and a standby has seen it
_SETTLE_S = 10.0
_STEP_S = 0.05
# a paused leader that goes on has found out by then, and would have given its orders
_AWAKE_S = 3.0


@dataclass(frozen=True)
class Blows:
    """How often leaders are killed, stopped (SIGTERM) and paused (SIGSTOP, and SIGCONT once another
    leads).

    `cold`: as often beside a standby that begins empty. `pods_per_s`: pods that are submitted all
    the while, beside the load's pod changes; 0: nothing happens but the blows.
    """

    kills: int
    stops: int = 0
    pauses: int = 0
    cold: bool = True
    pods_per_s: float = 0.0


def fail_over(share: int) -> list[Row]:
    """20 clusters x 500 nodes: 20 kills and 6 stops each; `share` 10: a few."""
    return asyncio.run(
        measure(Load(clusters=20, nodes=500, pods=500), Blows(*((20, 6) if share == 1 else (3, 1))))
    )


def fail_over_of_100_clusters(share: int) -> list[Row]:
    """100 clusters x 1,000 nodes: 20 kills each; `share` 10: a few, of a tenth of the clusters."""
    load = Load(clusters=100 if share == 1 else 10, nodes=1_000, pods=500)
    return asyncio.run(measure(load, Blows(20, 4) if share == 1 else Blows(2, 1)))


def fail_over_under_load(share: int) -> list[Row]:
    """100 clusters x 100 nodes under load: 50 kills and 5 pauses; `share` 10: a few, of a tenth of
    the clusters.
    """
    load = Load(clusters=100 // share, nodes=100, pods=100, churn=200.0 / share)
    return asyncio.run(measure(load, under_load(50 // share, 5 if share == 1 else 1)))


def under_load(kills: int, pauses: int) -> Blows:
    """Beside warm standbys alone, 20 pods a second."""
    return Blows(kills, pauses=pauses, cold=False, pods_per_s=20.0)


@dataclass
class Taken:
    """Seconds from the end of the leader to the first decision of the next; bytes of the standby
    before.
    """

    undecided: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)

    def p(self, share: float) -> float:
        """A quantile of the seconds."""
        return float(np.quantile(self.undecided, share))


class One:
    """A dispatcher's process, and the agents' socket that it alone uses. `orders`: (when, epoch) of
    each batch.
    """

    def __init__(
        self, process: Any, server: asyncio.Server, orders: list[tuple[float, int]]
    ) -> None:
        self.process, self._server, self.orders = process, server, orders

    async def settled(self) -> None:
        """Until it has nothing left to do, or only what goes on for ever under load."""
        until = monotonic() + _SETTLE_S
        while monotonic() < until:
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
        orders: list[tuple[float, int]] = []

        async def answer(name: str, what: int, body: bytes) -> bytes:
            return await self._answer(name, what, body, orders)

        server = await serve(path, answer)
        context = multiprocessing.get_context("spawn")
        wanted = dispatcher.Wanted(path, self.load.names, self._kubeconfig, warm)
        process = context.Process(target=dispatcher.run, args=(wanted,), daemon=True)
        process.start()
        return One(process, server, orders)

    async def _answer(
        self, name: str, what: int, body: bytes, orders: list[tuple[float, int]]
    ) -> bytes:
        cluster = self.clusters[name]
        if what == HELLO:
            return encode(cluster.hello())
        if what == CHANGES:
            return encode(await cluster.changes(*poll_asked(body)))
        if what == EXECUTE:
            batch = decode(IntentBatch, body)
            orders.append((monotonic(), batch.dispatcher_epoch))
            return encode(cluster.execute(batch))
        return encode(cluster.set_peers(decode(Peers, body)))

    @asynccontextmanager
    async def under_load(self, pods_per_s: float) -> AsyncIterator[None]:
        """Meanwhile pods change, as often as the load says, and others are submitted."""

        async def happening() -> None:
            clusters, began, changed, submitted = cycle(self.clusters.values()), monotonic(), 0, 0
            while True:
                passed = monotonic() - began
                for _ in range(int(passed * self.load.churn) - changed):
                    next(clusters).flip()
                    changed += 1
                for _ in range(int(passed * pods_per_s) - submitted):
                    next(clusters).submit(templates=self.load.burst_templates)
                    submitted += 1
                await asyncio.sleep(_STEP_S)

        task = asyncio.create_task(happening(), name="load")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def epoch(self) -> int:
        """The highest whose orders were carried out."""
        return max(one.epoch for one in self.clusters.values())

    async def until_decided(self) -> float:
        """Submit pods until one is bound by a newer leader than any so far; when."""
        before, homes, until = self.epoch, cycle(self.clusters.values()), monotonic() + _PATIENCE_S
        while monotonic() < until:
            self._bound.clear()
            home = next(homes)
            home.submit(
                f"r{home.number}", templates=1
            )  # for its own cluster: a remote pod waits for two answers
            try:
                async with asyncio.timeout(_PROBE_S):
                    await self._bound.wait()
            except TimeoutError:
                continue
            if self.epoch > before:
                return monotonic()
        raise TooSlow(f"nothing was decided for {_PATIENCE_S:g} s")


def _lease_server(folder: str) -> EmbeddedFleet:
    return EmbeddedFleet.start([ClusterSpec("lease", nodes=1)], Path(folder) / "lease")


@asynccontextmanager
async def pair(load: Load) -> AsyncIterator[Pair]:
    """With a server for the Lease."""
    with tempfile.TemporaryDirectory() as folder, _lease_server(folder) as fleet:
        yield Pair(load, folder, fleet.kubeconfig)


async def measure(
    load: Load, blows: Blows, say: Callable[[str], None] = lambda text: None
) -> list[Row]:
    """So many fail-overs of each kind."""
    order: list[int] = [*[signal.SIGKILL] * blows.kills, *[signal.SIGTERM] * blows.stops]
    kinds = (True, False) if blows.cold else (True,)
    taken: dict[tuple[int, bool], Taken] = {
        (number, warm): Taken() for number in set(order) for warm in kinds
    }
    woken: list[int] = []
    async with pair(load) as two:
        leader = await two.start(warm=True)
        await two.until_decided()
        async with two.under_load(blows.pods_per_s) if blows.pods_per_s else nullcontext():
            for number in order:
                for warm in kinds:
                    standby = await _beside(two, leader, warm=warm)
                    await _one(two, leader, standby, number, taken[number, warm])
                    say(f"{signal.Signals(number).name}: {taken[number, warm].undecided[-1]:.2f} s")
                    leader.close()
                    leader = standby
            for _ in range(blows.pauses):
                standby = await _beside(two, leader, warm=True)
                woken.append(await _paused(two, leader))
                say(f"SIGSTOP: {woken[-1]} orders of the one that woke")
                leader.close()
                leader = standby
        leader.close()
        await asyncio.sleep(_PROBE_S)  # its connections end
    return [*_rows(load, taken), *_woken_rows(load, woken)]


async def _beside(two: Pair, leader: One, *, warm: bool) -> One:
    """Another standby, once both have nothing left to do."""
    standby = await two.start(warm=warm)
    await asyncio.sleep(_SETTLED_S)
    await standby.settled()
    await leader.settled()
    return standby


async def _one(two: Pair, leader: One, standby: One, number: int, taken: Taken) -> None:
    taken.resident.append(resident(standby.process.pid))
    ended = await leader.end(number)
    taken.undecided.append(await two.until_decided() - ended)


async def _paused(two: Pair, leader: One) -> int:
    """Pause the leader until another one has decided, and let it go on: the orders that it gives
    then, as a leader.
    """
    await leader.end(signal.SIGSTOP)
    await two.until_decided()
    await asyncio.sleep(_STEP_S)  # what it had sent before has been read
    woke = await leader.end(signal.SIGCONT)
    await asyncio.sleep(_AWAKE_S)
    return sum(when >= woke and epoch < two.epoch for when, epoch in leader.orders)


def _rows(load: Load, taken: dict[tuple[int, bool], Taken]) -> Iterator[Row]:
    lease = f"Lease of {dispatcher.QUICK.lease_s:g} s"
    for number, name, what in (
        (signal.SIGKILL, "kill", "kill -9 of the leader"),
        (signal.SIGTERM, "stop", "SIGTERM"),
    ):
        warm, cold = taken.get((number, True)), taken.get((number, False))
        if warm is None:
            continue
        n, count = load.all_nodes, len(warm.undecided)
        text = f"from {what} to the first pod that is bound by the next, {lease}, {count} times"
        for share, target in ((0.5, None), (0.99, 5.0)):
            key = f"fail_over_{name}_p{100 * share:.0f}"
            if cold is None:
                yield Row(
                    f"{key}_under_load",
                    n,
                    load.all_pods,
                    warm.p(share),
                    "s",
                    target,
                    None,
                    f"{text}, under load",
                )
            else:
                yield Row(
                    key,
                    n,
                    load.all_pods,
                    warm.p(share),
                    "s",
                    target,
                    cold.p(share),
                    text,
                    _beside_cold(load),
                )
    warm, cold = (taken.get((signal.SIGKILL, one)) for one in (True, False))
    if warm is not None and cold is not None:
        memory = [float(np.median(one.resident)) / 2**20 for one in (warm, cold)]
        text, beside = "resident memory of the standby", _beside_cold(load)
        yield Row(
            "fail_over_standby_rss",
            load.all_nodes,
            load.all_pods,
            memory[0],
            "MiB",
            None,
            memory[1],
            text,
            beside,
        )


def _beside_cold(load: Load) -> str:
    return f"{load.clusters} clusters, a standby that begins empty"


def _woken_rows(load: Load, woken: list[int]) -> Iterator[Row]:
    text = (
        f"orders given by a leader that was paused until another led, in the {_AWAKE_S:g} s "
        f"after, {len(woken)} times"
    )
    if woken:
        yield Row(
            "fail_over_woken_orders",
            load.all_nodes,
            load.all_pods,
            float(sum(woken)),
            "orders",
            0.0,
            None,
            text,
        )


CASES = (fail_over, fail_over_of_100_clusters, fail_over_under_load)
