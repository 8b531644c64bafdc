"""What it costs a dispatcher to reach its agents through the gateway: one fleet over TLS and over
plain sockets.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

import structlog

from benchmarks.fleet.case import churn_all, sweep_all
from benchmarks.fleet.dialled import DialledFleet
from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import Fleet
from benchmarks.fleet.processes import resident
from benchmarks.report.rows import Row

_LIGHT = Load(clusters=100, nodes=200, pods=200)
_BESIDE = "the same agents over plain sockets of the machine"


def fleet_through_gateways(share: int) -> list[Row]:
    """100 clusters x 200 nodes with 200 pods each, by TLS and without; `share` 10: a tenth of the
    clusters.
    """
    small = replace(
        _LIGHT, clusters=max(2, _LIGHT.clusters // share), churn=_LIGHT.churn / share, last_s=3.0
    )
    return asyncio.run(compare(_LIGHT if share == 1 else small))


@dataclass(frozen=True)
class Cost:
    """Of the dispatcher's process: bytes that a fleet takes, seconds of CPU until it decides; of a
    second: at rest, while readings come, while pods change.
    """

    resident: int
    start: float
    idle: float
    readings: float
    changes: float


async def compare(load: Load) -> list[Row]:
    """The rows, figures of the gateway beside those of sockets."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("error")
    )  # what a hundred agents say
    return list(
        _rows(
            load,
            await _cost(DialledFleet(load, all_listed=True)),
            await _cost(Fleet(load, all_listed=True)),
        )
    )


async def _cost(one: Fleet) -> Cost:
    async with one.dispatcher():
        before = resident(one.pid)
        await one.ask("go")
        async with one.phase("start") as started:
            await one.until("bound", one.submit(1))
        await one.until_quiet()
        grown = resident(one.pid) - before
        async with one.phase("idle") as idle:
            await asyncio.sleep(one.load.last_s)
        async with one.phase("readings") as readings:
            await sweep_all(one)
        async with one.phase("changes") as changes:
            await churn_all(one)
    return Cost(
        grown, started.cpu, *(taken.cpu / taken.wall for taken in (idle, readings, changes))
    )


def _rows(load: Load, over_tls: Cost, plain: Cost) -> Iterator[Row]:
    who, each = "CPU of the dispatcher's process, from outside", load.clusters
    texts = {
        "idle": f"{who}, a cluster, while nothing happens",
        "readings": f"{who}, a cluster, readings of all nodes every {load.sweep_s:g} s",
        "changes": f"{who}, a cluster, {load.churn:g} pod changes a second in the fleet",
    }
    for name, text in texts.items():
        ours, other = (1e3 * getattr(cost, name) / each for cost in (over_tls, plain))
        yield Row(
            f"gateways_{name}_cpu",
            load.all_nodes,
            load.all_pods,
            ours,
            "ms a s",
            None,
            other,
            text,
            _BESIDE,
        )
    ours, other = (cost.resident / each / 2**10 for cost in (over_tls, plain))
    text = "resident memory of the dispatcher's process, a cluster, its nodes and pods among it"
    yield Row(
        "gateways_rss", load.all_nodes, load.all_pods, ours, "KiB", None, other, text, _BESIDE
    )
    text = f"{who}, until the first pod is bound, all agents connecting at once"
    pair = over_tls.start, plain.start
    yield Row(
        "gateways_until_it_decides",
        load.all_nodes,
        load.all_pods,
        pair[0],
        "s",
        None,
        pair[1],
        text,
        _BESIDE,
    )


CASES = (fleet_through_gateways,)
