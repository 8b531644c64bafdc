"""All policies over the same days: the figures of each, as means over the seeds."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.closed_loop.loop import run
from benchmarks.closed_loop.ours import read_profile
from benchmarks.closed_loop.policies import BEST_OF_TWO, BY_ONE_SCORE, OURS, POLICIES
from benchmarks.closed_loop.policy import Setting
from benchmarks.closed_loop.readings import Quality, Readings
from benchmarks.closed_loop.traces import Table
from benchmarks.closed_loop.workload import CPU, MEMORY, NETWORK, Size, Workload, make
from benchmarks.closed_loop.world import Figures, World
from dispatcher.scheduling.framework import Profile


@dataclass(frozen=True)
class Run:
    """What a policy made of one day: figures of each resource, and how long pods waited for room."""

    policy: str
    seed: int
    figures: Sequence[Figures]
    waited_minutes: float


@dataclass(frozen=True)
class Measure:
    """What to run. `trace` says where the traces are from."""

    traces: Table
    trace: str
    seeds: int
    size: Size = field(default_factory=Size)
    quality: Quality = field(default_factory=Quality)
    policies: tuple[str, ...] = tuple(POLICIES)
    profile: Profile = field(default_factory=read_profile)


def runs(measure: Measure, say: Callable[[str], None]) -> Iterator[Run]:
    """Every policy in every seed's world; `say` is told what is running."""
    for seed in range(1, measure.seeds + 1):
        workload = make(measure.traces, measure.size, seed)
        for name in measure.policies:
            say(f"seed {seed} of {measure.seeds}: {name}")
            yield _run(measure, workload, name, seed)


def _run(measure: Measure, workload: Workload, name: str, seed: int) -> Run:
    world = World(workload)
    readings = Readings(measure.quality, measure.size.nodes, seed)
    setting = Setting(workload, world, np.random.default_rng((seed, 2)), measure.profile)
    day = run(workload, world, readings, POLICIES[name](setting))
    return Run(name, seed, world.figures(), day.waited_minutes)


def report(measure: Measure, found: Sequence[Run]) -> dict[str, Any]:
    """What `-o json` prints: `policies` is of CPU, `memory` and `network` have the same form; means
    over the seeds.
    """
    of = {name: [one for one in found if one.policy == name] for name in measure.policies}
    return {
        "policies": {name: mean(some, CPU) for name, some in of.items()},
        "memory": {name: mean(some, MEMORY) for name, some in of.items()},
        "network": {name: mean(some, NETWORK) for name, some in of.items()},
        "waited_minutes": {
            name: statistics.fmean(one.waited_minutes for one in some) for name, some in of.items()
        },
        "hot_minutes_by_seed": {
            name: [one.figures[CPU].hot_minutes for one in some] for name, some in of.items()
        },
        "world": {
            "trace": measure.trace,
            "seeds": measure.seeds,
            **asdict(measure.size),
            **asdict(measure.quality),
        },
    }


def mean(found: Sequence[Run], resource: int) -> dict[str, float]:
    """Each figure of a resource, the mean of some runs."""
    columns = zip(*(one.figures[resource] for one in found), strict=True)
    return dict(zip(Figures._fields, map(statistics.fmean, columns), strict=True))


def goal(policies: Mapping[str, Mapping[str, float]]) -> float | None:
    """Hot minutes that `ours` should not exceed; None where a policy that it is measured by did not
    run.

    Half of the best of requests, the seed's formula and Trimaran, and 0.8 of the best of two.
    """
    if not {*BY_ONE_SCORE, BEST_OF_TWO, OURS} <= policies.keys():
        return None
    best = min(policies[name]["hot_minutes"] for name in BY_ONE_SCORE)
    return min(0.5 * best, 0.8 * policies[BEST_OF_TWO]["hot_minutes"])
