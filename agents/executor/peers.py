"""The other clusters as the dispatcher last described them, and for how long that description is believed."""

from dataclasses import dataclass

from dispatcher.model.messages import Peer
from dispatcher.model.names import proxy_node_name

PEER_TTL_S = 60.0


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """A peer and the monotonic time at which the dispatcher last named it."""

    peer: Peer
    heard: float


class PeerTable:
    """Peers by the name of their proxy node. One that is not named for `ttl_s` seconds is not renewed any more."""

    def __init__(self, cluster: str, ttl_s: float = PEER_TTL_S) -> None:
        self.ttl_s = ttl_s
        self.heard: float | None = None
        self._cluster = cluster
        self._known: dict[str, KnownPeer] = {}

    def update(self, peers: tuple[Peer, ...], now: float) -> None:
        """Take over a new description; peers that it leaves out age from here on."""
        self.heard = now
        for peer in peers:
            if peer.cluster != self._cluster:
                self._known[proxy_node_name(peer.cluster)] = KnownPeer(peer, now)

    def alive(self, now: float) -> dict[str, Peer]:
        """Peers that were named recently enough, by proxy node name."""
        return {name: known.peer for name, known in self._known.items() if now - known.heard < self.ttl_s}

    def listed(self, name: str, now: float) -> bool:
        """Whether a proxy node must stay: its peer is alive, or there is no fresh word of the dispatcher against it."""
        fresh = self.heard is not None and now - self.heard < self.ttl_s
        return not fresh or name in self.alive(now)

    def unready(self, name: str, now: float) -> str:
        """Why nothing may be bound to this proxy node; '' if its peer is alive and ready."""
        peer = self.alive(now).get(name)
        if peer is None:
            return f'no cluster with proxy node "{name}" is known'
        return "" if peer.ready else f'cluster "{peer.cluster}" is not ready'
