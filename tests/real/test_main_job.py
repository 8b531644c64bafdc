"""The main job of the embedded clusters' suite, case by case the same, and what only real planes can show."""

import os

import pytest

from tests.real.audit import ours
from tests.real.fleet import RealFleet
from tests.real.processes import Tree
from tests.system.cluster_api import eventually
from tests.system.harness import System
from tests.system.test_main_job import (
    WEB,
    submit,
    test_a_deployment_of_one_cluster_runs_in_all_and_counts_as_ready_at_home,
    test_a_job_completes_with_pods_in_several_clusters,
    test_deleting_a_delegate_where_it_runs_makes_the_controller_replace_its_source,
    test_deleting_a_remote_pod_ends_its_delegate_and_its_controller_makes_another,
)

__all__ = [
    "test_a_deployment_of_one_cluster_runs_in_all_and_counts_as_ready_at_home",
    "test_a_job_completes_with_pods_in_several_clusters",
    "test_deleting_a_delegate_where_it_runs_makes_the_controller_replace_its_source",
    "test_deleting_a_remote_pod_ends_its_delegate_and_its_controller_makes_another",
]


def test_kubectl_shows_remote_pods_where_they_were_submitted(system: System, fleet: RealFleet) -> None:
    kubectl = fleet.home.kubectl
    submit(system, "shop", 9, **{WEB: "cluster=1"})
    kubectl("rollout", "status", "deployment/shop", "--timeout=60s")
    assert "9/9" in kubectl("get", "deployment", "shop")
    pods = kubectl("get", "pods", "-o", "wide")
    assert pods.count("Running") == 9
    for away in ("north", "west"):
        assert pods.count(f"global-dispatcher-{away}") == 3
        assert fleet.planes[away].kubectl("get", "pods").count("Running") == 3
    assert kubectl("wait", "pods", "-l", "app=shop", "--for=condition=Ready", "--timeout=5s").count("met") == 9
    kubectl("scale", "deployment", "shop", "--replicas=0")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60, lambda: system.log)
    kubectl("delete", "deployment", "shop")


def test_agents_run_at_the_priority_of_what_they_look_after(system: System) -> None:
    agents = Tree(system.dispatcher.pid).named("ray::AgentActor")
    assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in agents] == [0, 0, 0]


@pytest.mark.usefixtures("system")
def test_all_of_that_was_done_with_the_rights_of_the_roles(fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        done = ours(plane)
        assert not [event for event in done if event.denied or event.code == 403]
        assert {("create", "", "pods/binding"), ("patch", "", "nodes/status")} <= {event.action for event in done}
        assert {event.action for event in done if event.object_ref.resource} <= fleet.allowed
