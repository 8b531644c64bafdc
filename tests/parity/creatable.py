"""Manifests as an API server takes them: without what a server has written into them."""

import copy
from contextlib import suppress
from typing import Any

from shared.model.names import SCHEDULER_NAME
from tests.parity.case import Object
from tests.parity.oracle.affinity import pod_terms
from tests.parity.profile import WEIGHTS

_SERVERS = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "generation",
}
# Its own status is a node's to bring; of these nobody asks.
_NO_STATUS = {"Node", "Namespace", "Service", "ReplicaSet", "ReplicationController", "StatefulSet"}
_NO_STATUS |= {"CSINode", "ResourceSlice", "LimitRange", "RuntimeClass", "PriorityClass", "StorageClass", "DeviceClass"}
_HOLD = {"name": "parity/hold"}


def creatable(obj: Object) -> Object:
    """What to create; a pending pod is given to the scheduler under test, unless it names one of its profiles."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS}
    kept = {key: value for key, value in obj.items() if key != "status" or obj["kind"] == "Node"}
    if obj["kind"] == "Pod":
        kept["spec"] = _spec(obj)
        meta.pop("finalizers", None)  # nobody is there to take them away
    if obj["kind"] == "Service":
        # Its addresses are of no interest, and those of a dump are another server's.
        selector = (obj.get("spec") or {}).get("selector")
        kept["spec"] = {"clusterIP": "None", "ports": [{"port": 1}], "selector": selector}
    return {**kept, "metadata": meta}


def status_of(obj: Object) -> Object | None:
    """What has to be written into the status after the creation; a pending pod may have been promised a node."""
    status = obj.get("status") or {}
    if obj["kind"] == "Pod" and not obj["spec"].get("nodeName"):
        node = status.get("nominatedNodeName")
        return {"nominatedNodeName": node} if node else None
    return status if status and obj["kind"] not in _NO_STATUS else None


def held(pod: Object) -> Object:
    """A pod that no scheduler looks at before the gate is taken away."""
    return {**pod, "spec": {**pod["spec"], "schedulingGates": [*(pod["spec"].get("schedulingGates") or ()), _HOLD]}}


def _spec(pod: Object) -> Object:
    made = copy.deepcopy(pod)
    spec: Object = made["spec"]
    with suppress(AttributeError, KeyError, TypeError):  # of a form that no server takes, as it will say
        for rule in (*(spec.get("topologySpreadConstraints") or ()), *pod_terms(made)):
            _unmerge(rule)
    if spec.get("terminationGracePeriodSeconds") == 0:
        del spec["terminationGracePeriodSeconds"]  # a victim that is gone at once is seen by nobody
    for written in ("priority", "preemptionPolicy"):
        if spec.get("priorityClassName"):
            spec.pop(written, None)
    if not spec.get("nodeName"):
        name = spec.get("schedulerName", "")
        spec["schedulerName"] = name if name in WEIGHTS else SCHEDULER_NAME
    return spec


def _unmerge(rule: dict[str, Any]) -> None:
    """Label keys that the server has made clauses of already would be refused the second time; the clauses stay."""
    selector = rule.get("labelSelector") or {}
    there = {clause["key"] for clause in selector.get("matchExpressions") or ()} | set(
        selector.get("matchLabels") or ()
    )
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if field in rule:
            rule[field] = [key for key in rule[field] or () if key not in there]
