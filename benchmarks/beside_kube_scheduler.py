"""Binding on a real API server, beside kube-scheduler: the same machine, nodes and pods, one after the other in turn.

Both find a backlog: all pods are made before the scheduler starts, so that making them is not measured, and kubelets
and node controllers stand still meanwhile (as in kube-scheduler's own scheduler_perf), so that nobody else is, either.
Rate: from the first to the last binding by the times of the API server's audit log. CPU: of all processes of the
scheduler, from its first request for pods until it has bound all and written an event about each.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import msgspec

from agents.controlplane import binaries
from agents.controlplane.audit import AuditLog
from agents.controlplane.components import PlaneSpec
from agents.controlplane.nodes import NodeSpec, equal_nodes
from agents.controlplane.plane import ControlPlane, control_planes
from agents.controlplane.process import Component
from benchmarks.rows import Row

PAIRS = 3
PODS = 3000
SIZES = (500, 5000)
_NAMESPACE = "bench"
_LIMIT_S = 240.0
_POLL_S = 0.02
_TICKS = os.sysconf("SC_CLK_TCK")
_US, _THEM, _THEM_ALL = "global-dispatcher", "kube-scheduler", "kube-scheduler, all nodes scored"


class Unread(NodeSpec):
    """A node that says of no address: there is no kubelet behind it, so there are no readings to take."""

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


class Contestant(Protocol):
    """A scheduler as processes."""

    pods_of: str

    def start(self) -> None:
        """Begin; at once back."""

    def pids(self) -> list[int]:
        """All processes of it that live."""

    def stop(self) -> None:
        """End all of them."""


class KubeScheduler:
    """kube-scheduler, with its client's limits out of the way and no more logging than it has by default."""

    pods_of = "default-scheduler"

    def __init__(self, plane: ControlPlane, config: Mapping[str, Any]) -> None:
        spec = replace(plane.spec, scheduler_config=config, scheduler_verbosity=0)
        layout = replace(plane.layout, spec=spec)
        self._process = Component(
            "kube-scheduler", layout.command("kube-scheduler"), plane.directory / "kube-scheduler.log"
        )

    def start(self) -> None:
        """Begin."""
        self._process.start()

    def pids(self) -> list[int]:
        """The one process."""
        return [self._process.pid]

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()


