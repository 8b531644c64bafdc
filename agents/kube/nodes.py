"""Nodes of the API -> model nodes, and what telemetry needs to ask their kubelets."""

import math

import msgspec

from agents.kube import wire, wire_nodes
from agents.kube.convert import version_of
from agents.kube.effective import read_quantities
from agents.kube.features import declared
from agents.kube.selectors import labels_size
from agents.observer.seen import NodeSeen, NodeTarget
from shared.model import names
from shared.model.bounds import MAX_WORD
from shared.model.node import NO_SCHEDULE, PREFER_NO_SCHEDULE, Node, Taint, cluster_behind
from shared.model.resources import CPU, MEMORY, QuantityError, parse_quantity

MAX_LABEL_CHARS = 64 * 1024
MAX_IMAGES = 100
MAX_METRICS = 32
MAX_ADDRESSES = 32
KUBELET_PORT = 10250
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
# By these an administrator says that a node is emptied (Kubernetes 1.37, NodeConditionType): they
# count as taints. Planned maintenance may be weeks away, and a patch may need no drain.
CONDITION_TAINT = "condition.global-dispatcher.io/"  # and the condition's type: key of the taint
LEAVING = {
    "DrainInProgress": NO_SCHEDULE,
    "Drained": NO_SCHEDULE,
    "MaintenancePlanned": PREFER_NO_SCHEDULE,
    "MaintenanceInProgress": PREFER_NO_SCHEDULE,
}
_IMAGE_NAMES: dict[str, str] = {}


def node_seen(raw: bytes | msgspec.Raw) -> NodeSeen | None:
    """One node from its JSON. One that cannot be read is kept as a node that is not ready; without
    a name, None.
    """
    try:
        node = wire_nodes.read_node(raw)
    except wire.BROKEN as error:
        return _bare_node(raw, str(error))
    if not node.metadata.name:
        return None
    problems: list[str] = []
    model = _node(node, problems)
    return NodeSeen(
        model, version_of(node.metadata.resource_version), _target(node, model), tuple(problems)
    )


def _node(node: wire_nodes.NodeObject, problems: list[str]) -> Node:
    meta = node.metadata
    spec = node.spec
    status = node.status
    labels = meta.labels or {}
    taints = (
        *(Taint(taint.key, taint.value, taint.effect) for taint in spec.taints or ()),
        *(
            Taint(CONDITION_TAINT + one.type, "", LEAVING[one.type])
            for one in status.conditions or ()
            if one.type in LEAVING and one.status == "True"
        ),
    )
    proxy_for = cluster_behind(meta.name, labels, taints)
    if labels_size(labels) > MAX_LABEL_CHARS:
        problems.append(f"metadata.labels: more than {MAX_LABEL_CHARS} characters, left out")
        labels = {}
    return Node(
        name=meta.name,
        uid=meta.uid,
        labels=labels,
        taints=taints,
        unschedulable=bool(spec.unschedulable),
        # A node of which nothing is said has no kubelet to ask; kube-scheduler takes it, too.
        ready=all(one.status == "True" for one in status.conditions or () if one.type == "Ready"),
        allocatable=read_quantities(
            status.allocatable, "status.allocatable", problems, round_up=False
        ),
        bandwidth=_bandwidth(meta, problems),
        images=_images(status.images),
        proxy_for=proxy_for,
        metrics=_metrics(meta.annotations, problems),
        features=declared(status.declared_features),
    )


def _bandwidth(meta: wire.Meta, problems: list[str]) -> int:
    """The annotation wins over the label, since a label value cannot hold every quantity."""
    for field, values in (("annotations", meta.annotations), ("labels", meta.labels)):
        text = (values or {}).get(names.BANDWIDTH)
        if text is None:
            continue
        try:
            return parse_quantity(text, round_up=False, cap=True)
        except QuantityError as error:
            problems.append(f"metadata.{field}[{names.BANDWIDTH}]: {error}")
    return 0


def _metrics(annotations: dict[str, str] | None, problems: list[str]) -> dict[str, float]:
    """Numbers and quantities by name."""
    told = [key for key in annotations or () if key.startswith(names.METRIC_PREFIX)]
    if len(told) > MAX_METRICS:
        problems.append(
            f"metadata.annotations: more than {MAX_METRICS} metrics, the others left out"
        )
    found: dict[str, float] = {}
    for key in sorted(told)[:MAX_METRICS]:
        try:
            found[key.removeprefix(names.METRIC_PREFIX)] = _number((annotations or {})[key])
        except ValueError as error:
            problems.append(f"metadata.annotations[{key}]: {error}")
    return found


def _number(text: str) -> float:
    """A finite number, or a quantity such as 5Gi; ValueError."""
    try:
        value = float(text[:40])
    except ValueError:
        return parse_quantity(text, scale=1000, round_up=False) / 1000
    if not math.isfinite(value) or len(text) > 40:
        raise ValueError(f"{text[:40]!r} is no finite number of at most 40 characters")
    return value


def _images(images: list[wire_nodes.Image] | None) -> dict[str, int]:
    """Names (by tag and by digest) and sizes; one string object for a name that many nodes have."""
    found: dict[str, int] = {}
    for image in (images or ())[:MAX_IMAGES]:
        for name in image.names or ():
            if len(name) <= MAX_WORD:
                found[_IMAGE_NAMES.setdefault(name, name)] = max(0, image.size_bytes)
    if len(_IMAGE_NAMES) > 100_000:
        _IMAGE_NAMES.clear()
    return found


def _target(node: wire_nodes.NodeObject, model: Node) -> NodeTarget | None:
    """Where to ask for readings; a proxy node has no kubelet."""
    if model.proxy_for:
        return None
    status = node.status
    capacity = read_quantities(
        status.capacity or status.allocatable, "status.capacity", [], round_up=False
    )
    endpoint = (
        status.daemon_endpoints.kubelet_endpoint if status.daemon_endpoints is not None else None
    )
    return NodeTarget(
        name=model.name,
        address=next(
            (one.address for one in status.addresses or () if one.type == "InternalIP"), ""
        ),
        port=endpoint.port if endpoint is not None and 0 < endpoint.port < 65536 else KUBELET_PORT,
        cpu=capacity.get(CPU, 0),
        memory=capacity.get(MEMORY, 0),
        bandwidth=model.bandwidth,
        addresses=tuple(one.address for one in (status.addresses or ())[:MAX_ADDRESSES]),
        kind=model.labels.get(INSTANCE_TYPE, ""),
    )


def _bare_node(raw: bytes | msgspec.Raw, problem: str) -> NodeSeen | None:
    try:
        meta = wire.read_bare(raw).metadata
    except wire.BROKEN:
        return None
    if not meta.name:
        return None
    line = f"the object cannot be read, so the node counts as not ready: {problem}"[:300]
    return NodeSeen(Node(meta.name, meta.uid), version_of(meta.resource_version), None, (line,))
