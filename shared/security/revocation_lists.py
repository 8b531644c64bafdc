"""Revocation lists that stand beside authorities in a PEM file (RFC 5280, 5)."""

import re
from collections.abc import Iterable
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes

_List = x509.CertificateRevocationList
_LIST = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----\s*", re.DOTALL)


def revocation_lists(pem: bytes) -> list[_List]:
    """The revocation lists of a PEM file. ValueError: one of them is none."""
    return [x509.load_pem_x509_crl(found[0]) for found in _LIST.finditer(pem)]


def lists_of(authority: x509.Certificate, lists: Iterable[_List]) -> list[_List]:
    """Those that this authority has signed: two may have one name, as those of one fleet have."""
    return [one for one in lists if one.issuer == authority.subject and _signed(one, authority)]


def without_lists(pem: bytes) -> bytes:
    """The same file without them."""
    return _LIST.sub(b"", pem)


def _signed(one: _List, authority: x509.Certificate) -> bool:
    try:
        return one.is_signature_valid(
            cast("CertificateIssuerPublicKeyTypes", authority.public_key())
        )
    except TypeError:  # a kind of key that signs nothing
        return False
