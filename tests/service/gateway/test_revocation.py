"""Certificates that are taken back: which are meant, what the file holds then, and whom the gateway lets in."""

import asyncio
import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dispatcher.config.certificates import ROLES, expiring, list_end, list_problems
from dispatcher.config.sections import GatewaySection
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.gateway import authority
from dispatcher.service.gateway.authority import ensure, name_of, revoke
from dispatcher.service.gateway.certificates import Refresh, ServerTls
from dispatcher.service.gateway.folder import Folder
from dispatcher.service.gateway.revocation import RECORD, issued, revoked_by
from shared.security.revocation_lists import revocation_lists

HOSTS, CLUSTERS = ("localhost",), ("east", "west")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ensure(tmp_path, HOSTS, CLUSTERS)
    return tmp_path


def certificate(folder: Path, stem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{stem}.crt").read_bytes())


def serials(folder: Path, *clusters: str) -> set[int]:
    """Of all certificates of these clusters: of the whole agent, and of its two halves."""
    stems = [name_of(cluster, role) for cluster in clusters for role in ("", *ROLES)]
    return {certificate(folder, stem).serial_number for stem in stems}


def listed(folder: Path) -> frozenset[int]:
    return revoked_by(certificate(folder, "ca"), (folder / "ca.crt").read_bytes())


def made(folder: Path) -> set[str]:
    return {one.file.stem for one in ensure(folder, HOSTS, CLUSTERS) if one.made}


async def let_in(tls: ServerTls, folder: Path, cluster: str) -> bool:
    """Whether a server with this context takes the cluster's certificate, over a real connection."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=tls.context)
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client.load_cert_chain(folder / f"cluster-{cluster}.crt", folder / f"cluster-{cluster}.key")
    port = server.sockets[0].getsockname()[1]
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        line = await reader.readline()
        writer.close()
        return line == b"hello\n"
    except OSError:
        return False
    finally:
        server.close()


def tls_of(folder: Path) -> ServerTls:
    return ServerTls(
        GatewaySection(
            cert_file=str(folder / "gateway.crt"),
            key_file=str(folder / "gateway.key"),
            client_ca_file=str(folder / "ca.crt"),
        )
    )


async def test_a_revoked_certificate_is_refused_for_ever_and_the_next_one_is_let_in(folder: Path) -> None:
    tls = tls_of(folder)
    assert await let_in(tls, folder, "east")
    kept = folder / "kept"
    kept.mkdir()
    for name in ("ca.crt", "cluster-east.crt", "cluster-east.key"):
        (kept / name).write_bytes((folder / name).read_bytes())
    revoke(folder, "east")
    assert tls.refresh() is Refresh.NARROWER
    assert not await let_in(tls, folder, "east")
    assert await let_in(tls, folder, "west")
    assert made(folder) == {"cluster-east", "cluster-east.observer", "cluster-east.executor"}
    tls.refresh()
    assert await let_in(tls, folder, "east")
    assert not await let_in(tls, kept, "east")


def test_every_certificate_that_has_not_expired_is_meant_not_the_latest_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = serials(folder, "east")
    monkeypatch.setattr(authority, "RENEW_AT", 1.1)
    ensure(folder, (), ["east"])
    second = serials(folder, "east")
    assert not first & second
    assert set(revoke(folder, "east").now) == first | second
    assert listed(folder) == first | second


def test_repeating_it_changes_nothing(folder: Path) -> None:
    revoked = revoke(folder, "east").now
    before = (folder / "ca.crt").read_bytes()
    again = revoke(folder, "east")
    assert (again.now, again.before) == ((), revoked)
    assert (folder / "ca.crt").read_bytes() == before


def test_a_later_revocation_keeps_the_earlier_ones(folder: Path) -> None:
    revoke(folder, "east")
    revoke(folder, "west")
    assert listed(folder) == serials(folder, *CLUSTERS)
    assert len(revocation_lists((folder / "ca.crt").read_bytes())) == 1


def test_certificates_of_a_build_that_kept_no_record_are_meant_too(folder: Path) -> None:
    (folder / RECORD).unlink()
    assert set(revoke(folder, "east").now) == serials(folder, "east")
    (folder / RECORD).unlink()
    ensure(folder, (), ["west"])
    assert "cluster-west" in {name for name, _ in issued(Folder(folder)).values()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: None, "has made no certificate of cluster 'north'; known: east, west"),
        (lambda folder: (folder / "ca.key").unlink(), "holds no authority (ca.crt, ca.key)"),
        (lambda folder: (folder / RECORD).write_text("nonsense\n"), f"{RECORD} has a line that is not"),
    ],
    ids=["unknown", "no authority", "a record that is none"],
)
def test_what_cannot_be_revoked_is_told_with_the_fix(folder: Path, change: object, words: str) -> None:
    change(folder)  # type: ignore[operator]
    with pytest.raises(CommandError) as told:
        revoke(folder, "north")
    assert words in str(told.value)
    assert told.value.code in (ExitCode.NOT_FOUND, ExitCode.FAILED)


@pytest.mark.parametrize("name", ["another fleet", "global-dispatcher fleet"])
def test_a_second_authority_without_a_list_would_be_locked_out_so_nothing_is_done(folder: Path, name: str) -> None:
    (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes() + _authority_named(name))
    with pytest.raises(CommandError, match=f"also holds the authority 'CN={name}'"):
        revoke(folder, "east")
    assert listed(folder) == frozenset()


def _authority_named(name: str) -> bytes:
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(called).issuer_name(called).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(days=9))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def of_others(folder: Path, days: int) -> None:
    """A list as openssl makes it, for so many days from now."""
    ca = certificate(folder, "ca")
    key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    now = dt.datetime.now(dt.UTC)
    until = now + dt.timedelta(days=days)
    east = x509.RevokedCertificateBuilder().serial_number(certificate(folder, "cluster-east").serial_number)
    builder = x509.CertificateRevocationListBuilder().issuer_name(ca.subject).last_update(now - dt.timedelta(days=60))
    builder = builder.next_update(until).add_revoked_certificate(east.revocation_date(now).build())
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes() + pem)


@pytest.mark.parametrize(
    ("days", "problem", "note"), [(-1, "expired at", ""), (5, "", "a revocation list in"), (60, "", "")]
)
def test_a_list_that_ends_is_told_in_time(folder: Path, days: int, problem: str, note: str) -> None:
    of_others(folder, days)
    file, now = str(folder / "ca.crt"), dt.datetime.now(dt.UTC)
    problems = [one.text for one in list_problems("client_ca_file", file, now)]
    notes = [one.text for one in expiring("client_ca_file", file, now)]
    assert [problem in one for one in problems] == ([True] if problem else [])
    assert [note in one for one in notes] == ([True] if note else [])


def test_a_list_of_others_is_signed_anew_with_the_certificates(folder: Path) -> None:
    of_others(folder, 5)
    assert "cluster-east" in made(folder)
    ends = list_end(str(folder / "ca.crt"))
    assert ends is not None
    assert ends == certificate(folder, "ca").not_valid_after_utc
    assert len(listed(folder)) == 1
    assert list(list_problems("client_ca_file", str(folder / "ca.crt"), dt.datetime.now(dt.UTC))) == []


def test_an_authority_without_a_list_beside_one_that_has_one_is_told(folder: Path) -> None:
    revoke(folder, "east")
    (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes() + _authority_named("another fleet"))
    (told,) = list_problems("client_ca_file", str(folder / "ca.crt"), dt.datetime.now(dt.UTC))
    assert "the revocation list of CN=another fleet is missing" in told.text
