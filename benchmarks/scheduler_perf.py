"""The cases of kube-scheduler's scheduler_perf by name, at 5,000 nodes: decisions a second of the core alone.

Shapes and counts are those of Kubernetes' test/integration/scheduler_perf (1.36), read as agents read API objects. The
anchor is the floor below which Kubernetes' own CI fails: pods bound a second by kube-scheduler, end to end through a
real API server, scoring 10 % of the nodes. Ours scores every node, but binds nothing: the two count different things.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import msgspec

from agents.kube.convert import pod_seen
from benchmarks.rows import Row
from dispatcher.model.names import HOSTNAME, SCHEDULER_NAME, ZONE
from dispatcher.model.node import Node
from dispatcher.model.objects import Namespace
from dispatcher.model.pod import Pod
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.profile import DEFAULT_PROFILE

NODES = 5000
CLUSTER = "perf"
BATCH = 1000
_ROOM = {"cpu": 4000, "memory": 32 * 2**30, "pods": 110}
_ONE_ZONE, _THREE_ZONES = ("zone1",), ("moon-1", "moon-2", "moon-3")
_BOTH = ["sched-1", "sched-0"]

Shape = Mapping[str, Any]  # what a template adds to the default pod: labels, spec
Pods = tuple[Shape, str, int]  # template, namespace, how many


def _affinity(kind: str, color: str, key: str, *, weight: int = 0, select: Shape | None = None) -> Shape:
    term: dict[str, Any] = {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key}
    term |= select or {"namespaces": _BOTH}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term, "weight": weight}]}
    rules = preferred if weight else {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"labels": {"color": color}, "spec": {"affinity": {kind: rules}}}


def _spreading(when: str) -> Shape:
    selector = {"matchLabels": {"color": "blue"}}
    rule = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}
    return {"labels": {"color": "blue"}, "spec": {"topologySpreadConstraints": [rule]}}


def _requests(cpu: str, priority: int = 0) -> Shape:
    container = {"name": "pause", "image": "pause:3.10", "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}}}
    return {"spec": {"containers": [container], "priority": priority}}


def _nodes_in(*zones: str) -> Shape:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"spec": {"affinity": {"nodeAffinity": required}}}


_DEVOPS = {"namespaceSelector": {"matchLabels": {"team": "devops"}}}
PLAIN: Shape = {}
AFFINITY = _affinity("podAffinity", "blue", ZONE)
ANTI_AFFINITY = _affinity("podAntiAffinity", "green", HOSTNAME)
PREFERRED = _affinity("podAffinity", "red", HOSTNAME, weight=1)
PREFERRED_ANTI = _affinity("podAntiAffinity", "yellow", HOSTNAME, weight=1)
ANTI_BY_SELECTOR = _affinity("podAntiAffinity", "green", HOSTNAME, select=_DEVOPS)


@dataclass(frozen=True)
class Case:
    """`before`: pods that are placed first, unmeasured; `measured`: those that count. `floor`: Kubernetes' CI's."""

    name: str
    measured: Pods
    before: tuple[Pods, ...] = ()
    zones: tuple[str, ...] = ()
    floor: float | None = None
    target: float | None = None  # DESIGN section 5's
    hopeless: bool = False  # one pod that fits nowhere beside every batch


TABLE = (
    Case("SchedulingBasic", (PLAIN, "default", 50_000), ((PLAIN, "default", 5000),), floor=810),
    Case("SchedulingNodeAffinity", (_nodes_in("zone1", "zone2"), "default", 10_000), zones=_ONE_ZONE, floor=220),
    Case("SchedulingPodAntiAffinity", (ANTI_AFFINITY, "sched-1", 2000), ((ANTI_AFFINITY, "sched-0", 1000),), floor=60),
    Case(
        "SchedulingPodMatchingAntiAffinity",
        ({"labels": {"color": "green"}}, "sched-1", 4000),
        ((ANTI_AFFINITY, "sched-0", 1000),),
        floor=595,
    ),
    Case("SchedulingPodAffinity", (AFFINITY, "sched-1", 5000), ((AFFINITY, "sched-0", 5000),), _ONE_ZONE, 35, 10_000),
    Case("SchedulingPreferredPodAffinity", (PREFERRED, "sched-1", 5000), ((PREFERRED, "sched-0", 5000),), floor=90),
    Case(
        "SchedulingPreferredPodAntiAffinity",
        (PREFERRED_ANTI, "sched-1", 5000),
        ((PREFERRED_ANTI, "sched-0", 5000),),
        floor=90,
    ),
    Case("SchedulingRequiredPodAntiAffinityWithNSSelector", (ANTI_BY_SELECTOR, "measured-0", 2000), floor=24),
    Case("TopologySpreading", (_spreading("DoNotSchedule"), "default", 5000), (), _THREE_ZONES, 460, 20_000),
    Case("PreferredTopologySpreading", (_spreading("ScheduleAnyway"), "default", 5000), zones=_THREE_ZONES, floor=340),
    Case(
        "MixedSchedulingBasePod",
        (PLAIN, "default", 5000),
        tuple((one, "sched-0", 2000) for one in (PLAIN, AFFINITY, ANTI_AFFINITY, PREFERRED, PREFERRED_ANTI)),
        _ONE_ZONE,
        140,
        10_000,
    ),
    Case("Unschedulable", (PLAIN, "default", 10_000), ((PLAIN, "default", 100),), floor=590, hopeless=True),
)


def scheduler_perf(share: int) -> list[Row]:
    """Every case of the table."""
    return [_row(case, share) for case in TABLE]


def _row(case: Case, share: int) -> Row:
    fleet = _fleet(case.zones, NODES // share)
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), fleet)
    for at, pods in enumerate(case.before):
        _decide(scheduler, list(_pods(pods, share, f"before{at}")), None)
    measured = list(_pods(case.measured, share, "measured"))
    hopeless = _pod(_requests("9", priority=10), "default", "hopeless") if case.hopeless else None
    seconds = _decide(scheduler, measured, hopeless)
    counts = "core, batches of 1,000; beside it: pods bound/s that Kubernetes' CI wants"
    rate = len(measured) / seconds
    return Row(f"perf_{case.name}", fleet.n, len(measured), rate, "decisions/s", case.target, case.floor, counts)


def _decide(scheduler: Scheduler, pods: list[Pod], hopeless: Pod | None) -> float:
    items = [((CLUSTER, pod.uid), Placed(pod, CLUSTER)) for pod in pods]
    placed, start = 0, perf_counter()
    for at in range(0, len(items), BATCH):
        placed += sum(isinstance(one, Decision) for one in scheduler.schedule_class(items[at : at + BATCH]))
        if hopeless is not None:
            scheduler.schedule(Placed(hopeless, CLUSTER), (CLUSTER, hopeless.uid))
    seconds = perf_counter() - start
    if placed < len(items):
        raise RuntimeError(f"{placed} of {len(items)} pods were placed: the fleet is too small for the case")
    return seconds


def _pods(pods: Pods, share: int, prefix: str) -> Iterator[Pod]:
    shape, namespace, count = pods
    first = _pod(shape, namespace, prefix)
    for number in range(max(1, count // share)):
        yield msgspec.structs.replace(first, uid=f"{prefix}-{number}", name=f"{prefix}-{number}")


def _pod(shape: Shape, namespace: str, name: str) -> Pod:
    spec = {**_requests("100m")["spec"], "schedulerName": SCHEDULER_NAME, **shape.get("spec", {})}
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": shape.get("labels", {})}
    seen = pod_seen(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}))
    if seen is None or seen.pod is None or seen.pod.problems:
        raise RuntimeError(f"the pod of {name} cannot be read: {seen}")
    return seen.pod


def _fleet(zones: tuple[str, ...], nodes: int) -> FleetState:
    fleet = FleetState(now=1000.0)
    fleet.set_cluster(CLUSTER, ready=True, synced=True)
    for name in ("default", "sched-0", "sched-1", "measured-0"):
        fleet.kept.put(CLUSTER, Namespace(name, {"team": "devops"} if name == "measured-0" else {}))
    for number in range(nodes):
        name = f"scheduler-perf-{number:05}"
        labels = {HOSTNAME: name, **({ZONE: zones[number % len(zones)]} if zones else {})}
        fleet.put_node(CLUSTER, Node(name, name, labels, ready=True, allocatable=_ROOM))
    return fleet


CASES: tuple[Callable[[int], list[Row]], ...] = (scheduler_perf,)
