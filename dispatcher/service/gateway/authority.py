"""Certificates of a fleet: an authority of its own, one for the gateway, one for each cluster
(X.509, ECDSA P-256), and one for the key with which the dispatcher signs orders (Ed25519).

`ensure` is idempotent: what is there and still good stays, so it can be run again for one more
cluster, or by a timer to renew. A private key is readable by its owner alone.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dispatcher.config.certificates import ROLES, uri_of
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.gateway.folder import Folder
from dispatcher.service.gateway.revocation import RECORD, issued, recorded, revoked_by, with_list
from shared.security.leader_certificate import LEADER_URI
from shared.security.revocation_lists import lists_of, revocation_lists

AUTHORITY_DAYS = 3650
LEAF_DAYS = 90
RENEW_AT = 1 / 3  # of the lifetime left
_SKEW = dt.timedelta(minutes=5)  # clocks of others may be behind
# So may ours be after a start with a wrong one, for which the agents that are started have theirs.
_SKEW_OF_YEARS = dt.timedelta(days=1)
_CURVE = ec.SECP256R1()
SIGNING = "signing"  # the files of the dispatcher's signing key
Key = ec.EllipticCurvePrivateKey
AnyKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in two files of one name."""

    certificate: x509.Certificate
    key: AnyKey


@dataclass(frozen=True)
class Authority:
    """Who signs."""

    certificate: x509.Certificate
    key: Key


@dataclass(frozen=True)
class Made:
    """What `ensure` did about one pair of files; `until` it is good."""

    file: Path
    made: bool
    until: dt.datetime


def ensure(
    folder: Path | Folder, hosts: Iterable[str], clusters: Iterable[str], *, days: int = LEAF_DAYS
) -> list[Made]:
    """Make what is missing or soon expires, each as .crt and .key: ca, gateway (for `hosts`) and
    with it signing, cluster-NAME for an agent that is one process, cluster-NAME.observer and
    cluster-NAME.executor for one that is two; each good for so many `days`.

    CommandError: a file cannot be read or written.
    """
    now = dt.datetime.now(dt.UTC)
    folder = _folder(folder)
    try:
        folder.make()
        authority, told = _authority(folder, now)
        revoked = _keep_list(folder, authority, now)
        found = [told]
        hosts = tuple(hosts)
        if hosts:
            found.append(
                _leaf(
                    folder,
                    "gateway",
                    authority,
                    [_host(one) for one in hosts],
                    (now, revoked),
                    days,
                )
            )
            found.append(_leaf(folder, SIGNING, authority, [_LEADER], (now, revoked), days))
        found += [
            _leaf(
                folder,
                name_of(cluster, role),
                authority,
                [_uri(cluster, role)],
                (now, revoked),
                days,
            )
            for cluster in clusters
            for role in ("", *ROLES)
        ]
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"{folder}: {error}") from None
    return found


def _folder(folder: Path | Folder) -> Folder:
    return folder if isinstance(folder, Folder) else Folder(folder)


@dataclass(frozen=True)
class Revoked:
    """Serial numbers of a cluster's certificates that would still be valid: taken back now, and
    before.
    """

    now: tuple[int, ...]
    before: tuple[int, ...]


