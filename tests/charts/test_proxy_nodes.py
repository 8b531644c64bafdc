"""DaemonSets that tolerate every taint, on a real control plane with a proxy node, before and after the chart comes."""

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from dispatcher.cli.diagnosis import Finding
from dispatcher.cli.joining.daemon_sets import on_proxy_nodes
from dispatcher.cli.joining.target import Place, reached
from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.plane import ControlPlane
from shared.model import names
from tests.agents.runtime.admission.proxy_node_cases import ALL, LINUX, affinity_of, daemon_set
from tests.charts.policies import wait_for_policies
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
PODS = "/api/v1/namespaces/default/pods"
PROXY = names.proxy_node_name("west")
ANY_OS = [{"matchExpressions": [one]} for one in (LINUX, {"key": LINUX["key"], "operator": "DoesNotExist"})]
SPEC: Object = {**ALL, "affinity": affinity_of(*ANY_OS)}


class World:
    """A cluster with one node that runs pods, and a proxy node."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = plane.admin
        taint = {"key": names.PROXY_TAINT, "value": "west", "effect": "NoSchedule"}
        node = {"metadata": {"name": PROXY, "labels": {names.PROXY_LABEL: "west"}}, "spec": {"taints": [taint]}}
        self.api.create("/api/v1/nodes", node)
        room = {"cpu": "100", "memory": "100Gi", "pods": "100"}
        ready = {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": ""}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        self.api.patch(f"/api/v1/nodes/{PROXY}/status", {"status": status})

    def status(self, name: str, *fields: str) -> list[Any]:
        status = self.api.get(f"{SETS}/{name}").get("status", {})
        return [status.get(field) for field in fields]

    def pods_of(self, name: str, node: str) -> list[Object]:
        items = self.api.get(PODS, labelSelector=f"app={name}")["items"]
        return [one for one in items if one["spec"].get("nodeName") == node]

    async def found(self) -> list[Finding]:
        async with reached(Place(self.plane.name, str(self.plane.kubeconfig)), dry_run=True) as target:
            return await on_proxy_nodes(target.member)


def soon(true: Callable[[], bool]) -> None:
    eventually(true, 20)


async def test_a_daemon_set_is_kept_off_proxy_nodes_and_doctor_shows_how_one_is_that_was_there_before(
    control_plane: ControlPlanes, helm: Helm
) -> None:
    if not opt_in.version(selected_minor()):
        pytest.skip("the chart's webhook does it, whose Service no server reaches here: see test_opt_in.py")
    plane = control_plane("daemons", nodes=1, scheduler=True)
    world = World(plane)
    world.api.create(SETS, daemon_set(SPEC, "before"))
    soon(lambda: bool(world.pods_of("before", PROXY)))
    assert world.status("before", "desiredNumberScheduled") == [2]
    (told,) = await world.found()
    assert f"default/before has pods on {PROXY}" in told.text

    example = str(CHARTS / "agent" / "ci" / "example-values.yaml")
    where = ("-n", NAMESPACE, "--create-namespace", "-f", example)
    helm("install", "agent", str(CHARTS / "agent"), *where, KUBECONFIG=str(plane.kubeconfig))
    wait_for_policies(plane)
    probe = daemon_set(ALL)
    soon(lambda: "affinity" in world.api.create(f"{SETS}?dryRun=All", probe)["spec"]["template"]["spec"])
    world.api.patch(f"{SETS}/before", {"metadata": {"labels": {"a": "b"}}})
    assert world.api.get(f"{SETS}/before")["metadata"]["generation"] == 1

    world.api.create(SETS, daemon_set(SPEC, "after"))
    soon(lambda: world.status("after", "desiredNumberScheduled", "numberReady") == [1, 1])
    world.api.patch(f"{SETS}/after", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    rolled = ("observedGeneration", "updatedNumberScheduled", "numberAvailable")
    soon(lambda: world.status("after", *rolled) == [2, 1, 1])
    assert world.pods_of("after", PROXY) == []

    command = shlex.split(told.fix.partition(" (")[0])
    plane.kubectl(*command[1:])
    soon(lambda: world.status("before", "observedGeneration", "desiredNumberScheduled") == [2, 1])
    assert await world.found() == []
    (going,) = world.pods_of("before", PROXY)
    (runs,) = world.pods_of("after", plane.spec.node_specs()[0].name)
    agent = plane.api_for("agent", NAMESPACE)

    def ended(pod: Object) -> int:
        path = f"{PODS}/{pod['metadata']['name']}"
        return agent.http.request("DELETE", path, json={"gracePeriodSeconds": 0}).status_code

    assert [ended(runs), ended(going)] == [422, 200]
    agent.close()
    soon(lambda: world.status("before", *rolled) == [2, 1, 1])
    assert world.pods_of("before", PROXY) == []
