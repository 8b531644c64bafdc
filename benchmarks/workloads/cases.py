"""The cases of scheduler_perf: nodes, pods that are there before, pods that are measured, pods that
keep coming.

Names and counts are those of the workload that Kubernetes' performance CI runs (label
`performance`), the largest where there are several. Left out: cases of events, gates, DRA and
finalizers, which measure no placing of pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.workloads.templates import TEMPLATES, Template
from shared.model.names import HOSTNAME, ZONE

ROOM: Mapping[str, str] = {"cpu": "4", "memory": "32Gi", "pods": "110"}  # of node-default
NAMED = "scheduler-perf-node"
ONE_ZONE, MOON = ("zone1",), ("moon-1", "moon-2", "moon-3")


@dataclass(frozen=True)
class Nodes:
    """So many equal nodes, zones in turn; `tainted` ones come last. `named`: one more, NAMED, takes
    90,000 pods.
    """

    count: int = 5000
    zones: tuple[str, ...] = ()
    tainted: int = 0
    named: bool = False

    def manifests(self) -> Iterator[dict[str, Any]]:
        """The Node objects to create; without addresses, as there is no kubelet behind them."""
        if self.named:
            yield _node(NAMED, {}, {**ROOM, "pods": "90000"})
        for number in range(self.count):
            zone = {ZONE: self.zones[number % len(self.zones)]} if self.zones else {}
            taints = (
                [{"key": "foo", "effect": "NoSchedule"}]
                if number >= self.count - self.tainted
                else []
            )
            yield _node(f"scheduler-perf-{number:05d}", zone, ROOM, taints)


def _node(
    name: str, labels: Mapping[str, str], room: Mapping[str, str], taints: list[Any] | None = None
) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **labels}},
        "spec": {"taints": taints or []},
        "status": {
            "capacity": dict(room),
            "allocatable": dict(room),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


@dataclass(frozen=True)
class Pods:
    """`count` pods of a template in a namespace, or in each of `namespaces` whose names are
    `namespace`-0, -1, ...

    `volume` is the template of the volume that each pod has for itself, bound already: pv-aws or
    pv-csi.
    """

    template: str
    count: int
    namespace: str = "default"
    namespaces: int = 0
    volume: str = ""

    @property
    def total(self) -> int:
        """Pods in all."""
        return self.count * max(1, self.namespaces)

    @property
    def of(self) -> Template:
        """The template itself."""
        return TEMPLATES[self.template]

    def names(self) -> list[str]:
        """The namespaces."""
        return [f"{self.namespace}-{number}" for number in range(self.namespaces)] or [
            self.namespace
        ]

    def places(self, prefix: str) -> Iterator[tuple[str, str]]:
        """(namespace, name) of each pod."""
        for namespace in self.names():
            for number in range(self.count):
                yield namespace, f"{prefix}-{number:05d}"

    def shared(self, share: int) -> "Pods":
        """One pod in `share`, at least one; out of fewer namespaces where there are fewer pods than
        namespaces.
        """
        count = max(1, self.count // share)
        return replace(
            self, count=count, namespaces=min(self.namespaces, max(1, self.total // share // count))
        )


@dataclass(frozen=True)
class Case:
    """One case. `churn`: the template of pods that come beside the measured ones, five a second."""

    name: str
    workload: str  # upstream's name of these counts
    measured: Pods
    before: tuple[Pods, ...] = ()
    nodes: Nodes = Nodes()
    churn: str = ""
    preempts: bool = False  # measured pods find room only where others are evicted

    def shared(self, share: int) -> "Case":
        """The same with a `share`-th of nodes and pods."""
        nodes = replace(
            self.nodes, count=self.nodes.count // share, tainted=self.nodes.tainted // share
        )
        before = tuple(pods.shared(share) for pods in self.before)
        return replace(self, nodes=nodes, before=before, measured=self.measured.shared(share))

    def namespaces(self) -> list[str]:
        """All namespaces but default."""
        names = [name for pods in (*self.before, self.measured) for name in pods.names()]
        return [name for name in dict.fromkeys(names) if name != "default"]


def _team(
    template: str, before: int, measured: int, nodes: Nodes
) -> tuple[Pods, tuple[Pods, ...], Nodes]:
    """Pods of 100 namespaces that a selector means, then one namespace more."""
    return (
        Pods(template, measured, "measure-ns-0"),
        (Pods(template, before, "init-ns", 100),),
        nodes,
    )


def _both(template: str, before: int, measured: int) -> tuple[Pods, tuple[Pods, ...]]:
    return Pods(template, measured, "sched-1"), (Pods(template, before, "sched-0"),)


_DEFAULT, _LOW, _HIGH = "pod-default", "pod-low-priority", "pod-high-priority"
_ZONE, _MOON, _THOUSAND = Nodes(zones=ONE_ZONE), Nodes(zones=MOON), Nodes(1000)
_ANTI = "pod-with-pod-anti-affinity"
_ALL_AFFINITIES = (
    "pod-with-pod-affinity", _ANTI, "pod-with-preferred-pod-affinity", "pod-with-preferred-pod-anti-affinity"
)  # fmt: skip

CASES: tuple[Case, ...] = (
    Case("SchedulingBasic", "5000Nodes_50000Pods", Pods(_DEFAULT, 50_000), (Pods(_DEFAULT, 5000),)),
    Case(
        "SchedulingDaemonset",
        "15000Nodes",
        Pods("daemonset-pod", 30_000),
        (),
        Nodes(15_000, named=True),
    ),
    Case(
        "PreemptionBasic",
        "1000Nodes",
        Pods(_HIGH, 1000),
        (Pods(_LOW, 4000),),
        _THOUSAND,
        preempts=True,
    ),
    Case("PreemptionAsync", "5000Nodes", Pods(_DEFAULT, 5000), (Pods(_LOW, 20_000),), churn=_HIGH),
    Case(
        "Unschedulable",
        "5kNodes/100Init/10kPods",
        Pods(_DEFAULT, 10_000),
        (Pods(_DEFAULT, 100),),
        churn="pod-high-priority-large-cpu",
    ),
    Case("SchedulingPodAntiAffinity", "5000Nodes_2000Pods", *_both(_ANTI, 1000, 2000)),
    Case(
        "SchedulingPodMatchingAntiAffinity",
        "5000Nodes_5000Pods",
        Pods("pod-with-pod-anti-affinity-label", 5000, "sched-1"),
        (Pods(_ANTI, 1000, "sched-0"),),
    ),
    Case(
        "SchedulingPodAffinity",
        "5000Nodes_5000Pods",
        *_both("pod-with-pod-affinity", 5000, 5000),
        _ZONE,
    ),
    Case(
        "SchedulingPreferredPodAffinity",
        "5000Nodes_5000Pods",
        *_both("pod-with-preferred-pod-affinity", 5000, 5000),
    ),
    Case(
        "SchedulingPreferredPodAntiAffinity",
        "5000Nodes_5000Pods",
        *_both("pod-with-preferred-pod-anti-affinity", 5000, 5000),
    ),
    Case(
        "SchedulingNodeAffinity",
        "5000Nodes_10000Pods",
        Pods("pod-with-node-affinity", 10_000),
        (Pods("pod-with-node-affinity", 5000),),
        _ZONE,
    ),
    Case(
        "MixedSchedulingBasePod",
        "5000Nodes_5000Pods",
        Pods(_DEFAULT, 5000),
        tuple(Pods(one, 2000, "sched-0") for one in (_DEFAULT, *_ALL_AFFINITIES)),
        _ZONE,
    ),
    Case(
        "SchedulingRequiredPodAntiAffinityWithNSSelector",
        "5000Nodes_2000Pods",
        *_team("pod-anti-affinity-ns-selector", 40, 2000, Nodes(6000)),
    ),
    Case(
        "SchedulingPreferredAntiAffinityWithNSSelector",
        "5000Nodes_2000Pods",
        *_team("pod-preferred-anti-affinity-ns-selector", 40, 2000, Nodes()),
    ),
    Case(
        "SchedulingRequiredPodAffinityWithNSSelector",
        "5000Nodes_2000Pods",
        *_team("pod-affinity-ns-selector", 50, 2000, _ZONE),
    ),
    Case(
        "SchedulingPreferredAffinityWithNSSelector",
        "5000Nodes_5000Pods",
        *_team("pod-preferred-affinity-ns-selector", 50, 5000, Nodes()),
    ),
    Case(
        "TopologySpreading",
        "5000Nodes_5000Pods",
        Pods("pod-with-topology-spreading", 5000),
        (Pods(_DEFAULT, 5000),),
        _MOON,
    ),
    Case(
        "PreferredTopologySpreading",
        "5000Nodes_5000Pods",
        Pods("pod-with-preferred-topology-spreading", 5000),
        (Pods(_DEFAULT, 5000),),
        _MOON,
    ),
    Case(
        "SchedulingWithNodeInclusionPolicy",
        "5000Nodes",
        Pods("pod-with-node-inclusion-policy", 4000),
        (),
        Nodes(tainted=1000),
    ),
    Case(
        "SchedulingSecrets",
        "5000Nodes_10000Pods",
        Pods("pod-with-secret-volume", 10_000),
        (Pods("pod-with-secret-volume", 1000),),
    ),
    Case(
        "SchedulingInTreePVs",
        "5000Nodes_2000Pods",
        Pods(_DEFAULT, 2000, volume="pv-aws"),
        (Pods(_DEFAULT, 1000, volume="pv-aws"),),
    ),
    Case(
        "SchedulingCSIPVs",
        "5000Nodes_5000Pods",
        Pods(_DEFAULT, 5000, volume="pv-csi"),
        (Pods(_DEFAULT, 5000, volume="pv-csi"),),
    ),
    Case(
        "PreemptionPVs",
        "1000Nodes",
        Pods(_HIGH, 1000, volume="pv-aws"),
        (Pods(_LOW, 4000),),
        _THOUSAND,
        preempts=True,
    ),
)


def case(name: str) -> Case:
    """The case of that name; KeyError else."""
    return next(one for one in CASES if one.name == name)
