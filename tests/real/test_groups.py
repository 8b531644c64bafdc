"""Groups on real planes, of which the home alone has PodGroups: whole in another cluster, or not at all."""

from typing import Any

import pytest

from localfleet.controlplane.binaries import release, selected_minor
from shared.model.names import CLUSTERS, GROUP, GROUP_MIN, GROUP_WITHIN, SCHEDULE
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real.fleet import RealFleet, start
from tests.real.test_pod_groups import GATES, OF_KUBERNETES, PODS, SERVED
from tests.system.cluster_api import eventually
from tests.system.harness import HOME, System

pytestmark = pytest.mark.skipif(release(selected_minor()) < (1, 37), reason="Kubernetes has them since 1.37")
NODES, CPUS = 4, 8
FIT = 2 * NODES  # pods in one cluster
Object = dict[str, Any]


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    gates: dict[str, Any] = {"api_flags": [GATES, SERVED], "controller_flags": [GATES]}
    return start(
        control_plane,
        helm,
        tmp_path_factory.mktemp("fleet"),
        lambda name: {"nodes": NODES, **(gates if name == HOME else {})},
    )


def pod(name: str, annotations: Object | None = None, **spec: Any) -> Object:
    resources = {"requests": {"cpu": str(CPUS // 2)}}
    containers = [{"name": "main", "image": "example.invalid/app:1", "resources": resources}]
    metadata = {"name": name, "labels": {"app": "train"}, "annotations": {SCHEDULE: "true", **(annotations or {})}}
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


def condition(fleet: RealFleet, name: str) -> Object:
    found = fleet.home.admin.get(f"{OF_KUBERNETES}/{name}").get("status", {}).get("conditions") or [{}]
    shown: Object = found[0]
    return shown


def running(fleet: RealFleet, name: str, prefix: str) -> set[str]:
    """Pods of such a name that run in a cluster, as its API server shows them."""
    pods = fleet.planes[name].admin.get(PODS)["items"]
    return {
        one["metadata"]["name"]
        for one in pods
        if one["metadata"]["name"].startswith(prefix) and one["status"].get("phase") == "Running"
    }


def make(fleet: RealFleet, name: str, least: int, pods: int, annotations: Object | None = None) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    fleet.home.admin.create(OF_KUBERNETES, {"metadata": {"name": name}, "spec": spec})
    for number in range(pods):
        one = pod(f"{name}-{number}", annotations, schedulingGroup={"podGroupName": name})
        fleet.home.admin.create(PODS, one)


def test_a_gang_runs_whole_in_another_cluster_and_its_pod_group_at_home_says_so(
    system: System, fleet: RealFleet
) -> None:
    make(fleet, "away", FIT, FIT, {CLUSTERS: "north"})
    eventually(lambda: len(running(fleet, HOME, "away-")) == FIT, 180, lambda: f"{system.log}")
    assert len(running(fleet, "north", "away-")) == FIT
    eventually(lambda: condition(fleet, "away").get("status") == "True", 60, lambda: f"{condition(fleet, 'away')}")
    told = condition(fleet, "away")
    assert (told["type"], told["reason"]) == ("PodGroupInitiallyScheduled", "Scheduled")


def test_a_gang_for_which_no_cluster_has_room_holds_none_until_it_asks_for_less(
    system: System, fleet: RealFleet
) -> None:
    more = FIT + 1
    make(fleet, "large", more, more)
    eventually(lambda: condition(fleet, "large").get("status") == "False", 60, lambda: f"{system.log}")
    told = condition(fleet, "large")
    assert told["reason"] == "Unschedulable"
    for name in fleet.planes:
        assert running(fleet, name, "large-") == set()
    least = {"spec": {"schedulingPolicy": {"gang": {"minCount": FIT}}}}
    fleet.home.admin.patch(f"{OF_KUBERNETES}/large", least)
    eventually(lambda: len(running(fleet, HOME, "large-")) == FIT, 180, lambda: f"{system.log}")
    eventually(lambda: condition(fleet, "large").get("status") == "True", 60, lambda: f"{condition(fleet, 'large')}")
    assert sorted(len(running(fleet, name, "large-")) for name in ("north", "west")) in ([0, 0], [0, FIT])


def test_our_annotations_are_enough_where_no_cluster_has_the_api(system: System, fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        plane.admin.delete(PODS)
    eventually(lambda: not any(plane.admin.get(PODS)["items"] for plane in fleet.planes.values()), 180)
    group = {GROUP: "ours", GROUP_MIN: str(FIT), GROUP_WITHIN: "cluster"}
    for number in range(FIT):
        fleet.home.admin.create(PODS, pod(f"ours-{number}", group))
    eventually(lambda: len(running(fleet, HOME, "ours-")) == FIT, 180, lambda: f"{system.log}")
    assert sorted(len(running(fleet, name, "ours-")) for name in ("north", "west")) in ([0, 0], [0, FIT])
