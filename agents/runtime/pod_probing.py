"""Tries whether pods of other clusters are reached by their addresses, where an operator has said
that these clusters are one pod network, and answers their tries.

What is tried is the agent there, a pod of its cluster: it publishes the address of its own pod
while it listens on that alone, and nobody else's pods are disturbed. The port is this agent's own
setting, so a peer's word chooses no more than an address of a private network, which is neither
loopback nor link-local, no node's of this cluster, and no agent's: 16 random bytes are sent there
about twice a minute, and nothing of an answer is told on but whether it was that cluster's.
"""

import asyncio
import ipaddress
import random
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from agents.observer.pod_reach import PodWay, is_private, node_with
from agents.observer.seen import NodeTarget
from agents.runtime.link_settings import LinkSettings
from agents.telemetry.probes import Answering, reach
from agents.telemetry.web import METADATA
from shared.messages import Peer, PodReach
from shared.model.names import OWN_NETWORK
from shared.model.probe_address import ProbeAddress, read_address

LOG = structlog.get_logger("agent.links")
SELDOMER = 3.0  # than probes of round-trip times
FIRST_S = 2.0
_MOST_PEERS = 512
_AT_ONCE = 16
_LISTEN_AGAIN_S = 30.0
_Key = tuple[str, str, ProbeAddress]  # cluster, its UID, where


class PodProbes:
    """Of one agent. `cluster_uid()`: the UID of its cluster, '' while it is not known. `nodes()`:
    those of its cluster.
    """

    def __init__(
        self,
        settings: LinkSettings,
        cluster_uid: Callable[[], str],
        nodes: Callable[[], Iterable[NodeTarget]],
    ) -> None:
        self._settings = settings
        self._nodes = nodes
        self._answering = Answering(cluster_uid)
        self._listens = False
        self._shared = False  # its cluster is part of a network of several
        self._said = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._ways: dict[_Key, PodWay] = {}
        self._trying: dict[_Key, asyncio.Task[None]] = {}
        # Until when no other address of a cluster is tried: it may say another one each second.
        self._rests: dict[str, float] = {}
        ip = settings.pod_address
        on = bool(ip and settings.pod_port)
        self._own = ProbeAddress(ipaddress.ip_address(ip), settings.pod_port) if on else None

    @property
    def address(self) -> str:
        """Where it answers as a pod, '' nowhere: an agent in its node's network is no pod of it."""
        if self._own is None or not self._listens or node_with(str(self._own.ip), self._nodes()):
            return ""
        return str(self._own)

    async def run(self) -> None:
        """Answer others of the network while there is one, until cancelled."""
        try:
            while True:
                await self._said.wait()
                self._said.clear()
                if not self._shared:
                    self._listens = False
                    await self._answering.close()
                elif self._own is not None and not self._listens:
                    await self._listen(self._own)
        finally:
            self._listens = False
            await self._answering.close()
            self.follow(OWN_NETWORK, ())

    async def _listen(self, own: ProbeAddress) -> None:
        try:
            await self._answering.start(own)
        except OSError as error:
            LOG.warning("no other pod is answered", address=str(own), problem=str(error))
            await asyncio.sleep(_LISTEN_AGAIN_S)
            self._said.set()
        else:
            self._listens = True

    def follow(self, network: str, peers: Sequence[Peer]) -> None:
        """From now on try those of the same pod network, and nobody else; what is known of one at
        another address is void.
        """
        near = [one for one in peers if one.network == network != OWN_NETWORK]
        if bool(near) != self._shared:
            self._shared = bool(near)
            self._said.set()
        wanted = {key for one in near[:_MOST_PEERS] if (key := self._key(one)) is not None}
        now = time.monotonic()
        self._rests = {cluster: until for cluster, until in self._rests.items() if until > now}
        for key in self._trying.keys() - wanted:
            self._trying.pop(key).cancel()
            del self._ways[key]
        for key in wanted - self._trying.keys():
            way = self._ways[key] = PodWay(str(key[2]), now)
            self._trying[key] = asyncio.create_task(self._keep(key, way), name=f"reach {key[0]}")

    def _key(self, peer: Peer) -> _Key | None:
        if self._own is None or not peer.uid or not peer.pod_address:
            return None
        try:
            return peer.cluster, peer.uid, read_address(peer.pod_address)
        except ValueError:
            return None

    async def _keep(self, key: _Key, way: PodWay) -> None:
        cluster, uid, address = key
        rests_s = self._rests.get(cluster, 0.0) - time.monotonic()
        await asyncio.sleep(max(rests_s, 0.0) + random.uniform(0.0, FIRST_S))
        while True:
            pause_s = SELDOMER * self._settings.interval_s * random.uniform(0.5, 1.5)
            self._rests[cluster] = time.monotonic() + pause_s
            if taken := self._taken(address):
                way.not_tried(taken, time.monotonic(), closed=True)
            elif unfit := self._unfit(address):
                way.not_tried(unfit, time.monotonic(), closed=False)
            else:
                async with self._slots:
                    problem = await reach(address, uid)
                way.took(problem, time.monotonic())
            await asyncio.sleep(pause_s)

    def _taken(self, address: ProbeAddress) -> str:
        """Who of this cluster has the address; '' for nobody."""
        if self._own is not None and address.ip == self._own.ip:
            return "that is the address of this cluster's agent, too"
        node = node_with(str(address.ip), self._nodes())
        return f"that is an address of node {node} of this cluster, too" if node else ""

    def _unfit(self, address: ProbeAddress) -> str:
        """Why somebody else's word that a pod is there is not enough to connect to it; '' if it
        is.
        """
        settings = self._settings
        if address.port != settings.pod_port:
            return f"it answers at port {address.port}, and links.pod_port is {settings.pod_port}"
        if is_private(address.ip) and not any(address.ip in one for one in METADATA):
            return ""
        if settings.may_probe(address):
            return ""
        return (
            f"no address of a private network: list its network with port {address.port} in "
            "links.allow"
        )

    def readings(self) -> tuple[PodReach, ...]:
        """What is known now of each way."""
        now = time.monotonic()
        ways = sorted(self._ways.items(), key=_by_cluster)
        return tuple(way.reading(cluster, now) for (cluster, _, _), way in ways)


def _by_cluster(item: tuple[_Key, PodWay]) -> str:
    return item[0][0]
