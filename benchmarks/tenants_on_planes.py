"""Three tenants with weights 5:3:2 and endless demand on two real control planes: what they use as
the API servers show it.

As `tenant_shares`, but nothing is simulated except kubelets (KWOK): etcd, kube-apiserver, agents
and the dispatcher are processes, pods of one tenant are submitted in the second cluster, and time
is that of the clock. A pod is used from the event that shows its node to the one that shows its
end.
"""

import contextlib
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.end_to_end.contestants import Dispatcher, grant
from benchmarks.report.rows import Row
from benchmarks.tenant_shares import SIZES, WEIGHTS, Window, copies, due, lend, steady
from localfleet.controlplane import binaries
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.nodes import NodeSpec
from localfleet.controlplane.plane import ControlPlane, control_planes
from localfleet.embedded.kubelet.behaviour import PREFIX, RUN_SECONDS, STOP_SECONDS
from shared.model.names import DELEGATE_LABEL, SCHEDULER_NAME
from shared.model.resources import parse_quantity
from shared.model.tenant import ANY_PRIORITY

# What pods say to KWOK's nodes has to reach those of other clusters, too.
ACCEPT = {"accept": [{"annotations": [f"{PREFIX}*"]}]}
_TENANT = "tenant"  # label of pods
_ENDED = {"Succeeded", "Failed"}
_POLL_S = 0.02
_WRITES_AT_ONCE = 3  # of a tenant
_LEAVES_S = 300.0
_AT_ONCE = {"gracePeriodSeconds": "0"}
_CLUSTERS = ("east", "west")
_HOMES = {"red": "east", "green": "east", "blue": "west"}
_CPUS = 80
_NODES = 4  # in each cluster, of 32 CPUs: there is always room
_GRACE_S = 10  # the pods' terminationGracePeriodSeconds, of which they take all
_RUNS_S = (30.0, 60.0)  # at least, and more in the mean
_WINDOW_S = 300.0
_WINDOWS = 2
_SETTLE_S = 60.0


