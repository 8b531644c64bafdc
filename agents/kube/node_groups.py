"""Node groups of Cluster API, as Cluster Autoscaler reads them, and which of them it has given up for
a while.

A MachineDeployment, MachineSet or MachinePool is a group if it has the annotations of its least and
most size. What a new node of it would be like is what the annotations of its capacity say; they
are what the autoscaler goes by where the group has no node. Source: kubernetes/autoscaler,
cluster-autoscaler/cloudprovider/clusterapi (README.md, clusterapi_unstructured.go).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import yaml
from msgspec.json import Decoder

from agents.kube import wire
from agents.kube.convert import version_of
from agents.kube.effective import read_quantities
from agents.kube.listwatch import Read
from agents.kube.selectors import labels_size
from agents.kube.wire_nodes import Taint as TaintObject
from agents.observer.seen import AutoscalerSeen, NodeGroupSeen
from shared.kube.plain_yaml import is_plain
from shared.model.bounds import MAX_WORD
from shared.model.node import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Node, Taint
from shared.model.node_group import NodeGroup
from shared.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

# As its group has them in v1beta2, and in the version before.
KINDS: Final = {
    "MachineDeployment": "machinedeployments",
    "MachineSet": "machinesets",
    "MachinePool": "machinepools",
}
VERSIONS: Final = ("v1beta2", "v1beta1")
STATUS: Final = "ConfigMap"  # the kind of what Cluster Autoscaler tells of itself
STATUS_PATH: Final = "/api/v1/namespaces/kube-system/configmaps"
STATUS_FIELDS: Final = "metadata.name=cluster-autoscaler-status"
MAX_STATUS: Final = 128 * 1024  # characters of it
MAX_LABELS: Final = 4096  # characters of the labels of a group's nodes, and of its taints
MOST_NODES: Final = 100_000

_GROUP = "cluster.x-k8s.io"
_LEAST = f"{_GROUP}/cluster-api-autoscaler-node-group-min-size"
_MOST = f"{_GROUP}/cluster-api-autoscaler-node-group-max-size"
_PAUSED = f"{_GROUP}/paused"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
_AMOUNTS = {CPU: "cpu", MEMORY: "memory", EPHEMERAL_STORAGE: "ephemeral-disk", PODS: "maxPods"}
_MOST_PODS = "110"  # of a node of which it is not told, for the autoscaler
_USUAL = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}  # for the autoscaler, too
# domains whose labels Cluster API gives to nodes of what it makes
_TO_NODES = ("node-restriction.kubernetes.io", f"node.{_GROUP}", "node-role.kubernetes.io")
_EFFECTS = frozenset((NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE))
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Labelled(wire.Wire):
    labels: dict[str, str] | None = None


class _MachineSpec(wire.Wire):
    """MachineSpec."""

    taints: list[TaintObject] | None = None


class _Template(wire.Wire):
    """MachineTemplateSpec."""

    metadata: _Labelled = msgspec.field(default_factory=_Labelled)
    spec: _MachineSpec = msgspec.field(default_factory=_MachineSpec)


class _Spec(wire.Wire):
    """MachineDeploymentSpec, MachineSetSpec and MachinePoolSpec."""

    cluster_name: str = ""
    replicas: wire.Int | None = None
    paused: bool | None = None
    template: _Template = msgspec.field(default_factory=_Template)


class _Status(wire.Wire):
    ready_replicas: wire.Int | None = None


class _Scalable(wire.Wire):
    """MachineDeployment, MachineSet and MachinePool of cluster.x-k8s.io."""

    metadata: wire.Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _ConfigMap(wire.Wire):
    """core/v1 ConfigMap."""

    metadata: wire.BareMeta
    data: dict[str, str] | None = None


_decode = Decoder(_Scalable).decode
_decode_status = Decoder(_ConfigMap).decode


def paths(kind: str, namespace: str) -> tuple[str, ...]:
    """Where objects of a kind are listed, in each version of its API; `namespace` "": in all."""
    within = f"namespaces/{namespace}/" if namespace else ""
    return tuple(f"/apis/{_GROUP}/{version}/{within}{KINDS[kind]}" for version in VERSIONS)


def reader(kind: str, cluster: str) -> Read:
    """Reads objects of a kind; those of other clusters than the Cluster of this name are no groups
    here.
    """
    return partial(_seen, kind, cluster)


def _seen(kind: str, cluster: str, raw: bytes | msgspec.Raw) -> NodeGroupSeen | None:
    """One that cannot be read is kept as a group of which nothing is known; without a name, None."""
    try:
        found = _decode(raw)
        meta: wire.Meta | wire.BareMeta = found.metadata
        group = _group(kind, cluster, found)
        ready = found.status.ready_replicas or 0
    except wire.BROKEN:
        try:
            meta = wire.read_bare(raw).metadata
        except wire.BROKEN:
            return None
        group = NodeGroup(_name(kind, meta))
        ready = 0
    if not meta.name:
        return None
    return NodeGroupSeen(kind, _name(kind, meta), version_of(meta.resource_version), group, ready)


def _name(kind: str, meta: wire.Meta | wire.BareMeta) -> str:
    """As Cluster Autoscaler calls the group."""
    return f"{kind}/{meta.namespace}/{meta.name}"[:MAX_WORD]


def _group(kind: str, cluster: str, found: _Scalable) -> NodeGroup | None:
    meta = found.metadata
    spec = found.spec
    annotations = meta.annotations or {}
    owned = any(one.kind == "MachineDeployment" for one in meta.owner_references or ())
    if spec.cluster_name != cluster or owned or not {_LEAST, _MOST} <= annotations.keys():
        return None
    least = _count(annotations[_LEAST])
    most = _count(annotations[_MOST])
    if least is None or most is None:
        return NodeGroup(_name(kind, meta))
    if most < least or not most:
        return None
    return NodeGroup(
        _name(kind, meta),
        max(0, spec.replicas or 0),
        most,
        _template(annotations, spec.template),
        backs_off=bool(spec.paused) or _PAUSED in annotations,
    )


def _count(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) < len(str(MOST_NODES)) else MOST_NODES


def _template(annotations: Mapping[str, str], template: _Template) -> Node | None:
    """What a new node is told to be like; None where its CPU or memory is not, or is unreadable."""
    asked = {
        resource: annotations[_CAPACITY + key]
        for resource, key in _AMOUNTS.items()
        if annotations.get(_CAPACITY + key)
    }
    gpu = annotations.get(_CAPACITY + "gpu-type", "")
    if gpu and annotations.get(_CAPACITY + "gpu-count"):
        asked[gpu] = annotations[_CAPACITY + "gpu-count"]
    problems: list[str] = []
    amounts = read_quantities({PODS: _MOST_PODS, **asked}, "", problems, round_up=False)
    labels = {**_USUAL, **_labels(annotations, template)}
    taints = _taints(annotations, template)
    told = labels_size(labels) + sum(len(str(one)) for one in taints)
    if problems or not (amounts.get(CPU) and amounts.get(MEMORY)) or told > MAX_LABELS:
        return None
    return Node("", labels=labels, taints=taints, ready=True, allocatable=amounts)


def _labels(annotations: Mapping[str, str], template: _Template) -> dict[str, str]:
    given = template.metadata.labels or {}
    found = {key: value for key, value in given.items() if _reaches_nodes(key)}
    for one in annotations.get(_CAPACITY + "labels", "").split(","):
        key, is_label, value = one.partition("=")
        if is_label:
            found[key] = value
    return found


def _reaches_nodes(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == one or domain.endswith(f".{one}") for one in _TO_NODES)


def _taints(annotations: Mapping[str, str], template: _Template) -> tuple[Taint, ...]:
    given = [Taint(one.key, one.value, one.effect) for one in template.spec.taints or ()]
    given += _written(annotations.get(_CAPACITY + "taints", ""))
    return tuple({(one.key, one.effect): one for one in given}.values())


def _written(text: str) -> Iterator[Taint]:
    """KEY=VALUE:EFFECT, or KEY:EFFECT, with commas in between."""
    for one in text.split(","):
        named, _, effect = one.strip().rpartition(":")
        key, _, value = named.partition("=")
        if key and effect in _EFFECTS:
            yield Taint(key, value, effect)


def status_seen(raw: bytes | msgspec.Raw) -> AutoscalerSeen | None:
    """What Cluster Autoscaler tells of itself (1.30 and later); None for what is no ConfigMap."""
    try:
        found = _decode_status(raw)
    except wire.BROKEN:
        return None
    told = (found.data or {}).get("status", "")
    groups = _loaded(told).get("nodeGroups") if len(told) <= MAX_STATUS else None
    meta = found.metadata
    listed = groups if isinstance(groups, list) else ()
    backing_off = frozenset(one["name"][:MAX_WORD] for one in listed if _backs_off(one))
    return AutoscalerSeen(meta.name, version_of(meta.resource_version), backing_off)


def _loaded(text: str) -> Mapping[str, Any]:
    try:
        found = yaml.load(text, Loader=_LOADER) if is_plain(text) else None  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _backs_off(group: object) -> bool:
    if not isinstance(group, dict) or not isinstance(group.get("name"), str):
        return False
    grows = group.get("scaleUp")
    return isinstance(grows, dict) and grows.get("status") == "Backoff"
