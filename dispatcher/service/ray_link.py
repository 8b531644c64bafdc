"""A Ray actor as an agent link: what is sealed and read here crosses by a `Caller`, so this process needs no Ray."""

from typing import Protocol

from dispatcher.service.link import Arrived, Word, at_once, read
from dispatcher.service.signing import NO_SIGNER, Sealer
from shared.messages import Changes, Hello, IntentBatch, OutcomeBatch, Peers, PeersAck, Telemetry, encode
from shared.security.seals import ORDERS, PEERS, Audience


class Caller(Protocol):
    """Calls methods of the actor of one cluster."""

    @property
    def cluster(self) -> str:
        """Whose actor it is."""
        ...

    async def call(self, method: str, timeout_s: float, *words: Word) -> bytes:
        """What the actor answers. LinkError, also after `timeout_s`."""
        ...


class RayLink:
    """The actor of one cluster."""

    executor_apart: bool | None = None

    def __init__(self, caller: Caller, sealer: Sealer = NO_SIGNER) -> None:
        """`sealer` signs what the actor acts on."""
        self.cluster = caller.cluster
        self._call = caller.call
        self._sealer = sealer
        self._audience = Audience(self.cluster, "", "")  # as it last told

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is."""
        told = read(Hello, await self._call("hello", timeout_s), self.cluster)
        self._audience = Audience(self.cluster, told.cluster_uid or self._audience.uid, told.incarnation)
        return told

    async def changes(
        self, incarnation: str, since: int, wait_s: float, *, timeout_s: float, arrived: Arrived = at_once
    ) -> Changes:
        """What changed after `since`."""
        answer = await self._call("changes", timeout_s, incarnation, since, wait_s)
        await arrived(answer)
        told = read(Changes, answer, self.cluster)
        self._audience = Audience(self.cluster, told.cluster_uid or self._audience.uid, told.incarnation)
        return told

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents."""
        words = self._sealed(ORDERS, encode(batch), batch.dispatcher_epoch)
        return read(OutcomeBatch, await self._call("execute", timeout_s, *words), self.cluster)

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show. Agents of the version before leases answer nothing."""
        words = self._sealed(PEERS, encode(peers), peers.dispatcher_epoch)
        answer = await self._call("set_peers", timeout_s, *words)
        return read(PeersAck, answer, self.cluster) if answer else PeersAck(self.cluster)

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """How its sources of live load do. AgentMismatch: an agent of the version before does not tell."""
        return read(Telemetry, await self._call("telemetry", timeout_s), self.cluster)

    def _sealed(self, kind: str, body: bytes, epoch: int) -> tuple[bytes, ...]:
        """The bytes and their seal, if there is one: actors of the version before take no second word."""
        made = self._sealer.seal(kind, body, epoch, self._audience)
        return (body, made) if made else (body,)
