"""ReplicaSets: keep so many pods of one template."""

from collections.abc import Iterable
from dataclasses import dataclass

from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.controllers.adoption import family_of, owners_to_look_at
from localfleet.embedded.controllers.refusals import Refusals
from localfleet.embedded.controllers.world import Ref, World, ref_of
from localfleet.embedded.controllers.writes import Delete, PutStatus, carry_out
from localfleet.embedded.meta import (
    Object,
    annotations_of,
    condition,
    controller_reference,
    is_finished,
    is_ready,
    is_terminating,
    labels_of,
    seconds,
    with_condition,
)
from localfleet.embedded.recorder import NORMAL, WARNING, Recorder

REPLICASETS = "replicasets.apps"
PODS = "pods"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}
_ENDED_KEPT = 5
# A pod that fails at once is not made anew without a pause: a node that rejects everything would be
# fed for ever.
_FAILED_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How many pods to make, which to delete, and the counts for the status; `again_s` when to look
    again.
    """

    create: int
    delete: list[Object]
    counts: dict[str, int]
    again_s: float | None


def plan(replicaset: Object, pods: list[Object], now: float) -> Plan:
    """Compare the pods that `replicaset` controls with what it wants.

    Terminating and ended pods do not count; of the ended ones the last few stay to be looked at.
    Surplus pods go in kube-controller-manager's order (ActivePodsWithRanks): unbound, not running,
    not ready, cheap to delete, youngest.
    """
    active = [pod for pod in pods if not is_terminating(pod) and not is_finished(pod)]
    ended = sorted(
        (pod for pod in pods if is_finished(pod) and not is_terminating(pod)), key=_ended_at
    )
    wanted = int(replicaset["spec"].get("replicas", 1))
    surplus = sorted(active, key=_keep_rank)[: max(0, len(active) - wanted)]
    delete = surplus + ended[: max(0, len(ended) - _ENDED_KEPT)]
    missing = max(0, wanted - len(active))
    available, again = _availability(
        active, int(replicaset["spec"].get("minReadySeconds") or 0), now
    )
    template = replicaset["spec"]["template"]["metadata"].get("labels") or {}
    labelled = sum(template.items() <= labels_of(pod).items() for pod in active)
    counts = {
        "replicas": len(active),
        "fullyLabeledReplicas": labelled,
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": available,
    }
    if missing and ended and now - _ended_at(ended[-1]) < _FAILED_PAUSE_S:
        return Plan(0, delete, counts, _FAILED_PAUSE_S)
    return Plan(missing, delete, counts, again)


def _availability(pods: list[Object], min_ready_s: int, now: float) -> tuple[int, float | None]:
    """How many are ready for long enough, and in how many seconds the next will be."""
    ages = [
        now - seconds(condition(pod, "Ready").get("lastTransitionTime"))
        for pod in pods
        if is_ready(pod)
    ]
    waits = [min_ready_s - age for age in ages if min_ready_s and age < min_ready_s]
    return len(ages) - len(waits), min(waits, default=None)


def _ended_at(pod: Object) -> float:
    return seconds(
        condition(pod, "Ready").get("lastTransitionTime") or pod.get("status", {}).get("startTime")
    )


def _keep_rank(pod: Object) -> tuple[object, ...]:
    phase = pod.get("status", {}).get("phase", "Pending")
    cost = annotations_of(pod).get(_DELETION_COST, "0")
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASE_RANK.get(phase, 0),
        is_ready(pod),
        int(cost) if cost.lstrip("-").isdigit() else 0,
        -seconds(pod["metadata"].get("creationTimestamp")),
        pod["metadata"]["name"],
    )


def new_pod(owner: Object, template: Object, api_version: str, kind: str) -> Object:
    """A pod from a controller's template, controlled by `owner`."""
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-",
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "finalizers": list(metadata.get("finalizers") or []),
            "ownerReferences": [controller_reference(owner, api_version, kind)],
        },
        "spec": template["spec"],
    }


class ReplicaSetController:
    """Creates and deletes pods, and writes the status."""

    name = "replicaset-controller"

    def __init__(self, api: Api, world: World, recorder: Recorder) -> None:
        self._api = api
        self._world = world
        self._recorder = recorder
        self._refusals = Refusals()

    def keys(self, ref: Ref, obj: Object, old: Object | None) -> Iterable[Ref]:
        """The ReplicaSet itself, or those that a pod concerns."""
        if ref.resource == REPLICASETS:
            yield ref
        elif ref.resource == PODS:
            yield from owners_to_look_at(
                self._world, ref, obj, old, Ref(REPLICASETS, "", "ReplicaSet")
            )

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One ReplicaSet."""
        replicaset = self._world.get(key)
        if replicaset is None or is_terminating(replicaset):
            return None  # the pods of one that goes are the collector's business
        pods = family_of(self._api, self._world, replicaset, "ReplicaSet", PODS)
        todo = plan(replicaset, pods, now)
        for pod in todo.delete:
            self._delete(replicaset, pod)
        if todo.create and self._refusals.waits(key, now):
            problem = str(condition(replicaset, "ReplicaFailure").get("message", ""))
        else:
            problem = self._create(replicaset, todo.create)
        again = self._refusals.note(key, bool(problem), now)
        carry_out(
            self._api, PutStatus(key, replicaset, _status(replicaset, todo.counts, problem, now))
        )
        return todo.again_s if again is None else again

    def _delete(self, replicaset: Object, pod: Object) -> None:
        carry_out(self._api, Delete(ref_of(PODS, pod), pod["metadata"]["uid"]))
        text = f"Deleted pod: {pod['metadata']['name']}"
        self._recorder.record(replicaset, "ReplicaSet", NORMAL, "SuccessfulDelete", text)

    def _create(self, replicaset: Object, number: int) -> str:
        """Make pods; answers why it stopped early, "" if it did not."""
        pod = new_pod(replicaset, replicaset["spec"]["template"], "apps/v1", "ReplicaSet")
        for _ in range(number):
            try:
                made = self._api.create(PODS, pod, pod["metadata"]["namespace"])
            except ApiError as error:
                message = str(error.status.get("message"))
                self._recorder.record(
                    replicaset, "ReplicaSet", WARNING, "FailedCreate", f"Error creating: {message}"
                )
                return message
            text = f"Created pod: {made['metadata']['name']}"
            self._recorder.record(replicaset, "ReplicaSet", NORMAL, "SuccessfulCreate", text)
        return ""


def _status(replicaset: Object, counts: dict[str, int], problem: str, now: float) -> Object:
    old = replicaset.get("status") or {}
    conditions = [
        entry for entry in old.get("conditions") or [] if entry["type"] != "ReplicaFailure"
    ]
    if problem:
        entry = {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": problem,
        }
        conditions = with_condition(old.get("conditions") or [], entry, now)
    status = {**counts, "observedGeneration": replicaset["metadata"].get("generation", 0)}
    return {**status, "conditions": conditions} if conditions else status
