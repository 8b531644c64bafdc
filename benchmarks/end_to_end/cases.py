"""Cases of scheduler_perf end to end: pods bound a second and CPU a bound pod, ours beside
kube-scheduler's.

Nodes and what is there before are upstream's; fewer pods are measured (`_MOST`), so that all cases
end in about 20 minutes. kube-scheduler scores a tenth of 5,000 nodes, as it does by default; ours
scores all of them.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.end_to_end.contestants import THEM, US, Contestant, Dispatcher, KubeScheduler
from benchmarks.end_to_end.race import Run, race
from benchmarks.end_to_end.seeded_plane import seeded
from benchmarks.report.rows import Row
from benchmarks.workloads.cases import Case, case
from localfleet.controlplane import binaries, ports
from localfleet.controlplane.plane import ControlPlane

LIMIT_S = 120.0
_MOST = 2000  # measured pods
_METRICS = ("--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",)

NAMES = (
    "SchedulingBasic",
    "SchedulingNodeAffinity",
    "SchedulingPodAntiAffinity",
    "SchedulingPodMatchingAntiAffinity",
    "SchedulingPodAffinity",
    "SchedulingPreferredPodAffinity",
    "SchedulingPreferredPodAntiAffinity",
    "SchedulingRequiredPodAntiAffinityWithNSSelector",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "MixedSchedulingBasePod",
    "Unschedulable",
    "PreemptionBasic",
    "PreemptionAsync",
)


def end_to_end(name: str, share: int) -> list[Row]:
    """One case; none, with a line, where there is no real control plane."""
    if reason := binaries.unavailable():
        print(f"skipped: {reason}", file=sys.stderr)
        return []
    whole = case(name)
    ours = replace(
        whole, measured=replace(whole.measured, count=min(_MOST, whole.measured.count))
    ).shared(share)
    runs: dict[str, Run] = {}
    with seeded(ours) as state:
        for who, make in _CONTESTANTS.items():
            state.restore()
            runs[who] = run = race(state.plane, ours, make(state.plane), LIMIT_S)
            print(f"  {who}: {_said(run)}", file=sys.stderr, flush=True)
    return _rows(ours, runs[US], runs[THEM])


def _us(plane: ControlPlane) -> Contestant:
    (port,) = ports.reserve(1)
    port.release()  # held for long enough that nobody else of ours took it
    return Dispatcher(plane, port=port.number)


def _them(plane: ControlPlane) -> Contestant:
    return KubeScheduler(plane, {}, _METRICS)


_CONTESTANTS: dict[str, Callable[[ControlPlane], Contestant]] = {US: _us, THEM: _them}


def _said(run: Run) -> str:
    left = f", {run.wanted - run.bound} not bound in time" if run.bound < run.wanted else ""
    return f"{run.rate:.0f} pods/s, {run.cpu_ms:.2f} ms CPU a pod, {run.attempts} attempts{left}"


def _rows(case: Case, us: Run, them: Run) -> list[Row]:
    made = (
        f"made at {us.wanted / us.made_s:.0f}/s, for kube-scheduler at "
        f"{them.wanted / them.made_s:.0f}/s"
    )
    rate = f"first pod made to last bound; {made}{_left(us, them)}"
    cpu, attempts = (
        "CPU of all its processes a bound pod",
        "its own count of attempts, by pods bound",
    )
    nodes, pods = case.nodes.count, case.measured.total
    return [
        Row(f"bound_{case.name}", nodes, pods, us.rate, "pods/s", None, them.rate, rate, THEM),
        Row(f"bound_cpu_{case.name}", nodes, pods, us.cpu_ms, "ms", None, them.cpu_ms, cpu, THEM),
        Row(
            f"bound_tries_{case.name}",
            nodes,
            pods,
            us.tries,
            "tries",
            None,
            them.tries,
            attempts,
            THEM,
        ),
    ]


def _left(us: Run, them: Run) -> str:
    left = {US: us.wanted - us.bound, THEM: them.wanted - them.bound}
    return "".join(f"; {who} left {count} unbound" for who, count in left.items() if count)


CASES: dict[str, Callable[[int], list[Row]]] = {
    f"end_to_end_{name}": partial(end_to_end, name) for name in NAMES
}
