"""The calls of a dispatcher, as they cross a connection: which there are, and how urgent each is."""

import msgspec

from dispatcher.model.streams import Priority

HELLO, CHANGES, EXECUTE, SET_PEERS, TELEMETRY = "hello", "changes", "execute", "set_peers", "telemetry"
PRIORITIES = {
    HELLO: Priority.CONTROL,
    SET_PEERS: Priority.CONTROL,
    EXECUTE: Priority.INTENTS,
    CHANGES: Priority.CHANGES,
    TELEMETRY: Priority.TELEMETRY,
}


class Call(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is called. `incarnation`, `since` and `wait_s` are those of CHANGES, `body` the message of others.

    `seal`: the leader's signature on `body` (dispatcher.model.seals), of EXECUTE and SET_PEERS.
    """

    method: str
    body: bytes = b""
    incarnation: str = ""
    since: int = 0
    wait_s: float = 0.0
    seal: bytes = b""


encode_call = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Call).decode
