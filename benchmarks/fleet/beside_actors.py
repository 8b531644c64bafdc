"""What the dispatcher takes for agents that dial in: with its own gateway, and with gateway actors on Ray.

    python -m benchmarks.fleet.beside_actors [CLUSTERS ...]

Light fake agents behind real TLS on loopback. CPU is of the dispatcher's process as the kernel tells it; beside it that
of Ray's processes, the actors among them, and of the actors alone; and what memory these have.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import structlog

from benchmarks.fleet.case import churn_all
from benchmarks.fleet.cluster import FakeCluster
from benchmarks.fleet.dialled import DialledFleet
from benchmarks.fleet.load import Load
from benchmarks.fleet.processes import Use, below, command, use
from benchmarks.fleet.wire import CHANGES
from benchmarks.report.rows import Row

_CLUSTERS, _ACTORS = (20, 50), (0, 1, 2)
_LAST_S = 15.0
_LOCAL, _REMOTE, _CHURN = 1_000, 400, 20.0  # pods, pods, changed pods a second in each cluster
_LIGHT = Load(clusters=100, nodes=200, pods=200)  # as of `fleet_through_gateways`
_SETTLED_S = 5.0
_ACTOR = "ray::GatewayActor"
_MIB = 2**20


@dataclass(frozen=True)
class Phase:
    """What was taken in it: by the dispatcher's process, by all of Ray's, by the gateway actors alone. Reports that
    agents gave.
    """

    own: float
    ray: float
    actors: float
    reports: int


class Watched(DialledFleet):
    """Counts the reports that agents are asked for, and looks at the processes of Ray."""

    reports = 0

    async def answer(self, name: str, what: int, body: bytes) -> bytes:
        """One call."""
        told = await super().answer(name, what, body)
        self.reports += what == CHANGES
        return told

    def uses(self) -> tuple[Use, Use, Use]:
        """Of the dispatcher's process, of all that it has started, and of the actors among them."""
        started = list(below(self.pid))
        return use([self.pid]), use(started), use(one for one in started if command(one).startswith(_ACTOR))

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[list[Phase]]:
        """What is taken within, in the list afterwards."""
        taken, before, reports = list[Phase](), self.uses(), self.reports
        yield taken
        own, ray, actors = (late.cpu - early.cpu for early, late in zip(before, self.uses(), strict=True))
        taken.append(Phase(own, ray, actors, self.reports - reports))


async def _rest_and_changes(fleet: Watched) -> tuple[Phase, Phase]:
    """Once it has decided: while nothing happens, and while pods change."""
    await fleet.ask("go")
    await fleet.until("bound", fleet.submit(1))
    await fleet.until_quiet()
    await asyncio.sleep(_SETTLED_S)
    async with fleet.taking() as rest:
        await asyncio.sleep(fleet.load.last_s)
    async with fleet.taking() as changes:
        await churn_all(fleet)
    return rest[0], changes[0]


async def measure(clusters: int, actors: int) -> dict[str, float]:
    """One fleet, one way: CPU of the dispatcher's process for a report, a local and a remote pod, and of Ray; MiB."""
    load = Load(clusters=clusters, nodes=20, pods=100, churn=_CHURN * clusters, last_s=_LAST_S)
    fleet = Watched(load, all_listed=True, actors=actors)
    found: dict[str, float] = {"clusters": clusters, "actors": actors}
    async with fleet.dispatcher():
        rest, changes = await _rest_and_changes(fleet)
        found |= {f"idle_{name}ms_s": 1e3 * cpu / _LAST_S for name, cpu in _by_process(rest)}
        found["reports_s"] = changes.reports / _LAST_S
        for (name, cpu), (_, idle) in zip(_by_process(changes), _by_process(rest), strict=True):
            found[f"report_{name}us"] = 1e6 * (cpu - idle) / max(changes.reports, 1)
        for what, count, regions in (("local", _LOCAL, lambda home: ""), ("remote", _REMOTE, _elsewhere)):
            async with fleet.taking() as taken:
                uids = fleet.submit(count, regions, 1)
                await fleet.until("running" if what == "remote" else "bound", uids)
            await fleet.until_quiet()
            found[f"{what}_pod_us"] = 1e6 * taken[0].own / count
        found["remote_alone_ms"] = await _remote_alone_ms(fleet)
        for name, one in zip(("own_", "ray_", "actors_"), fleet.uses(), strict=True):
            found |= {f"{name}rss_mib": one.rss / _MIB, f"{name}pss_mib": one.pss / _MIB}
    return {key: round(value, 1) for key, value in found.items()}


def _by_process(phase: Phase) -> Iterator[tuple[str, float]]:
    return zip(("", "ray_", "actors_"), (phase.own, phase.ray, phase.actors), strict=True)


async def _remote_alone_ms(fleet: Watched) -> float:
    alone: list[float] = []
    for _ in range(20):
        uids = fleet.submit(1, _elsewhere, 1)
        await fleet.until("running", uids)
        alone += fleet.latencies("running", uids)
    return 1e3 * sorted(alone)[len(alone) // 2]


def _elsewhere(home: FakeCluster) -> str:
    return "r1" if home.number == 0 else "r0"


def fleet_through_gateway_actors(share: int) -> list[Row]:
    """100 clusters x 200 nodes with 200 pods each, by one gateway actor and by two; `share` 10: a tenth of them."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))  # what a hundred agents say
    small = replace(_LIGHT, clusters=max(2, _LIGHT.clusters // share), churn=_LIGHT.churn / share, last_s=3.0)
    load = _LIGHT if share == 1 else small
    return [row for actors in (1, 2) for row in asyncio.run(_actors_rows(load, actors))]


async def _actors_rows(load: Load, actors: int) -> list[Row]:
    fleet = Watched(load, all_listed=True, actors=actors)
    async with fleet.dispatcher():
        rest, changes = await _rest_and_changes(fleet)
        memory = fleet.uses()[2]
    who = f"of {'the gateway actor' if actors == 1 else f'{actors} gateway actors together'}, from outside, a cluster"
    figures = (
        ("idle_cpu", 1e3 * rest.actors / load.last_s, "ms a s", "CPU", ", while nothing happens"),
        ("changes_cpu", 1e3 * changes.actors / load.last_s, "ms a s", "CPU", f", {load.churn:g} pod changes a second"),
        ("rss", memory.rss / 2**10, "KiB", "resident memory (RSS)", ""),
        ("pss", memory.pss / 2**10, "KiB", "memory of its own (PSS)", ""),
    )
    return [
        Row(
            f"gateways_{actors}_actors_{name}",
            load.all_nodes,
            load.all_pods,
            value / load.clusters,
            unit,
            None,
            None,
            f"{what} {who}{when}",
        )
        for name, value, unit, what, when in figures
    ]


CASES = (fleet_through_gateway_actors,)


def main(words: list[str], say: Callable[[str], None] = print) -> None:
    """A line of JSON for each fleet and way."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
    for clusters in [int(word) for word in words] or _CLUSTERS:
        for actors in _ACTORS:
            say(json.dumps(asyncio.run(measure(clusters, actors))))


if __name__ == "__main__":
    main(sys.argv[1:])
