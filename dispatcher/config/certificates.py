"""Whether PEM files of TLS can be used: there, readable, of the right time, and the key that of the
certificate.
"""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from shared.security.leader_certificate import is_for
from shared.security.revocation_lists import lists_of, revocation_lists

URI = "spiffe://global-dispatcher.io/cluster/"  # https://spiffe.io/docs, "SPIFFE ID"
ROLES = ("observer", "executor")  # whose processes may have a certificate of their own
SERVER = "server"
CLIENT = "client"
_USES = {SERVER: ExtendedKeyUsageOID.SERVER_AUTH, CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH}
SOON = dt.timedelta(days=14)  # before its end a file is worth a word
_List = x509.CertificateRevocationList
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----")
_DAY = "%Y-%m-%d %H:%M UTC"


class FileProblem(NamedTuple):
    """What is wrong with the file that this key names."""

    key: str
    text: str


class PairFiles(NamedTuple):
    """A certificate and its key. `use`: the end of TLS at which it is shown, of `_USES`; "" for
    neither.
    """

    cert_file: str
    key_file: str
    use: str = ""


def uri_of(cluster: str, role: str = "") -> str:
    """Of the certificate of a cluster's agent; with one of ROLES, of that half of it."""
    return f"{URI}{cluster}/{role}" if role in ROLES else URI + cluster


def pair_problems(files: PairFiles, now: dt.datetime | None) -> Iterator[FileProblem]:
    """What keeps these from being presented: the first certificate of the file is ours. None: at
    any time.
    """
    certificates = _certificates(files.cert_file)
    key = _read(files.key_file)
    if isinstance(certificates, str):
        yield FileProblem("cert_file", certificates)
    else:
        yield from (
            FileProblem("cert_file", text)
            for text in _time_problems(certificates[0], files.cert_file, now)
        )
        if files.use and not is_for(certificates[0], _USES[files.use]):
            text = (
                f"{files.cert_file} is of no {files.use}, by its extended key usage: name the "
                "file made for that"
            )
            yield FileProblem("cert_file", text)
    if isinstance(key, str):
        yield FileProblem("key_file", key)
        return
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        text = (
            f"{files.key_file} holds no private key without a password (PEM): "
            f"{_held(key, 'private key')}"
        )
        yield FileProblem("key_file", text)
        return
    if not isinstance(certificates, str) and private.public_key() != certificates[0].public_key():
        text = f"{files.key_file} is not the key of {files.cert_file}: make or copy both together"
        yield FileProblem("key_file", text)


def authority_problems(
    key: str, file: str, now: dt.datetime | None, *, itself_too: bool = False
) -> Iterator[FileProblem]:
    """What is wrong with a file of authorities, which the key `key` names; one of them that is good
    is enough.

    `itself_too`: a certificate that nobody else has signed is one, as that of a server may be.
    """
    certificates = _certificates(file)
    if isinstance(certificates, str):
        yield FileProblem(key, certificates)
        return
    signers = [
        one for one in certificates if _signs(one) or (itself_too and one.issuer == one.subject)
    ]
    if signers:
        yield from (FileProblem(key, text) for text in untimely(signers, file, now))
        return
    text = (
        f"{file} holds no authority: the certificate of "
        f"{certificates[0].subject.rfc4514_string() or 'nobody'} may not "
        "sign others (CA:FALSE): name the file of who signed, such as ca.crt"
    )
    yield FileProblem(key, text)


def _signs(certificate: x509.Certificate) -> bool:
    """Whether it may sign others, as OpenSSL takes it (X509_check_ca)."""
    try:
        found = certificate.extensions
    except ValueError:  # extensions of an unknown kind: not ours to judge
        return True
    usage = [one.value for one in found if isinstance(one.value, x509.KeyUsage)]
    if any(not one.key_cert_sign for one in usage):
        return False
    basic = [one.value for one in found if isinstance(one.value, x509.BasicConstraints)]
    if basic:
        return basic[0].ca
    return bool(usage) or certificate.version == x509.Version.v1


def untimely(
    certificates: Sequence[x509.Certificate], name: str, now: dt.datetime | None
) -> Iterator[str]:
    """Why none of what `name` holds is good at this time; nothing if one is."""
    wrong = [list(_time_problems(one, name, now)) for one in certificates]
    if all(wrong):
        yield wrong[0][0]


