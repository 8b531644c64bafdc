"""A dispatcher and fake clusters: until it decides, readings, pod changes, a burst, other clusters, stalls."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.fleet.cluster import FakeCluster, now
from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import Fleet, Taken
from benchmarks.fleet.processes import resident
from benchmarks.report.rows import Row

_ALONE = "CPU of the dispatcher's process, from outside"
DECODED = "decoding the same reports into dicts"
_STEP_S = 0.05
_UNLIKE = 10**9  # templates, of which hardly two pods have the same


def fleet_of_agents(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes with 1,500 pods each; `share` 10: a tenth of the clusters."""
    return asyncio.run(measure(Load() if share == 1 else _small(Load(), share)))


def fleet_of_a_million(share: int) -> list[Row]:
    """200 clusters x 5,000 nodes with 1,500 pods each: until it decides, memory, and pods unlike any other."""
    load = Load(clusters=200)
    return asyncio.run(_million(load if share == 1 else _small(load, share)))


async def _million(load: Load) -> list[Row]:
    one, odd = Fleet(load), 100
    plain = one.plain_decode_s
    async with one.dispatcher():
        await one.ask("go")
        async with one.phase("start") as started:
            await one.until("bound", one.submit(1))
        await one.until_quiet()
        async with one.phase("odd") as taken:
            for _ in range(odd):
                await one.until("bound", one.submit(1, templates=_UNLIKE))
        peak = resident(one.pid, "VmHWM") / 2**20
    p99 = 1e3 * float(np.quantile(taken.deciding, 0.99))
    n, pods = load.all_nodes, load.all_pods
    what = f"{_ALONE}: the round that decides a pod of an app never seen before"
    return [
        Row("fleet_million_until_it_decides", n, pods, started.cpu, "s", 30, plain, _ALONE, DECODED),
        Row("fleet_million_rss_peak", n, pods, peak, "MiB", 3072, None, "most resident memory, pods decided among it"),
        Row("fleet_million_odd_p99", n, odd, p99, "ms", 10, None, what),
    ]


