"""What an API server writes into a pod at its creation, as far as placement looks at it."""

import copy
from typing import Any

from tests.parity.case import Case, Object
from tests.parity.oracle.quantities import fraction, up


def defaulted(case: Case) -> Case:
    """The case as an API server would have stored it, with uids."""
    classes = {obj["metadata"]["name"]: obj for obj in case.objects if obj["kind"] == "PriorityClass"}
    objects = [copy.deepcopy(obj) for obj in case.objects]
    for obj in objects:
        if obj["kind"] == "Namespace":
            labels = obj["metadata"].setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    bound, pending = ([_pod(pod, classes) for pod in pods] for pods in (case.bound, case.pending))
    return Case(case.name, objects, case.nodes, bound, pending)


def _pod(pod: Object, classes: dict[str, Object]) -> Object:
    made = copy.deepcopy(pod)
    made["metadata"]["uid"] = f"uid-{made['metadata']['name']}"
    spec = made["spec"]
    pending = spec.get("schedulerName", "global-dispatcher")
    spec["schedulerName"] = "default-scheduler" if spec.get("nodeName") else pending
    named = classes.get(spec.get("priorityClassName", ""), {})
    spec["priority"] = named.get("value", 0)
    spec["preemptionPolicy"] = named.get("preemptionPolicy", "PreemptLowerPriority")
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        _container(container, bool(spec.get("hostNetwork")))
    labels = made["metadata"].get("labels") or {}
    for term in _affinity_terms(spec):
        _merge_label_keys(term, labels)
    return made


def _container(container: Object, host_network: bool) -> None:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    if asked:
        resources["requests"] = {name: _milli(text) for name, text in asked.items()}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network:
            port["hostPort"] = port["containerPort"]


def _milli(text: str) -> str:
    """Nothing finer than a thousandth is stored."""
    return f"{up(fraction(text) * 1000)}m" if (fraction(text) * 1000).denominator != 1 else text


def _affinity_terms(spec: Object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (spec.get("affinity") or {}).get(kind) or {}
        found += terms.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        found += [one["podAffinityTerm"] for one in preferred]
    return found


def _merge_label_keys(term: dict[str, Any], labels: dict[str, str]) -> None:
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels and term.get("labelSelector") is not None:
                clauses = term["labelSelector"].setdefault("matchExpressions", [])
                clauses.append({"key": key, "operator": operator, "values": [labels[key]]})
