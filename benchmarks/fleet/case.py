"""A dispatcher and fake clusters: until it decides, readings, pod changes, a burst, other clusters,
stalls.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.fleet.cluster import FakeCluster, now
from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import Fleet, Taken
from benchmarks.fleet.processes import resident
from benchmarks.report.rows import Row

ALONE = "CPU of the dispatcher's process, from outside"
DECODED = "decoding the same reports into dicts"
REST = "while nothing else happens, in the same run"
_LOCAL = "pods that run in their own cluster, in the same run"
_SENT = "the same reports as they were sent"
_BOUND = "from submission to bound, one pod every 50 ms"
BETWEEN = "the longest time between two rounds of decisions, CPU"
MOST = "most resident memory of the whole process, from outside,"
_MIB = 2**20
_PAIRS = 20  # of a local pod and a remote one
_STEP_S = 0.05
_UNLIKE = 10**9  # templates, of which hardly two pods have the same
Beside = tuple[float | None, str]  # a baseline, and whose it is
_NOTHING: Beside = None, ""


def fleet_of_agents(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes with 1,500 pods each; `share` 10: a tenth of the clusters."""
    return asyncio.run(measure(Load() if share == 1 else small(Load(), share)))


def fleet_of_a_million(share: int) -> list[Row]:
    """200 clusters x 5,000 nodes with 1,500 pods each: until it decides, memory, and pods unlike
    any other.
    """
    load = Load(clusters=200, tenants=200)
    return asyncio.run(_million(load if share == 1 else small(load, share)))


async def _million(load: Load) -> list[Row]:
    one, odd = Fleet(load), 100
    async with one.dispatcher():
        await one.ask("go")
        async with one.phase("start") as started:
            await one.until("bound", one.submit(1))
        await one.until_quiet()
        known, taken = await _one_by_one(one, odd, 1), await _one_by_one(one, odd, _UNLIKE)
        grown = peak(one)
    n, pods, sent = load.all_nodes, load.all_pods, one.first_bytes / _MIB
    most, what = (
        "most resident memory, pods decided among it",
        f"{ALONE}: the round that decides a pod of an app",
    )
    never, app = f"{what} never seen before", "an app that is known, in the same run"
    return [
        Row(
            "fleet_million_until_it_decides",
            n,
            pods,
            started.cpu,
            "s",
            30,
            started.plain,
            ALONE,
            DECODED,
        ),
        Row("fleet_million_rss_peak", n, pods, grown, "MiB", 3072, sent, most, _SENT),
        Row("fleet_million_odd_p99", n, odd, taken, "ms", 10, known, never, app),
    ]


async def _one_by_one(one: Fleet, count: int, templates: int) -> float:
    """The 99th percentile, in ms of CPU, of the rounds that decide so many pods, one after the
    other.
    """
    async with one.phase("one by one") as taken:
        for _ in range(count):
            await one.until("bound", one.submit(1, templates=templates))
    return 1e3 * float(np.quantile(taken.deciding, 0.99))


