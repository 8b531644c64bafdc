"""What each cluster's proxy nodes shall show of the others."""

from collections.abc import Mapping

from dispatcher.model import names
from dispatcher.model.messages import Peer
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.fleet.fleet import FleetState

_SHARED_LABELS = (names.REGION, names.ZONE, names.PROVIDER)


def peers_of(
    cluster: str, clusters: Mapping[str, ClusterView], fleet: FleetState, now: float, lost_s: float
) -> tuple[Peer, ...]:
    """All other clusters that were ever synced: their free room, and Ready unless they are lost for `lost_s`."""
    return tuple(
        Peer(name, _stands(view, now, lost_s), fleet.free_total(name), _common_labels(view))
        for name, view in sorted(clusters.items())
        if name != cluster and view.uid
    )


def _stands(view: ClusterView, now: float, lost_s: float) -> bool:
    # A short silence must not make a node controller evict what runs well: a cluster is lost only after a while.
    return view.ready or now - view.not_ready_since < lost_s


def _common_labels(view: ClusterView) -> dict[str, str]:
    """Topology labels on which all real nodes of the cluster agree."""
    nodes = [node for node in view.nodes.values() if not node.proxy_for]
    agreed = {}
    for key in _SHARED_LABELS:
        values = {node.labels.get(key, "") for node in nodes}
        if len(values) == 1 and "" not in values:
            agreed[key] = values.pop()
    return agreed
