"""The main job: submitted in one cluster, run in all three, seen where it was submitted."""

import subprocess

import pytest

from tests.controlplane.programs import KUBECTL, NO_KUBECTL
from tests.system.cluster_api import DELEGATE, SOURCE_UID, Object, deployment, eventually
from tests.system.harness import HOME, System

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
WEB = "global-dispatcher.io/spread"


def submit(system: System, name: str, replicas: int, **annotations: str) -> None:
    body = deployment(name, replicas, requests={"cpu": "500m", "memory": "256Mi"}, annotations=annotations)
    assert system.home.create(DEPLOYMENTS, body).status_code == 201


def scale_to_zero_and_wait(system: System, name: str) -> None:
    system.home.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": 0}})
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60, lambda: system.log)
    system.home.delete(f"{DEPLOYMENTS}/{name}")


def delegates(system: System) -> dict[str, tuple[str, Object]]:
    """Source uid -> (cluster, delegate)."""
    return {
        pod["metadata"]["annotations"][SOURCE_UID]: (cluster, pod)
        for cluster, api in system.apis.items()
        for pod in api.pods()
        if DELEGATE in pod["metadata"].get("labels", {})
    }


def test_a_deployment_of_one_cluster_runs_in_all_and_counts_as_ready_at_home(system: System) -> None:
    submit(system, "web", 30, **{WEB: "cluster=3"})
    places = system.wait_running(30, 90)
    assert {clusters[0] for clusters in places.values()} == set(system.apis)
    status = eventually(
        lambda: (s := system.home.get(f"{DEPLOYMENTS}/web")["status"]).get("readyReplicas") == 30 and s, 30
    )
    assert status["availableReplicas"] == 30
    scale_to_zero_and_wait(system, "web")


def test_deleting_a_remote_pod_ends_its_delegate_and_its_controller_makes_another(system: System) -> None:
    submit(system, "api", 12, **{WEB: "cluster=1"})
    system.wait_running(12, 60)
    source_uid, (cluster, delegate) = next(iter(delegates(system).items()))
    name = next(pod["metadata"]["name"] for pod in system.home.pods() if pod["metadata"]["uid"] == source_uid)
    assert system.home.delete(f"{PODS}/{name}") == 200
    gone = delegate["metadata"]["uid"]
    eventually(lambda: gone not in [pod["metadata"]["uid"] for pod in system.apis[cluster].pods()], 30)
    system.wait_running(12, 60)
    scale_to_zero_and_wait(system, "api")


def test_a_second_deletion_with_less_time_ends_the_delegate_as_soon(system: System) -> None:
    stubborn = {"embedded.global-dispatcher.io/stop-seconds": "1000"}
    submit(system, "slow", 6, **{WEB: "cluster=1"}, **stubborn)
    system.wait_running(6, 60)
    source_uid, (cluster, delegate) = next(iter(delegates(system).items()))
    name = next(pod["metadata"]["name"] for pod in system.home.pods() if pod["metadata"]["uid"] == source_uid)

    def seconds_to_end() -> dict[str, int]:
        return {
            pod["metadata"]["uid"]: pod["metadata"].get("deletionGracePeriodSeconds", -1)
            for pod in system.apis[cluster].pods()
        }

    there = delegate["metadata"]["uid"]
    assert system.home.delete(f"{PODS}/{name}", gracePeriodSeconds="300") == 200
    eventually(lambda: seconds_to_end()[there] == 300, 30)
    assert system.home.delete(f"{PODS}/{name}", gracePeriodSeconds="2") == 200
    eventually(lambda: there not in seconds_to_end(), 30, lambda: system.log)
    eventually(lambda: source_uid not in [pod["metadata"]["uid"] for pod in system.home.pods()], 30)
    system.wait_running(6, 60)
    scale_to_zero_and_wait(system, "slow")


def test_deleting_a_delegate_where_it_runs_makes_the_controller_replace_its_source(system: System) -> None:
    submit(system, "cart", 9, **{WEB: "cluster=1"})
    system.wait_running(9, 60)
    source_uid, (cluster, delegate) = next(iter(delegates(system).items()))
    system.apis[cluster].delete(f"{PODS}/{delegate['metadata']['name']}")
    eventually(lambda: source_uid not in [pod["metadata"]["uid"] for pod in system.home.pods()], 30)
    system.wait_running(9, 60)
    scale_to_zero_and_wait(system, "cart")


