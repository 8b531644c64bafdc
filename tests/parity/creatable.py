"""Manifests as an API server takes them: without what a server has written into them."""

import copy
from typing import Any

from dispatcher.model.names import SCHEDULER_NAME, is_ours
from tests.parity.case import Object
from tests.parity.oracle.affinity import pod_terms

_SERVERS = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "generation",
}


def creatable(obj: Object) -> Object:
    """What to create; a pending pod is given to the scheduler under test, unless it names one of its profiles."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS}
    kept = {key: value for key, value in obj.items() if key != "status" or obj["kind"] == "Node"}
    if obj["kind"] == "Pod":
        kept["spec"] = _spec(obj)
    return {**kept, "metadata": meta}


def status_of(obj: Object) -> Object | None:
    """What has to be written into the status after the creation: a node brings its own, a pending pod has none."""
    status = obj.get("status") or {}
    if obj["kind"] == "Pod":
        return status if status.get("phase", "Pending") != "Pending" else None
    return status if obj["kind"] not in {"Node", "Namespace"} else None


def _spec(pod: Object) -> Object:
    made = copy.deepcopy(pod)
    spec: Object = made["spec"]
    for rule in (*(spec.get("topologySpreadConstraints") or ()), *pod_terms(made)):
        _unmerge(rule)
    if not spec.get("nodeName"):
        name = spec.get("schedulerName", "")
        spec["schedulerName"] = name if is_ours(name) else SCHEDULER_NAME
    return spec


def _unmerge(rule: dict[str, Any]) -> None:
    """Label keys that the server has made clauses of already would be refused the second time; the clauses stay."""
    selector = rule.get("labelSelector") or {}
    there = {clause["key"] for clause in selector.get("matchExpressions") or ()} | set(
        selector.get("matchLabels") or ()
    )
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if field in rule:
            rule[field] = [key for key in rule[field] if key not in there]
