"""The cases of kube-scheduler's scheduler_perf by name: decisions a second of the core alone,
upstream's sizes.

What the objects say is read as agents read it; pods that are there before are put evenly over the
nodes, as end to end. Ours scores every node and binds nothing; an evicted pod is gone at once. The
anchor counts pods bound end to end through a real API server, with a tenth of the nodes scored. The
baseline is a plain loop (plain_loop.py) over the same fleet, for its first pods.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import Any

import msgspec

from agents.kube.convert import pod_seen
from agents.kube.nodes import node_seen
from agents.kube.objects import KINDS
from benchmarks.plain_loop import plain_rate
from benchmarks.report.rows import Row
from benchmarks.workloads.cases import CASES as WORKLOADS
from benchmarks.workloads.cases import Case, Pods
from benchmarks.workloads.volumes import csi_node, volume_objects
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Result, Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import CLAIM, Pod, Volume

CLUSTER = "perf"
BATCH = 1000
_LONGEST_S = 60.0
_TARGETS = {
    "TopologySpreading": 20_000,
    "SchedulingPodAffinity": 10_000,
    "MixedSchedulingBasePod": 10_000,
}
_READ = {kind.name: kind for kind in KINDS}
Item = tuple[tuple[str, str], PodInfo]


def decisions_of(case: Case, share: int) -> list[Row]:
    """One case."""
    case = case.shared(share)
    fleet = _fleet(case)
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), fleet)
    _put_before(scheduler, case)
    measured = _items(fleet, case.measured, "measured")
    churn = (
        _items(fleet, Pods(case.churn, -(-len(measured) // BATCH)), "churn") if case.churn else []
    )
    begun = perf_counter()
    done = _decide(scheduler, case, measured, churn)
    rate = done / (perf_counter() - begun)
    plain = plain_rate(_nodes(case), _before(case), [placed.pod for _, placed in measured])
    counts = f"core: batches of {BATCH:,} pods whose classes are known, as the queue hands them out"
    if done < len(measured):
        counts = f"{counts}; ended after {_LONGEST_S:.0f} s"
    return [
        Row(
            f"perf_{case.name}",
            case.nodes.count,
            done,
            rate,
            "decisions/s",
            _TARGETS.get(case.name),
            plain,
            counts,
        )
    ]


# --- deciding
# --------------------------------------------------------------------------------------------------


def _decide(scheduler: Scheduler, case: Case, items: list[Item], churn: list[Item]) -> int:
    """Place batch by batch, with one pod of the churn beside each; how many in the time there is.

    RuntimeError if one finds no place.
    """
    deadline = perf_counter() + _LONGEST_S
    for at in range(0, len(items), BATCH):
        if perf_counter() > deadline:
            return at
        left = _round(scheduler, items[at : at + BATCH])
        if left and not _round_after_evictions(scheduler, left):
            pod, found = left[0].pod_info.pod, f"{len(left)} pods found no place, the first is"
            raise RuntimeError(f"{case.name}: {found} {pod.key}: {left[0].message}")
        for one in churn[at // BATCH : at // BATCH + 1]:
            _round_after_evictions(scheduler, _round(scheduler, [one]))
    return len(items)


def _round(scheduler: Scheduler, items: Iterable[Item]) -> list[Unschedulable]:
    """Decide pods in order, those of one class together; answers those without a place."""
    results: list[Result] = []
    for _, group in groupby(items, key=lambda item: scheduler.classify(item[1])):
        results += scheduler.schedule_class(list(group))
    return [one for one in results if not isinstance(one, Decision)]


def _round_after_evictions(scheduler: Scheduler, left: list[Unschedulable]) -> bool:
    """Evict for those that were promised room, decide them again; whether nobody is left in the
    end.
    """
    while left:
        victims = [victim for one in left for victim in one.victims]
        if not victims:
            return False
        for victim in victims:
            scheduler.forget(victim.pod_id)
        left = _round(scheduler, [(one.pod_id, one.pod_info) for one in left])
    return True


# --- what there is
# --------------------------------------------------------------------------------------------------


def _fleet(case: Case) -> FleetState:
    fleet = FleetState(now=1000.0)
    fleet.set_cluster(CLUSTER, ready=True, synced=True)
    for name in ("default", *case.namespaces()):
        labels = {"team": "devops"} if "-ns-" in name else {}
        _keep(fleet, "Namespace", {"metadata": {"name": name, "labels": labels}})
    for node in _nodes(case):
        fleet.put_node(CLUSTER, node)
        if case.measured.volume == "pv-csi":
            _keep(fleet, "CSINode", csi_node(node.name))
    return fleet


def _nodes(case: Case) -> list[Node]:
    seen = (node_seen(msgspec.json.encode(one)) for one in case.nodes.manifests())
    return [one.node for one in seen if one is not None]


def _keep(fleet: FleetState, kind: str, manifest: dict[str, Any]) -> None:
    seen = _READ[kind].seen(msgspec.json.encode(manifest))
    if seen is None or seen.problems:
        raise RuntimeError(f"the {kind} cannot be read: {manifest} {seen}")
    fleet.kept.put(CLUSTER, seen.record)


def _items(fleet: FleetState, pods: Pods, prefix: str) -> list[Item]:
    """The pods, to be decided; their volumes are put into the fleet."""
    if pods.volume:
        for namespace, name in pods.places(prefix):
            for kind, manifest in volume_objects(pods.volume, namespace, name):
                _keep(fleet, kind, manifest)
    return [((CLUSTER, pod.uid), PodInfo(pod, CLUSTER)) for pod in _pods(pods, prefix)]


def _pods(pods: Pods, prefix: str) -> Iterator[Pod]:
    for namespace in pods.names():
        first = _read(pods, namespace)
        for number in range(pods.count):
            name = f"{prefix}-{number:05d}"
            volumes = (Volume(CLAIM, name),) if pods.volume else first.volumes
            yield msgspec.structs.replace(
                first, uid=f"{namespace}/{name}", name=name, volumes=volumes
            )


def _read(pods: Pods, namespace: str) -> Pod:
    manifest = pods.of.manifest("first", namespace, SCHEDULER_NAME)
    manifest["metadata"]["uid"] = "first"
    seen = pod_seen(msgspec.json.encode({**manifest, "status": {"phase": "Pending"}}))
    if seen is None or seen.pod is None or seen.pod.problems:
        raise RuntimeError(f"the template {pods.template} cannot be read: {seen}")
    return seen.pod


def _put_before(scheduler: Scheduler, case: Case) -> None:
    """The pods that are there before, in their places."""
    names = [node.name for node in _nodes(case)]
    items = [
        item
        for at, pods in enumerate(case.before)
        for item in _items(scheduler.fleet, pods, f"before{at}")
    ]
    for number, (pod_id, placed) in enumerate(items):
        scheduler.restore(pod_id, placed, CLUSTER, names[number % len(names)])


def _before(case: Case) -> Sequence[Pod]:
    return [pod for at, pods in enumerate(case.before) for pod in _pods(pods, f"before{at}")]


CASES: dict[str, Callable[[int], list[Row]]] = {
    f"perf_{one.name}": partial(decisions_of, one) for one in WORKLOADS
}
