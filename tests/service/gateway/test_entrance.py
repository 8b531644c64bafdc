"""What one peer can take of a gateway is bounded, and who is trusted no more is out within a minute."""

import asyncio
import contextlib
import datetime as dt
import errno
import os
import shutil
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMessage, WSMsgType
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from structlog.testing import capture_logs

from dispatcher.service.gateway import entrance as subject
from dispatcher.service.gateway import gateway as gateway_module
from dispatcher.service.gateway.agent_connection import AgentConnection
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.certificates import Refresh, ServerTls
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.links.link import AgentMissing
from shared.streams import Frame, FrameKind, encode_frame
from shared.streams import connection as connection_module
from shared.streams.connection import LITTLE_PER_S, Pace
from shared.streams.frames import END
from tests.service.fakes import FakeAgent
from tests.service.gateway.test_gateway import WAIT_S, Site, connected, dialling, eventually, problem_of, section


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    ensure(folder, ["localhost"], ["east", "west"])
    return folder


@pytest.fixture
async def site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(gateway_module, "_REFRESH_S", 0.05)
    gateway = Gateway(section(folder), ["east", "west"])
    async with gateway.serving():
        yield Site(gateway, folder)


def client_context(folder: Path, cluster: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(str(folder / f"cluster-{cluster}.crt"), str(folder / f"cluster-{cluster}.key"))
    return context


def revoke(folder: Path, *clusters: str) -> None:
    """Put a list of revoked certificates behind the authority's own certificate."""
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    made = made.last_update(now - dt.timedelta(hours=1)).next_update(now + dt.timedelta(days=1))
    for cluster in clusters:
        number = x509.load_pem_x509_certificate((folder / f"cluster-{cluster}.crt").read_bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now - dt.timedelta(hours=1))
        made = made.add_revoked_certificate(entry.build())
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM) + pem)


# --- who is trusted no more ------------------------------------------------------------------------------------------


async def test_an_agent_whose_authority_was_removed_is_cut_off_and_stays_out(site: Site, tmp_path: Path) -> None:
    ensure(tmp_path / "other", ["localhost"], ["east"])
    kept = (site.folder / "ca.crt").read_bytes()
    (tmp_path / "own-ca.crt").write_bytes(kept)
    link = site.gateway.link("east")
    settings = site.settings("east", ca_file=str(tmp_path / "own-ca.crt"))
    async with dialling(settings, "east", FakeAgent("east")) as dialler:
        await connected(link)
        (site.folder / "ca.crt").write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
        await problem_of(dialler, "may not accept our certificate")
        with pytest.raises(AgentMissing, match="trusts fewer certificates than before"):
            await link.hello(timeout_s=WAIT_S)


async def test_of_two_agents_the_one_whose_certificate_was_revoked_is_out_and_the_other_comes_back(
    site: Site, tmp_path: Path
) -> None:
    shutil.copy(site.folder / "ca.crt", tmp_path / "own-ca.crt")
    own = {"ca_file": str(tmp_path / "own-ca.crt")}
    east, west = site.gateway.link("east"), site.gateway.link("west")
    async with (
        dialling(site.settings("east", **own), "east", FakeAgent("east")) as dialler,
        dialling(site.settings("west", **own), "west", FakeAgent("west")),
    ):
        await connected(east)
        await connected(west)
        revoke(site.folder, "east")
        await problem_of(dialler, "may not accept our certificate")
        await connected(west)


async def test_an_authority_that_is_added_ends_no_connection(site: Site, tmp_path: Path) -> None:
    ensure(tmp_path / "other", ["localhost"], ["east"])
    shutil.copy(site.folder / "ca.crt", tmp_path / "own-ca.crt")
    agent, link = FakeAgent("east"), site.gateway.link("east")
    async with dialling(site.settings("east", ca_file=str(tmp_path / "own-ca.crt")), "east", agent):
        await connected(link)
        poll = asyncio.create_task(link.changes("one", 1, 0.5, timeout_s=WAIT_S))
        await asyncio.sleep(0)
        more = (tmp_path / "other" / "ca.crt").read_bytes() + (site.folder / "ca.crt").read_bytes()
        (site.folder / "ca.crt").write_bytes(more)
        assert not (await poll).full  # it was under way while the file was read
        await link.hello(timeout_s=WAIT_S)


