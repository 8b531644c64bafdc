"""Odd pods decided by one compiled pass over all rows, beside the scheduler's own way.

Each pod is decided both ways on the same fleet, and then booked: a difference in row, score,
runner-up or count of feasible nodes ends the benchmark.
"""

from statistics import median
from time import thread_time

from benchmarks.fleets import fleet_of, placed, scheduler_of
from benchmarks.one_pass.decisions import OnePass
from benchmarks.report.rows import Row
from dispatcher.scheduling.framework.kernels import compile_all
from dispatcher.scheduling.records.decision import Decision
from shared.model.pod import PodId

# clusters of 5,000 nodes, pods, and at most so many milliseconds
_FLEETS = ((1, 300, 0.1), (10, 100, None), (100, 60, 10.0), (200, 40, None))
_FIRST = 3  # pods, of which the first few columns of a fleet are made
_COUNTS = "CPU of the thread, median; compiled loops alone"
_WHOLE = "CPU of the thread, median; with what Python prepares"
_BESIDE = "the scheduler's decision of the same pods, booking and record included"


class DifferentError(Exception):
    """The pass and the scheduler decided a pod in two ways."""


def one_pass(share: int) -> list[Row]:
    """One pod of a class that was never met, at 5,000 to 1,000,000 nodes."""
    compile_all()
    rows = []
    for clusters, pods, target in _FLEETS:
        rows += _of_fleet(clusters, 5000 // share, pods, target)
    return rows


def _of_fleet(clusters: int, nodes: int, pods: int, target: float | None) -> list[Row]:
    fleet = fleet_of(clusters, nodes)
    scheduler = scheduler_of(fleet)
    passes = OnePass(scheduler)
    compiled, whole, plain = list[float](), list[float](), list[float]()
    for number in range(pods + _FIRST):
        pod_info = placed(number, 100 + 7 * number, 2**28 + number * 4096)
        pod_id: PodId = ("c000", pod_info.pod.uid)
        begun = thread_time()
        # of an app without pods, spread says nothing: that one is the scheduler's alone
        found = passes.choose(pod_info) if number else None
        between = thread_time()
        decided = scheduler.schedule(pod_info, pod_id)
        ended = thread_time()
        if not isinstance(decided, Decision):
            raise DifferentError(f"pod {number} has no place")
        if found is None:
            continue
        second = (*fleet.name_of(found.second), found.second_score)
        one = found.row, found.score, second, found.feasible
        other = decided.row, decided.score, decided.runner_up, decided.context.feasible
        if one != other:
            raise DifferentError(f"pod {number}: {one}, and the scheduler {other}")
        if number >= _FIRST:
            compiled.append(1000 * passes.compiled_s)
            whole.append(1000 * (between - begun))
            plain.append(1000 * (ended - between))
    baseline = median(plain)
    of = clusters * nodes, pods
    return [
        Row("one_pass_compiled", *of, median(compiled), "ms", target, baseline, _COUNTS, _BESIDE),
        Row("one_pass", *of, median(whole), "ms", None, baseline, _WHOLE, _BESIDE),
    ]


CASES = (one_pass,)
