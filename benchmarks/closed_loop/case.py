"""The row of the closed loop in `make bench`: on generated traces, so that it needs no file."""

import sys

import numpy as np

from benchmarks.closed_loop.measure import Measure, goal, report, runs
from benchmarks.closed_loop.policies import BEST_OF_TWO, BY_ONE_SCORE, OURS
from benchmarks.closed_loop.traces import generated
from benchmarks.closed_loop.workload import Size
from benchmarks.report.rows import Row

SEEDS = 3
BESIDE = "the best of requests, the seed's formula and Trimaran"
_POLICIES = (*BY_ONE_SCORE, BEST_OF_TWO, OURS)
_COUNTS = (
    "node-minutes of a day above 80 % CPU, default profile, generated traces, mean of {} seeds"
)


def closed_loop(share: int) -> list[Row]:
    """100 nodes, 3,200 pods over a day; `--quick` takes a tenth of both, once."""
    size, seeds = (
        (Size(), SEEDS) if share == 1 else (Size(nodes=100 // share, pods=3200 // share), 1)
    )
    measure = Measure(
        generated(np.random.default_rng(0)), "generated", seeds, size, policies=_POLICIES
    )
    policies = report(measure, list(runs(measure, _say)))["policies"]
    best = min(policies[name]["hot_minutes"] for name in BY_ONE_SCORE)
    value = policies[OURS]["hot_minutes"]
    counts = _COUNTS.format(seeds)
    return [
        Row(
            "closed_loop_hot_minutes",
            size.nodes,
            size.pods,
            value,
            "min",
            goal(policies),
            best,
            counts,
            BESIDE,
        )
    ]


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


CASES = (closed_loop,)
