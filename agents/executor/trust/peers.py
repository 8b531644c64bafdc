"""The other clusters as the dispatcher last described them.

Its last word holds without an end for what runs: proxy nodes are kept as it said, whether it speaks
or not, and so is what an earlier life of this agent wrote onto them. Only for new work it must be
fresh. What a dispatcher that speaks no longer names is let go; silence is no word against anybody.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from shared.messages import Peer
from shared.model import names
from shared.model.leases import stopped_after_s
from shared.model.names import proxy_node_name
from shared.model.node import Node, closing_taints
from shared.model.pod import Pod

PEER_TTL_S = 60.0


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """A peer and the monotonic time at which the dispatcher last named it, or we found its node.

    `unnamed`: since when a dispatcher that speaks leaves it out, None while it does not.
    """

    peer: Peer
    heard: float
    unnamed: float | None = None


class PeerTable:
    """Peers by the name of their proxy node. A word of the dispatcher is fresh for `ttl_s` seconds."""

    def __init__(self, cluster: str, ttl_s: float = PEER_TTL_S) -> None:
        self.ttl_s = ttl_s
        self.heard: float | None = None
        self.lease_s = 0.0  # the longest that a dispatcher has said
        self._cluster = cluster
        self._network: str | None = None  # the pod network of this cluster itself
        self._known: dict[str, KnownPeer] = {}

    def update(
        self,
        peers: tuple[Peer, ...],
        now: float,
        lease_s: float = 0.0,
        network: str = names.OWN_NETWORK,
    ) -> None:
        """Take over a new description. A peer is dropped once it has been left out for `ttl_s`
        seconds: a dispatcher that has just started may not have heard of all clusters. `lease_s`:
        of delegates, 0 if that is not known. `network`: the pod network of this cluster itself.
        """
        self._network = network
        self.lease_s = max(self.lease_s, lease_s)
        self.heard = now
        for name, known in self._known.items():
            if known.unnamed is None:
                self._known[name] = KnownPeer(known.peer, known.heard, now)
        for peer in peers:
            if peer.cluster != self._cluster:
                name = proxy_node_name(peer.cluster)
                self._known[name] = KnownPeer(self._with_earlier(name, peer), now)

    def _with_earlier(self, name: str, peer: Peer) -> Peer:
        """The peer; as known before, but not Ready, if the dispatcher has had no report of its
        cluster yet.
        """
        known = self._known.get(name)
        if known is None or is_heard_of(peer):
            return peer
        return msgspec.structs.replace(known.peer, ready=False, unrenewed_s=peer.unrenewed_s)

    def recall(self, nodes: Iterable[Node], now: float) -> None:
        """After a restart: proxy nodes that are there are known as they were last written."""
        for node in nodes:
            if (
                node.proxy_for not in ("", self._cluster)
                and is_proxy(node)
                and node.name not in self._known
            ):
                self._known[node.name] = KnownPeer(peer_of(node), now)

    @property
    def known(self) -> dict[str, Peer]:
        """The last word about each peer, however old, by the name of its proxy node."""
        return {name: known.peer for name, known in self._known.items()}

    def last_word(self, name: str) -> Peer | None:
        """The last word about the peer of this proxy node, None if it was never named."""
        known = self._known.get(name)
        return known.peer if known is not None else None

    def routed(self, cluster: str, uid: str) -> bool | None:
        """Whether an operator has said that pods of this cluster and of that one, whose UID this
        is, reach each other by their addresses; None while that is not known.
        """
        peer = self.last_word(proxy_node_name(cluster))
        if peer is None or peer.network is None or self._network is None:
            return None
        return peer.uid == uid and peer.network == self._network != names.OWN_NETWORK

    def dropped(self, name: str, now: float) -> bool:
        """Whether this proxy node is to be removed: a dispatcher that is heard has left its cluster
        out for `ttl_s`.
        """
        if self.heard is None or now - self.heard >= self.ttl_s:
            return False
        known = self._known.get(name)
        return known is None or (known.unnamed is not None and now - known.unnamed >= self.ttl_s)

    def forget(self, name: str) -> None:
        """Drop the peer of a proxy node that was deleted."""
        self._known.pop(name, None)

    def lost(self, name: str) -> bool:
        """Whether the dispatcher last said that this proxy node's cluster is not Ready."""
        peer = self.last_word(name)
        return peer is not None and not peer.ready

    @property
    def too_many_lost(self) -> str:
        """Why no lost cluster is believed to be lost for good: half of them, and more than one,
        look so; '' if not.

        More likely is a network that is cut in two, or a dispatcher that is cut off: see
        kube-controller-manager's "full disruption", in which it evicts nothing either.
        """
        away = sorted(known.peer.cluster for known in self._known.values() if not known.peer.ready)
        if len(away) < max(2, len(self._known) / 2):
            return ""
        return (
            f"{len(away)} of {len(self._known)} other clusters look lost ({', '.join(away)}): no "
            "pod is replaced"
        )

    def stopped_in(self, name: str, grace_s: float) -> float | None:
        """Seconds until delegates of mode `lease` have been stopped behind this proxy node, as of
        the last word.

        0: they have been. None: that they ever are is not known, since its API server was not well,
        or nothing is known of it. The dispatcher has counted: no clock of ours is asked.
        """
        peer = self.last_word(name)
        if peer is None or peer.ready or not (peer.api_ok and self.lease_s):
            return None
        return max(0.0, stopped_after_s(self.lease_s, grace_s) - peer.unrenewed_s)

    def unready(self, name: str, now: float) -> str:
        """Why nothing new may be bound to this proxy node; '' if its peer was lately said to be
        ready.
        """
        known = self._known.get(name)
        if known is None:
            return f'no cluster with proxy node "{name}" is known'
        if not known.peer.ready:
            return f'cluster "{known.peer.cluster}" is not ready'
        age = now - known.heard
        if self.heard is None:
            return (
                f'cluster "{known.peer.cluster}" was not named by a dispatcher since this agent '
                "started"
            )
        return (
            f'cluster "{known.peer.cluster}" was last named {age:.0f} s ago'
            if age >= self.ttl_s
            else ""
        )


