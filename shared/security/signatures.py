"""Marks that no user can write: claims signed by the source cluster, delegates signed for by the
target cluster.

Every cluster has an Ed25519 key pair (RFC 8032); its executor alone holds the private key. Two
marks are signed:

- the *claim*, an annotation of the source pod: which pod goes where, at which attempt, with which
  manifest. The source cluster signs it; a copy on the delegate says on whose behalf that runs.
- the *proof*, an annotation of the delegate: the target cluster's signature over the delegate's own
  UID and its claim. The API server gives UIDs, so neither mark is worth anything on another pod.

A mark is text: unpadded URL-safe base64 of the signed bytes, a dot, and of the signature. Public
keys and vouching signatures are padded base64. Each has one spelling: what decodes to the same
bytes and is written otherwise (spare bits set, line breaks, the other alphabet) is no mark, and no
key.
"""

import hmac
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from itertools import islice

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.model.pod import Claim, Record, SourceRef

MAX_MARK = 4096  # characters
# of a cluster, the newest, that are believed: each costs a signature with every report, or every
# mark
MAX_KEYS = 16
# characters of a mark or proof that is remembered with what was found: users write what they like
MAX_KEPT = 1024
# What is signed begins with its purpose, so that no mark can be passed off as one of the other
# kind.
_CLAIM = b"global-dispatcher claim 1\n"
_PROOF = b"global-dispatcher proof 1\n"
_ASK = b"global-dispatcher ask 1\n"
_GIVEN = b"global-dispatcher given 1\n"
_PREEMPTOR = b"global-dispatcher preemptor 1\n"
_DIGEST = b"global-dispatcher digest 1\n"


class SignedClaim(Record, frozen=True):
    """What a claim says: `source` goes to `node` of the cluster `target`, as the manifest with this
    sha256 `digest`.

    `target_uid` is the UID of the target's kube-system namespace, "" if the source did not know it.
    `failover` is "lease" where the delegate is to stop by itself (see shared.model.leases), else
    "".
    """

    source: SourceRef
    target: str
    target_uid: str
    node: str
    digest: bytes
    failover: str = ""

    @property
    def claim(self) -> Claim:
        """The claim as placement needs it."""
        return Claim(self.target, self.node, self.source.epoch)


class Preemptor(Record, frozen=True):
    """What the cluster of a pod says when it is asked, before pods in another one, `target`, are
    evicted for it: that it waits for a place there, with this priority and PriorityClass ("" for a
    pod that goes without). The attempt in `source` is the question's. `requests`: what it needs of
    a node, as observers tell it; None: an agent of an older version.
    """

    source: SourceRef
    target: str
    priority: int
    priority_class: str = ""
    requests: dict[str, int] | None = None


class Mark(Record, frozen=True):
    """A mark taken apart: the `payload` that was signed, and the signature."""

    payload: bytes
    signature: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(SignedClaim).decode
_DECODE_PREEMPTOR = msgspec.msgpack.Decoder(Preemptor).decode


def public_key(key: Ed25519PrivateKey) -> str:
    """The public half, as it travels: base64 of its 32 bytes."""
    return b64encode(key.public_key().public_bytes_raw()).decode()


def sign_claim(key: Ed25519PrivateKey, claim: SignedClaim) -> str:
    """The claim as a mark."""
    payload = _ENCODE(claim)
    return _text(payload, key.sign(_CLAIM + payload))


def sign_proof(key: Ed25519PrivateKey, delegate_uid: str, claim: str) -> str:
    """The proof that the delegate with this UID was made for this claim (a mark)."""
    return _unpadded(key.sign(_proof_of(delegate_uid, claim)))


def read_claim(mark: str) -> SignedClaim | None:
    """What a claim says, whoever has signed it; None if it is none at all."""
    return _read_claim(mark) if len(mark) <= MAX_KEPT else _read_claim.__wrapped__(mark)


