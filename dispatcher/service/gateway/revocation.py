"""What an authority has signed and taken back: a record of its certificates, and its revocation
list (RFC 5280, 5).

The list stands in the authority's own file, behind its certificate, where the gateway reads both.
It ends with the authority: who could put back an older file could as well take the list out, so a
short life would only lock all out.
"""

import datetime as dt
from collections.abc import Iterable, Mapping

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dispatcher.service.gateway.folder import Folder
from shared.security.revocation_lists import lists_of, revocation_lists, without_lists

RECORD = "issued.txt"  # SERIAL NAME UNTIL, a line each certificate


def issued(folder: Folder) -> dict[int, tuple[str, dt.datetime]]:
    """Serial number -> (name, until) of each recorded certificate. OSError, ValueError: the record
    cannot be read.
    """
    lines = (folder.read(RECORD) or b"").decode().splitlines()
    try:
        rows = [line.split() for line in lines if line.strip()]
        return {
            int(serial, 16): (name, dt.datetime.fromisoformat(until))
            for serial, name, until in rows
        }
    except ValueError as error:
        raise ValueError(f"{RECORD} has a line that is not `SERIAL NAME UNTIL`: {error}") from None


def recorded(folder: Folder, name: str, certificate: x509.Certificate) -> bytes | None:
    """The record with this certificate, too; None if it is there already."""
    known = issued(folder)
    if certificate.serial_number in known:
        return None
    rows = {**known, certificate.serial_number: (name, certificate.not_valid_after_utc)}
    lines = (f"{serial:x} {of} {until.isoformat()}\n" for serial, (of, until) in rows.items())
    return "".join(lines).encode()


def revoked_by(authority: x509.Certificate, pem: bytes) -> frozenset[int]:
    """Serial numbers on this authority's lists in a file. ValueError: one cannot be read."""
    return frozenset(_entries(authority, pem))


def _entries(authority: x509.Certificate, pem: bytes) -> dict[int, dt.datetime]:
    """Serial number -> since when."""
    mine = lists_of(authority, revocation_lists(pem))
    return {entry.serial_number: entry.revocation_date_utc for one in mine for entry in one}


def with_list(
    pem: bytes,
    pair: tuple[x509.Certificate, ec.EllipticCurvePrivateKey],
    serials: Iterable[int],
    now: dt.datetime,
) -> bytes:
    """A file of authorities with one list of this one, which names these serial numbers beside
    those of its old lists.

    ValueError: another authority in the file has no list, so with this one all its clusters would
    be refused.
    """
    authority, key = pair
    _check_others(authority, pem)
    since: Mapping[int, dt.datetime] = {**dict.fromkeys(serials, now), **_entries(authority, pem)}
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now - dt.timedelta(minutes=5))  # clocks of others may be behind
        .next_update(authority.not_valid_after_utc)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .add_extension(x509.CRLNumber(int(now.timestamp() * 1000)), critical=False)
    )
    for serial, at in since.items():
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(at).build()
        builder = builder.add_revoked_certificate(entry)
    known = revocation_lists(pem)
    mine = lists_of(authority, known)
    lists = (*(one for one in known if one not in mine), builder.sign(key, hashes.SHA256()))
    return without_lists(pem) + b"".join(
        one.public_bytes(serialization.Encoding.PEM) for one in lists
    )


def _check_others(authority: x509.Certificate, pem: bytes) -> None:
    lists = revocation_lists(pem)
    for other in x509.load_pem_x509_certificates(pem):
        if other != authority and not lists_of(other, lists):
            raise ValueError(
                f"ca.crt also holds the authority {other.subject.rfc4514_string()!r}, of which "
                "there is no revocation "
                "list: with a list of another one all its clusters would be refused; take it out, "
                "or add its list"
            )
