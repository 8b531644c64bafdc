"""What the dispatcher takes for agents that dial in: with its own gateway, and with gateway actors on Ray.

    python -m benchmarks.fleet.beside_actors [CLUSTERS ...]

Light fake agents behind real TLS on loopback. CPU is of the dispatcher's process as the kernel tells it; beside it that
of Ray's processes, the actors among them.
"""

import asyncio
import json
import multiprocessing
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog

from agents.runtime import event_loop
from agents.runtime.outbound import calls
from agents.runtime.outbound.dialling import Dialler
from agents.runtime.outbound.settings import GatewaySettings
from benchmarks.fleet.cluster import FakeCluster
from benchmarks.fleet.dispatcher import Watched
from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import LATE_S, Fleet, cpu_s
from benchmarks.fleet.wire import HELLO, decode, encode
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import GatewaySection, TimingSection
from dispatcher.model.messages import IntentBatch, Peers
from dispatcher.scheduling.framework.kernels import compile_all
from dispatcher.service.assembly import assemble
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.remote import GatewaySite
from dispatcher.service.link import AgentLink
from dispatcher.service.ray_runtime import RayOptions, RayRuntime
from dispatcher.service.warm_up import collect_less_often
from localfleet.controlplane.ports import reserve

_CLUSTERS, _ACTORS = (20, 50), (0, 1, 2)
_LAST_S = 15.0
_LOCAL, _REMOTE, _CHURN = 1_000, 400, 20.0  # pods, pods, changed pods a second in each cluster


@dataclass(frozen=True)
class Way:
    """How agents come in; `actors` 0: to the dispatcher's own gateway."""

    folder: str
    port: int
    actors: int

    @property
    def section(self) -> GatewaySection:
        """As configured."""
        files = {
            "cert_file": f"{self.folder}/gateway.crt",
            "key_file": f"{self.folder}/gateway.key",
            "client_ca_file": f"{self.folder}/ca.crt",
        }
        return GatewaySection(port=self.port, actors=self.actors, **files)


def run(parent: Connection, way: Way, clusters: list[str]) -> None:
    """The dispatcher's process: as `benchmarks.fleet.dispatcher.run`, with agents that dial in."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
    compile_all()
    collect_less_often()
    ray = RayRuntime.start([], RayOptions(gateway_actors=way.actors)) if way.actors else None
    try:
        event_loop.run(_main(parent, way, clusters))
    finally:
        if ray is not None:
            ray.stop()


async def _main(parent: Connection, way: Way, clusters: list[str]) -> None:
    config = DispatcherConfig(timing=TimingSection(first_sync_s=LATE_S, cluster_silent_s=60.0))
    async with AsyncExitStack() as stack:
        service = assemble(await _links(way, clusters, stack), config).service
        service.core = watched = Watched(service.core)
        parent.send({})
        await asyncio.to_thread(parent.recv)
        running = asyncio.create_task(service.run())
        while await asyncio.to_thread(parent.recv) != "stop":
            parent.send({"stall_cpu": 0.0, "stall_wall": 0.0, "ticks": watched.ticks, "deciding": []})
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _links(way: Way, clusters: list[str], stack: AsyncExitStack) -> list[AgentLink]:
    if way.actors:
        from dispatcher.service.gateway.actor import open_actors

        site = GatewaySite(open_actors(way.section, tuple(clusters), "warning"), clusters)
        await stack.enter_async_context(site.serving())
        return [site.link(name) for name in clusters]
    gateway = Gateway(way.section, clusters)
    await stack.enter_async_context(gateway.serving())
    return [gateway.link(name) for name in clusters]


class DialledFleet(Fleet):
    """Fake clusters whose agents dial in; counts the reports that they were asked for."""

    def __init__(self, load: Load, way: Way) -> None:
        super().__init__(load)
        for cluster in self.clusters.values():
            cluster.listed = True
        self._way = way
        self.reports = 0

    @asynccontextmanager
    async def dispatcher(self, *, profile: bool = False) -> AsyncIterator[None]:
        """The process and the agents; `profile` has no meaning here."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=run, args=(theirs, self._way, self.load.names))
        process.start()
        theirs.close()
        dialling = [asyncio.create_task(self._dialler(name).run()) for name in self.load.names]
        try:
            await asyncio.to_thread(self._pipe.recv)
            self.pid = process.pid or 0
            yield
        finally:
            for task in dialling:
                task.cancel()
            self._pipe.send("stop")
            await asyncio.to_thread(process.join, 20)
            process.kill()

    def _dialler(self, name: str) -> Dialler:
        stem = f"{self._way.folder}/cluster-{name}"
        settings = GatewaySettings(
            urls=(f"wss://localhost:{self._way.port}",),
            ca_file=f"{self._way.folder}/ca.crt",
            cert_file=f"{stem}.crt",
            key_file=f"{stem}.key",
            longest_pause_s=1,
        )
        return Dialler(settings, name, _answers(self, self.clusters[name]))


