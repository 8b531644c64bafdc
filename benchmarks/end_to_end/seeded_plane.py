"""A control plane that can be put back to one state: a case's nodes, namespaces, and the pods that
are there before.

Only etcd and kube-apiserver run, as in scheduler_perf's own harness, with the same admission
plugins off: no kubelet and no controller moves anything. The state is a copy of etcd's folder, so
each contestant meets the same bytes. Pods that are there before are made bound already, evenly over
the nodes: upstream has them placed by the scheduler under test, which costs minutes and gives each
contestant another ground.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.end_to_end.bulk import Order, bulk
from benchmarks.end_to_end.contestants import Dispatcher, grant
from benchmarks.workloads.cases import Case, Pods
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane, control_planes

WARM_UP = "warm-up"  # namespace of the pods that show that a scheduler works
_API_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority",)


class SeededPlane:
    """A plane and its seed; `restore` puts it back, both programs started anew."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._live = plane.directory / "etcd"
        self._seed = plane.directory / "etcd-seed"

    def keep(self) -> None:
        """Take the present state as the seed; nothing serves afterwards."""
        self._end()
        shutil.copytree(self._live, self._seed)

    def restore(self) -> None:
        """Serve the seed."""
        self._end()
        shutil.rmtree(self._live, ignore_errors=True)
        shutil.copytree(self._seed, self._live)
        self.plane.begin("etcd")
        self.plane.begin("kube-apiserver")

    def _end(self) -> None:
        self.plane.kill("kube-apiserver")
        self.plane.kill("etcd")


@contextmanager
def seeded(case: Case) -> Iterator[SeededPlane]:
    """A plane that holds what the case has before its measured pods."""
    spec = PlaneSpec("bench", scheduler=True, api_flags=_API_FLAGS)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        control_planes([spec], Path(folder)) as (plane,),
    ):
        plane.kill("kube-scheduler")
        plane.kill("kube-controller-manager")
        grant(plane)
        asyncio.run(_fill(plane, case))
        made = SeededPlane(plane)
        made.keep()
        yield made


async def _fill(plane: ControlPlane, case: Case) -> None:
    async with bulk(plane) as api:
        await api.create_all(_namespaces(case))
        await api.create_all(("/api/v1/nodes", node) for node in case.nodes.manifests())
        await api.create_all(_placed(case))


def _namespaces(case: Case) -> Iterator[Order]:
    for name in (WARM_UP, *case.namespaces()):
        labels = {"team": "devops"} if "-ns-" in name else {}
        yield "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}


def _placed(case: Case) -> Iterator[Order]:
    nodes = [node["metadata"]["name"] for node in case.nodes.manifests()]
    number = 0
    for at, pods in enumerate(case.before):
        for namespace, name in pods.places(f"before{at}"):
            yield order(pods, namespace, name, Dispatcher.pods_of, nodes[number % len(nodes)])
            number += 1


def order(pods: Pods, namespace: str, name: str, scheduler: str, node: str = "") -> Order:
    """What makes one pod of a template; with a node it is bound at once."""
    body: dict[str, Any] = pods.of.manifest(name, namespace, scheduler)
    if node:
        body["spec"] = {**body["spec"], "nodeName": node}
    return f"/api/v1/namespaces/{namespace}/pods", body
