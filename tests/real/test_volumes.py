"""Pods with claims on real planes, through the dispatcher and the agents as processes, by the rights of the roles."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localfleet.controlplane.plane import ControlPlane
from shared.model.names import CLUSTERS
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real import audit
from tests.real.fleet import SCHEDULER, RealFleet, start
from tests.system.cluster_api import eventually
from tests.system.harness import System, agent_pid

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED = "volume.kubernetes.io/selected-node"
NODES = 3
PROFILE = Path(__file__).parents[2] / "configs" / "profiles" / "default.yaml"


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Small planes; at home, a class of local volumes and one of a driver, both waiting for the first consumer."""
    started = start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": NODES})
    waits = {"volumeBindingMode": "WaitForFirstConsumer"}
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("disks", "example.com/disks")):
        started.home.admin.create(STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": provisioner, **waits})
    return started


@pytest.fixture(scope="module")
def system(fleet: RealFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The fleet with a dispatcher that has its profile in a file."""
    folder = tmp_path_factory.mktemp("dispatcher")
    shutil.copy(PROFILE, folder / "profile.yaml")
    with System(folder, fleet, {"profile": "profile.yaml"}, readings=False) as started:
        started.wait_ready()
        yield started


def volume(name: str, storage_class: str, node: str, **spec: Any) -> dict[str, Any]:
    """One that is on a node alone."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    common = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": f"/{name}"}}
    fields = {"storageClassName": storage_class, "nodeAffinity": affinity, "persistentVolumeReclaimPolicy": "Retain"}
    return {"metadata": {"name": name}, "spec": {**common, **fields, **spec}}


def claim(name: str, storage_class: str, **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {"storageClassName": storage_class, **wanted, **spec}}


def pod(name: str, *claims: str, **annotations: str) -> dict[str, Any]:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    spec = {"schedulerName": SCHEDULER, "containers": [{"name": "main", "image": "none"}], "volumes": volumes}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def node(plane: ControlPlane, at: int) -> str:
    return f"{plane.name}-{at:04}"


def read(plane: ControlPlane, path: str) -> dict[str, Any]:
    return dict(plane.admin.get(path))


def running_on(plane: ControlPlane, name: str) -> str:
    """The node of a pod that runs, else ""."""
    found = read(plane, f"{PODS}/{name}")
    return str(found["spec"]["nodeName"]) if found["status"]["phase"] == "Running" else ""


def wait_running(system: System, plane: ControlPlane, name: str) -> str:
    return str(eventually(lambda: running_on(plane, name), 60, lambda: f"{described(plane, name)}\n{system.log}"))


def described(plane: ControlPlane, name: str) -> str:
    return plane.kubectl("describe", "pod", name)


def phase(plane: ControlPlane, name: str) -> str:
    return str(read(plane, f"{CLAIMS}/{name}")["status"].get("phase"))


def test_a_pod_goes_where_the_volume_of_its_claim_is(system: System, fleet: RealFleet) -> None:
    home = fleet.home
    home.admin.create(VOLUMES, volume("kept", "", node(home, 2)))
    home.admin.create(CLAIMS, claim("kept", "", volumeName="kept"))
    eventually(lambda: phase(home, "kept") == "Bound", 60)
    home.admin.create(PODS, pod("reader", "kept"))
    assert wait_running(system, home, "reader") == node(home, 2)


def test_a_claim_of_local_volumes_is_bound_to_one_of_the_node_that_is_chosen(system: System, fleet: RealFleet) -> None:
    home = fleet.home
    for at in (0, 1):
        home.admin.create(VOLUMES, volume(f"local-{at}", "local", node(home, at)))
    for name in ("a", "b", "c"):
        home.admin.create(CLAIMS, claim(f"local-{name}", "local"))
        home.admin.create(PODS, pod(f"local-{name}", f"local-{name}"))
    places = {}
    eventually(lambda: sum(bool(running_on(home, f"local-{name}")) for name in "abc") == 2, 60, lambda: system.log)
    for name in "abc":
        if where := running_on(home, f"local-{name}"):
            places[name] = where
            bound = read(home, f"{CLAIMS}/local-{name}")
            assert bound["status"]["phase"] == "Bound"
            assert where == node(home, int(bound["spec"]["volumeName"][-1]))
    assert len(set(places.values())) == 2
    (third,) = set("abc") - places.keys()
    words = "didn't find available persistent volumes to bind"
    eventually(lambda: words in described(home, f"local-{third}"), 30, lambda: described(home, f"local-{third}"))
    home.admin.create(VOLUMES, volume("local-2", "local", node(home, 2)))
    assert wait_running(system, home, f"local-{third}") == node(home, 2)


def test_a_claim_that_is_missing_is_told(system: System, fleet: RealFleet) -> None:
    fleet.home.admin.create(PODS, pod("missing", "nobodys"))
    words = 'persistentvolumeclaim "nobodys" not found'
    eventually(lambda: words in described(fleet.home, "missing"), 30, lambda: described(fleet.home, "missing"))


def test_a_pod_that_wants_another_cluster_than_its_volume_is_told(system: System, fleet: RealFleet) -> None:
    fleet.home.admin.create(PODS, pod("away", "kept", **{CLUSTERS: "west"}))
    words = "its volumes keep it in cluster east, which global-dispatcher.io/clusters does not allow"
    eventually(lambda: words in described(fleet.home, "away"), 30, lambda: described(fleet.home, "away"))


def test_a_volume_that_is_made_late_outlasts_a_reload_and_kills_of_dispatcher_and_agent(
    system: System, fleet: RealFleet
) -> None:
    home = fleet.home
    home.admin.create(CLAIMS, claim("late", "disks"))
    home.admin.create(PODS, pod("late", "late"))
    chosen = eventually(lambda: selected(home, "late"), 60, lambda: system.log)
    words = "waiting on PreBind plugin VolumeBinding for a volume for claim default/late"
    eventually(lambda: f"{words}; its place on east/{chosen} is held" in described(home, "late"), 30)
    assert system.explain("late")["waiting"] == words
    profile = system.directory / "profile.yaml"
    profile.write_text(profile.read_text() + "\n")
    eventually(lambda: "changed policies hold from now on" in system.log, 30, lambda: system.log)
    eventually(lambda: system.explain("late")["waiting"], 30, lambda: str(system.explain("late")))
    system.kill_dispatcher()
    system.wait_ready()
    os.kill(eventually(lambda: agent_pid(home.server), 30), signal.SIGKILL)
    eventually(lambda: system.explain("late")["waiting"], 60, lambda: f"{system.explain('late')}\n{system.log}")
    assert selected(home, "late") == chosen
    owner = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "late"}
    home.admin.create(VOLUMES, volume("made-late", "disks", chosen, claimRef=owner))
    assert wait_running(system, home, "late") == chosen
    assert phase(home, "late") == "Bound"
    assert audit.bindings(audit.ours(home))["default/late"] == 1


def selected(plane: ControlPlane, name: str) -> str:
    """The node that the claim is to be served on."""
    return str(read(plane, f"{CLAIMS}/{name}")["metadata"].get("annotations", {}).get(SELECTED, ""))


@pytest.mark.usefixtures("system")
def test_nothing_of_that_was_denied(fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        assert not [event for event in audit.ours(plane) if event.denied or event.code in {403, 422}]
