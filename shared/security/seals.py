"""The leader's signature on a message to an agent: who is meant, until when it is good, and that
nothing was changed.

A *seal* travels beside the message, so that agents that know none read the message as ever. It is
made over the message's bytes as they are sent, once for each message, by an Ed25519 key that the
fleet's authority has certified for the dispatcher (`shared.security.leader_certificate`). Whoever
passes bytes on (a gateway) has no such key.
"""

from hashlib import sha256
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.model.pod import Record

MAX_SEAL = 16 * 1024  # bytes, most of them the certificate
# how long what is signed is good: longer than any dispatcher waits for an answer by default
LIFE_S = 60.0
# what is sealed: an IntentBatch, a Peers
ORDERS = "orders"
PEERS = "peers"
_PREFIX = b"global-dispatcher order 1\n"  # so that the signature is good for nothing else


class Audience(NamedTuple):
    """For whom a message is: a cluster as the fleet calls it, the UID of its kube-system namespace,
    and the life of the agent's process. '' is not known yet.
    """

    cluster: str
    uid: str
    incarnation: str


class Header(Record, frozen=True):
    """What is signed beside the message. The audience is `cluster`, as the fleet calls it, with
    `cluster_uid`, the UID of its kube-system namespace, and `incarnation`, the life of the agent's
    process: what it remembers of orders that were given up ends with that, so no order is good for
    the next one.

    `kind`: ORDERS or PEERS. `expires`: seconds since 1970. `life` names one life of a dispatcher's
    process, `number` grows with each message that it seals. `epoch`: of the dispatcher, as in the
    message.
    """

    kind: str
    cluster: str
    cluster_uid: str
    epoch: int
    expires: float
    life: str
    number: int
    incarnation: str


class Seal(Record, frozen=True):
    """A header as it was signed, the signature, and the certificate (DER) of the key that made it."""

    header: bytes
    signature: bytes
    certificate: bytes


class SigningKey(NamedTuple):
    """A private key and its certificate (DER)."""

    key: Ed25519PrivateKey
    certificate: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_SEAL = msgspec.msgpack.Decoder(Seal)
_HEADER = msgspec.msgpack.Decoder(Header)


def seal(signing: SigningKey, header: Header, body: bytes) -> bytes:
    """The seal of these bytes."""
    head = _ENCODE(header)
    return _ENCODE(Seal(head, signing.key.sign(_signed(head, body)), signing.certificate))


def read_seal(data: bytes) -> Seal | None:
    """A seal as it came, not verified; None for what is none."""
    if len(data) > MAX_SEAL:
        return None
    try:
        return _SEAL.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read_header(taken: Seal, key: Ed25519PublicKey, body: bytes) -> Header | None:
    """The header, if this key has signed it for these bytes; nothing is decoded before that is
    known.
    """
    try:
        key.verify(taken.signature, _signed(taken.header, body))
        return _HEADER.decode(taken.header)
    except (InvalidSignature, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _signed(header: bytes, body: bytes) -> bytes:
    # The digest first: Ed25519 would hash the whole message twice, and by a slower function.
    return b"".join((_PREFIX, len(header).to_bytes(4), header, sha256(body).digest()))
