"""Preemption on real planes: at home and in another cluster, with the rights of the roles."""

from typing import Any

import pytest

from dispatcher.model.names import CLUSTERS, STAY
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real.audit import ours
from tests.real.fleet import RealFleet, start
from tests.system.cluster_api import deployment, eventually
from tests.system.harness import HOME, System
from tests.system.test_main_job import DEPLOYMENTS

NODES, CPUS = 2, 8
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Small planes, which are soon full."""
    started = start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": NODES})
    for name, value in (("low", 10), ("high", 1000)):
        started.home.admin.create(CLASSES, {"metadata": {"name": name}, "value": value})
    return started


def app(name: str, replicas: int, priority: str, where: dict[str, str]) -> dict[str, Any]:
    body = deployment(name, replicas, requests={"cpu": str(CPUS // 2)}, annotations=where)
    body["spec"]["template"]["spec"]["priorityClassName"] = priority
    return body


def ready(system: System) -> dict[str, int]:
    found = system.home.get(DEPLOYMENTS)["items"]
    return {one["metadata"]["name"]: one["status"].get("readyReplicas", 0) for one in found}


@pytest.mark.parametrize(
    ("where", "runs_in"), [({STAY: "true"}, HOME), ({CLUSTERS: "north"}, "north")], ids=["at home", "elsewhere"]
)
def test_the_important_run_and_the_others_wait(
    system: System, fleet: RealFleet, where: dict[str, str], runs_in: str
) -> None:
    mark = fleet.planes[runs_in].audit.mark()
    full = 2 * NODES
    assert system.home.create(DEPLOYMENTS, app("low", full, "low", where)).status_code == 201
    eventually(lambda: ready(system) == {"low": full}, 180, lambda: f"{ready(system)}\n{system.log}")
    assert system.home.create(DEPLOYMENTS, app("high", 2, "high", where)).status_code == 201
    eventually(lambda: ready(system) == {"low": full - 2, "high": 2}, 180, lambda: f"{ready(system)}\n{system.log}")
    evicted = [
        event
        for event in fleet.planes[runs_in].audit.events(mark)
        if event.action == ("patch", "", "pods/status") and event.code == 200 and "low" in event.object_ref.name
    ]
    assert evicted
    events = fleet.planes[runs_in].kubectl("get", "events", "-o", "custom-columns=R:.reason,N:.involvedObject.name")
    assert len([line for line in events.splitlines() if line.startswith("Preempted") and "low" in line]) == 2
    waiting = [pod for pod in system.home.get(PODS)["items"] if pod["status"]["phase"] == "Pending"]
    assert all(pod["spec"]["priorityClassName"] == "low" for pod in waiting)
    for name in ("low", "high"):
        system.home.delete(f"{DEPLOYMENTS}/{name}", propagationPolicy="Background")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 120, lambda: system.log)


@pytest.mark.usefixtures("system")
def test_nothing_of_that_was_denied(fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        assert not [event for event in ours(plane) if event.denied or event.code == 403]
