"""The pod templates of scheduler_perf by the names of their files: labels and spec of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.model.names import HOSTNAME, ZONE

Object = Mapping[str, Any]

SECRET = "secret"
IMAGE = "registry.k8s.io/pause:3.10.1"
_BOTH = {"namespaces": ["sched-1", "sched-0"]}
_DEVOPS = {"namespaceSelector": {"matchLabels": {"team": "devops"}}}


@dataclass(frozen=True)
class Template:
    """A pod: `spec` without schedulerName, and its labels."""

    spec: Object
    labels: Mapping[str, str]

    def manifest(self, name: str, namespace: str, scheduler: str) -> dict[str, Any]:
        """The Pod object to create."""
        metadata = {"name": name, "namespace": namespace, "labels": dict(self.labels)}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**self.spec, "schedulerName": scheduler},
        }


def _pod(
    cpu: str = "100m",
    *,
    labels: Mapping[str, str] | None = None,
    limited: bool = True,
    **spec: object,
) -> Template:
    amounts = {"cpu": cpu, "memory": "500Mi"}
    resources = {"requests": amounts, "limits": amounts} if limited else {"requests": amounts}
    container = {
        "name": "pause",
        "image": IMAGE,
        "ports": [{"containerPort": 80}],
        "resources": resources,
    }
    return Template({"containers": [container], **spec}, labels or {})


def _light(*, labels: Mapping[str, str] | None = None, **spec: object) -> Template:
    return Template({"containers": [{"name": "pause", "image": IMAGE}], **spec}, labels or {})


def _by_pods(kind: str, color: str, key: str, where: Object, weight: int = 0) -> Template:
    """A pod that wants (podAffinity) or shuns (podAntiAffinity) pods of its own color; preferred
    with a weight.
    """
    term = {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key, **where}
    rules: Object = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if weight:
        rules = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"podAffinityTerm": term, "weight": weight}
            ]
        }
    return _pod(labels={"color": color}, affinity={kind: rules})


def _by_nodes(key: str, values: Sequence[str], of: str) -> Object:
    terms = [{of: [{"key": key, "operator": "In", "values": list(values)}]}]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }


def _spread(key: str, skew: int, when: str, labels: Mapping[str, str], **more: str) -> Template:
    rule = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": labels},
    }
    return _pod(labels=labels, topologySpreadConstraints=[{**rule, **more}])


TEMPLATES: Mapping[str, Template] = {
    "pod-default": _pod(),
    "light-pod": _light(terminationGracePeriodSeconds=0),
    "daemonset-pod": _light(
        affinity=_by_nodes("metadata.name", ["scheduler-perf-node"], "matchFields")
    ),
    "pod-high-priority": _pod("3", priority=10),
    "pod-high-priority-large-cpu": _pod("9", limited=False, priority=10),
    "pod-low-priority": _pod("900m", terminationGracePeriodSeconds=0),
    "pod-with-secret-volume": _pod(volumes=[{"name": SECRET, "secret": {"secretName": SECRET}}]),
    "pod-with-node-affinity": _pod(
        affinity=_by_nodes(ZONE, ["zone1", "zone2"], "matchExpressions")
    ),
    "pod-with-pod-affinity": _by_pods("podAffinity", "blue", ZONE, _BOTH),
    "pod-with-pod-anti-affinity": _by_pods("podAntiAffinity", "green", HOSTNAME, _BOTH),
    "pod-with-pod-anti-affinity-label": _pod(labels={"color": "green"}),
    "pod-with-preferred-pod-affinity": _by_pods("podAffinity", "red", HOSTNAME, _BOTH, 1),
    "pod-with-preferred-pod-anti-affinity": _by_pods(
        "podAntiAffinity", "yellow", HOSTNAME, _BOTH, 1
    ),
    "pod-affinity-ns-selector": _by_pods("podAffinity", "blue", ZONE, _DEVOPS),
    "pod-anti-affinity-ns-selector": _by_pods("podAntiAffinity", "green", HOSTNAME, _DEVOPS),
    "pod-preferred-affinity-ns-selector": _by_pods("podAffinity", "red", HOSTNAME, _DEVOPS, 1),
    "pod-preferred-anti-affinity-ns-selector": _by_pods(
        "podAntiAffinity", "green", HOSTNAME, _DEVOPS, 1
    ),
    "pod-with-topology-spreading": _spread(ZONE, 5, "DoNotSchedule", {"color": "blue"}),
    "pod-with-preferred-topology-spreading": _spread(ZONE, 5, "ScheduleAnyway", {"color": "blue"}),
    # The file writes NodeAffinityPolicy and NodeTaintsPolicy with capitals; they are read without
    # regard to case.
    "pod-with-node-inclusion-policy": _spread(
        HOSTNAME,
        1,
        "DoNotSchedule",
        {"foo": "bar"},
        nodeAffinityPolicy="Honor",
        nodeTaintsPolicy="Honor",
    ),
}