def test_what_was_trusted_is_forgotten_when_it_is_removed_and_kept_when_the_file_is_none(folder: Path) -> None:
    tls = ServerTls(section(folder))
    before, text = tls.context, (folder / "ca.crt").read_bytes()
    assert tls.refresh() is Refresh.SAME
    (folder / "ca.crt").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        tls.refresh()
    assert tls.context is before
    (folder / "ca.crt").write_bytes(text + b"\n")
    assert tls.refresh() is Refresh.READ
    assert tls.context is not before
    (folder / "ca.crt").unlink()
    (folder / "ca.key").unlink()
    for file in folder.glob("*.???"):
        file.unlink()
    ensure(folder, ["localhost"], ["east"])
    assert tls.refresh() is Refresh.NARROWER
    assert len(tls.context.get_ca_certs()) == 1


def test_a_revocation_list_is_narrower_by_whom_it_names_and_not_by_being_another(folder: Path) -> None:
    authority, tls = (folder / "ca.crt").read_bytes(), ServerTls(section(folder))
    found = []
    for revoked in ((), ("east",), ("east",), ("east", "west")):
        (folder / "ca.crt").write_bytes(authority)
        revoke(folder, *revoked)
        found.append(tls.refresh())
    assert found == [Refresh.READ, Refresh.NARROWER, Refresh.READ, Refresh.NARROWER]


def odd_list(folder: Path, change: Callable[[bytes], bytes]) -> bytes:
    """The authority and a changed revocation list of nobody."""
    authority = (folder / "ca.crt").read_bytes()
    revoke(folder)
    text = (folder / "ca.crt").read_bytes().removeprefix(authority).decode()
    (folder / "ca.crt").write_bytes(authority)
    der = ssl.PEM_cert_to_DER_cert(text.replace("X509 CRL", "CERTIFICATE"))
    return authority + ssl.DER_cert_to_PEM_cert(change(der)).replace("CERTIFICATE", "X509 CRL").encode()


def with_bytes_behind(der: bytes) -> bytes:
    return der + b"\0\0\0"


def of_version_3(der: bytes) -> bytes:
    return der.replace(b"\x02\x01\x01", b"\x02\x01\x02", 1)


@pytest.mark.parametrize("change", [with_bytes_behind, of_version_3])
def test_a_revocation_list_that_only_openssl_reads_is_narrower_whenever_it_changes(
    folder: Path, change: Callable[[bytes], bytes]
) -> None:
    authority, odd = (folder / "ca.crt").read_bytes(), odd_list(folder, change)
    other = odd_list(folder, lambda der: change(der) + b"\0")
    tls = ServerTls(section(folder))
    found = []
    for content in (odd, odd + b"\n", other, authority):
        (folder / "ca.crt").write_bytes(content)
        found.append(tls.refresh())
    assert found == [Refresh.NARROWER, Refresh.READ, Refresh.NARROWER, Refresh.READ]


async def test_whatever_is_wrong_with_a_file_later_ones_are_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken, capture_logs() as lines:
        broken.setattr(ServerTls, "refresh", fails)
        await eventually(lambda: bool(lines))
        await asyncio.sleep(0.3)  # six more looks
    assert [line["problem"] for line in lines] == ["a fault"]
    with capture_logs() as lines:
        (site.folder / "ca.crt").write_bytes((site.folder / "ca.crt").read_bytes() + b"\n")
        await eventually(lambda: [line["event"] for line in lines] == ["the gateway's certificates were read again"])


def fails(tls: ServerTls) -> Refresh:
    raise RuntimeError("a fault")