@lru_cache(maxsize=65_536)
def _read_claim(mark: str) -> SignedClaim | None:
    taken = _parts(mark)
    if taken is None:
        return None
    try:
        return _DECODE(taken.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_claim_of(keys: tuple[str, ...], mark: str) -> bool:
    """Whether one of these public keys has signed the claim."""
    judge = _is_claim_of if len(mark) <= MAX_KEPT else _is_claim_of.__wrapped__
    return judge(keys, mark)


@lru_cache(maxsize=65_536)
def _is_claim_of(keys: tuple[str, ...], mark: str) -> bool:
    taken = _parts(mark)
    return taken is not None and _any_signed(keys, _CLAIM + taken.payload, taken.signature)


def is_proof_of(keys: tuple[str, ...], delegate_uid: str, claim: str, proof: str) -> bool:
    """Whether one of these public keys has signed for the delegate with this UID and this claim."""
    judge = _is_proof_of if len(claim) + len(proof) <= MAX_KEPT else _is_proof_of.__wrapped__
    return judge(keys, delegate_uid, claim, proof)


@lru_cache(maxsize=65_536)
def _is_proof_of(keys: tuple[str, ...], delegate_uid: str, claim: str, proof: str) -> bool:
    signature = _bytes(proof)
    return bool(signature) and _any_signed(keys, _proof_of(delegate_uid, claim), signature)


def sign_preemptor(key: Ed25519PrivateKey, preemptor: Preemptor) -> str:
    """What the cluster says of the pod, as a mark."""
    payload = _ENCODE(preemptor)
    return _text(payload, key.sign(_PREEMPTOR + payload))


def read_preemptor(keys: Iterable[str], mark: str) -> Preemptor | None:
    """What a mark says, if one of these public keys has signed it."""
    taken = _parts(mark)
    if taken is None or not _any_signed(keys, _PREEMPTOR + taken.payload, taken.signature):
        return None
    try:
        return _DECODE_PREEMPTOR(taken.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def sign_ask(key: Ed25519PrivateKey, ask: bytes) -> bytes:
    """The signature over what a cluster asks of another one: see shared.messages.relay."""
    return key.sign(_ASK + ask)


def is_ask_of(keys: Iterable[str], ask: bytes, signature: bytes) -> bool:
    """Whether one of these public keys has signed what is asked."""
    return _any_signed(keys, _ASK + ask, signature)


def sign_given(key: Ed25519PrivateKey, ask: bytes, given: bytes) -> bytes:
    """The signature over what a cluster gives to another one in answer to this ask."""
    return key.sign(_given(ask, given))


def is_given_by(keys: Iterable[str], ask: bytes, given: bytes, signature: bytes) -> bool:
    """Whether one of these public keys has signed it, as the answer to this ask."""
    return _any_signed(keys, _given(ask, given), signature)


def _given(ask: bytes, given: bytes) -> bytes:
    return _GIVEN + sha256(ask).digest() + sha256(given).digest()


def digest_key(key: Ed25519PrivateKey, of: Iterable[str]) -> bytes:
    """The key of digests of what these words name: HMAC-SHA256 under the private key, by which
    nobody else finds it, and always the same.
    """
    words = msgspec.msgpack.encode(tuple(of))
    return hmac.digest(key.private_bytes_raw(), _DIGEST + words, "sha256")


def sign_key(key: Ed25519PrivateKey, successor: str) -> str:
    """A signature by an old key that vouches for its successor (a public key)."""
    return b64encode(key.sign(_SUCCESSOR + successor.encode())).decode()


def vouches(key: str, successor: str, signature: str) -> bool:
    """Whether the owner of the old public `key` signed that `successor` follows it."""
    return _any_signed((key,), _SUCCESSOR + successor.encode(), _padded(signature))


_SUCCESSOR = b"global-dispatcher successor 1\n"


def from_pinned(pinned: str, told: Iterable[str]) -> tuple[str, ...]:
    """Of a cluster's keys as they travel, newest first, those that follow from the pinned one, and
    that; () where it is not among the MAX_KEYS newest, or one after it lacks the signature of the
    next older one. Older ones prove nothing.
    """
    kept: list[str] = []
    for entry in islice(told, MAX_KEYS):
        key = entry.partition(" ")[0]
        if kept:
            newer, _, vouched = kept[-1].partition(" ")
            if not vouches(key, newer, vouched):
                return ()
        if key == pinned:
            return (*kept, key)
        kept.append(entry)
    return ()


def plain_keys(entries: Iterable[str]) -> tuple[str, ...]:
    """Public keys as a cluster tells them, without the signatures that vouch for them."""
    return tuple(entry.partition(" ")[0] for entry in entries)


def is_key(text: str) -> bool:
    """Whether it is a public key as one travels."""
    return _public(text) is not None


def digest_of(manifest: bytes) -> bytes:
    """What a claim says of its manifest: the sha256."""
    return sha256(manifest).digest()


def _proof_of(uid: str, claim: str) -> bytes:
    return _PROOF + uid.encode("utf-8", "replace") + b"\n" + claim.encode("utf-8", "replace")


def _text(payload: bytes, signature: bytes) -> str:
    return f"{_unpadded(payload)}.{_unpadded(signature)}"


def _unpadded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _parts(mark: str) -> Mark | None:
    payload, dot, signature = mark.partition(".")
    if not dot or len(mark) > MAX_MARK:
        return None
    read = Mark(_bytes(payload), _bytes(signature))
    return read if read.payload and read.signature else None


def _bytes(text: str) -> bytes:
    """What unpadded URL-safe base64 stands for, b'' if it is none."""
    if len(text) > MAX_MARK or not text.isascii():
        return b""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
    return raw if _unpadded(raw) == text else b""


def _padded(text: str) -> bytes:
    """What padded base64 stands for, b'' if it is none."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        return b""
    return raw if b64encode(raw).decode() == text else b""


def _any_signed(keys: Iterable[str], message: bytes, signature: bytes) -> bool:
    return any(_signed(key, message, signature) for key in keys)


def _signed(key: str, message: bytes, signature: bytes) -> bool:
    public = _public(key)
    if public is None:
        return False
    try:
        public.verify(signature, message)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=4096)
def _public(key: str) -> Ed25519PublicKey | None:
    try:
        return Ed25519PublicKey.from_public_bytes(_padded(key))
    except ValueError:
        return None