def list_problems(key: str, file: str, now: dt.datetime | None) -> Iterator[FileProblem]:
    """Authorities whose clusters are all refused for want of a good revocation list, in a file that
    holds any.
    """
    certificates = _certificates(file)
    lists = _lists(file)
    if isinstance(lists, str):
        yield FileProblem(key, lists)
    elif lists and now is not None and not isinstance(certificates, str):
        for one in certificates:
            if not any(_until(found) > now for found in lists_of(one, lists)):
                yield FileProblem(key, _no_list(file, one, lists))


def _no_list(file: str, authority: x509.Certificate, lists: list[_List]) -> str:
    ends = [_until(one) for one in lists_of(authority, lists)]
    what = (
        f"expired at {max(ends).strftime(_DAY)}"
        if ends
        else "is missing, though the file has one of another"
    )
    return (
        f"{file}: the revocation list of {authority.subject.rfc4514_string()} {what}, so all its "
        "clusters are refused: "
        "make a new one (`global-dispatcher certificates` does where it has the authority's key)"
    )


def expiring(key: str, file: str, now: dt.datetime) -> Iterator[FileProblem]:
    """What of a file is good now, and ends soon."""
    certificates = _certificates(file)
    lists = _lists(file)
    ends = (
        []
        if isinstance(certificates, str)
        else [("a certificate", one.not_valid_after_utc) for one in certificates]
    )
    ends += [] if isinstance(lists, str) else [("a revocation list", _until(one)) for one in lists]
    for what, until in ends:
        if now < until <= now + SOON:
            yield FileProblem(key, f"{what} in {file} expires at {until.strftime(_DAY)}: renew it")


def list_end(file: str) -> dt.datetime | None:
    """When the first of a file's revocation lists expires; None where there is none, or it cannot
    be read.
    """
    lists = _lists(file)
    return None if isinstance(lists, str) else min(map(_until, lists), default=None)


def _until(one: _List) -> dt.datetime:
    return one.next_update_utc or dt.datetime.max.replace(tzinfo=dt.UTC)


def _lists(file: str) -> list[_List] | str:
    data = _read(file)
    if isinstance(data, str):
        return []  # told of its certificates
    try:
        return revocation_lists(data)
    except ValueError as error:
        return f"{file} holds a revocation list that cannot be read: {error}"


def uris_of(file: str) -> tuple[str, ...]:
    """The URIs of a certificate's subject alternative names; empty for a file that holds none."""
    certificates = _certificates(file)
    if isinstance(certificates, str):
        return ()
    try:
        names = (
            certificates[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(names.get_values_for_type(x509.UniformResourceIdentifier))


def _read(file: str) -> bytes | str:
    """What a file holds, or why it cannot be read."""
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        return f"there is no file {file}"
    except OSError as error:
        return f"{file} cannot be read: {error.strerror or error}"


def _certificates(file: str) -> list[x509.Certificate] | str:
    data = _read(file)
    if isinstance(data, str):
        return data
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        return f"{file} holds no certificate (PEM): {_held(data, 'certificate')}"


def _held(data: bytes, wanted: str) -> str:
    """What there is in a file in which nothing `wanted` can be read."""
    if not data.strip():
        return "it is empty"
    kinds = sorted({kind.decode().lower() for kind in _PEM.findall(data)})
    if not kinds:
        return "nothing in it begins with -----BEGIN"
    if wanted == "private key" and b"ENCRYPTED" in data:
        return "it has one with a password: `openssl pkey -in OLD -out NEW` writes it without"
    if any(kind.endswith(wanted) for kind in kinds):
        return f"its block of {' and '.join(kinds)} is cut off or spoilt"
    return f"it has a block of {' and '.join(kinds)}, of another file"


def _time_problems(
    certificate: x509.Certificate, file: str, now: dt.datetime | None
) -> Iterator[str]:
    if now is None:
        return
    if certificate.not_valid_after_utc <= now:
        yield f"{file} expired at {certificate.not_valid_after_utc.strftime(_DAY)}: renew it (docs/connectivity.md)"
    elif certificate.not_valid_before_utc > now:
        begins = certificate.not_valid_before_utc.strftime(_DAY)
        yield f"{file} is not valid before {begins}: compare the clocks of this machine and of who made it"
