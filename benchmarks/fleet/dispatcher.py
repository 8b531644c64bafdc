"""The process that is measured: a dispatcher as the command assembles it, with links to fake
agents.
"""

import asyncio
import cProfile
import json
import pstats
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import structlog

from benchmarks.fleet.load import Load
from benchmarks.fleet.wire import SocketLink
from dispatcher.api.http_api import OnlyOne
from dispatcher.api.listen import listen
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import GatewaySection, JournalSection, QuotaSection, TimingSection
from dispatcher.scheduling.events import Decide, Decided, Effect, Event
from dispatcher.scheduling.framework.kernels import compile_all
from dispatcher.service.assembly import Dispatcher, assemble
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.links.link import AgentLink
from dispatcher.service.service import Service
from dispatcher.service.warm_up import collect_less_often
from shared.process import event_loop

Way = str | GatewaySection  # the socket at which agents answer, or the gateway to which they dial
_TOP = 35


class Watched:
    """A core whose rounds of decisions are timed: the longest CPU and wall time from the end of one
    to the end of the next, and the CPU of each that decided a pod.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self._ended = process_time(), perf_counter()
        self.stall, self.rounds = [0.0, 0.0], 0
        self.deciding: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def handle(self, event: Event, now: float) -> list[Effect]:
        """As the core's."""
        began = process_time() if isinstance(event, Decide) else 0.0
        effects: list[Effect] = self._core.handle(event, now)
        if isinstance(event, Decide):
            if any(isinstance(one, Decided) for one in effects):
                self.deciding.append(process_time() - began)
            ended, self.rounds = (process_time(), perf_counter()), self.rounds + 1
            passed = ended[0] - self._ended[0], ended[1] - self._ended[1]
            self.stall = [max(self.stall[0], passed[0]), max(self.stall[1], passed[1])]
            self._ended = ended
        return effects


def run(parent: Connection, way: Way, load: Load, first_sync_s: float, profile: bool) -> None:
    """Say the port of its HTTP API, wait for leave to begin, run until told to stop. Told what has
    ended, it answers with figures.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
    compile_all()
    collect_less_often()
    event_loop.run(_main(parent, way, load, first_sync_s, profile))


@asynccontextmanager
async def _links(way: Way, clusters: list[str]) -> AsyncIterator[Sequence[AgentLink]]:
    if isinstance(way, str):
        yield [SocketLink(name, way) for name in clusters]
        return
    gateway = Gateway(way, clusters)
    async with gateway.serving():
        yield [gateway.link(name) for name in clusters]


async def _main(
    parent: Connection, way: Way, load: Load, first_sync_s: float, profile: bool
) -> None:
    with TemporaryDirectory() as folder:
        async with _links(way, load.names) as links:
            await _measured(parent, assemble(links, _config(load, first_sync_s, folder)), profile)


def _config(load: Load, first_sync_s: float, folder: str) -> DispatcherConfig:
    """With a journal of all decisions, and tenants that do not wait for the cluster that is heard
    of late.
    """
    return DispatcherConfig(
        timing=TimingSection(first_sync_s=first_sync_s, cluster_silent_s=60.0),
        journal=JournalSection(path=f"{folder}/journal"),
        quota=QuotaSection(unheard="ignore"),
        tenants=load.owners,
    )


async def _measured(parent: Connection, dispatcher: Dispatcher, profile: bool) -> None:
    service = dispatcher.service
    watched = service.core = Watched(service.core)
    runner = await listen(OnlyOne(service, dispatcher.views), "127.0.0.1", 0)
    parent.send(runner.addresses[0][1])
    try:
        if await asyncio.to_thread(parent.recv) != "stop":
            await _until_stopped(parent, service, watched, profile)
    finally:
        await runner.cleanup()


async def _until_stopped(
    parent: Connection, service: Service, watched: Watched, profile: bool
) -> None:
    profiler = cProfile.Profile() if profile else None
    if profiler:
        profiler.enable()
    running = asyncio.create_task(service.run())
    while (ended := await asyncio.to_thread(parent.recv)) != "stop":
        figures = {
            "stall_cpu": watched.stall[0],
            "stall_wall": watched.stall[1],
            "rounds": watched.rounds,
            "deciding": watched.deciding,
            "open": watched.open,
        }
        watched.stall, watched.rounds, watched.deciding = [0.0, 0.0], 0, []
        if profiler:
            profiler.disable()
            print(f"=== {ended}", json.dumps(figures), file=sys.stderr)
            pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(_TOP)
            profiler.clear()
            profiler.enable()
        parent.send(figures)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
