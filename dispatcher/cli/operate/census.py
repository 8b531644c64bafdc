"""What of a cluster is where: pods that are bound to its proxy nodes, copies of its pods, marks
that are left.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from shared.model import names

Object = dict[str, Any]
_ENDED = ("Succeeded", "Failed")


class PodAt(NamedTuple):
    """One pod as it was listed."""

    cluster: str  # where it was listed
    namespace: str
    name: str
    uid: str
    node: str  # "" if it is not bound
    controlled: bool  # some controller will replace it
    ended: bool

    @property
    def path(self) -> str:
        """Where it is on its API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.cluster}: {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Census:
    """What one cluster has of another cluster, the leaving one. `mine`: it is the leaving one
    itself.

    `bound`: pods on proxy nodes, of the leaving cluster or (`mine`) of any, but for those of
    DaemonSets: these run nothing there, come again, and go with the node. `copies`: delegates of
    its pods or (`mine`) of anybody's. `marked`: pods, bound or not, that carry our finalizer for
    the leaving cluster, or (`mine`) at all.
    """

    bound: tuple[PodAt, ...]
    copies: tuple[PodAt, ...]
    marked: tuple[PodAt, ...]

    @property
    def left(self) -> tuple[PodAt, ...]:
        """All that must be gone before the cluster can leave."""
        return tuple(dict.fromkeys((*self.bound, *self.copies, *self.marked)))


def census(cluster: str, leaving: str, pods: Iterable[Object], own: Collection[str] = ()) -> Census:
    """Count the pods that `cluster` listed. `own`: nodes of the cluster itself, whatever they are
    named.
    """
    mine = cluster == leaving
    bound = []
    copies = []
    marked = []
    for pod in pods:
        at = _pod_at(cluster, pod)
        node = "" if at.node in own else at.node
        there = node == names.proxy_node_name(leaving) or (
            mine and node.startswith(names.PROXY_NODE_PREFIX)
        )
        if there and not daemon_set_of(pod):
            bound.append(at)
        if _is_delegate(pod) and (mine or _annotation(pod, names.SOURCE_CLUSTER) == leaving):
            copies.append(at)
        elif names.FINALIZER in pod["metadata"].get("finalizers", ()) and (
            mine or _goes_to(pod, leaving)
        ):
            marked.append(at)
    return Census(tuple(bound), tuple(copies), tuple(marked))


def namespaces_of(pods: Iterable[PodAt]) -> int:
    """How many namespaces they are in."""
    return len({pod.namespace for pod in pods})


def _pod_at(cluster: str, pod: Object) -> PodAt:
    meta = pod["metadata"]
    owners = meta.get("ownerReferences", ())
    ended = pod.get("status", {}).get("phase") in _ENDED
    controlled = any(owner.get("controller") for owner in owners)
    return PodAt(
        cluster, meta["namespace"], meta["name"], meta["uid"], _node_of(pod), controlled, ended
    )


def daemon_set_of(pod: Object) -> str:
    """The name of the DaemonSet that controls a pod; "" if none does."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next(
        (one["name"] for one in owners if one["kind"] == "DaemonSet" and one.get("controller")), ""
    )


def _node_of(pod: Object) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")


def _is_delegate(pod: Object) -> bool:
    labelled = pod["metadata"].get("labels", {}).get(names.DELEGATE_LABEL) == "true"
    return bool(labelled) and bool(
        pod.get("spec", {}).get("schedulerName") == names.DELEGATE_SCHEDULER
    )


def _goes_to(pod: Object, cluster: str) -> bool:
    node = _node_of(pod)
    return (
        node == names.proxy_node_name(cluster)
        if node
        else _annotation(pod, names.CLAIM_CLUSTER) == cluster
    )


def _annotation(pod: Object, key: str) -> str:
    return str(pod["metadata"].get("annotations", {}).get(key, ""))
