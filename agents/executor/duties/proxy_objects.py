"""A proxy node as API objects: Node, its status, and its Lease. When to write is decided elsewhere."""

from typing import Any

from agents.executor.context.local import KubeletEndpoint
from shared.kube.times import rfc3339, rfc3339_micro
from shared.messages import Peer
from shared.model import names
from shared.model.names import proxy_node_name
from shared.model.node import NO_SCHEDULE, Node, Taint
from shared.model.resources import format_quantity

Object = dict[str, Any]

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
METRICS_PAGE = "/metrics/resource"  # as of a kubelet; that of a proxy node has its name behind it
# annotation: where metrics-server 0.7 and newer find a page
METRICS_PATH = "metrics.k8s.io/resource-metrics-path"
# "virtual-kubelet" is the value that DaemonSets of cloud providers already know to keep away from.
_FIXED_LABELS = {
    "type": "virtual-kubelet",
    "node.kubernetes.io/exclude-from-external-load-balancers": "true",
}


def labels_of(peer: Peer) -> dict[str, str]:
    """The labels of a proxy node; those of the peer cannot replace ours."""
    own = {
        names.PROXY_LABEL: peer.cluster,
        names.CLUSTER_READY: "true" if peer.ready else "false",
        names.HOSTNAME: proxy_node_name(peer.cluster),
    }
    return {**peer.labels, **_FIXED_LABELS, **own}


def taint_of(peer: Peer) -> Taint:
    """The taint that keeps everybody else's pods away."""
    return Taint(key=names.PROXY_TAINT, value=peer.cluster, effect=NO_SCHEDULE)


def node_object(peer: Peer) -> Object:
    """The Node as it is created."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": proxy_node_name(peer.cluster), "labels": labels_of(peer)},
        "spec": {"providerID": provider_id(peer), "taints": [_taint_object(peer)]},
    }


def provider_id(peer: Peer) -> str:
    """Of no cloud. Cloud controllers delete a node that is not Ready and has no providerID, as one
    whose machine is gone; with that of another provider it is none of theirs.
    """
    return f"{names.SCHEDULER_NAME}://{peer.cluster}"


def identity_patch(peer: Peer, node: Node) -> Object:
    """Merge patch for a node without a providerID; 422 where it has another one."""
    return {"metadata": {"uid": node.uid}, "spec": {"providerID": provider_id(peer)}}


def drift_patch(peer: Peer, node: Node) -> Object | None:
    """Strategic merge patch that restores labels that somebody took off; None if all are there."""
    wanted = labels_of(peer)
    labels = {key: value for key, value in wanted.items() if node.labels.get(key) != value}
    return {"metadata": {"uid": node.uid, "labels": labels}} if labels else None


def taints_patch(peer: Peer, live: Object) -> Object:
    """Patch of the Node as just read that puts our taint back. The list has no merge key: those of
    others are sent, too, and one that comes meanwhile gives 409.
    """
    ours = _taint_object(peer)
    same = (ours["key"], ours["effect"])
    others = [
        one for one in live["spec"].get("taints") or () if (one["key"], one["effect"]) != same
    ]
    metadata = {
        "uid": live["metadata"]["uid"],
        "resourceVersion": live["metadata"]["resourceVersion"],
    }
    return {"metadata": metadata, "spec": {"taints": [*others, ours]}}


def _taint_object(peer: Peer) -> Object:
    taint = taint_of(peer)
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def resources_of(peer: Peer, node: Node | None) -> Object:
    """Quantities for capacity and allocatable; a resource that the peer has no more is taken off
    (null).
    """
    gone = dict.fromkeys(node.allocatable if node else ())
    return {
        **gone,
        **{
            name: format_quantity(name, max(value, 0))
            for name, value in sorted(peer.allocatable.items())
        },
    }


def status_patch(
    peer: Peer, node: Node | None, wall: float, kubelet: KubeletEndpoint | None
) -> Object:
    """Strategic merge patch of nodes/status, which takes annotations, too. The transition time is
    given only when Ready changes.
    """
    resources = resources_of(peer, node)
    ready: Object = {
        "type": "Ready",
        "status": "True" if peer.ready else "False",
        "reason": "ClusterReady" if peer.ready else "ClusterNotReady",
        "message": f"cluster {peer.cluster} is {'ready' if peer.ready else 'not ready'}, says the "
        "dispatcher",
        "lastHeartbeatTime": rfc3339(wall),
    }
    if node is None or node.ready != peer.ready:
        ready["lastTransitionTime"] = rfc3339(wall)
    info = {"kubeletVersion": names.SCHEDULER_NAME, "operatingSystem": "linux"}
    status = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [ready],
        "nodeInfo": info,
    }
    page = f"{METRICS_PAGE}/{proxy_node_name(peer.cluster)}" if kubelet is not None else None
    metadata = {"annotations": {METRICS_PATH: page}}
    return {
        "metadata": metadata,
        "status": status | (_reached_at(kubelet) if kubelet is not None else _NOWHERE),
    }


# Of an agent that served here before.
_NOWHERE: Object = {
    "addresses": [{"$patch": "replace"}],
    "daemonEndpoints": None,
    "declaredFeatures": None,
}


def _reached_at(kubelet: KubeletEndpoint) -> Object:
    return {
        "addresses": [{"type": "InternalIP", "address": kubelet.address}, {"$patch": "replace"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
        # Has the API server pass WebSockets on (Kubernetes 1.36): of them kubectl knows when one
        # ends before its end.
        "declaredFeatures": ["ExtendWebSocketsToKubelet"],
    }


def lease_object(name: str, uid: str, wall: float) -> Object:
    """The Lease as it is created; it goes with its node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        **lease_patch(name, wall),
    }


def lease_patch(name: str, wall: float) -> Object:
    """Merge patch that renews a Lease."""
    return {
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": rfc3339_micro(wall),
        },
    }