def revoke(folder: Path | Folder, cluster: str) -> Revoked:
    """Put all certificates of a cluster that have not expired on the authority's list, which is in
    ca.crt.

    A later `ensure` makes another one, which is good. CommandError: none is known, or a file cannot
    be used.
    """
    now = dt.datetime.now(dt.UTC)
    stems = [name_of(cluster, role) for role in ("", *ROLES)]
    folder = _folder(folder)
    try:
        authority = _authority_in(folder, "ca")
        if authority is None:
            raise CommandError(
                f"{folder} holds no authority (ca.crt, ca.key): name the folder that has it"
            )
        for stem in stems:
            if (held := _read(folder, stem)) is not None:
                _record(folder, stem, held.certificate)
        known = issued(folder)
        serials = [one for one, (name, until) in known.items() if name in stems and until > now]
        if not any(name in stems for name, _ in known.values()):
            signed = (
                name.removeprefix("cluster-")
                for name, _ in known.values()
                if name.startswith("cluster-")
            )
            names = sorted(name.partition(".")[0] for name in signed)
            text = (
                f"{folder} has made no certificate of cluster {cluster!r}; known: "
                f"{', '.join(dict.fromkeys(names))}"
            )
            raise CommandError(text, ExitCode.NOT_FOUND)
        pem = folder.need("ca.crt")
        listed = revoked_by(authority.certificate, pem)
        fresh = tuple(one for one in serials if one not in listed)
        if fresh:
            folder.write(
                "ca.crt", with_list(pem, (authority.certificate, authority.key), fresh, now), 0o644
            )
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"{folder}: {error}") from None
    return Revoked(fresh, tuple(one for one in serials if one in listed))


def _keep_list(folder: Folder, authority: Authority, now: dt.datetime) -> frozenset[int]:
    """Sign the authority's list anew where others made it to end soon; the serial numbers on it."""
    pem = folder.need("ca.crt")
    mine = lists_of(authority.certificate, revocation_lists(pem))
    ends = [one.next_update_utc for one in mine if one.next_update_utc is not None]
    if ends and min(ends) < min(
        now + dt.timedelta(days=LEAF_DAYS), authority.certificate.not_valid_after_utc
    ):
        folder.write(
            "ca.crt", with_list(pem, (authority.certificate, authority.key), (), now), 0o644
        )
    return revoked_by(authority.certificate, pem)


def _record(folder: Folder, stem: str, certificate: x509.Certificate) -> None:
    if (text := recorded(folder, stem, certificate)) is not None:
        folder.write(RECORD, text, 0o644)


_LEADER = x509.UniformResourceIdentifier(LEADER_URI)


def name_of(cluster: str, role: str = "") -> str:
    """The files of a cluster's certificate, without .crt and .key."""
    return f"cluster-{cluster}.{role}" if role else f"cluster-{cluster}"


