"""Jobs: parallelism, counting each pod once, limits, and clearing up."""

import pytest

from localfleet.embedded.apiserver.deletion import Options
from localfleet.embedded.controllers.job import TRACKING
from localfleet.embedded.meta import condition
from tests.embedded.simulated import Object, SimulatedCluster, job

JOBS = "jobs.batch"


def status(cluster: SimulatedCluster) -> Object:
    found: Object = cluster.api.get(JOBS, "work", "default")["status"]
    return found


def ended(cluster: SimulatedCluster, kind: str) -> str:
    return str(condition({"status": status(cluster)}, kind).get("reason", ""))


def test_a_work_queue_ends_when_one_has_succeeded_and_none_runs() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(parallelism=3), "default")
    cluster.advance(5)
    assert status(cluster)["succeeded"] == 3
    assert ended(cluster, "Complete")


def test_a_failed_pod_is_replaced_only_after_the_back_off() -> None:
    cluster = SimulatedCluster(job_backoff_s=10)
    cluster.api.create(JOBS, job(exit_code="1", completions=1), "default")
    cluster.advance(8)
    assert cluster.phases() == ["Failed"]
    cluster.advance(10)
    assert len(cluster.pods()) == 2


def test_restarts_in_place_count_against_the_limit() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(policy="OnFailure", exit_code="1", backoffLimit=1, completions=1), "default")
    cluster.advance(30)
    assert ended(cluster, "Failed") == "BackoffLimitExceeded"


def test_the_deadline_ends_the_job_and_its_pods() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(run_seconds="600", activeDeadlineSeconds=5), "default")
    cluster.advance(10)
    assert ended(cluster, "Failed") == "DeadlineExceeded"
    assert cluster.pods() == []


def test_a_finished_job_is_removed_with_its_pods_after_its_time() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(ttlSecondsAfterFinished=10), "default")
    cluster.advance(5)
    assert status(cluster)["succeeded"] == 1
    cluster.advance(15)
    assert cluster.api.list(JOBS) == []
    assert cluster.pods() == []


def test_a_pod_deleted_before_its_end_is_replaced_and_counted_once() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(run_seconds="20", completions=1), "default")
    cluster.advance(2)
    cluster.api.delete("pods", cluster.pods()[0]["metadata"]["name"], "default")
    cluster.advance(30)
    assert (status(cluster)["succeeded"], status(cluster)["failed"]) == (1, 1)


def test_an_ended_pod_that_is_deleted_stays_counted() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(completions=3, parallelism=1), "default")
    for _ in range(30):
        cluster.advance(0.5)
        for pod in cluster.pods():
            if pod["status"]["phase"] == "Succeeded":
                cluster.api.delete("pods", pod["metadata"]["name"], "default")
    assert status(cluster)["succeeded"] == 3
    assert ended(cluster, "Complete")


def test_a_crash_between_noting_and_counting_counts_each_pod_once() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(completions=2, parallelism=1), "default")
    cluster.advance(1)
    (pod,) = cluster.pods()
    # The crash left the pod noted in the status, but its finalizer still on.
    noted = {**status(cluster), "uncountedTerminatedPods": {"succeeded": [pod["metadata"]["uid"]]}}
    over = {**pod, "status": {**pod["status"], "phase": "Succeeded"}}
    assert TRACKING in pod["metadata"]["finalizers"]
    cluster.api.update("pods", over, subresource="status")
    whole = cluster.api.get(JOBS, "work", "default")
    cluster.api.update(JOBS, {**whole, "status": noted}, subresource="status")
    cluster.advance(10)
    assert status(cluster)["succeeded"] == 2
    assert status(cluster)["uncountedTerminatedPods"] == {}


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_deleting_a_job_leaves_no_pod_behind(propagation: str) -> None:
    cluster = SimulatedCluster()
    cluster.api.create(JOBS, job(run_seconds="600", parallelism=2), "default")
    cluster.advance(2)
    cluster.api.delete(JOBS, "work", "default", Options(propagation=propagation))
    cluster.advance(3)
    assert cluster.api.list(JOBS) == []
    assert cluster.pods() == []
