"""A fleet's authority and the dispatcher's signing key, and messages as the leader seals them."""

import datetime as dt
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from dispatcher.config.sections import SigningSection
from dispatcher.service.gateway.authority import SIGNING, ensure
from dispatcher.service.links.signing import read_signing_key
from shared.security.leader_certificate import LEADER_URI
from shared.security.seals import LIFE_S, ORDERS, Audience, Header, SigningKey, seal

# A while ahead: what a test makes is valid from a few minutes before the real time on, and many tests run before it.
NOW = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)).timestamp()
AUDIENCE = Audience("a", "a-cluster-uid", "agent-life")
_NUMBERS = count(1000)
NAMED = x509.UniformResourceIdentifier


def signing_section(folder: Path) -> SigningSection:
    """As dispatcher.yaml says it."""
    return SigningSection(cert_file=str(folder / f"{SIGNING}.crt"), key_file=str(folder / f"{SIGNING}.key"))


def make_fleet(folder: Path) -> SigningKey:
    """An authority in the folder, and the dispatcher's key."""
    ensure(folder, ["localhost"], ["a"])
    return read_signing_key(signing_section(folder))


def certified(
    folder: Path,
    names: Sequence[x509.GeneralName] = (NAMED(LEADER_URI),),
    *,
    days: tuple[int, int] = (-1, 90),
    is_authority: bool = False,
    key: Any = None,
) -> SigningKey:
    """Another key that this authority has certified, for whatever it says."""
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signs = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(signs, ec.EllipticCurvePrivateKey)
    key, now = key or ed25519.Ed25519PrivateKey.generate(), dt.datetime.fromtimestamp(NOW, dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=days[0]))
        .not_valid_after(now + dt.timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(signs, hashes.SHA256())
    )
    return SigningKey(key, made.public_bytes(serialization.Encoding.DER))


def header(
    kind: str = ORDERS,
    audience: tuple[str, str, str] = AUDIENCE,
    *,
    epoch: int = 1,
    expires: float = NOW + LIFE_S,
    number: int = 1,
    life: str = "life",
) -> Header:
    """What a leader signs beside a message."""
    cluster, uid, incarnation = audience
    return Header(kind, cluster, uid, epoch, expires, life, number, incarnation)


def sealed(key: SigningKey, body: bytes, told: Header | None = None) -> bytes:
    """The seal of a message, with a number of its own unless `told` says one."""
    return seal(key, told or header(number=next(_NUMBERS)), body)