def _small(load: Load, share: int) -> Load:
    return replace(
        load,
        clusters=max(2, load.clusters // share),
        churn=load.churn / share,
        burst=load.burst // share,
        remote=load.remote // share,
        last_s=load.last_s / 3,
    )


async def measure(load: Load, *, profile: bool = False, say: Callable[[str], None] = lambda text: None) -> list[Row]:
    """All figures of one fleet."""
    rows: list[Row] = []
    one = Fleet(load)
    plain = one.plain_decode_s
    n, pods = load.all_nodes, load.all_pods

    def add(name: str, count: int, value: float, unit: str, target: float | None, counts: str, **more: object) -> None:
        rows.append(Row(f"fleet_{name}", n, count, value, unit, target, None, counts))
        say(f"{name}: {value:.3f} {unit}")

    async with one.dispatcher(profile=profile):
        idle = resident(one.pid)
        await one.ask("go")
        first = one.submit(1)
        started = now()
        async with one.phase("start") as taken:
            await one.until("bound", first)
        rows.append(
            Row(
                "fleet_until_it_decides",
                n,
                pods,
                taken.cpu,
                "s",
                15,
                plain,
                f"{_ALONE}, until the first pod is bound",
                DECODED,
            )
        )
        say(f"until_it_decides: {taken.cpu:.2f} s CPU, {now() - started:.2f} s; plain decode {plain:.2f} s")
        await one.until_quiet()
        grown = resident(one.pid) - idle
        add("rss", pods, grown / 2**20, "MiB", None, "resident memory of all nodes and pods, from outside")
        add("rss_peak", pods, resident(one.pid, "VmHWM") / 2**20, "MiB", None, "most resident memory of the process")
        await _idle(one, add)
        await _readings(one, add)
        await _changes(one, add)
        await _burst(one, add)
        await _local(one, add)
        await _remote(one, add)
        await _stalls(one, add)
    return rows


async def _idle(one: Fleet, add: Callable[..., None]) -> None:
    async with one.phase("idle") as taken:
        await asyncio.sleep(one.load.last_s)
    text = f"{_ALONE}, of one core, while nothing happens"
    add("idle_cpu", 0, 1000 * taken.cpu / taken.wall, "ms a s", None, text)


async def _readings(one: Fleet, add: Callable[..., None]) -> None:
    load = one.load
    async with one.phase("readings") as taken:
        told = await sweep_all(one)
    add("reading_cpu", told, 1e6 * taken.cpu / told, "us", 3.0, f"{_ALONE}, a reading")
    text = f"{_ALONE}: readings of all nodes every {load.sweep_s:g} s"
    add("readings_core", told, 1e3 * taken.cpu / told * load.all_nodes / load.sweep_s, "ms a s", 100.0, text)
    async with one.phase("readings beside decisions", probes=True) as taken:
        await sweep_all(one)
    _probes("readings", taken, add)


async def sweep_all(one: Fleet) -> int:
    """New readings, cluster by cluster, for as long as the load says; how many."""
    load, clusters = one.load, list(one.clusters.values())
    began, swept = now(), 0
    while (passed := now() - began) < load.last_s:
        while swept <= passed / load.sweep_s * len(clusters):
            clusters[swept % len(clusters)].sweep()
            swept += 1
        await asyncio.sleep(_STEP_S)
    return swept * load.nodes


async def _changes(one: Fleet, add: Callable[..., None]) -> None:
    async with one.phase("changes") as taken:
        made = await churn_all(one)
    text = f"{_ALONE}, a pod change, {one.load.churn:g} a second"
    add("change_cpu", made, 1e6 * taken.cpu / max(made, 1), "us", 100, text)
    async with one.phase("changes beside decisions", probes=True) as taken:
        await churn_all(one)
    _probes("changes", taken, add)


async def churn_all(one: Fleet) -> int:
    """Pods that change here and there, for as long as the load says; how many."""
    load, clusters = one.load, list(one.clusters.values())
    began, made = now(), 0
    while (passed := now() - began) < load.last_s:
        while made < passed * load.churn:
            one.chance.choice(clusters).churn()
            made += 1
        await asyncio.sleep(_STEP_S)
    return made


async def _burst(one: Fleet, add: Callable[..., None]) -> None:
    async with one.phase("burst") as taken:
        uids = one.submit(one.load.burst, templates=one.load.burst_templates)
        await one.until("bound", uids)
    add("burst_bound", len(uids), taken.wall, "s", 1.5, "a burst of pods, until all are bound")
    await one.until_quiet()
    add("burst_pod_cpu", len(uids), 1e3 * taken.cpu / len(uids), "ms", None, f"{_ALONE}, a pod of the burst")
    add(
        "burst_stall",
        len(uids),
        1e3 * taken.stall_cpu,
        "ms",
        50,
        "the longest time between two rounds of decisions, CPU",
    )


async def _local(one: Fleet, add: Callable[..., None]) -> None:
    async with one.phase("local") as taken:
        uids = one.submit(one.load.burst, lambda home: f"r{home.number}", one.load.burst_templates)
        await one.until("bound", uids)
    text = f"{_ALONE}, a pod that runs in its own cluster"
    add("local_pod_cpu", len(uids), 1e3 * taken.cpu / len(uids), "ms", 0.12, text)
    await one.until_quiet()


async def _remote(one: Fleet, add: Callable[..., None]) -> None:
    if sum(cluster.listed for cluster in one.clusters.values()) < 2 or not one.load.remote:
        return
    async with one.phase("remote") as taken:
        uids = one.submit(one.load.remote, _elsewhere, one.load.burst_templates)
        await one.until("running", uids)
    add(
        "remote_pod_cpu",
        len(uids),
        1e3 * taken.cpu / len(uids),
        "ms",
        0.4,
        f"{_ALONE}, a pod that runs in another cluster",
    )
    uids, local = one.submit(1, _elsewhere), one.submit(1)
    await one.until("running", uids + local)
    more = one.latencies("running", uids)[0] - one.latencies("running", local)[0]
    add("remote_later", 1, 1e3 * more, "ms", 300, "how much later than a local pod a remote one is shown Running")


def _elsewhere(home: FakeCluster) -> str:
    """The region of the first cluster; for its own pods of the second."""
    return "r1" if home.number == 0 else "r0"


async def _stalls(one: Fleet, add: Callable[..., None]) -> None:
    clusters = list(one.clusters.values())
    again, other, last = clusters[0], clusters[1 % len(clusters)], clusters[-1 if len(clusters) > 2 else 0]
    for name, cluster, disk, what in (
        ("first_report", last, "", "a cluster is heard of for the first time"),
        ("return", again, "", "an agent that has restarted tells the same anew"),
        ("return_changed", other, "other", "the same, and every node's labels are others"),
    ):
        async with one.phase(name, probes=True) as taken:
            await asyncio.sleep(0.5)
            cluster.disk, cluster.listed = disk, True
            cluster.restart()
            await asyncio.sleep(min(3.0, one.load.last_s))
        text = f"longest time between rounds of decisions, CPU: {what}"
        add(f"{name}_stall", one.load.nodes, 1e3 * taken.stall_cpu, "ms", 50, text)


def _probes(name: str, taken: Taken, add: Callable[..., None]) -> None:
    add(
        f"{name}_p50",
        len(taken.probes),
        1e3 * taken.probe(0.5),
        "ms",
        None,
        "from submission to bound, one pod every 50 ms",
    )
    add(
        f"{name}_p99",
        len(taken.probes),
        1e3 * taken.probe(0.99),
        "ms",
        None,
        "from submission to bound, one pod every 50 ms",
    )
    text = "the longest time between two rounds of decisions, CPU"
    add(f"{name}_stall", len(taken.probes), 1e3 * taken.stall_cpu, "ms", 50, text)


CASES = (fleet_of_agents, fleet_of_a_million)
