"""All benchmarks by name, with the seconds that each takes on two quiet cores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import (
    beside_kube_scheduler,
    decisions,
    first_pods,
    fragmentation,
    gangs,
    listing,
    scheduler_perf,
    tenant_shares,
    tenants_on_planes,
    tracing,
    waiting_groups,
)
from benchmarks.closed_loop import case as closed_loop
from benchmarks.end_to_end import cases as end_to_end
from benchmarks.fail_over import case as fail_over
from benchmarks.fail_over import take_over
from benchmarks.fleet import case as fleet
from benchmarks.fleet import gateways, many_templates
from benchmarks.fleet import memory as fleet_memory
from benchmarks.followers import case as followers
from benchmarks.mixed import case as mixed
from benchmarks.prometheus import case as prometheus
from benchmarks.report.meanings import OF_BENCHMARKS
from benchmarks.report.rows import Row

_OWN = (
    *decisions.CASES,
    *listing.CASES,
    *fragmentation.CASES,
    *waiting_groups.CASES,
    *closed_loop.CASES,
    *fleet.CASES,
    *many_templates.CASES,
    *fleet_memory.CASES,
    *gateways.CASES,
    *fail_over.CASES,
    *take_over.CASES,
    *followers.CASES,
    *prometheus.CASES,
    *beside_kube_scheduler.CASES,
    *mixed.CASES,
    *first_pods.CASES,
    *tenant_shares.CASES,
    *tenants_on_planes.CASES,
    *tracing.CASES,
    *gangs.CASES,
)
_SECONDS = {
    "half_a_million_nodes": 60,
    "costs_of_a_pass": 30,
    "best_rack_of_100_clusters": 60,
    "gangs_that_fit_nowhere": 20,
    "list_and_decode": 40,
    "fragmentation": 60,
    "tenant_shares": 100,
    "tenants_on_planes": 900,
    "closed_loop": 40,
    "fleet_of_agents": 240,
    "fleet_of_a_million": 180,
    "fleet_of_many_templates": 150,
    "fleet_memory": 100,
    "fleet_through_gateways": 130,
    "fail_over": 600,
    "take_over": 60,
    "followers": 400,
    "fail_over_of_100_clusters": 900,
    "fail_over_under_load": 600,
    "prometheus_of_5000_nodes": 120,
    "beside_kube_scheduler_500_nodes": 300,
    "beside_kube_scheduler_5000_nodes": 540,
    "perf_SchedulingCSIPVs": 90,
    "perf_PreemptionPVs": 70,
    "end_to_end_SchedulingPodAffinity": 80,
    "end_to_end_SchedulingPreferredPodAffinity": 70,
    "end_to_end_SchedulingPreferredPodAntiAffinity": 70,
    "end_to_end_MixedSchedulingBasePod": 80,
    "end_to_end_SchedulingRequiredPodAntiAffinityWithNSSelector": 150,
    "end_to_end_PreemptionBasic": 140,
    "end_to_end_PreemptionAsync": 120,
}
_USUAL_S, _END_TO_END_S = 10, 50
_QUICK = 5  # --quick is about that many times shorter


@dataclass(frozen=True)
class Bench:
    """One benchmark; `run` is given the share of the work to do, 1 for all of it, 10 for a tenth."""

    name: str
    run: Callable[[int], list[Row]]
    seconds: float


def _bench(name: str, run: Callable[[int], list[Row]], usual_s: float) -> Bench:
    return Bench(name, run, _SECONDS.get(name, usual_s))


ALL: tuple[Bench, ...] = (
    *(_bench(case.__name__, case, _USUAL_S) for case in _OWN),
    *(_bench(name, run, _USUAL_S) for name, run in scheduler_perf.CASES.items()),
    *(_bench(name, run, _END_TO_END_S) for name, run in end_to_end.CASES.items()),
)


def with_pods(file: Path) -> Bench:
    """`fragmentation` with the pods of a file."""
    return Bench(
        "fragmentation", partial(fragmentation.fragmentation_of, file), _SECONDS["fragmentation"]
    )


def chosen(words: str | None) -> list[Bench]:
    """Those whose name holds one of the words, which commas divide; of a word that none holds,
    those that make a figure whose name does. None: all.
    """
    if words is None:
        return list(ALL)
    found = {name for word in words.split(",") for name in _named(word)}
    return [bench for bench in ALL if bench.name in found]


def _named(word: str) -> list[str]:
    if not word:
        return []
    by_name = [bench.name for bench in ALL if word in bench.name]
    return by_name or [
        name for name, figures in OF_BENCHMARKS.items() if any(word in figure for figure in figures)
    ]


def minutes(benches: list[Bench], share: int) -> float:
    """How long they take on a quiet machine, about."""
    return sum(bench.seconds for bench in benches) / 60 / (_QUICK if share > 1 else 1)
