"""Whether a certificate is of the fleet's dispatcher, by an authority that an agent trusts: an
X.509 certificate that this authority itself has signed, with the one URI of the dispatcher and an
Ed25519 key.

The gateway's certificate and those of clusters come from the same authority; their names are
others.
"""

import datetime as dt
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.security.revocation_lists import lists_of, revocation_lists

LEADER_URI = "spiffe://global-dispatcher.io/dispatcher"
_TIME = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True)
class Authorities:
    """Whom an agent trusts to say who the dispatcher is; if there is any revocation list, each of
    them needs one.
    """

    certificates: tuple[x509.Certificate, ...]
    lists: tuple[x509.CertificateRevocationList, ...] = ()

    @classmethod
    def read(cls, pem: bytes) -> "Authorities":
        """Of a PEM file. ValueError: it has no certificate, or a block that is neither one nor a
        revocation list. Of a list that was cut off nobody knows what it revoked.
        """
        found = cls(tuple(x509.load_pem_x509_certificates(pem)), tuple(revocation_lists(pem)))
        if (blocks := pem.count(b"-----BEGIN ")) != len(found.certificates) + len(found.lists):
            kinds = "CERTIFICATE nor X509 CRL"
            raise ValueError(
                f"one of its {blocks} blocks is neither {kinds}, or is cut off: bring the whole "
                "file again"
            )
        return found


@dataclass(frozen=True)
class Issued:
    """A certificate and the authority that has signed it."""

    certificate: x509.Certificate
    authority: x509.Certificate


@dataclass(frozen=True)
class Leader(Issued):
    """A certificate that was found to be the dispatcher's."""

    key: Ed25519PublicKey


def leader_of(der: bytes, authorities: Authorities) -> Leader | str:
    """Whose certificate this is, or why it is not the dispatcher's. Times and lists are another
    matter: `objection`.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        if not der.endswith(
            b"\x00" + certificate.signature
        ):  # a bit string without unused bits, as of all signatures
            return "its certificate cannot be read: its signature is no whole number of bytes"
        return _leader_of(certificate, authorities)
    except (
        Exception
    ) as error:  # an odd version, extension or algorithm: the library has a class for each
        return f"its certificate cannot be read: {type(error).__name__}: {str(error)[:200]}"


def _leader_of(certificate: x509.Certificate, authorities: Authorities) -> Leader | str:
    key = certificate.public_key()
    uris = _uris(certificate)
    is_authority = _is_authority(certificate)
    if uris != (LEADER_URI,) or is_authority:
        named = ", ".join(uris)[:200] or "no URI"
        return f"its certificate is not of the dispatcher: it names {named}, not {LEADER_URI}"
    if not isinstance(key, Ed25519PublicKey):
        return "the key of its certificate is no Ed25519 key"
    found = issued_by(certificate, authorities)
    return found if isinstance(found, str) else Leader(certificate, found.authority, key)


def issued_by(certificate: x509.Certificate, authorities: Authorities) -> Issued | str:
    """Who has signed a certificate, or that none of these has."""
    for authority in authorities.certificates:
        if _issued(certificate, authority):
            return Issued(certificate, authority)
    return (
        "no authority in the file has signed its certificate (issuer "
        f"{certificate.issuer.rfc4514_string()[:200]})"
    )


def objection(issued: Issued, authorities: Authorities, now: dt.datetime) -> str:
    """Why this certificate is not good now; '' if it is."""
    for what, one in (
        ("its certificate", issued.certificate),
        ("the authority of its certificate", issued.authority),
    ):
        if now < one.not_valid_before_utc:
            return f"{what} is not valid before {one.not_valid_before_utc.strftime(_TIME)}"
        if now >= one.not_valid_after_utc:
            return f"{what} expired at {one.not_valid_after_utc.strftime(_TIME)}"
    if not authorities.lists:
        return ""
    lists = lists_of(issued.authority, authorities.lists)
    if not any(one.next_update_utc is None or now < one.next_update_utc for one in lists):
        return "the file of authorities has no revocation list of its authority that is still good"
    serial = issued.certificate.serial_number
    revoked = any(one.get_revoked_certificate_by_serial_number(serial) is not None for one in lists)
    return "its certificate was revoked" if revoked else ""


def _uris(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(names.get_values_for_type(x509.UniformResourceIdentifier))


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        if not _is_authority(authority):
            return False
        certificate.verify_directly_issued_by(authority)
    except Exception:  # of another authority, or with a key or an algorithm that signs nothing
        return False
    return True


def is_for(certificate: x509.Certificate, use: x509.ObjectIdentifier) -> bool:
    """Whether it is for this end of TLS; as OpenSSL has it, for any where none is named."""
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return use in uses
