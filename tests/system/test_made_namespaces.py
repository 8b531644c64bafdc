"""A team whose namespace is only at home: one other cluster makes it, and runs its pods as the accounts that it has."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.model.names import CLUSTERS, MADE_FOR, SCHEDULE
from tests.system.cluster_api import Object, deployment, eventually
from tests.system.harness import HOME, QUICK_NODES, Embedded, System, specs

BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}
PODS = "/api/v1/namespaces/team/pods"
TO_WEST = {SCHEDULE: "true", CLUSTERS: "west"}


class Consenting(Embedded):
    """West makes namespaces of teams, and lets their account `app` be that of its own."""

    def members(self) -> list[dict[str, Any]]:
        found = super().members()
        (west,) = [one for one in found if one["name"] == "west"]
        makes = {"namespaces": {"create": ["team*"], "labels": BASELINE}, "accept": [{"local_accounts": ["app"]}]}
        west["agent"] = {**west["agent"], "executor": makes}
        return found


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("fleet")
    clusters = Consenting.start(specs(nodes=2, options=QUICK_NODES), directory / "fleet")
    with System(directory, clusters) as fleet:
        fleet.wait_ready()
        for name in ("team", "solo"):
            fleet.home.create("/api/v1/namespaces", {"metadata": {"name": name}})
        fleet.home.create("/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "app"}})
        yield fleet


def namespaces(system: System, cluster: str) -> dict[str, dict[str, str]]:
    """Names of Namespaces, and their labels."""
    listed = system.apis[cluster].get("/api/v1/namespaces")["items"]
    return {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in listed}


def running(system: System, cluster: str) -> list[Object]:
    return [one for one in system.apis[cluster].pods("team") if one["status"].get("phase") == "Running"]


def test_pods_run_in_the_cluster_that_makes_their_namespace(system: System) -> None:
    requests = {"cpu": "200m", "memory": "64Mi"}
    body = deployment("web", 4, requests=requests, annotations={CLUSTERS: "north,west"})
    assert system.home.create("/apis/apps/v1/namespaces/team/deployments", body).status_code == 201
    eventually(lambda: len(running(system, "west")) == 4, 60, lambda: system.log)
    assert namespaces(system, "west")["team"].items() >= {MADE_FOR: HOME, **BASELINE}.items()
    assert "team" not in namespaces(system, "north")


def test_a_pod_runs_as_the_account_of_its_name_once_that_is_there(system: System) -> None:
    pod = {
        "metadata": {"name": "usesa", "annotations": TO_WEST},
        "spec": {"serviceAccountName": "app", "containers": [{"name": "c", "image": "busybox"}]},
    }
    assert system.home.create(PODS, pod).status_code == 201
    lacking = 'ServiceAccount "team/app" (spec.serviceAccountName) does not exist in cluster "west"'
    eventually(
        lambda: any(lacking in one["message"] for one in system.explain("usesa", "team")["refusals"]),
        60,
        lambda: f"{system.explain('usesa', 'team')}\n{system.log}",
    )
    west = system.apis["west"]
    west.create("/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "app"}})
    west.merge("/api/v1/namespaces/team", {"metadata": {"labels": {"mended": "1"}}})

    def delegates() -> list[Object]:
        return [one for one in running(system, "west") if one["spec"]["serviceAccountName"] == "app"]

    eventually(lambda: len(delegates()) == 1, 60, lambda: f"{system.explain('usesa', 'team')}\n{system.log}")
    (delegate,) = delegates()
    tokens = [
        source["serviceAccountToken"]
        for volume in delegate["spec"]["volumes"]
        for source in volume["projected"]["sources"]
        if "serviceAccountToken" in source
    ]
    assert len(tokens) == 1  # of west: its API server has added it
    assert "AlteredByAdmission" not in reasons(system, "team", "usesa")


def reasons(system: System, namespace: str, pod: str) -> dict[str, str]:
    """What events at home say of a pod, by reason."""
    listed = system.home.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return {one["reason"]: one.get("message", "") for one in listed if one["involvedObject"]["name"] == pod}


def test_a_pod_whose_namespace_nobody_makes_says_so_with_both_remedies(system: System) -> None:
    pod = {
        "metadata": {"name": "alone", "annotations": {SCHEDULE: "true"}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }
    assert system.home.create("/api/v1/namespaces/solo/pods", pod).status_code == 201
    told = eventually(lambda: reasons(system, "solo", "alone").get("StaysHome"), 60, lambda: system.log)
    assert "create it where they may run" in told
    assert "`executor.namespaces.create`" in told
    (home,) = [one for one in system.get("/v1/clusters") if one["name"] == HOME]
    assert [one["absent_in"] for one in home["apart"] if one["namespace"] == "solo"] == [["north", "west"]]
    assert [one["absent_in"] for one in home["apart"] if one["namespace"] == "team"] == [["north"]]
