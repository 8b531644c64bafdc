"""Decisions of the core alone: filter, score every node, reserve, capture why. No API server, no Ray, one core."""

import gc
import resource
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.fleets import different_pods, fleet_of, placed, same_pods, scheduler_of
from benchmarks.naive import naive_rate
from benchmarks.report.rows import Row
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.framework import Placed

BATCH = 1000


def one_template(share: int) -> list[Row]:
    """5,000 nodes, 50,000 pods of one template."""
    pods = list(same_pods(50_000 // share))
    rate = _batches(scheduler_of(fleet_of(1, 5000)), pods)
    baseline = naive_rate(fleet_of(1, 5000), pods[:20])
    return [
        Row("decide_one_template", 5000, len(pods), rate, "decisions/s", 100_000, baseline, "core, batches of 1,000")
    ]


def all_different(share: int) -> list[Row]:
    """5,000 nodes, every pod a class of its own."""
    pods = list(different_pods(5000 // share))
    rate = _one_by_one(scheduler_of(fleet_of(1, 5000)), pods)
    baseline = naive_rate(fleet_of(1, 5000), pods[:20])
    return [Row("decide_all_different", 5000, len(pods), rate, "decisions/s", 5000, baseline, "core, one by one")]


def half_a_million_nodes(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes: one template, and the latency of one odd pod; memory of a node and of a pod."""
    before = _rss_kib()
    fleet = fleet_of(100, 5000 // share)
    nodes = fleet.n
    gc.collect()
    node_kib = (_rss_kib() - before) / nodes
    scheduler = scheduler_of(fleet)
    template = list(same_pods(20_000 // share))
    rate = _batches(scheduler, template)
    times = sorted(_timed(scheduler, placed(10**7 + i, 1000 + i, 2**30 + i * 4096)) for i in range(200))
    p50, p99 = times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000
    plain = naive_rate(fleet, [placed(10**8, 777, 2**30)])
    baseline = 1000 / plain
    return [
        Row(
            "decide_one_template_500k", nodes, len(template), rate, "decisions/s", None, plain, "core, batches of 1,000"
        ),
        Row("odd_pod_p50", nodes, len(times), p50, "ms", None, baseline, "core, a class never seen before"),
        Row("odd_pod_p99", nodes, len(times), p99, "ms", 10, baseline, "core, a class never seen before"),
        Row("memory_per_node", nodes, 0, node_kib, "KiB", 1, None, "resident, columns, labels and readings"),
    ]


def memory_per_pod(share: int) -> list[Row]:
    """What one placed pod keeps in the fleet."""
    fleet = fleet_of(1, 5000)
    count = 100_000 // share
    gc.collect()
    tracemalloc.start()
    for i in range(count):
        fleet.place(("c000", f"uid-{i}"), placed(i, 10, 2**20), "c000", f"n{i % 5000:04}", assumed=False)
    gc.collect()
    kib = tracemalloc.get_traced_memory()[0] / 1024 / count
    tracemalloc.stop()
    return [Row("memory_per_pod", 5000, count, kib, "KiB", 1, None, "allocated for a placed pod, its record included")]


def _batches(scheduler: Scheduler, pods: Sequence[Placed]) -> float:
    return _rate(
        len(pods),
        lambda: [
            result
            for start in range(0, len(pods), BATCH)
            for result in scheduler.schedule_class(
                [(("c000", one.pod.uid), one) for one in pods[start : start + BATCH]]
            )
        ],
    )


def _one_by_one(scheduler: Scheduler, pods: Sequence[Placed]) -> float:
    return _rate(len(pods), lambda: [scheduler.schedule(one, ("c000", one.pod.uid)) for one in pods])


def _rate(count: int, work: Callable[[], list[object]]) -> float:
    start = perf_counter()
    results = work()
    seconds = perf_counter() - start
    if not all(isinstance(result, Decision) for result in results):
        raise RuntimeError("the benchmark's fleet is too small for its pods")
    return count / seconds


def _timed(scheduler: Scheduler, one: Placed) -> float:
    start = perf_counter()
    scheduler.schedule(one, ("c000", one.pod.uid))
    return perf_counter() - start


def _rss_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


CASES = (one_template, all_different, half_a_million_nodes, memory_per_pod)
