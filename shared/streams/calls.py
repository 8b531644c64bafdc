"""The calls of a dispatcher, as they cross a connection: which there are, and how urgent each is."""

from typing import Protocol

import msgspec

from shared.messages import Changes, Hello, IntentBatch, OutcomeBatch, Peers, PeersAck, Telemetry
from shared.streams import Priority

PATH = "/v1/clusters/"
# load balancers drop what is idle for 60 s; without an answer to a ping the connection is cut
HEARTBEAT_S = 15.0
# close code of a gateway to which another agent of this cluster, and this role, has connected
REPLACED = 4001
BOTH = "both"  # the roles of an agent's process
OBSERVER = "observer"
EXECUTOR = "executor"

HELLO = "hello"
CHANGES = "changes"
EXECUTE = "execute"
SET_PEERS = "set_peers"
TELEMETRY = "telemetry"
PRIORITIES = {
    HELLO: Priority.CONTROL,
    SET_PEERS: Priority.CONTROL,
    EXECUTE: Priority.INTENTS,
    CHANGES: Priority.CHANGES,
    TELEMETRY: Priority.TELEMETRY,
}


class Call(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is called. `incarnation`, `since` and `wait_s` are those of CHANGES, `body` the message
    of others.

    `seal`: the leader's signature on `body` (shared.security.seals), of EXECUTE and SET_PEERS.
    """

    method: str
    body: bytes = b""
    incarnation: str = ""
    since: int = 0
    wait_s: float = 0.0
    seal: bytes = b""


encode_call = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Call).decode


class Called(Protocol):
    """What is called of an agent (`agents.runtime.agent.Agent`)."""

    async def hello(self) -> Hello:
        """Who it is."""
        ...

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        """What changed since."""
        ...

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out intents."""
        ...

    async def set_peers(self, peers: Peers) -> PeersAck:
        """What proxy nodes shall show."""
        ...

    async def telemetry(self) -> Telemetry:
        """How sources of live load do."""
        ...