class _Meta(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    uid: str
    resource_version: str
    deletion_timestamp: str = ""


class _Container(msgspec.Struct):
    resources: dict[str, dict[str, str]] = {}


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] = []
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status

    @property
    def used(self) -> int:
        """Milli-CPU that it has of a node now."""
        if not self.spec.node_name or self.status.phase in _ENDED:
            return 0
        asked = (one.resources["requests"]["cpu"] for one in self.spec.containers)
        return sum(parse_quantity(one, scale=1000) for one in asked)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class Demand:
    """Tenants' pods on control planes, those of each tenant submitted in its home. What has ended
    or is on its way out is replaced at once, as by a ReplicaSet. To be used as `tenant_shares.Loop`
    is, in real seconds; a context manager.
    """

    def __init__(
        self,
        homes: Mapping[str, ControlPlane],
        cpus: int,
        *,
        grace_s: int,
        runs_s: tuple[float, float],
    ) -> None:
        """`runs_s`: a pod runs so long at least, and so much longer in the mean."""
        self.cpu = 1000 * cpus
        self.evicted = 0
        self.endless = False  # pods that come from then on do not end by themselves
        self._homes = homes
        self._grace_s = grace_s
        self._runs_s = runs_s
        self._dice = random.Random(7)
        self._numbers = itertools.count()
        self._copies = Counter[str]()
        self._used = Counter[str]()
        self._integral = dict.fromkeys(WEIGHTS, 0.0)  # milli-CPU seconds
        self._at = time.monotonic()
        self._uses: dict[str, int] = {}  # by uid, of pods that are there
        self._replaced: set[str] = set()
        self._lock = threading.Lock()
        self._writers = {name: ThreadPoolExecutor(_WRITES_AT_ONCE) for name in WEIGHTS}
        self._failed: list[BaseException] = []
        self._over = False

    def __enter__(self) -> "Demand":
        for plane in set(self._homes.values()):
            threading.Thread(target=self._watch, args=(plane,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._copies.clear()
        for one in self._writers.values():
            one.shutdown(cancel_futures=True)

    def used(self, *names: str) -> int:
        """Milli-CPU of pods that have a node and have not ended."""
        return sum(self._used[name] for name in names)

    def due(self, name: str) -> int:
        """A tenant's part by weight, in milli-CPU."""
        return due(self.cpu, name)

    def demand(self, name: str) -> None:
        """From now on a tenant has pods for twice all that there is."""
        self._copies[name] = copies(self.cpu)
        for _ in range(self._copies[name]):
            self._do(name, self._create, name)

    def leave(self, name: str) -> None:
        """All pods of a tenant are gone, and no more come."""
        self._copies[name] = 0
        self._homes[name].admin.http.delete(_path(name), params=_AT_ONCE, timeout=_LEAVES_S)
        self._until(lambda: not self._used[name], _LEAVES_S, f"{name} is gone")

    def run(self, seconds: float) -> Window:
        """Time passes."""
        since, before = self._so_far()
        while time.monotonic() < since + seconds:
            self._sleep()
        until, after = self._so_far()
        return Window(
            {name: (after[name] - before[name]) / (until - since) for name in WEIGHTS}, self.cpu
        )

    def seconds_until(self, amount: int, *names: str, most: float = 600.0) -> float:
        """Until these tenants use so much, but for the largest pod; TimeoutError after `most`."""
        start = time.monotonic()
        self._until(lambda: self.used(*names) > amount - max(SIZES), most, f"{names} use {amount}m")
        return time.monotonic() - start

    # --- what is there

    def _watch(self, plane: ControlPlane) -> None:
        query = {"watch": "1", "labelSelector": f"{_TENANT},!{DELEGATE_LABEL}"}
        decode = msgspec.json.Decoder(_Event).decode
        try:
            while not self._over:  # the API server ends a watch that is slow to read
                with plane.admin.http.stream(
                    "GET", "/api/v1/pods", params=query, timeout=None
                ) as answer:
                    answer.raise_for_status()
                    for line in answer.iter_lines():
                        event = decode(line)
                        self._seen(event)
                        query["resourceVersion"] = event.object.metadata.resource_version
        except Exception as error:  # told where it is waited for
            self._fail(error)

    def _seen(self, event: _Event) -> None:
        pod = event.object
        name = pod.metadata.namespace
        uid = pod.metadata.uid
        gone = event.type == "DELETED"
        ended = pod.status.phase in _ENDED
        leaves = gone or ended or bool(pod.metadata.deletion_timestamp)
        with self._lock:
            self._advance()
            used = 0 if gone else pod.used
            self._used[name] += used - self._uses.pop(uid, 0)
            if not gone:
                self._uses[uid] = used
            replace = leaves and uid not in self._replaced and self._copies[name] > 0
            if leaves:
                self._replaced.add(uid)
            self.evicted += replace and not ended
        if replace:
            self._do(name, self._create, name)
        late = self._copies[name] == 0  # it was on its way when its tenant left
        if (ended or late) and not pod.metadata.deletion_timestamp and not gone:
            self._do(name, self._delete, pod)

    def _advance(self) -> None:
        now = time.monotonic()
        for name, used in self._used.items():
            self._integral[name] += used * (now - self._at)
        self._at = now

    def _so_far(self) -> tuple[float, dict[str, float]]:
        with self._lock:
            self._advance()
            return self._at, dict(self._integral)

    # --- what is done

    def _create(self, name: str) -> None:
        number = next(self._numbers)
        notes = {STOP_SECONDS: str(self._grace_s)}
        if not self.endless:
            least, more = self._runs_s
            notes[RUN_SECONDS] = f"{least + self._dice.expovariate(1 / more):.1f}"
        metadata = {
            "name": f"{name}-{number:05d}",
            "labels": {_TENANT: name},
            "annotations": notes,
        }
        requests = {"cpu": f"{self._dice.choice(SIZES)}m", "memory": "64Mi"}
        container = {
            "name": "main",
            "image": "registry.invalid/main:1",
            "resources": {"requests": requests},
        }
        spec = {
            "schedulerName": SCHEDULER_NAME,
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": self._grace_s,
        }
        self._homes[name].admin.create(_path(name), {"metadata": metadata, "spec": spec})

    def _delete(self, pod: _Pod) -> None:
        path = f"{_path(pod.metadata.namespace)}/{pod.metadata.name}"
        self._homes[pod.metadata.namespace].admin.http.delete(path, params=_AT_ONCE)

    def _do(self, name: str, what: Any, *given: Any) -> None:
        def told(done: Future[None]) -> None:
            if not done.cancelled() and (error := done.exception()):
                self._fail(error)

        with contextlib.suppress(RuntimeError):  # the end has come
            self._writers[name].submit(what, *given).add_done_callback(told)

    def _fail(self, error: BaseException) -> None:
        if not self._over:
            self._failed.append(error)

    def _until(self, condition: Any, most: float, what: str) -> None:
        deadline = time.monotonic() + most
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not after {most:.0f} s: {what}; in use: {dict(self._used)}")
            self._sleep()

    def _sleep(self) -> None:
        if self._failed:
            raise self._failed[0]
        time.sleep(_POLL_S)


def _path(name: str) -> str:
    return f"/api/v1/namespaces/{name}/pods"


def make_namespaces(planes: Iterable[ControlPlane]) -> None:
    """One of each tenant in each cluster, in which pods can be made."""
    for plane in planes:
        for name in WEIGHTS:
            plane.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            plane.components["kube-controller-manager"].wait_until(
                partial(plane.admin.answers, account), "the default ServiceAccount is there", 30
            )


def write_tenants(file: Path, cpus: int, *, given: bool) -> None:
    """Three tenants below one, as `tenant_shares.Loop` has them; a file that is there is replaced."""
    tenants: list[dict[str, Any]] = [{"name": "all", "reclaim": ANY_PRIORITY}]
    if not given:
        tenants[0]["nominal"] = {"cpu": cpus}
    for name, weight in WEIGHTS.items():
        one = {"name": name, "parent": "all", "namespaces": [name], "weight": weight}
        own = {"nominal": {"cpu": f"{due(1000 * cpus, name)}m"}} if given else {}
        tenants.append({**one, **own})
    beside = file.with_suffix(".new")
    beside.write_text(yaml.safe_dump({"tenants": tenants}))
    beside.replace(file)


def tenants_on_planes(share: int) -> list[Row]:
    """80 CPUs, about 140 pods that run at a time on two planes: borrowed by weight, then each tenant
    given its part, one of them away and back. Skipped with a line where there is no control plane.
    """
    if reason := binaries.unavailable():
        print(f"skipped: {reason}", file=sys.stderr)
        return []
    settle_s = _SETTLE_S / share
    with _fleet() as (demand, tenants):
        windows = steady(demand, _WINDOWS, _WINDOW_S / share, settle_s)
        for name in WEIGHTS:
            demand.leave(name)
        write_tenants(tenants, _CPUS, given=True)
        demand.endless = True
        lent = lend(demand, settle_s)
    of = f"{_WINDOWS} windows of five minutes on two real planes, the worst"
    return [
        _row("planes_shares_off", 100 * max(one.furthest for one in windows), "% off", 2, of),
        _row("planes_jain", 100 * min(one.jain for one in windows), "%", 99, of),
        _row("planes_quota_lent", lent.lent_s, "s", 1, "until pods of others are shown bound"),
        _row(
            "planes_quota_back",
            lent.back_s - _GRACE_S,
            "s",
            None,
            f"beyond the grace of {_GRACE_S} s of {lent.evicted} pods that are evicted",
        ),
    ]


def _row(name: str, value: float, unit: str, target: float | None, counts: str) -> Row:
    nodes = len(_CLUSTERS) * _NODES
    pods = len(WEIGHTS) * copies(1000 * _CPUS)
    return Row(name, nodes, pods, value, unit, target, None, counts)


@contextlib.contextmanager
def _fleet() -> Iterator[tuple[Demand, Path]]:
    """Planes with a dispatcher and agents, who asks for more than they may have, and the tenants
    file.
    """
    specs = [
        PlaneSpec(
            name, nodes=[NodeSpec(f"{name}-{at}", cpu="32", pods="500") for at in range(_NODES)]
        )
        for name in _CLUSTERS
    ]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        control_planes(specs, Path(folder)) as planes,
    ):
        make_namespaces(planes)
        for plane in planes:
            grant(plane)
        tenants = Path(folder) / "tenants.yaml"
        write_tenants(tenants, _CPUS, given=False)
        agent = {"kubelet": {"interval_s": 60.0, "timeout_s": 1.0}, "executor": ACCEPT}
        dispatcher = Dispatcher(*planes, agent=agent, tenants=str(tenants))
        dispatcher.start()
        try:
            homes = {name: planes[_CLUSTERS.index(home)] for name, home in _HOMES.items()}
            with Demand(homes, _CPUS, grace_s=_GRACE_S, runs_s=_RUNS_S) as demand:
                yield demand, tenants
        finally:
            dispatcher.stop()


CASES = (tenants_on_planes,)