def test_a_job_completes_with_pods_in_several_clusters(system: System) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "report"},
        "spec": {
            "completions": 12,
            "parallelism": 12,
            "template": {
                "metadata": {
                    "annotations": {
                        "global-dispatcher.io/schedule": "true",
                        "embedded.global-dispatcher.io/run-seconds": "2",
                        WEB: "cluster=1",
                    },
                    "labels": {"app": "report"},
                },
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.invalid/x:1"}]},
            },
        },
    }
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    assert system.home.create(jobs, job).status_code == 201
    eventually(lambda: system.home.get(f"{jobs}/report")["status"].get("succeeded") == 12, 60, lambda: system.log)
    ran = [cluster for cluster, _ in delegates(system).values()]
    assert {*ran, HOME} == set(system.apis)
    system.home.delete(f"{jobs}/report", propagationPolicy="Background")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60)


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_real_kubectl_shows_remote_pods_where_they_were_submitted(system: System) -> None:
    def kubectl(*words: str, context: str = HOME) -> str:
        command = [KUBECTL, "--kubeconfig", str(system.fleet.kubeconfig), "--context", context, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout

    submit(system, "shop", 9, **{WEB: "cluster=1"})
    kubectl("rollout", "status", "deployment/shop", "--timeout=180s")
    assert "9/9" in kubectl("get", "deployment", "shop")
    pods = kubectl("get", "pods", "-o", "wide")
    assert "global-dispatcher-west" in pods
    assert "global-dispatcher-north" in pods
    assert kubectl("get", "pods", context="west").count("Running") == 3
    kubectl("scale", "deployment", "shop", "--replicas=0")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60)
    kubectl("delete", "deployment", "shop")


def test_a_claim_gets_its_volume_on_the_node_that_is_chosen_for_its_pod(system: System) -> None:
    made_late = {"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
    system.home.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "disks"}, **made_late})
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "disks", **wanted}}
    assert system.home.create(CLAIMS, claim).status_code == 201
    body = deployment("store", 1, requests={"cpu": "100m"})
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    assert system.home.create(DEPLOYMENTS, body).status_code == 201
    places = system.wait_running(1, 60)
    assert list(places.values()) == [[HOME]]
    (pod,) = system.home.pods()
    bound = system.home.get(f"{CLAIMS}/data")
    assert bound["status"]["phase"] == "Bound"
    assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == pod["spec"]["nodeName"]
    scale_to_zero_and_wait(system, "store")


def test_a_pod_has_the_priority_of_its_class_where_it_runs_and_waits_for_a_class_that_is_lacking(
    system: System,
) -> None:
    system.home.create(CLASSES, {"metadata": {"name": "urgent"}, "value": 100_000})
    body = deployment("vip", 1, requests={"cpu": "100m"}, annotations={"global-dispatcher.io/clusters": "west"})
    body["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    assert system.home.create(DEPLOYMENTS, body).status_code == 201
    (waiting,) = eventually(system.home.pods, 30, lambda: system.log)
    name = waiting["metadata"]["name"]
    why = 'spec.priorityClassName is PriorityClass "urgent", which does not exist in that cluster: create it there'
    eventually(lambda: why in str(system.home.get(f"{PODS}/{name}")["status"].get("conditions")), 30)
    system.apis["west"].create(CLASSES, {"metadata": {"name": "urgent"}, "value": 5_000})
    system.wait_running(1, 60)
    (delegate,) = system.apis["west"].pods()
    assert (delegate["spec"]["priorityClassName"], delegate["spec"]["priority"]) == ("urgent", 5_000)
    scale_to_zero_and_wait(system, "vip")


def test_explain_says_why_there_in_numbers(system: System) -> None:
    submit(system, "why", 3)
    system.wait_running(3, 60)
    record = system.explain(system.home.pods()[0]["metadata"]["name"])
    decision = record["decision"]
    assert decision["outcome"] == "scheduled"
    assert decision["evaluated"] == 18
    assert decision["runner_up"] is not None
    assert decision["margin"] >= 0
    assert decision["scores"]["ExpectedLoad"]["weight"] > 0
    assert decision["readings"]["cpu"]["age_s"] < 60
    total = sum(row["weighted"] for row in decision["scores"].values())
    assert total == pytest.approx(decision["decision"]["score"], abs=0.5)
    scale_to_zero_and_wait(system, "why")