class Dispatcher:
    """`global-dispatcher run` with its Ray and its agent, as it comes; RBAC judges its user as any other."""

    pods_of = "global-dispatcher"

    def __init__(self, plane: ControlPlane) -> None:
        kubeconfig = plane.kubeconfig_as("bench-agent")
        self._log = plane.directory / "dispatcher.log"
        cluster = {"name": "bench", "context": plane.name, "kubeconfig": str(kubeconfig)}
        self._config = plane.directory / "dispatcher.json"
        self._config.write_text(json.dumps({"clusters": [cluster], "http": {"port": 0}}))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin."""
        command = [sys.executable, "-m", "dispatcher.runtime.cli", "run", "--config", str(self._config)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def pids(self) -> list[int]:
        """The dispatcher and all that is below it: Ray's processes and the agent."""
        assert self._process is not None
        return _family(self._process.pid)

    def stop(self) -> None:
        """SIGTERM: it ends what it has started."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


def beside_kube_scheduler(share: int) -> list[Row]:
    """500 and 5,000 KWOK nodes; skipped with a line where there is no real control plane."""
    if reason := binaries.unavailable():
        print(f"skipped: {reason}", file=sys.stderr)
        return []
    return [row for nodes in SIZES for row in _at_size(nodes // share, PODS // share, 1 if share > 1 else PAIRS)]


def _at_size(nodes: int, pods: int, rounds: int) -> list[Row]:
    runs: dict[str, list[Run]] = {_US: [], _THEM: [], _THEM_ALL: []}
    with _plane(nodes) as plane:
        contestants: dict[str, Callable[[], Contestant]] = {
            _US: lambda: Dispatcher(plane),
            _THEM: lambda: KubeScheduler(plane, {}),
            _THEM_ALL: lambda: KubeScheduler(plane, {"percentageOfNodesToScore": 100}),
        }
        for turn in range(rounds):
            order = list(contestants) if turn % 2 == 0 else list(reversed(contestants))
            for name in order:
                run = _run(plane, contestants[name](), pods)
                runs[name].append(run)
                print(f"  {nodes} nodes, {name}: {run.rate:.0f}/s, {run.cpu_ms:.2f} ms", file=sys.stderr, flush=True)
    return [row for rival in (_THEM, _THEM_ALL) for row in _rows(nodes, pods, runs[_US], rival, runs[rival])]


def _rows(nodes: int, pods: int, ours: Sequence[Run], rival: str, theirs: Sequence[Run]) -> Iterator[Row]:
    counts = f"beside {rival}; median of {len(ours)}"
    rate, their_rate = _median(ours, _RATE), _median(theirs, _RATE)
    yield Row("bind_rate_beside", nodes, pods, rate, "pods/s", 2 * their_rate, their_rate, counts)
    cpu, their_cpu = _median(ours, _CPU), _median(theirs, _CPU)
    yield Row("bind_cpu_beside", nodes, pods, cpu, "ms", their_cpu / 3, their_cpu, f"CPU a bound pod, {counts}")


def _median(runs: Sequence[Run], figure: Callable[[Run], float]) -> float:
    return statistics.median(map(figure, runs))


@contextmanager
def _plane(nodes: int) -> Iterator[ControlPlane]:
    """A control plane whose nodes are Ready and stay so: what moves nodes and pods is ended."""
    shapes = [Unread(one.name, zone=one.zone) for one in equal_nodes("bench", nodes)]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        control_planes([PlaneSpec("bench", nodes=shapes, scheduler=True)], Path(folder)) as (plane,),
    ):
        plane.kill("kube-scheduler")
        _grant(plane)
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        account = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/default"
        plane.components["kube-controller-manager"].wait_until(
            lambda: plane.admin.answers(account), "the default ServiceAccount is there", 30
        )
        plane.kill("kwok")
        plane.kill("kube-controller-manager")
        yield plane


def _grant(plane: ControlPlane) -> None:
    """The agent's user may do what it does; by RBAC, as kube-scheduler's."""
    plane.admin.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "bench-agent"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bench-agent"}],
        },
    )


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
    plane.admin.delete(f"{path}?gracePeriodSeconds=0")
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


def _measure(contestant: Contestant, tail: "Tail", pods: int) -> Run:
    deadline = time.monotonic() + _LIMIT_S
    begun: float | None = None
    while len(tail.bindings) < pods or tail.events < pods:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(tail.bindings)} of {pods} pods bound, {tail.events} events, in {_LIMIT_S:.0f} s")
        time.sleep(_POLL_S)
        tail.read()
        if begun is None and tail.pods_asked_for:
            begun = _cpu_s(contestant.pids())
    spent = _cpu_s(contestant.pids()) - (begun or 0.0)
    first, last = min(tail.bindings), max(tail.bindings)
    return Run((pods - 1) / (last - first), spent * 1000 / pods)


def _check(plane: ControlPlane, pods: int) -> None:
    """The truth, whatever the log said."""
    items = plane.admin.get(f"/api/v1/namespaces/{_NAMESPACE}/pods")["items"]
    bound = sum(1 for pod in items if pod["spec"].get("nodeName"))
    if bound != pods:
        raise RuntimeError(f"{bound} of {pods} pods are bound")


class _Event(msgspec.Struct, rename="camel"):
    verb: str
    user_agent: str = ""
    request_received_timestamp: str = ""
    stage_timestamp: str = ""
    object_ref: dict[str, Any] = {}
    response_status: dict[str, Any] = {}


class Tail:
    """Follows the audit log from now on: when each pod was bound (seconds), events written, were pods asked for yet?"""

    def __init__(self, log: AuditLog) -> None:
        self.bindings: list[float] = []
        self.events = 0
        self.pods_asked_for = False
        self._file = log.path.open("rb")
        self._file.seek(log.mark())
        self._rest = b""
        self._decode = msgspec.json.Decoder(_Event).decode

    def read(self) -> None:
        """Take in what was written since."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            if b'"subresource":"binding"' in line:
                event = self._decode(line)
                if event.response_status.get("code") == 201:
                    self.bindings.append(datetime.fromisoformat(event.stage_timestamp).timestamp())
            elif b'"verb":"create"' in line and b'"resource":"events"' in line:
                self.events += 1
            elif b'"requestURI":"/api/v1/pods?' in line:
                self.pods_asked_for = True


def _cpu_s(pids: Sequence[int]) -> float:
    """User and system time so far, that of ended children included."""
    return sum(sum(map(int, fields[11:15])) for pid in pids if (fields := _stat(pid))) / _TICKS


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(entry.name)):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _stat(pid: int) -> list[str]:
    """Fields of proc(5) from the third on; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


CASES = (beside_kube_scheduler,)
