"""A real Cluster Autoscaler buys a node for pods that it would help, for no others, and drains delegates."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.model.names import CLUSTERS, SAFE_TO_EVICT, STAY, proxy_node_name
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real.cluster_autoscaler import PROGRAM, ClusterAutoscaler, program
from tests.real.fleet import CLUSTERS as PLANES
from tests.real.fleet import RealFleet, start
from tests.system.cluster_api import deployment, eventually
from tests.system.harness import HOME, System

pytestmark = pytest.mark.skipif(not program(), reason=f"{PROGRAM} names no Cluster Autoscaler")

TARGET = "north"
CPUS = 6  # of the 8 that a node has
METERED = "metered"  # a namespace whose tenant has no quota for a pod of these
LOOPS = 4  # in which an autoscaler would have made a node


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Planes of a node each."""
    started = start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": 1})
    for plane in started.planes.values():
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": METERED}})
    return started


@pytest.fixture(scope="module")
def system(fleet: RealFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The fleet with a dispatcher, and a tenant of little quota."""
    folder = tmp_path_factory.mktemp("dispatcher")
    tenants = [{"name": METERED, "namespaces": [METERED], "nominal": {"cpu": "1", "pods": 10}}]
    (folder / "tenants.yaml").write_text(json.dumps({"tenants": tenants}))
    with System(folder, fleet, {"tenants": str(folder / "tenants.yaml")}, readings=False) as started:
        started.wait_ready()
        yield started


def submit(
    system: System, name: str, replicas: int, cpu: str, where: dict[str, str], *, at: str = HOME, namespace: str = ""
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace or 'default'}/deployments"
    body = deployment(name, replicas, requests={"cpu": cpu}, annotations=where)
    assert system.apis[at].create(path, body).status_code == 201


def pods_of(system: System, name: str, cluster: str = HOME, namespace: str = "default") -> list[dict[str, Any]]:
    return [one for one in system.apis[cluster].pods(namespace) if one["metadata"]["labels"].get("app") == name]


def waits_for(system: System, name: str, cluster: str = HOME, namespace: str = "default") -> list[str]:
    """The reasons of those that have no node."""
    waiting = [one for one in pods_of(system, name, cluster, namespace) if not one["spec"].get("nodeName")]
    conditions = [one["status"].get("conditions", ()) for one in waiting]
    return sorted(one["reason"] for found in conditions for one in found if one["type"] == "PodScheduled")


def runs(system: System, name: str, cluster: str = HOME) -> int:
    return sum(one["status"].get("phase") == "Running" for one in pods_of(system, name, cluster))


def loops_more(autoscaler: ClusterAutoscaler) -> None:
    seen = autoscaler.loops
    eventually(lambda: autoscaler.loops >= seen + LOOPS, 120, lambda: autoscaler.log[-3000:])


def test_a_node_is_made_for_a_pod_that_it_would_help_and_for_no_other(
    system: System, fleet: RealFleet, tmp_path: Path
) -> None:
    with ClusterAutoscaler(fleet.home, tmp_path) as autoscaler:
        submit(system, "only-west", 2, str(CPUS), {CLUSTERS: "west"})
        submit(system, "metered", 1, str(CPUS), {}, namespace=METERED)
        eventually(lambda: waits_for(system, "only-west") == ["NodesDoNotHelp"], 120, lambda: system.log)
        metered = ["NodesDoNotHelp"]
        eventually(lambda: waits_for(system, "metered", HOME, METERED) == metered, 60, lambda: system.log)
        loops_more(autoscaler)
        assert not autoscaler.made()
        submit(system, "at-home", 2, str(CPUS), {STAY: "true"})
        eventually(lambda: runs(system, "at-home") == 2, 180, lambda: autoscaler.log[-3000:])
        loops_more(autoscaler)
        assert len(autoscaler.made()) == 1
        assert waits_for(system, "only-west") == waits_for(system, "metered", HOME, METERED) == ["NodesDoNotHelp"]
        nodes = {one["metadata"]["name"]: one["spec"] for one in system.home.get("/api/v1/nodes")["items"]}
        for cluster in (one for one in PLANES if one != HOME):
            assert nodes[proxy_node_name(cluster)]["providerID"] == f"global-dispatcher://{cluster}"


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def bought_for_a_while(system: System, autoscaler: ClusterAutoscaler) -> str:
    """A node, which is needed until `local` goes; it and the other one have room for one guest each."""
    submit(system, "local", 2, str(CPUS), {STAY: "true"}, at=TARGET)
    eventually(lambda: runs(system, "local", TARGET) == 2, 180, lambda: autoscaler.log[-3000:])
    (bought,) = autoscaler.made()
    return bought


def test_a_node_with_a_delegate_is_drained_and_removed(system: System, fleet: RealFleet, tmp_path: Path) -> None:
    with ClusterAutoscaler(fleet.planes[TARGET], tmp_path) as autoscaler:
        bought = bought_for_a_while(system, autoscaler)
        submit(system, "guest", 2, "1500m", {CLUSTERS: TARGET})
        eventually(lambda: runs(system, "guest") == 2, 120, lambda: system.log)
        before = {one["spec"]["nodeName"]: one for one in pods_of(system, "guest", TARGET)}
        assert before[bought]["metadata"]["annotations"][SAFE_TO_EVICT] == "true"
        system.apis[TARGET].delete(f"{DEPLOYMENTS}/local")
        eventually(lambda: not autoscaler.made(), 240, lambda: autoscaler.log[-3000:])
        eventually(lambda: runs(system, "guest") == 2, 120, lambda: system.log)
        assert {one["spec"]["nodeName"] for one in pods_of(system, "guest", TARGET)} == before.keys() - {bought}
        system.home.delete(f"{DEPLOYMENTS}/guest")
        eventually(lambda: not pods_of(system, "guest", TARGET), 120, lambda: system.log)


def test_a_node_with_a_delegate_that_nobody_would_replace_stays(
    system: System, fleet: RealFleet, tmp_path: Path
) -> None:
    with ClusterAutoscaler(fleet.planes[TARGET], tmp_path) as autoscaler:
        bought = bought_for_a_while(system, autoscaler)
        template = deployment("bare", 1, requests={"cpu": "1500m"}, annotations={CLUSTERS: TARGET})["spec"]["template"]
        for name in ("bare-1", "bare-2"):
            body = {**template, "metadata": {**template["metadata"], "name": name}}
            assert system.home.create("/api/v1/namespaces/default/pods", body).status_code == 201
        eventually(lambda: runs(system, "bare") == 2, 120, lambda: system.log)
        (kept,) = (one for one in pods_of(system, "bare", TARGET) if one["spec"]["nodeName"] == bought)
        system.apis[TARGET].delete(f"{DEPLOYMENTS}/local")
        refused = f"default/{kept['metadata']['name']} is not replicated"
        eventually(lambda: refused in autoscaler.log, 120, lambda: autoscaler.log[-3000:])
        assert autoscaler.made() == {bought}
