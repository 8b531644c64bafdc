"""A cluster's connection to the gateway as an agent link."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agents.runtime.outbound.calls import CHANGES, EXECUTE, HELLO, SET_PEERS, TELEMETRY, Call
from dispatcher.model.messages import Changes, Hello, IntentBatch, OutcomeBatch, Peers, PeersAck, Telemetry, encode
from dispatcher.service.link import AgentMissing, read, within

if TYPE_CHECKING:
    from dispatcher.service.gateway.line import Line


class GatewayLink:
    """Calls go over the connection that the cluster has now. `find` says which that is, or why there is none."""

    def __init__(self, cluster: str, find: "Callable[[], Line | str]") -> None:
        self.cluster = cluster
        self._find = find

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is."""
        return read(Hello, await self._call(Call(HELLO), timeout_s), self.cluster)

    async def changes(self, incarnation: str, since: int, wait_s: float, *, timeout_s: float) -> Changes:
        """What changed after `since`."""
        call = Call(CHANGES, incarnation=incarnation, since=since, wait_s=wait_s)
        return read(Changes, await self._call(call, timeout_s), self.cluster)

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents."""
        return read(OutcomeBatch, await self._call(Call(EXECUTE, encode(batch)), timeout_s), self.cluster)

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show."""
        return read(PeersAck, await self._call(Call(SET_PEERS, encode(peers)), timeout_s), self.cluster)

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """How its sources of live load do."""
        return read(Telemetry, await self._call(Call(TELEMETRY), timeout_s), self.cluster)

    async def _call(self, call: Call, timeout_s: float) -> bytes:
        line = self._find()
        if isinstance(line, str):
            raise AgentMissing(f"agent of cluster {self.cluster} is not connected: {line}")
        return await within(line.call(call), timeout_s, self.cluster, call.method)