def _uri(cluster: str, role: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(uri_of(cluster, role))


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _authority(folder: Folder, now: dt.datetime) -> tuple[Authority, Made]:
    if folder.has("ca.crt") != folder.has("ca.key"):
        raise ValueError(
            "ca.crt and ca.key belong together, and one of them is missing: put it back"
        )
    if (pair := _authority_in(folder, "ca")) is not None:
        return pair, Made(
            folder.path / "ca.crt", made=False, until=pair.certificate.not_valid_after_utc
        )
    authority = _new_authority(now)
    return authority, _written(folder, "ca", Pair(authority.certificate, authority.key))


def _new_authority(now: dt.datetime) -> Authority:
    key = ec.generate_private_key(_CURVE)
    name = _named("global-dispatcher fleet")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def serving_files(host: str) -> dict[str, bytes]:
    """A server's certificate, of an authority that signs nothing more, as of a Secret: tls.crt,
    tls.key, ca.crt.
    """
    now = dt.datetime.now(dt.UTC)
    key = ec.generate_private_key(_CURVE)
    authority = _new_authority(now)
    pem = serialization.Encoding.PEM
    return {
        "tls.crt": _certified(
            "server", authority, [_host(host)], key, (now, AUTHORITY_DAYS)
        ).public_bytes(pem),
        "tls.key": key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        "ca.crt": authority.certificate.public_bytes(pem),
    }


def _leaf(
    folder: Folder,
    stem: str,
    authority: Authority,
    names: list[x509.GeneralName],
    at: tuple[dt.datetime, frozenset[int]],
    days: int,
) -> Made:
    """`at`: the time, and the serial numbers that are revoked."""
    now, revoked = at
    pair = _read(folder, stem)
    if pair is not None:
        _record(folder, stem, pair.certificate)  # an earlier build kept no record
    if (
        pair is not None
        and pair.certificate.serial_number not in revoked
        and _good(pair, authority.certificate, names, now)
    ):
        return Made(
            folder.path / f"{stem}.crt", made=False, until=pair.certificate.not_valid_after_utc
        )
    signs = names == [_LEADER]
    key: AnyKey = ed25519.Ed25519PrivateKey.generate() if signs else ec.generate_private_key(_CURVE)
    certificate = _certified(stem, authority, names, key, (now, days))
    _record(folder, stem, certificate)
    return _written(folder, stem, Pair(certificate, key))


def _certified(
    name: str,
    authority: Authority,
    names: list[x509.GeneralName],
    key: AnyKey,
    at: tuple[dt.datetime, int],
) -> x509.Certificate:
    """`at`: from when, and for how many days."""
    now, days = at
    of_host = not isinstance(names[0], x509.UniformResourceIdentifier)
    usage = ExtendedKeyUsageOID.SERVER_AUTH if of_host else ExtendedKeyUsageOID.CLIENT_AUTH
    if names == [_LEADER]:
        usage = ExtendedKeyUsageOID.CODE_SIGNING  # which no end of TLS takes
    return (
        _builder(_named(name), authority.certificate.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .sign(authority.key, hashes.SHA256())
    )


def _good(
    pair: Pair, authority: x509.Certificate, names: list[x509.GeneralName], now: dt.datetime
) -> bool:
    """Whether it is of this authority and of this key, for these names, and has more than a third
    of its life left.
    """
    certificate = pair.certificate
    begin = certificate.not_valid_before_utc
    end = certificate.not_valid_after_utc
    try:
        certificate.verify_directly_issued_by(authority)
        written = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # any doubt: another is made
        return False
    same = certificate.public_key() == pair.key.public_key()
    return same and list(written) == names and end - now > (end - begin) * RENEW_AT


def _named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: AnyKey, now: dt.datetime, days: int
) -> x509.CertificateBuilder:
    skew = _SKEW if days < AUTHORITY_DAYS else _SKEW_OF_YEARS
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - skew)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _read(folder: Folder, stem: str) -> Pair | None:
    """The pair of both files, None where one is missing. ValueError: one is no such file, which the
    text names.
    """
    certificate = folder.read(f"{stem}.crt")
    key = folder.read(f"{stem}.key")
    if certificate is None or key is None:
        return None
    remedy = (
        "put your copy back"
        if stem == "ca"
        else f"delete {stem}.crt and {stem}.key, and they are made anew"
    )
    try:
        read = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        raise ValueError(
            f"{stem}.key is no private key in PEM without a password: {remedy}"
        ) from None
    if not isinstance(read, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise ValueError(f"{stem}.key is neither an ECDSA nor an Ed25519 key: {remedy}")
    try:
        return Pair(x509.load_pem_x509_certificate(certificate), read)
    except ValueError:
        raise ValueError(f"{stem}.crt is no certificate in PEM: {remedy}") from None


def read_authority(stem: Path) -> Authority | None:
    """Who signs, of these files; None where one is missing. OSError, ValueError, TypeError: one
    cannot be used.
    """
    return _authority_in(Folder(stem.parent), stem.name)


def _authority_in(folder: Folder, stem: str) -> Authority | None:
    pair = _read(folder, stem)
    if pair is None:
        return None
    if not isinstance(pair.key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{stem}.key is no ECDSA key")
    return Authority(pair.certificate, pair.key)


def _written(folder: Folder, stem: str, pair: Pair) -> Made:
    pem = serialization.Encoding.PEM
    key = pair.key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    folder.write(f"{stem}.key", key, 0o600)
    folder.write(f"{stem}.crt", pair.certificate.public_bytes(pem), 0o644)
    return Made(folder.path / f"{stem}.crt", made=True, until=pair.certificate.not_valid_after_utc)
