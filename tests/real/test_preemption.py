"""Preemption on real planes: at home and in another cluster, with the rights of the roles."""

from typing import Any

import pytest

from localfleet.controlplane.plane import ControlPlane
from shared.model.names import CLUSTERS, STAY
from tests.charts.rendering import NAMESPACE, Helm
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
    folder = tmp_path_factory.mktemp("fleet")
    started = start(control_plane, helm, folder, lambda _: {"nodes": NODES}, evicting=(HOME,))
    for plane in started.planes.values():
        for name, value in (("low", 10), ("middle", 500), ("high", 1000)):
            plane.admin.create(CLASSES, {"metadata": {"name": name}, "value": value})
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


def alone(name: str, priority: str, **spec: Any) -> dict[str, Any]:
    """A pod that stays in its cluster and takes half a node."""
    main = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(CPUS // 2)}}}
    metadata = {"name": name, "annotations": {STAY: "true"}}
    return {"metadata": metadata, "spec": {"containers": [main], "priorityClassName": priority, **spec}}


def fill(plane: ControlPlane, *finalizers: str) -> None:
    """Every node full of pods of another scheduler, which leave when their finalizers are taken away."""
    for node in range(NODES):
        for half in "ab":
            name = f"{plane.name}-{node:04}"
            pod = alone(f"theirs-{node}{half}", "low", schedulerName="theirs", nodeName=name)
            pod["metadata"]["finalizers"] = list(finalizers)
            plane.admin.create(PODS, pod)


def pod_of(plane: ControlPlane, name: str) -> dict[str, Any]:
    return next((one for one in plane.admin.get(PODS)["items"] if one["metadata"]["name"] == name), {})


def told(plane: ControlPlane, name: str) -> str:
    conditions = pod_of(plane, name)["status"].get("conditions", ())
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def empty(fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        for pod in plane.admin.get(PODS)["items"]:
            plane.admin.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
            plane.admin.http.delete(f"{PODS}/{pod['metadata']['name']}", params={"gracePeriodSeconds": "0"})
    eventually(lambda: not any(plane.admin.get(PODS)["items"] for plane in fleet.planes.values()), 60)


@pytest.mark.parametrize("cluster", ["north", HOME], ids=["where it may not", "where it may"])
def test_pods_of_other_schedulers_are_evicted_where_the_policy_lets_them(
    system: System, fleet: RealFleet, cluster: str
) -> None:
    plane = fleet.planes[cluster]
    fill(plane)
    eventually(lambda: all(one["status"]["phase"] == "Running" for one in plane.admin.get(PODS)["items"]), 30)
    plane.admin.create(PODS, alone("high", "high", schedulerName="global-dispatcher"))
    if cluster == HOME:
        eventually(lambda: pod_of(plane, "high")["status"]["phase"] == "Running", 60, lambda: system.log)
        assert len(plane.admin.get(PODS)["items"]) == 2 * NODES, "one is gone, one is new"
    else:
        message = eventually(lambda: told(plane, "high"), 30, lambda: system.log)
        assert "Insufficient cpu" in message
        assert "No preemption victims found for incoming pod" in message
        assert len(plane.admin.get(PODS)["items"]) == 2 * NODES + 1
    empty(fleet)


def nominated(plane: ControlPlane, name: str) -> str:
    return str(pod_of(plane, name)["status"].get("nominatedNodeName", ""))


def going(plane: ControlPlane) -> list[str]:
    return [pod["metadata"]["name"] for pod in plane.admin.get(PODS)["items"] if "deletionTimestamp" in pod["metadata"]]


def test_a_promise_outlives_the_dispatcher_that_made_it(system: System, fleet: RealFleet) -> None:
    plane = fleet.home
    fill(plane, "example.com/slow")
    plane.admin.create(PODS, alone("high", "high", schedulerName="global-dispatcher"))
    node = eventually(lambda: nominated(plane, "high"), 60, lambda: system.log)
    (victim,) = eventually(lambda: going(plane), 30, lambda: system.log)
    system.kill_dispatcher()
    system.wait_ready()
    plane.admin.create(PODS, alone("middle", "middle", schedulerName="global-dispatcher"))
    eventually(lambda: "victims" in told(plane, "middle") or len(going(plane)) > 1, 30, lambda: system.log)
    assert nominated(plane, "high") == node
    first = going(plane)
    assert victim in first
    assert len(first) <= 2, "one for each of them"
    for name in first:
        plane.admin.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
    eventually(lambda: pod_of(plane, "high")["status"]["phase"] == "Running", 60, lambda: system.log)
    assert pod_of(plane, "high")["spec"]["nodeName"] == node
    empty(fleet)


MERGE = {"Content-Type": "application/strategic-merge-patch+json"}
VICTIM = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(("cluster", "may"), [(HOME, True), ("north", False)], ids=["evicting", "not evicting"])
def test_the_guard_lets_the_account_evict_pods_of_others_where_the_policy_does_and_nothing_else(
    fleet: RealFleet, cluster: str, may: bool
) -> None:
    plane = fleet.planes[cluster]
    plane.admin.create(PODS, alone("theirs", "low", schedulerName="theirs"))
    api = plane.api_for("agent", NAMESPACE)

    def patch(part: str, body: dict[str, Any]) -> int:
        return api.http.patch(f"{PODS}/theirs{part}", json=body, headers=MERGE).status_code

    odd = {"type": "DisruptionTarget", "status": "True", "reason": "Whim"}
    assert patch("", {"metadata": {"labels": {"a": "b"}}}) == 422
    assert patch("/status", {"status": {"phase": "Failed"}}) == 422
    assert patch("/status", {"status": {"conditions": [odd]}}) == 422
    assert patch("/status", {"status": {"conditions": [VICTIM]}}) == (200 if may else 422)
    assert api.http.delete(f"{PODS}/theirs").status_code == (200 if may else 422)
    api.close()
    empty(fleet)


@pytest.mark.usefixtures("system")
def test_nothing_of_that_was_denied(fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        assert not [event for event in ours(plane) if event.denied or event.code == 403]
