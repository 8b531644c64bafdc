"""Bursts of many templates beside bursts of one, in 100 clusters: CPU of a pod, stalls, and memory
afterwards.
"""

import asyncio
from collections.abc import Callable

from benchmarks.fleet.case import ALONE, BETWEEN, MOST, at_home, peak, small
from benchmarks.fleet.cluster import FakeCluster
from benchmarks.fleet.load import Load
from benchmarks.fleet.phases import Fleet, Taken
from benchmarks.report.rows import Row

_BESIDE = "as many pods of one template, in the same run"


def fleet_of_many_templates(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes, 5,000 pods of 200 templates at once; `share` 10: a tenth of
    clusters and pods.
    """
    load = Load(burst_templates=200)
    return asyncio.run(_measure(load if share == 1 else small(load, share)))


async def _measure(load: Load) -> list[Row]:
    one, templates = Fleet(load, all_listed=True), load.burst_templates
    async with one.dispatcher():
        await one.ask("go")
        await one.until("bound", one.submit(1))
        few, few_at_home = await _burst(one, _anywhere, 1), await _burst(one, at_home, 1)
        many, many_at_home = (
            await _burst(one, _anywhere, templates),
            await _burst(one, at_home, templates),
        )
        most = peak(one)
    each, burst = 1e3 / load.burst, f"a burst of pods of {templates} templates"
    pod, at_their_home = (
        f"{ALONE}, a pod of {burst}",
        f"{ALONE}, a pod of such a burst that runs in its own cluster",
    )
    figures = (
        ("burst_bound", many.wall, few.wall, "s", f"{burst}, until all are bound"),
        ("burst_pod_cpu", each * many.cpu, each * few.cpu, "ms", pod),
        ("burst_stall", 1e3 * many.stall_cpu, 1e3 * few.stall_cpu, "ms", BETWEEN),
        ("local_pod_cpu", each * many_at_home.cpu, each * few_at_home.cpu, "ms", at_their_home),
    )
    nodes, pods = load.all_nodes, load.burst
    return [
        *(
            Row(f"fleet_mixed_{name}", nodes, pods, value, unit, None, beside, counts, _BESIDE)
            for name, value, beside, unit, counts in figures
        ),
        Row(
            "fleet_mixed_rss_peak",
            nodes,
            load.all_pods,
            most,
            "MiB",
            None,
            None,
            f"{MOST} such bursts among it",
        ),
    ]


async def _burst(one: Fleet, where: Callable[[FakeCluster], str], templates: int) -> Taken:
    await one.until_quiet()
    async with one.phase("burst") as taken:
        await one.until("bound", one.submit(one.load.burst, where, templates))
    return taken


def _anywhere(home: FakeCluster) -> str:
    return ""


CASES = (fleet_of_many_templates,)
