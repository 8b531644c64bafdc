"""What others publish: the figures that ours are put beside, each with what it counts and where it
is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Source:
    """Who, what is counted, and where it is written."""

    who: str
    counts: str
    where: str


@dataclass(frozen=True)
class Anchor:
    """One published figure, in the unit of ours; `source` is a key of SOURCES.

    `alike`: it counts what ours counts, so that a ratio of the two means something, machines apart.
    """

    value: float
    source: str
    alike: bool = True


_PERF = "kubernetes/kubernetes test/integration/scheduler_perf/*/performance-config.yaml"
_OLD = "k8s CI"
_NEW = "k8s CI, later"

SOURCES: Mapping[str, Source] = {
    _OLD: Source(
        "Kubernetes CI, kube-scheduler",
        "pods bound a second below which CI fails: a floor, through a real API server, 10 % of "
        "5,000 nodes scored",
        f"{_PERF} at v1.36.3",
    ),
    _NEW: Source(
        "Kubernetes CI, kube-scheduler after 1.36",
        "the same floor as it was raised later",
        f"{_PERF} at 008b365, 1bd6a8f, 0537710, d7ce957",
    ),
    "FGD": Source(
        "FGD (USENIX ATC '23)",
        "GPU held, % of 6,212, when 100 % and 130 % are asked for; mean of 10 seeds; about 10 "
        "minutes a run on 2 vCPU",
        "hkust-adsl/kubernetes-scheduler-simulator 8f3d641, "
        "experiments/analysis/expected_results, README.md",
    ),
    "Karmada": Source(
        "Karmada, 100 clusters x 5,000 nodes",
        "p99 of a decision that picks clusters, not nodes; 64 vCPU",
        "karmada-io/website blog/2022-10-26",
    ),
    "k8s-1m": Source(
        "k8s-1m's sharded scheduler",
        "1M pods on 1M nodes, 8,670 cores, no affinity; pods bound a second, all cores together",
        "bchess/k8s-1m b2c30f0 README.adoc",
    ),
    "V1Pod": Source(
        "kubernetes-client/python's V1Pod",
        "memory held for one pod of 7 kB, as tracemalloc counts it, once, on Python 3.11",
        "kubernetes 37.0.2",
    ),
    "client": Source(
        "kubernetes-client/python",
        "seconds of CPU to list and decode 150,000 pods at the 160 a second that were reported",
        "kubernetes-client/python issue 1921",
    ),
}

# Of every scheduler_perf case the higher floor of the two, so that ours is put beside the harder
# one.
_FLOORS: Mapping[str, Anchor] = {
    "SchedulingBasic": Anchor(810, _NEW),
    "SchedulingDaemonset": Anchor(1100, _NEW),
    "PreemptionAsync": Anchor(570, _NEW),
    "Unschedulable": Anchor(590, _NEW),
    "SchedulingPodAntiAffinity": Anchor(60, _OLD),
    "SchedulingPodMatchingAntiAffinity": Anchor(600, _OLD),
    "SchedulingPodAffinity": Anchor(35, _OLD),
    "SchedulingPreferredPodAffinity": Anchor(90, _OLD),
    "SchedulingPreferredPodAntiAffinity": Anchor(90, _OLD),
    "SchedulingNodeAffinity": Anchor(220, _OLD),
    "MixedSchedulingBasePod": Anchor(140, _OLD),
    "SchedulingRequiredPodAntiAffinityWithNSSelector": Anchor(24, _OLD),
    "SchedulingPreferredAntiAffinityWithNSSelector": Anchor(55, _OLD),
    "SchedulingRequiredPodAffinityWithNSSelector": Anchor(35, _OLD),
    "SchedulingPreferredAffinityWithNSSelector": Anchor(90, _OLD),
    "TopologySpreading": Anchor(460, _NEW),
    "PreferredTopologySpreading": Anchor(340, _NEW),
    "SchedulingWithNodeInclusionPolicy": Anchor(270, _NEW),
    "SchedulingSecrets": Anchor(260, _OLD),
    "SchedulingInTreePVs": Anchor(90, _OLD),
    "SchedulingCSIPVs": Anchor(48, _OLD),
}

ANCHORS: Mapping[str, Anchor] = {
    **{f"bound_{name}": floor for name, floor in _FLOORS.items()},
    **{f"perf_{name}": replace(floor, alike=False) for name, floor in _FLOORS.items()},
    "decide_one_template": Anchor(810, _NEW, alike=False),
    "decide_one_template_500k": Anchor(14_000, "k8s-1m", alike=False),
    "odd_pod_p99": Anchor(32, "Karmada", alike=False),
    "memory_per_pod": Anchor(81, "V1Pod", alike=False),
    "openb_gpu_allocated": Anchor(95.23, "FGD"),
    "openb_gpu_allocated_130": Anchor(95.39, "FGD"),
    "openb_time": Anchor(600, "FGD"),
    "list_and_decode": Anchor(937, "client"),
}