async def test_a_fault_of_the_gateway_is_told_with_its_place_and_of_whose_connection(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(line: AgentConnection) -> None:
        raise KeyError("since")

    monkeypatch.setattr(AgentConnection, "run", broken)
    with capture_logs() as lines:
        async with dialling(site.settings("east"), "east", FakeAgent("east")):
            await eventually(lambda: "a request failed" in [line["event"] for line in lines])
    first = next(line for line in lines if line["event"] == "a request failed")
    assert "broken" in [frame.name for frame in traceback.extract_tb(first["exc_info"].__traceback__)]
    with pytest.raises(AgentMissing, match="a fault of the gateway, which its log tells"):
        await site.gateway.link("east").hello(timeout_s=WAIT_S)


# --- how much one peer takes -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def reading(
    connections: Sequence[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
) -> AsyncIterator[Callable[[], int]]:
    """Read from each; what is yielded counts those that the gateway has ended."""
    tasks = [asyncio.create_task(reader.read()) for reader, _ in connections]
    try:
        yield lambda: sum(one.done() for one in tasks)
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_connections_that_never_shake_hands_are_bounded_and_keep_no_agent_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MAX_HANDSHAKES", 5)
    silent = [await asyncio.open_connection("localhost", site.gateway.port) for _ in range(30)]
    try:
        link = site.gateway.link("east")
        async with dialling(site.settings("east"), "east", FakeAgent("east")):
            await connected(link)
        async with reading(silent) as ended:
            await eventually(lambda: ended() >= 25)
    finally:
        for _, writer in silent:
            writer.close()


async def test_connections_of_one_certificate_are_bounded_and_keep_no_other_cluster_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MAX_OF_ONE", 3)
    context = client_context(site.folder, "west")
    port = site.gateway.port
    many = [await asyncio.open_connection("localhost", port, ssl=context) for _ in range(10)]
    try:
        async with reading(many) as ended:
            await eventually(lambda: ended() == 7)
            async with dialling(site.settings("east"), "east", FakeAgent("east")):
                await connected(site.gateway.link("east"))
            await asyncio.sleep(0.1)
            assert ended() == 7
    finally:
        for _, writer in many:
            writer.close()


async def test_that_no_connection_can_be_accepted_is_logged_once_and_once_when_it_is_over(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, port = asyncio.get_running_loop(), site.gateway.port
    accept, failures = loop.sock_accept, [errno.EMFILE] * 3 + [errno.ENFILE] * 3

    async def accept_later(listening: socket.socket) -> tuple[socket.socket, Any]:
        if failures:
            number = failures.pop(0)
            raise OSError(number, os.strerror(number))
        return await accept(listening)

    monkeypatch.setattr(subject, "_PAUSE_S", 0.01)
    monkeypatch.setattr(loop, "sock_accept", accept_later)
    with capture_logs() as lines:
        for _ in range(3):  # the first was being accepted while there were files
            _, writer = await asyncio.open_connection("localhost", port)
            writer.close()
            await eventually(lambda: not failures)
        await eventually(lambda: any("again" in line["event"] for line in lines))
    told = [(line["event"], line.get("problem")) for line in lines if "accepted" in line["event"]]
    assert told == [
        ("a connection cannot be accepted", os.strerror(errno.EMFILE)),
        ("a connection cannot be accepted", os.strerror(errno.ENFILE)),
        ("connections are accepted again", None),
    ]


async def test_that_accepting_comes_and_goes_is_logged_once_each_way(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, port, times = asyncio.get_running_loop(), site.gateway.port, [0]
    accept = loop.sock_accept

    async def accept_every_other(listening: socket.socket) -> tuple[socket.socket, Any]:
        times[0] += 1
        if times[0] % 2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await accept(listening)

    monkeypatch.setattr(subject, "_PAUSE_S", 0.01)
    monkeypatch.setattr(loop, "sock_accept", accept_every_other)
    with capture_logs() as lines:
        for _ in range(20):
            _, writer = await asyncio.open_connection("localhost", port)
            writer.close()
        await eventually(lambda: times[0] >= 20)
    told = [line["event"] for line in lines if "accepted" in line["event"]]
    assert told == ["a connection cannot be accepted", "connections are accepted again"]


def test_a_flood_of_little_frames_is_read_at_a_bounded_rate() -> None:
    pace, now = Pace(LITTLE_PER_S), 1000.0
    began = now
    for total in range(1, 10 * LITTLE_PER_S + 1):
        now += pace.pause(total, now)
    assert now - began == pytest.approx(9.0, abs=0.1)  # ten seconds' worth, and the first came at once


@pytest.mark.parametrize(
    ("charged", "read"), [(0, range(100, 211)), (9, range(10, 22))], ids=["little", "charged for each"]
)
async def test_a_connection_takes_no_more_than_that_of_whoever_floods_it(
    charged: int, read: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flood:
        sent = 0

        async def send_bytes(self, data: bytes) -> None:
            pass

        async def receive(self) -> WSMessage:
            self.sent += 1
            await asyncio.sleep(0)
            return WSMessage(WSMsgType.BINARY, encode_frame(Frame(FrameKind.CANCEL, END, 1, b"")), None)

    monkeypatch.setattr(connection_module, "LITTLE_PER_S", 100)
    flood = Flood()

    async def read_all() -> None:
        connection = connection_module.Connection(flood)
        async for _ in connection.messages():
            connection.charge(charged)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await read_all()
    assert flood.sent in read


def test_who_sends_less_is_never_held_up() -> None:
    pace = Pace(LITTLE_PER_S)
    assert not any(pace.pause(total, total / LITTLE_PER_S) for total in range(1, 5 * LITTLE_PER_S))
