"""Binding on a real API server, beside kube-scheduler: the same machine, nodes and pods, one after
the other in turn.

Both find a backlog: all pods are made before the scheduler starts, so that making them is not
measured, and kubelets and node controllers stand still meanwhile (as in kube-scheduler's own
scheduler_perf), so that nobody else is, either. Rate: from the first to the last binding by the
times of the API server's audit log. CPU: of all processes of the scheduler, from its first request
for pods until it has bound all and written an event about each.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from benchmarks.end_to_end.audit_tail import Tail
from benchmarks.end_to_end.contestants import THEM, US, Contestant, Dispatcher, KubeScheduler, grant
from benchmarks.end_to_end.processes import cpu_seconds
from benchmarks.report.rows import Row
from localfleet.controlplane import binaries
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.nodes import NodeSpec, equal_nodes
from localfleet.controlplane.plane import ControlPlane, control_planes

PAIRS = 3
_NAMESPACE = "bench"
_LIMIT_S = 240.0
_POLL_S = 0.02
_THEM_ALL = f"{THEM}, all nodes scored"


class Unread(NodeSpec):
    """A node that says of no address: there is no kubelet behind it, so there are no readings to
    take.
    """

    def manifest(self, kwok_port: int) -> dict[str, Any]:
        """The Node without addresses."""
        node = NodeSpec.manifest(self, kwok_port)
        del node["status"]["addresses"]
        return node


@dataclass(frozen=True)
class Run:
    """One contestant's run: bindings a second, and CPU milliseconds a binding."""

    rate: float
    cpu_ms: float


_RATE, _CPU = attrgetter("rate"), attrgetter("cpu_ms")


def beside_kube_scheduler_500_nodes(share: int) -> list[Row]:
    """3,000 pods; skipped with a line where there is no real control plane, as the next."""
    return _beside(500, 3000, share)


def beside_kube_scheduler_5000_nodes(share: int) -> list[Row]:
    """10,000 pods, as scheduler_perf's SchedulingBasic/5000Nodes_10000Pods."""
    return _beside(5000, 10_000, share)


def _beside(nodes: int, pods: int, share: int) -> list[Row]:
    if reason := binaries.unavailable():
        print(f"skipped: {reason}", file=sys.stderr)
        return []
    return _at_size(nodes // share, pods // share, 1 if share > 1 else PAIRS)


def _at_size(nodes: int, pods: int, rounds: int) -> list[Row]:
    runs: dict[str, list[Run]] = {US: [], THEM: [], _THEM_ALL: []}
    with _plane(nodes) as plane:
        contestants: dict[str, Callable[[], Contestant]] = {
            US: lambda: Dispatcher(plane),
            THEM: lambda: KubeScheduler(plane, {}),
            _THEM_ALL: lambda: KubeScheduler(plane, {"percentageOfNodesToScore": 100}),
        }
        for turn in range(rounds):
            order = list(contestants) if turn % 2 == 0 else list(reversed(contestants))
            for name in order:
                run = _run(plane, contestants[name](), pods)
                runs[name].append(run)
                print(
                    f"  {nodes} nodes, {name}: {run.rate:.0f}/s, {run.cpu_ms:.2f} ms",
                    file=sys.stderr,
                    flush=True,
                )
    return [
        row
        for rival in (THEM, _THEM_ALL)
        for row in _rows(nodes, pods, runs[US], rival, runs[rival])
    ]


def _rows(
    nodes: int, pods: int, ours: Sequence[Run], rival: str, theirs: Sequence[Run]
) -> Iterator[Row]:
    counts = f"a backlog, first to last binding; median of {len(ours)}"
    rate, their_rate = _median(ours, _RATE), _median(theirs, _RATE)
    yield Row(
        "bind_rate_beside", nodes, pods, rate, "pods/s", 2 * their_rate, their_rate, counts, rival
    )
    cpu, their_cpu = _median(ours, _CPU), _median(theirs, _CPU)
    yield Row(
        "bind_cpu_beside",
        nodes,
        pods,
        cpu,
        "ms",
        their_cpu / 3,
        their_cpu,
        f"CPU a bound pod; {counts}",
        rival,
    )


def _median(runs: Sequence[Run], figure: Callable[[Run], float]) -> float:
    return statistics.median(map(figure, runs))


@contextmanager
def _plane(nodes: int) -> Iterator[ControlPlane]:
    """A control plane whose nodes are Ready and stay so: what moves nodes and pods is ended."""
    shapes = [Unread(one.name, zone=one.zone) for one in equal_nodes("bench", nodes)]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        # A long grace: the leases of 5,000 nodes alone would keep the API server of a small machine
        # busy.
        control_planes(
            [PlaneSpec("bench", nodes=shapes, scheduler=True, node_grace_s=600)], Path(folder)
        ) as (plane,),
    ):
        plane.kill("kube-scheduler")
        grant(plane)
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        account = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/default"
        plane.components["kube-controller-manager"].wait_until(
            lambda: plane.admin.answers(account), "the default ServiceAccount is there", 30
        )
        plane.kill("kwok")
        plane.kill("kube-controller-manager")
        yield plane


def _run(plane: ControlPlane, contestant: Contestant, pods: int) -> Run:
    path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
    plane.admin.create_all(path, (_pod(number, contestant.pods_of) for number in range(pods)))
    tail = Tail(plane.audit)
    try:
        contestant.start()
        measured = _measure(contestant, tail, pods)
    finally:
        contestant.stop()
    _check(plane, pods)
    plane.admin.delete(path, gracePeriodSeconds="0")
    return measured


def _pod(number: int, scheduler: str) -> dict[str, Any]:
    """As scheduler_perf's pod-default."""
    container = {
        "name": "pause",
        "image": "registry.invalid/pause:1",
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
    }
    return {
        "metadata": {"name": f"pod-{number:05d}"},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def _measure(contestant: Contestant, tail: Tail, pods: int) -> Run:
    deadline = time.monotonic() + _LIMIT_S
    begun: float | None = None
    while len(tail.bindings) < pods or tail.events < pods:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{len(tail.bindings)} of {pods} pods bound, {tail.events} events, in "
                f"{_LIMIT_S:.0f} s"
            )
        time.sleep(_POLL_S)
        tail.read()
        if begun is None and tail.pods_asked_for:
            begun = cpu_seconds(contestant.pids())
    spent = cpu_seconds(contestant.pids()) - (begun or 0.0)
    first, last = min(tail.bindings), max(tail.bindings)
    return Run((pods - 1) / (last - first), spent * 1000 / pods)


def _check(plane: ControlPlane, pods: int) -> None:
    """The truth, whatever the log said."""
    items = plane.admin.get(f"/api/v1/namespaces/{_NAMESPACE}/pods")["items"]
    bound = sum(1 for pod in items if pod["spec"].get("nodeName"))
    if bound != pods:
        raise RuntimeError(f"{bound} of {pods} pods are bound")


CASES = (beside_kube_scheduler_500_nodes, beside_kube_scheduler_5000_nodes)
