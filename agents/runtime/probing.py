"""Probes every other cluster's agent now and then, and answers theirs; beside all else, and waited
for by nothing.

Whom to probe is what the dispatcher says that other agents publish, as far as this agent's own
settings allow it (`links.allow`, empty by default): neither the dispatcher nor another cluster can
make it connect anywhere else. A probe of one cluster follows the other after about `interval_s`,
never two at once, and all of them spread in time.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence

import structlog

from agents.observer.peer_links import PeerLink
from agents.runtime.link_settings import LinkSettings
from agents.telemetry.probes import Answering, probe
from shared.messages import LinkReading, Peer
from shared.model.probe_address import ProbeAddress, read_address

LOG = structlog.get_logger("agent.links")
_MOST_PEERS = 512
_LISTEN_AGAIN_S = 30.0


class PeerProbes:
    """Of one agent. `cluster_uid()`: the UID of its cluster, '' while it is not known."""

    def __init__(self, settings: LinkSettings, cluster_uid: Callable[[], str]) -> None:
        self._settings = settings
        self._answering = Answering(cluster_uid)
        self._links: dict[tuple[str, str, ProbeAddress], PeerLink] = {}  # cluster, its UID, where
        self._probing: dict[tuple[str, str, ProbeAddress], asyncio.Task[None]] = {}

    @property
    def address(self) -> str:
        """Where others may probe this agent, '' nowhere."""
        return self._settings.address if self._settings.listen else ""

    async def run(self) -> None:
        """Answer probes, until cancelled."""
        settings = self._settings
        try:
            while settings.listen:
                try:
                    await self._answering.start(read_address(settings.listen))
                except OSError as error:
                    LOG.warning(
                        "probes of other clusters are not answered",
                        address=settings.listen,
                        problem=str(error),
                    )
                    await asyncio.sleep(_LISTEN_AGAIN_S)
                else:
                    break
            await asyncio.Event().wait()
        finally:
            await self._answering.close()
            self.follow(())

    def follow(self, peers: Sequence[Peer]) -> None:
        """From now on probe these, and nobody else; what was measured of one at another address is
        void.
        """
        wanted = {key for peer in peers[:_MOST_PEERS] if (key := self._key(peer)) is not None}
        for key in self._probing.keys() - wanted:
            self._probing.pop(key).cancel()
            del self._links[key]
        for key in wanted - self._probing.keys():
            link = self._links[key] = PeerLink()
            self._probing[key] = asyncio.create_task(
                self._keep_probing(key, link), name=f"probe {key[0]}"
            )

    def _key(self, peer: Peer) -> tuple[str, str, ProbeAddress] | None:
        if not peer.probe or not peer.uid or not self._settings.allow:
            return None
        try:
            address = read_address(peer.probe)
        except ValueError:
            return None
        return (peer.cluster, peer.uid, address) if self._settings.may_probe(address) else None

    async def _keep_probing(self, key: tuple[str, str, ProbeAddress], link: PeerLink) -> None:
        _, uid, address = key
        await asyncio.sleep(random.uniform(0.0, min(self._settings.interval_s, 2.0)))
        while True:
            link.took(await probe(address, uid), time.monotonic())
            await asyncio.sleep(self._settings.interval_s * random.uniform(0.5, 1.5))

    def readings(self) -> tuple[LinkReading, ...]:
        """What is known now of each way."""
        now = time.monotonic()
        found = (
            link.reading(cluster, now)
            for (cluster, _, _), link in sorted(self._links.items(), key=_by_cluster)
        )
        return tuple(one for one in found if one is not None)


def _by_cluster(item: tuple[tuple[str, str, ProbeAddress], PeerLink]) -> str:
    return item[0][0]
