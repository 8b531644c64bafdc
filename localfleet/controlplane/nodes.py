"""KWOK's nodes and how they live: the Node objects, and the stages that play nodes and pods.

kwok 0.8 has no stages of its own: without these it plays nothing. What a stage's selector matches
gets its patch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# A pod says by the embedded kubelet's annotations how long it runs and how it ends; without, it
# runs until deleted, and is gone at once then. One that says how long it takes to stop takes all of
# its grace.
from localfleet.embedded.kubelet.behaviour import EXIT_CODE, RUN_SECONDS, STOP_SECONDS

Object = dict[str, Any]

# kwok plays the nodes with this annotation and no other: not a proxy node, not a kubelet's.
MANAGED = "kwok.x-k8s.io/node"
# On a node, "true": it reports Ready=False until the annotation goes.
NOT_READY = "global-dispatcher.io/test-not-ready"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One KWOK node. `resources` are extended ones ("nvidia.com/gpu": "8"); `taints` as in a Node's
    spec.

    `address` and `kubelet_port` say where its kubelet would answer; 0 means kwok's own server,
    which knows no summary.
    """

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    region: str = "local"
    zone: str = "a"
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    address: str = "127.0.0.1"
    kubelet_port: int = 0

    def manifest(self, kwok_port: int) -> Object:
        """The Node to create; the API server keeps the status of a new Node, so capacity is there
        at once.
        """
        capacity = {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, **self.resources}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": self._labels(),
                "annotations": {MANAGED: "fake"},
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "addresses": [
                    {"type": "InternalIP", "address": self.address},
                    {"type": "Hostname", "address": self.name},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet_port or kwok_port}},
            },
        }

    def _labels(self) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/region": self.region,
            "topology.kubernetes.io/zone": self.zone,
            "type": "kwok",
            **self.labels,
        }


def equal_nodes(plane: str, count: int, zones: Sequence[str] = ("a", "b", "c")) -> list[NodeSpec]:
    """That many nodes of the default size, spread over zones."""
    return [
        NodeSpec(f"{plane}-{index:04d}", zone=zones[index % len(zones)]) for index in range(count)
    ]


def stages() -> list[Object]:
    """All Stage documents of kwok's configuration."""
    return [
        _stage(
            "node-ready",
            "Node",
            [_unless_true(NOT_READY), _condition("!=", "True")],
            {"statusTemplate": _NODE_READY},
        ),
        _stage(
            "node-not-ready",
            "Node",
            [_if_true(NOT_READY), _condition("==", "True")],
            {"statusTemplate": _NODE_LOST},
        ),
        _stage("pod-ready", "Pod", [_ALIVE, _phase("Pending")], {"statusTemplate": _POD_READY}),
        _stage(
            "pod-ready-again",
            "Pod",
            [_ALIVE, _phase("Running"), _condition("==", "False"), _WITHOUT_REASON, _RUNS_ON],
            {"statusTemplate": _POD_READY_AGAIN},
            delay=_STATUS_SYNC,
        ),
        _stage(
            "pod-complete",
            "Pod",
            [
                _ALIVE,
                _phase("Running"),
                {"key": f'.metadata.annotations["{RUN_SECONDS}"]', "operator": "Exists"},
            ],
            {"statusTemplate": _POD_COMPLETE},
            delay={"durationMilliseconds": 0, "durationFrom": {"expressionFrom": _RUN_TIME}},
        ),
        _stage(
            "pod-delete",
            "Pod",
            [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}],
            {"delete": True},
            delay={"durationMilliseconds": 0, "durationFrom": {"expressionFrom": _GRACE_ENDS}},
        ),
    ]


def _stage(
    name: str, kind: str, when: Iterable[Object], then: Object, delay: Object | None = None
) -> Object:
    spec: Object = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": list(when)},
        "next": then,
    }
    if delay is not None:
        spec["delay"] = delay
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": spec,
    }


_ALIVE = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
# The node controller leaves this of a pod whose node was silent; whoever else calls a pod not ready
# says why.
_WITHOUT_REASON = {
    "key": '.status.conditions.[] | select( .type == "Ready" ) | .reason',
    "operator": "DoesNotExist",
}
_RUNS_ON = {"key": f'.metadata.annotations["{RUN_SECONDS}"]', "operator": "DoesNotExist"}
# A kubelet compares each 10 s what the API server has of its pods. The node controller marks a pod
# once each time that its node is lost, so the two write no more often than that.
_STATUS_SYNC = {"durationMilliseconds": 2_000, "jitterDurationMilliseconds": 10_000}
_RUN_TIME = f'.metadata.annotations["{RUN_SECONDS}"] + "s"'
# It is by this much later than the deletion was asked for.
_GRACE_ENDS = f'select( .metadata.annotations["{STOP_SECONDS}"] ) | .metadata.deletionTimestamp'


def _phase(phase: str) -> Object:
    return {"key": ".status.phase", "operator": "In", "values": [phase]}


def _condition(operator: str, value: str) -> Object:
    return {"key": _READY, "operator": "In" if operator == "==" else "NotIn", "values": [value]}


def _if_true(annotation: str) -> Object:
    return {"key": f'.metadata.annotations["{annotation}"]', "operator": "In", "values": ["true"]}


def _unless_true(annotation: str) -> Object:
    return {**_if_true(annotation), "operator": "NotIn"}


_NODE_READY = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
nodeInfo:
  architecture: amd64
  operatingSystem: linux
  kubeletVersion: {{ printf "kwok-%s" Version }}
  kubeProxyVersion: ""
  containerRuntimeVersion: {{ printf "kwok-%s" Version }}
  osImage: ""
  kernelVersion: ""
  bootID: ""
  machineID: ""
  systemUUID: ""
"""

_NODE_LOST = """
{{ $now := Now }}
conditions:
- type: Ready
  status: "False"
  reason: KubeletNotReady
  message: told so by annotation
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
"""

_POD_READY = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "Ready" "ContainersReady" }}
- type: {{ $type | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
{{ range .spec.readinessGates }}
- type: {{ .conditionType | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
{{ $hostIPs := NodeIPsWith .spec.nodeName }}
{{ with $hostIPs }}
hostIP: {{ index . 0 | Quote }}
hostIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
{{ $host := or .spec.hostNetwork false }}
{{ $podIPs := PodIPsWith .spec.nodeName $host .metadata.uid .metadata.name .metadata.namespace }}
{{ with $podIPs }}
podIP: {{ index . 0 | Quote }}
podIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
"""

_POD_READY_AGAIN = """
conditions:
- type: Ready
  status: "True"
  lastTransitionTime: {{ Now | Quote }}
"""

_POD_COMPLETE = """
{{ $now := Now }}
{{ $root := . }}
{{ $code := or ( index .metadata.annotations "EXIT_CODE" ) "0" }}
{{ $good := eq $code "0" }}
phase: {{ if $good }}Succeeded{{ else }}Failed{{ end }}
conditions:
{{ range $type := list "Ready" "ContainersReady" }}
- type: {{ $type | Quote }}
  status: "False"
  reason: {{ if $good }}PodCompleted{{ else }}PodFailed{{ end }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {{ $code }}
      reason: {{ if $good }}Completed{{ else }}Error{{ end }}
      startedAt: {{ $root.status.startTime | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
""".replace("EXIT_CODE", EXIT_CODE)