def small(load: Load, share: int) -> Load:
    """A part of the clusters, and of what happens in them."""
    return replace(
        load,
        clusters=max(2, load.clusters // share),
        churn=load.churn / share,
        burst=load.burst // share,
        remote=load.remote // share,
        last_s=load.last_s / 3,
    )


class Rows(list[Row]):
    """The figures of one fleet. `rest`: what the longest stall, p50 and p99 of pods are while
    nothing else happens.
    """

    def __init__(self, one: Fleet, say: Callable[[str], None]) -> None:
        super().__init__()
        self.fleet, self._say = one, say
        self.rest: Taken | None = None

    def add(  # noqa: PLR0913 - the fields of a row
        self, name: str, count: int, value: float, unit: str, target: float | None, counts: str,
        beside: Beside = _NOTHING,
    ) -> None:  # fmt: skip
        """One figure; of another load than the usual one it has no target."""
        nodes, (baseline, whose) = self.fleet.load.all_nodes, beside
        target = target if self.fleet.load.usual else None
        self.append(
            Row(f"fleet_{name}", nodes, count, value, unit, target, baseline, counts, whose)
        )
        self._say(
            f"{name}: {value:.3f} {unit}"
            + (f"; {whose}: {baseline:.3f}" if baseline is not None else "")
        )

    def stall(self, name: str, count: int, taken: Taken, counts: str = BETWEEN) -> None:
        """The longest stall of a phase."""
        beside = (1e3 * self.rest.stall_cpu, REST) if self.rest else _NOTHING
        self.add(f"{name}_stall", count, 1e3 * taken.stall_cpu, "ms", 50, counts, beside)

    def probes(self, name: str, taken: Taken) -> None:
        """The pods that were submitted beside a phase, and its longest stall."""
        for figure, share in (("p50", 0.5), ("p99", 0.99)):
            beside = (1e3 * self.rest.probe(share), REST) if self.rest else _NOTHING
            self.add(
                f"{name}_{figure}",
                len(taken.probes),
                1e3 * taken.probe(share),
                "ms",
                None,
                _BOUND,
                beside,
            )
        self.stall(name, len(taken.probes), taken)


async def measure(
    load: Load, *, profile: bool = False, say: Callable[[str], None] = lambda text: None
) -> list[Row]:
    """All figures of one fleet."""
    one = Fleet(load)
    rows, pods = Rows(one, say), load.all_pods
    async with one.dispatcher(profile=profile):
        idle = resident(one.pid)
        await one.ask("go")
        first = one.submit(1)
        async with one.phase("start") as taken:
            await one.until("bound", first)
        text = f"{ALONE}, until the first pod is bound"
        rows.add("until_it_decides", pods, taken.cpu, "s", 15, text, (taken.plain, DECODED))
        await one.until_quiet()
        grown, sent = (resident(one.pid) - idle) / _MIB, (one.first_bytes / _MIB, _SENT)
        text = (
            "resident memory that the process takes more when it knows all nodes and pods, from "
            "outside"
        )
        rows.add("rss", pods, grown, "MiB", None, text, sent)
        rows.add("rss_peak", pods, peak(one), "MiB", None, f"{MOST} until then", sent)
        for phase in (_idle, _readings, _changes, _pods, _stalls, _lists):
            await phase(one, rows)
        rows.add("rss_peak_at_end", pods, peak(one), "MiB", None, f"{MOST} in the whole run", sent)
    return rows


def peak(one: Fleet) -> float:
    """Most memory of the process so far, in MiB."""
    return resident(one.pid, "VmHWM") / _MIB


async def _idle(one: Fleet, rows: Rows) -> None:
    async with one.phase("idle") as taken:
        await asyncio.sleep(one.load.last_s)
    text = f"{ALONE}, of one core, while nothing happens"
    rows.add("idle_cpu", 0, 1000 * taken.cpu / taken.wall, "ms a s", None, text)
    async with one.phase("decisions alone", probes=True) as rows.rest:
        await asyncio.sleep(one.load.last_s)


async def _readings(one: Fleet, rows: Rows) -> None:
    load = one.load
    async with one.phase("readings") as taken:
        told = await sweep_all(one)
    each, plain = 1e6 * taken.cpu / told, 1e6 * taken.plain / told
    rows.add("reading_cpu", told, each, "us", 3.0, f"{ALONE}, a reading", (plain, DECODED))
    text, a_second = (
        f"{ALONE}: readings of all nodes every {load.sweep_s:g} s",
        load.all_nodes / load.sweep_s / 1e3,
    )
    rows.add(
        "readings_core", told, each * a_second, "ms a s", 100.0, text, (plain * a_second, DECODED)
    )
    async with one.phase("readings beside decisions", probes=True) as taken:
        await sweep_all(one)
    rows.probes("readings", taken)


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


async def _changes(one: Fleet, rows: Rows) -> None:
    if not one.load.churn:
        return
    async with one.phase("changes") as taken:
        made = await churn_all(one)
    text, each = f"{ALONE}, a pod change, {one.load.churn:g} a second", 1e6 / max(made, 1)
    rows.add("change_cpu", made, each * taken.cpu, "us", 100, text, (each * taken.plain, DECODED))
    async with one.phase("changes beside decisions", probes=True) as taken:
        await churn_all(one)
    rows.probes("changes", taken)


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


async def _pods(one: Fleet, rows: Rows) -> None:
    """A burst of pods, as many that stay in their own cluster, and some that run in another one."""
    load, count = one.load, one.load.burst
    async with one.phase("burst") as burst:
        await one.until("bound", one.submit(count, templates=load.burst_templates))
    await one.until_quiet()
    async with one.phase("local") as local:
        await one.until("bound", one.submit(count, at_home, load.burst_templates))
    each, beside = 1e3 / count, (1e3 * local.cpu / count, _LOCAL)
    rows.add(
        "burst_bound",
        count,
        burst.wall,
        "s",
        1.5,
        "a burst of pods, until all are bound",
        (local.wall, _LOCAL),
    )
    rows.add(
        "burst_pod_cpu", count, each * burst.cpu, "ms", None, f"{ALONE}, a pod of the burst", beside
    )
    rows.stall("burst", count, burst)
    text = f"{ALONE}, a pod that runs in its own cluster"
    rows.add(
        "local_pod_cpu", count, each * local.cpu, "ms", 0.12, text, (each * local.plain, DECODED)
    )
    await one.until_quiet()
    if sum(cluster.listed for cluster in one.clusters.values()) > 1 and load.remote:
        await _remote(one, rows, beside)


async def _remote(one: Fleet, rows: Rows, beside: Beside) -> None:
    async with one.phase("remote") as taken:
        uids = one.submit(one.load.remote, _elsewhere, one.load.burst_templates)
        await one.until("running", uids)
    text = f"{ALONE}, a pod that runs in another cluster"
    rows.add("remote_pod_cpu", len(uids), 1e3 * taken.cpu / len(uids), "ms", 0.4, text, beside)
    text = (
        f"how much later than a local pod a remote one is shown Running, median of {_PAIRS} pairs"
    )
    rows.add("remote_later", _PAIRS, 1e3 * await _later(one), "ms", 300, text)


async def _later(one: Fleet) -> float:
    """Seconds by which a remote pod is shown Running later than a local one that is submitted with
    it.
    """
    more = []
    for _ in range(_PAIRS):
        uids = one.submit(1, _elsewhere) + one.submit(1, at_home)
        await one.until("running", uids)
        remote, local = one.latencies("running", uids)
        more.append(remote - local)
    return float(np.median(more))


def at_home(home: FakeCluster) -> str:
    """The region of the cluster itself."""
    return f"r{home.number}"


def _elsewhere(home: FakeCluster) -> str:
    """The region of the first cluster; for its own pods of the second."""
    return "r1" if home.number == 0 else "r0"


async def _stalls(one: Fleet, rows: Rows) -> None:
    clusters = list(one.clusters.values())
    again, other, last = (
        clusters[0],
        clusters[1 % len(clusters)],
        clusters[-1 if len(clusters) > 2 else 0],
    )
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
        rows.stall(
            name, one.load.nodes, taken, f"longest time between rounds of decisions, CPU: {what}"
        )


async def _lists(one: Fleet, rows: Rows) -> None:
    """What people and Prometheus ask for while pods are decided, whole."""
    pod = next(
        home.pods[uid]
        for home in one.clusters.values()
        for uid in home.pods
        if uid in one.submitted
    )
    lists = ("/v1/nodes", "/v1/pods", "/v1/clusters", "/v1/usage", "/v1/links", "/")
    for name, paths in (
        ("lists", (*lists, f"/v1/explain/{pod.namespace}/{pod.name}")),
        ("scrape", ("/metrics",)),
    ):
        async with one.phase(name, probes=True) as taken:
            size = sum([await one.read(path) for path in paths])
        rows.stall(name, size, taken)


CASES = (fleet_of_agents, fleet_of_a_million)
