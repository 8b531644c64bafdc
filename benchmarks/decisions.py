"""Decisions of the core alone: filter, score every node, reserve, capture why. No API server, no
Ray, one core.
"""

import gc
import resource
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, thread_time

import msgspec

from benchmarks.fleets import different_pods, fleet_of, placed, same_pods, scheduler_of
from benchmarks.naive import naive_rate
from benchmarks.report.rows import Row
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from shared.model.pod import RUNNING

BATCH, ODD, LONE = 1000, 500, 140  # LONE: half of it so that classes use memory again
SIZES = ((250, 2**28), (1000, 2**31), (2000, 2**32), (4000, 2**33))  # milli-CPU, bytes
_USUAL = "pods of 500m and 512Mi on the same fleet in the same run"
PER_BATCH, PER_POD = "core, batches of 1,000, by CPU time", "core, one by one, by CPU time"


def one_template(share: int) -> list[Row]:
    """5,000 nodes, 50,000 pods of one template."""
    pods = list(same_pods(50_000 // share))
    rate = _batches(scheduler_of(fleet_of(1, 5000)), pods)
    baseline = naive_rate(fleet_of(1, 5000), pods[:20])
    return [
        Row(
            "decide_one_template",
            5000,
            len(pods),
            rate,
            "decisions/s",
            100_000,
            baseline,
            PER_BATCH,
        )
    ]


def small_pods(share: int) -> list[Row]:
    """The same with pods of 50m and 64Mi, with readings of all nodes and without any."""
    pods = [placed(i, 50, 64 * 2**20) for i in range(50_000 // share)]
    rows = []
    for name, read in (("", True), ("_without_readings", False)):
        usual, rate = (
            _batches(scheduler_of(fleet_of(1, 5000, read=read)), some)
            for some in (list(same_pods(len(pods))), pods)
        )
        rows.append(
            Row(
                f"decide_small_pods{name}",
                5000,
                len(pods),
                rate,
                "decisions/s",
                100_000,
                usual,
                PER_BATCH,
                _USUAL,
            )
        )
    return rows


def all_different(share: int) -> list[Row]:
    """5,000 nodes, every pod a class of its own."""
    pods = list(different_pods(5000 // share))
    rate = _one_by_one(scheduler_of(fleet_of(1, 5000)), pods)
    baseline = naive_rate(fleet_of(1, 5000), pods[:20])
    return [
        Row("decide_all_different", 5000, len(pods), rate, "decisions/s", 5000, baseline, PER_POD)
    ]


def half_a_million_nodes(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes with two running pods a node: odd pods, then one template; memory
    of both.
    """
    before = _rss_kib()
    fleet = fleet_of(100, 5000 // share)
    nodes = fleet.n
    gc.collect()
    node_kib = (_rss_kib() - before) / nodes
    _run_pods(fleet, 2 * nodes)
    gc.collect()
    fleet_gib = (_rss_kib() - before) / 2**20
    gc.freeze()  # as the dispatcher does once it has listed its clusters
    scheduler = scheduler_of(fleet)
    times = sorted(
        _timed(scheduler, placed(10**7 + i, 1000 + 7 * i, 2**30 + i * 4096)) for i in range(ODD)
    )
    p50, p99 = times[ODD // 2] * 1000, times[int(ODD * 0.99)] * 1000
    template = list(same_pods(20_000 // share))
    rate = _batches(scheduler, template)
    plain = naive_rate(fleet, [placed(10**8, 777, 2**30)])
    baseline = 1000 / plain
    odd = "core, a class never seen before, wall clock"
    return [
        Row(
            "decide_one_template_500k",
            nodes,
            len(template),
            rate,
            "decisions/s",
            None,
            plain,
            PER_BATCH,
        ),
        Row("odd_pod_p50", nodes, ODD, p50, "ms", None, baseline, odd),
        Row("odd_pod_p99", nodes, ODD, p99, "ms", 10, baseline, odd),
        Row(
            "memory_per_node",
            nodes,
            0,
            node_kib,
            "KiB",
            1,
            None,
            "resident, columns, labels and readings",
        ),
        Row(
            "memory_of_fleet",
            nodes,
            2 * nodes,
            fleet_gib,
            "GiB",
            None,
            None,
            "resident, nodes and running pods",
        ),
    ]


def costs_of_a_pass(share: int) -> list[Row]:
    """What a decision costs for a node, 100 clusters x 5,000 nodes. Pods without labels are not
    spread by default.
    """
    fleet = fleet_of(100, 5000 // share)
    scheduler = scheduler_of(fleet)
    kinds = (
        ("glance_cost", different_pods, False, 0.0, "a new class, not spread: at a glance"),
        ("changed_rows_cost", same_pods, False, 0.0, "a template, not spread, in the same second"),
        ("pass_decision_cost", same_pods, False, 1.0, "the same in the next second: a pass"),
        ("spread_again_cost", same_pods, True, 0.0, "a template of an app, in the same second"),
        ("spread_decision_cost", different_pods, True, 0.0, "a new class of an app"),
    )
    rows = []
    for name, pods, spreads, step, text in kinds:
        cost = _median_cost(scheduler, [one if spreads else _bare(one) for one in pods(LONE)], step)
        rows.append(Row(name, fleet.n, LONE, 1e9 * cost / fleet.n, "ns", None, None, text))
    return rows


def _bare(one: PodInfo) -> PodInfo:
    return PodInfo(msgspec.structs.replace(one.pod, labels={}), one.home)


def _median_cost(scheduler: Scheduler, pods: Sequence[PodInfo], step: float) -> float:
    """CPU seconds of a decision, one pod after the other, `step` seconds apart; then they end."""
    spent = []
    for one in pods:
        scheduler.fleet.now += step
        started = thread_time()
        scheduler.schedule(one, ("c000", one.pod.uid))
        spent.append(thread_time() - started)
    for one in pods:
        scheduler.forget(("c000", one.pod.uid))
    return median(spent[LONE // 2 :])


def _run_pods(fleet: FleetState, count: int) -> None:
    """Pods of four sizes on all nodes; one node in a hundred is full."""
    clusters = len(fleet.clusters)
    nodes = fleet.n // clusters
    for i in range(count):
        cluster, at = f"c{i % clusters:03}", i // clusters * 7919 % nodes
        cpu, memory = (15_900, 2**33) if at % 100 == 7 else SIZES[i // clusters % len(SIZES)]
        pod = msgspec.structs.replace(placed(i, cpu, memory).pod, uid=f"run-{i}", phase=RUNNING)
        fleet.place((cluster, pod.uid), PodInfo(pod, cluster), cluster, f"n{at:04}", assumed=False)


def memory_per_pod(share: int) -> list[Row]:
    """What one placed pod keeps in the fleet."""
    fleet = fleet_of(1, 5000)
    count = 100_000 // share
    gc.collect()
    tracemalloc.start()
    for i in range(count):
        fleet.place(
            ("c000", f"uid-{i}"), placed(i, 10, 2**20), "c000", f"n{i % 5000:04}", assumed=False
        )
    gc.collect()
    kib = tracemalloc.get_traced_memory()[0] / 1024 / count
    tracemalloc.stop()
    return [
        Row(
            "memory_per_pod",
            5000,
            count,
            kib,
            "KiB",
            1,
            None,
            "allocated for a placed pod, its record included",
        )
    ]


def _batches(scheduler: Scheduler, pods: Sequence[PodInfo]) -> float:
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


def _one_by_one(scheduler: Scheduler, pods: Sequence[PodInfo]) -> float:
    return _rate(
        len(pods), lambda: [scheduler.schedule(one, ("c000", one.pod.uid)) for one in pods]
    )


def _rate(count: int, work: Callable[[], list[object]]) -> float:
    """A second of one core's time; whatever else the machine does meanwhile."""
    start = process_time()
    results = work()
    seconds = process_time() - start
    if not all(isinstance(result, Decision) for result in results):
        raise RuntimeError("the benchmark's fleet is too small for its pods")
    return count / seconds


def _timed(scheduler: Scheduler, one: PodInfo) -> float:
    start = perf_counter()
    scheduler.schedule(one, ("c000", one.pod.uid))
    return perf_counter() - start


def _rss_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


CASES = (
    one_template,
    small_pods,
    all_different,
    half_a_million_nodes,
    costs_of_a_pass,
    memory_per_pod,
)
