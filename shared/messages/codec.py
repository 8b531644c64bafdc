"""Messages as msgpack bytes, and back."""

import re
from typing import Any, TypeVar

import msgspec

from shared.messages.intents import IntentBatch
from shared.messages.outcomes import OutcomeBatch
from shared.messages.peers import Peers, PeersAck
from shared.messages.reports import Changes, Hello
from shared.messages.telemetry import Telemetry
from shared.messages.version import VERSION
from shared.model.bounds import MAX_ANSWER, MAX_BYTES
from shared.model.pod import Record

T = TypeVar("T", bound=Record)
_PLACE = re.compile(
    r"\$\[(\d+)\]"
)  # of a field, as msgspec tells it of a struct that is an array on the wire
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind)
    for kind in (Hello, Changes, IntentBatch, OutcomeBatch, Peers, PeersAck, Telemetry)
}
_SHORTER = {
    Hello: MAX_ANSWER,
    OutcomeBatch: MAX_ANSWER,
    PeersAck: MAX_ANSWER,
    Telemetry: MAX_ANSWER,
}


class WireError(ValueError):
    """Bytes from a peer that are not what was expected; the text says what and from which version."""


def encode(message: Record) -> bytes:
    """A message as msgpack bytes."""
    return _ENCODER.encode(message)


def encode_part(part: Record) -> msgspec.Raw:
    """What many messages have in common, encoded once: it stands in each of them for the part."""
    return msgspec.Raw(_ENCODER.encode(part))


def decode(kind: type[T], data: bytes) -> T:
    """Read bytes from a peer; WireError for anything that is not a `kind` of our version, or beyond
    its bounds.
    """
    most = _SHORTER.get(kind, MAX_BYTES)
    if len(data) > most:
        raise WireError(f"a {kind.__name__} of {len(data)} bytes: {most} are taken at most")
    try:
        message: T = _DECODERS[kind].decode(data)
    except (RecursionError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"not a {kind.__name__}: {_with_field(kind, str(error))}") from None
    version = getattr(message, "version", VERSION)
    if version != VERSION:
        raise WireError(
            f"{kind.__name__} has version {version}, this side speaks {VERSION}: upgrade the "
            "older side"
        )
    return message


def _with_field(kind: type[Record], error: str) -> str:
    """msgspec's words, with the name of the field in place of its number."""
    fields = kind.__struct_fields__
    return _PLACE.sub(
        lambda found: f"$.{fields[int(found[1])]}" if int(found[1]) < len(fields) else found[0],
        error,
        1,
    )
