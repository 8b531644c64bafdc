"""What each cluster's proxy nodes show of the other clusters: capacity, readiness, common topology
labels, keys.
"""

from collections.abc import Mapping

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.fleet.fleet import FleetState
from shared.messages import Peer
from shared.model import names
from shared.model.node import Node, Taint, closing_taints


def peers(
    clusters: Mapping[str, ClusterView], fleet: FleetState, now: float, lost_s: float
) -> tuple[Peer, ...]:
    """All clusters that were heard of in this life: their free room, and Ready unless they are lost
    for `lost_s`.

    Each cluster is told of the others: what is said of one is the same for all of them, and found
    out once.

    Of one that was not, nothing is said for `lost_s` after it was missed, then that it is not
    ready: whoever has a proxy node of it, from an earlier life of ours, must learn that it is lost.
    """
    found = (_peer(name, view, fleet, now, lost_s) for name, view in sorted(clusters.items()))
    return tuple(peer for peer in found if peer is not None)


def _peer(
    name: str, view: ClusterView, fleet: FleetState, now: float, lost_s: float
) -> Peer | None:
    stands = _stands(view, now, lost_s)
    if view.uid and not view.hidden:
        free = fleet.free_total(name)
        labels = view.shared.agreed
        return Peer(
            name,
            stands,
            free,
            labels,
            view.uid,
            view.keys,
            view.api_ok,
            view.unrenewed_s(now),
            view.probe,
            view.follows,
            view.network,
            view.pod_address,
        )
    return (
        None
        if stands or not _was_missed(view)
        else Peer(name, ready=False, unrenewed_s=view.unrenewed_s(now), network=view.network)
    )


def _was_missed(view: ClusterView) -> bool:
    return view.not_ready_since != float("-inf")


def _stands(view: ClusterView, now: float, lost_s: float) -> bool:
    # A short silence must not make a node controller evict what runs well: a cluster is lost only
    # after a while.
    return view.ready or now - view.not_ready_since < lost_s


def fenced_proxy(node: Node | None) -> str:
    """The cluster whose proxy node this is, if it is fenced; else ""."""
    if node is None or node.name != names.proxy_node_name(node.proxy_for):
        return ""
    return node.proxy_for if node.labels.get(names.FENCED) == "true" else ""


def closed_proxy(node: Node | None) -> str:
    """The cluster whose proxy node this is, if it takes no new pods: it is cordoned or fenced; else
    ''.
    """
    if node is None or node.name != names.proxy_node_name(node.proxy_for):
        return ""
    return node.proxy_for if node.unschedulable else fenced_proxy(node)


def tainted_proxy(node: Node | None) -> tuple[str, tuple[Taint, ...]]:
    """The cluster whose proxy node this is, and the taints by which others have closed it."""
    if node is None or node.name != names.proxy_node_name(node.proxy_for):
        return "", ()
    return node.proxy_for, closing_taints(node.taints)