def _answers(fleet: DialledFleet, cluster: FakeCluster) -> Mapping[str, Any]:
    async def hello(_: calls.Call) -> bytes:
        return await fleet.answer(cluster.name, HELLO, b"")

    async def changes(call: calls.Call) -> bytes:
        told = encode(await cluster.changes(call.incarnation, call.since, call.wait_s))
        fleet.reports += 1
        return told

    async def execute(call: calls.Call) -> bytes:
        return encode(cluster.execute(decode(IntentBatch, call.body)))

    async def set_peers(call: calls.Call) -> bytes:
        return encode(cluster.set_peers(decode(Peers, call.body)))

    return {calls.HELLO: hello, calls.CHANGES: changes, calls.EXECUTE: execute, calls.SET_PEERS: set_peers}


async def measure(clusters: int, actors: int, folder: str) -> dict[str, float]:
    """One fleet, one way: CPU of the dispatcher's process for a report, a local and a remote pod, and of Ray."""
    load = Load(clusters=clusters, nodes=20, pods=100, coalesce_s=0.1)
    (port,) = reserve(1)
    way = Way(folder, port.number, actors)
    fleet = DialledFleet(load, way)
    found: dict[str, float] = {"clusters": clusters, "actors": actors}
    async with fleet.dispatcher():
        await fleet.ask("go")
        await fleet.until("bound", fleet.submit(1))
        await fleet.until_quiet()
        await asyncio.sleep(5)
        async with _phase(fleet) as idle:
            await asyncio.sleep(_LAST_S)
        found["idle_ms_s"] = 1e3 * idle["own"] / _LAST_S
        found["idle_ray_ms_s"] = 1e3 * idle["others"] / _LAST_S
        before = fleet.reports
        async with _phase(fleet) as taken:
            await _churn(fleet)
        found["reports_s"] = (fleet.reports - before) / _LAST_S
        found["report_us"] = 1e6 * (taken["own"] - idle["own"]) / (fleet.reports - before)
        found["report_ray_us"] = 1e6 * (taken["others"] - idle["others"]) / (fleet.reports - before)
        for what, count, regions in (("local", _LOCAL, lambda home: ""), ("remote", _REMOTE, _elsewhere)):
            async with _phase(fleet) as taken:
                uids = fleet.submit(count, regions, 1)
                await fleet.until("running" if what == "remote" else "bound", uids)
            await fleet.until_quiet()
            found[f"{what}_pod_us"] = 1e6 * taken["own"] / count
        alone: list[float] = []
        for _ in range(20):
            uids = fleet.submit(1, _elsewhere, 1)
            await fleet.until("running", uids)
            alone += fleet.latencies("running", uids)
        found["remote_alone_ms"] = 1e3 * sorted(alone)[len(alone) // 2]
    return {key: round(value, 1) for key, value in found.items()}


async def _churn(fleet: DialledFleet) -> None:
    clusters, loop = list(fleet.clusters.values()), asyncio.get_running_loop()
    began, made = loop.time(), 0
    while (passed := loop.time() - began) < _LAST_S:
        while made < passed * _CHURN * len(clusters):
            clusters[made % len(clusters)].churn()
            made += 1
        await asyncio.sleep(0.02)


def _elsewhere(home: FakeCluster) -> str:
    return "r1" if home.number == 0 else "r0"


@asynccontextmanager
async def _phase(fleet: DialledFleet) -> AsyncIterator[dict[str, float]]:
    taken: dict[str, float] = {}
    own, others = cpu_s(fleet.pid), _below(fleet.pid)
    yield taken
    taken["own"], taken["others"] = cpu_s(fleet.pid) - own, _below(fleet.pid) - others


def _below(pid: int) -> float:
    """CPU seconds of the processes that a process has started, and those they have."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, left = 0.0, [pid]
    while left:
        for child in parents.get(left.pop(), []):
            found += cpu_s(child)
            left.append(child)
    return found


def main(words: list[str], say: Callable[[str], None] = print) -> None:
    """A line of JSON for each fleet and way."""
    for clusters in [int(word) for word in words] or _CLUSTERS:
        with tempfile.TemporaryDirectory() as folder:
            ensure(Path(folder), ["localhost"], Load(clusters=clusters).names)
            for actors in _ACTORS:
                say(json.dumps(asyncio.run(measure(clusters, actors, folder))))


if __name__ == "__main__":
    main(sys.argv[1:])
