"""Whom the gateway trusts, who it is, and which cluster a certificate is of."""

import re
import ssl
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509

from dispatcher.config.certificates import ROLES, URI
from dispatcher.config.sections import GatewaySection

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CRL = "X509 CRL"
_DAY_S = 86_400.0
# more than SOON of dispatcher.config.certificates, from when on people are warned
_SHOW_AGAIN_S = 21 * _DAY_S


class Refresh(Enum):
    """What came of a look at the files. NARROWER: read, and some who were trusted may be no more."""

    SAME = "same"
    READ = "read"
    NARROWER = "narrower"


class ServerTls:
    """The gateway's TLS. `context` is another one whenever files have changed: one that exists
    never forgets.
    """

    def __init__(self, section: GatewaySection) -> None:
        """OSError, ssl.SSLError: a file is missing or is none."""
        self._section = section
        self._read_at = self._changed_at()
        self._trusted = _pem_blocks(section.client_ca_file)
        self.context = self._made(self._trusted)

    def _made(self, trusted: frozenset[tuple[str, str]]) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self._section.cert_file, self._section.key_file)
        context.load_verify_locations(self._section.client_ca_file)
        if any(kind == _CRL for kind, _ in trusted):
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        return context

    def _changed_at(self) -> tuple[tuple[int, int, int], ...]:
        section = self._section
        files = (
            Path(file).stat()
            for file in (section.cert_file, section.key_file, section.client_ca_file)
        )
        return tuple((found.st_mtime_ns, found.st_size, found.st_ino) for found in files)

    def refresh(self) -> Refresh:
        """Read files that have changed. OSError, ssl.SSLError: what was read before holds."""
        found = self._changed_at()
        before = self._trusted
        if found == self._read_at:
            return Refresh.SAME
        trusted = _pem_blocks(self._section.client_ca_file)
        narrower = _without_lists(before) - trusted or _revoked(trusted) - _revoked(before)
        self.context = self._made(trusted)
        self._read_at = found
        self._trusted = trusted
        return Refresh.NARROWER if narrower else Refresh.READ


def _without_lists(blocks: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset(one for one in blocks if one[0] != _CRL)


def _revoked(blocks: frozenset[tuple[str, str]]) -> frozenset[tuple[bytes, int]]:
    """(issuer, serial number) of all that revocation lists name: a renewed list that names nobody
    new cuts nobody.
    """
    return frozenset(one for kind, text in blocks if kind == _CRL for one in _named_by(text))


def _named_by(text: str) -> Iterator[tuple[bytes, int]]:
    """A list that OpenSSL reads and this library does not stands for itself: a change of it may
    name somebody new.
    """
    try:
        listed = x509.load_der_x509_crl(b64decode(text))
        yield from [(listed.issuer.public_bytes(), revoked.serial_number) for revoked in listed]
    # Of whatever kind: of a version that it does not know, x509.InvalidVersion, no ValueError.
    except Exception:
        yield text.encode(), 0


def _pem_blocks(file: str) -> frozenset[tuple[str, str]]:
    """(kind, text) of each block of a PEM file."""
    text = Path(file).read_text("ascii", "replace")
    return frozenset((found[1], "".join(found[2].split())) for found in _PEM.finditer(text))


class Named(NamedTuple):
    """Whom a certificate is of: a cluster ('': none), and of which half of its agent ('': of the
    whole).
    """

    cluster: str = ""
    role: str = ""

    def __str__(self) -> str:
        return f"{self.cluster or 'no cluster'}/{self.role}".removesuffix("/")


def named_in(certificate: Mapping[str, Any]) -> Named:
    """Whom a verified certificate is of (as ssl's getpeercert gives it); of nobody if it names
    several.
    """
    names = [
        value
        for kind, value in certificate.get("subjectAltName", ())
        if kind == "URI" and value.startswith(URI)
    ]
    if len(names) != 1:
        return Named()
    cluster, slash, role = names[0].removeprefix(URI).partition("/")
    return Named(cluster, role) if role in ROLES or not slash else Named()


def connection_s(left_s: float) -> float:
    """How long a connection may last whose certificate ends in `left_s` seconds.

    Agents read their files when they connect. So that one whose certificate was renewed (`join`
    does it from 30 days before the end) shows the new one before anybody is warned of the old,
    connections end 21 days before their certificates, and each day from then on: 90 days last 69,
    10 days last 1, an hour lasts an hour.
    """
    return left_s - _SHOW_AGAIN_S if left_s > _SHOW_AGAIN_S + _DAY_S else min(left_s, _DAY_S)


def remaining_s(certificate: Mapping[str, Any]) -> float:
    """Seconds until it expires."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()