def is_heard_of(peer: Peer) -> bool:
    """Whether the dispatcher knows anything of that cluster but that it is not ready."""
    return bool(peer.ready or peer.uid or peer.allocatable or peer.labels)


def is_proxy(node: Node) -> bool:
    """Whether it is a proxy node."""
    return bool(node.proxy_for)


def peer_of(node: Node) -> Peer:
    """What a proxy node says of its peer; what follows pods there, and its network, it does not. Its Ready condition
    may be the node controller's, from a time in which this agent was away: the label is ours alone.
    """
    said = node.labels.get(names.CLUSTER_READY)
    ready = node.ready if said is None else said == "true"
    labels = {key: node.labels[key] for key in names.SHARED_LABELS if key in node.labels}
    return Peer(node.proxy_for, ready, node.allocatable, labels, follows=None, network=None)


def name_taken(node: Node | None, cluster: str) -> str:
    """Why `cluster` can have no proxy node: a node of this cluster itself has its name; '' if none
    has.
    """
    if node is None or node.proxy_for == cluster:
        return ""
    return (
        f'node "{node.name}" is one of this cluster itself, so that cluster "{cluster}" can have '
        "no proxy node here: "
        f"rename that node, or that cluster; {names.marks_lost(node.name)}. The node is left as "
        "it is"
    )


def closed_to_new(node: Node | None, pod: Pod | None) -> str:
    """Why this pod may not be claimed for the cluster behind this proxy node; '' if it may:
    somebody has cordoned it, or put a taint on it that the pod does not tolerate.
    """
    if node is None:
        return ""
    if node.unschedulable:
        return f'node "{node.name}" is cordoned'
    for taint in closing_taints(node.taints):
        if pod is not None and not any(taint.tolerated_by(one) for one in pod.tolerations):
            return f'node "{node.name}" has taint {taint}, which the pod does not tolerate'
    return ""
