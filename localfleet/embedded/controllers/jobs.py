"""The Job controller: carries out what `job` decides."""

from collections.abc import Iterable

from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.controllers.job import TRACKING, Plan, finish_time, plan, tracked
from localfleet.embedded.controllers.refusals import Refusals
from localfleet.embedded.controllers.replicaset import PODS, new_pod
from localfleet.embedded.controllers.world import Ref, World, ref_of
from localfleet.embedded.controllers.writes import Delete, Merge, PutStatus, carry_out
from localfleet.embedded.meta import Object, condition, controller_of, is_terminating
from localfleet.embedded.recorder import NORMAL, WARNING, Recorder

JOBS = "jobs.batch"


class JobController:
    """Makes, counts and deletes the pods of Jobs. `backoff_s`: the pause after a first failed pod."""

    name = "job-controller"

    def __init__(self, api: Api, world: World, recorder: Recorder, backoff_s: float) -> None:
        self._api = api
        self._world = world
        self._recorder = recorder
        self._backoff_s = backoff_s
        self._refusals = Refusals()

    def keys(self, ref: Ref, obj: Object, _old: Object | None) -> Iterable[Ref]:
        """The Job, or the one that controls a pod; the pod as well when it goes and may have lost
        its Job.
        """
        if ref.resource == JOBS:
            yield ref
        elif (
            ref.resource == PODS
            and (owner := controller_of(obj)) is not None
            and owner["kind"] == "Job"
        ):
            yield Ref(JOBS, ref.namespace, owner["name"])
            if tracked(obj) and is_terminating(obj):
                yield ref

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One Job, or one pod that may have lost its Job."""
        found = self._world.get(key)
        if found is None:
            return None
        if key.resource == PODS:
            self._let_go(key, found)
            return None
        if is_terminating(found):
            return None  # its pods are the collector's business
        todo = plan(
            found, self._world.controlled(found["metadata"]["uid"], PODS), now, self._backoff_s
        )
        return self._carry_out(key, found, todo, now)

    def _let_go(self, key: Ref, pod: Object) -> None:
        owner = controller_of(pod) or {}
        job = self._world.get(Ref(JOBS, key.namespace, owner.get("name", "")))
        if job is None or job["metadata"]["uid"] != owner.get("uid") or is_terminating(job):
            self._release(pod)

    def _carry_out(self, key: Ref, job: Object, todo: Plan, now: float) -> float | None:
        if todo.expired:
            carry_out(self._api, Delete(key, job["metadata"]["uid"]))
            return None
        carry_out(self._api, PutStatus(key, job, todo.status))
        self._tell_end(job, todo.status)
        for pod in todo.release:
            self._release(pod)
        for pod in todo.delete:
            carry_out(self._api, Delete(ref_of(PODS, pod), pod["metadata"]["uid"]))
            self._recorder.record(
                job, "Job", NORMAL, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}"
            )
        refused = self._refusals.waits(key, now) if todo.create else False
        again = self._refusals.note(key, refused or not self._create(job, todo.create), now)
        return todo.again_s if again is None else again

    def _release(self, pod: Object) -> None:
        if tracked(pod):
            kept = [name for name in pod["metadata"]["finalizers"] if name != TRACKING]
            change = {"metadata": {"uid": pod["metadata"]["uid"], "finalizers": kept or None}}
            carry_out(self._api, Merge(ref_of(PODS, pod), change))

    def _create(self, job: Object, number: int) -> bool:
        for _ in range(number):
            try:
                made = self._api.create(PODS, _job_pod(job), job["metadata"]["namespace"])
            except ApiError as error:
                message = f"Error creating: {error.status.get('message')}"
                self._recorder.record(job, "Job", WARNING, "FailedCreate", message)
                return False
            text = f"Created pod: {made['metadata']['name']}"
            self._recorder.record(job, "Job", NORMAL, "SuccessfulCreate", text)
        return True

    def _tell_end(self, job: Object, status: Object) -> None:
        if finish_time(job) is not None:
            return
        if condition({"status": status}, "Complete")["status"] == "True":
            self._recorder.record(job, "Job", NORMAL, "Completed", "Job completed")
        failed = condition({"status": status}, "Failed")
        if failed["status"] == "True":
            self._recorder.record(job, "Job", WARNING, failed["reason"], failed["message"])


def _job_pod(job: Object) -> Object:
    pod = new_pod(job, job["spec"]["template"], "batch/v1", "Job")
    name = job["metadata"]["name"]
    uid = job["metadata"]["uid"]
    pod["metadata"]["labels"] |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    pod["metadata"]["finalizers"].append(TRACKING)
    return pod
