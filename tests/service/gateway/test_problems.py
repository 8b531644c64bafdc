"""What both ends say of a connection that cannot be had: what is wrong, and what to do about it."""

import asyncio
import contextlib
import datetime as dt
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

from agents.runtime.outbound.dialling import _proxy
from dispatcher.service.gateway.authority import ensure, read_authority, revoke
from dispatcher.service.gateway.certificates import Named
from dispatcher.service.gateway.gateway import Gateway
from shared.streams.connection import Connection
from tests.service.fakes import FakeAgent
from tests.service.gateway.relay import Relay
from tests.service.gateway.test_gateway import Site, connected, dialling, eventually, problem_of, section

Lines = list[MutableMapping[str, Any]]
LATER = dt.timedelta(days=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    ensure(folder, ["localhost"], ["east"])
    return folder


@contextlib.asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[Site]:
    gateway = Gateway(section(folder), ["east"])
    async with gateway.serving():
        yield Site(gateway, folder)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "NO_PROXY"):
        for one in (name, name.lower()):
            monkeypatch.delenv(one, raising=False)


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as found:
        yield found


# --- certificates ----------------------------------------------------------------------------------------------------


def certificate(folder: Path, authority: Path, begins: dt.timedelta, ends: dt.timedelta) -> None:
    """East's certificate anew, by the authority of a folder, good for a time from now."""
    signs, key, now = read_authority(authority / "ca"), ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    assert signs is not None
    made = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(signs.certificate.subject)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    signed = made.not_valid_before(now + begins).not_valid_after(now + ends).sign(signs.key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "cluster-east.crt").write_bytes(signed.public_bytes(pem))
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "cluster-east.key").write_bytes(plain)


def _expired(folder: Path) -> None:
    certificate(folder, folder, -2 * LATER, -LATER)


def _of_tomorrow(folder: Path) -> None:
    certificate(folder, folder, LATER, 2 * LATER)


def _of_another_authority(folder: Path) -> None:
    ensure(folder / "other", [], [])
    certificate(folder, folder / "other", -LATER, LATER)


def _revoked(folder: Path) -> None:
    revoke(folder, "east")


CERTIFICATES: Mapping[str, tuple[Callable[[Path], None], str, str]] = {
    "expired": (_expired, "our certificate expired at", "has expired by our clock"),
    "of tomorrow": (_of_tomorrow, "our certificate is not valid before", "not yet valid by our clock"),
    "of another authority": (_of_another_authority, "signed our certificate", "no authority of gateway.client_ca_file"),
    "revoked": (_revoked, "our certificate was revoked", "its certificate was revoked"),
}


@pytest.mark.parametrize("case", CERTIFICATES)
async def test_both_ends_say_what_is_wrong_with_an_agents_certificate(folder: Path, lines: Lines, case: str) -> None:
    spoil, agent_says, gateway_says = CERTIFICATES[case]
    spoil(folder)
    async with listening(folder) as site, dialling(site.settings("east"), "east", FakeAgent("east")) as dialler:
        said = await problem_of(dialler, "may not accept our certificate")
        assert agent_says in said
        (line,) = [one for one in lines if one["event"] == "a TLS handshake failed"]
    assert gateway_says in line["problem"]
    assert (line["peer"], bool(line["fix"])) == ("127.0.0.1", True)


@pytest.mark.parametrize("name", ["gateway", "signing"])
async def test_both_ends_say_that_a_certificate_of_the_fleet_is_not_a_clusters(
    folder: Path, lines: Lines, name: str
) -> None:
    given = {"cert_file": str(folder / f"{name}.crt"), "key_file": str(folder / f"{name}.key")}
    async with (
        listening(folder) as site,
        dialling(site.settings("east", **given), "east", FakeAgent("east")) as dialler,
    ):
        said = await problem_of(dialler, "may not accept our certificate")
        (line,) = [one for one in lines if one["event"] == "a TLS handshake failed"]
    assert "our certificate is not for a client" in said
    assert "its certificate is not for a client" in line["problem"]


async def test_an_agent_says_that_the_gateway_shows_a_certificate_that_is_not_a_servers(folder: Path) -> None:
    for suffix in ("crt", "key"):
        shutil.copy(folder / f"cluster-east.{suffix}", folder / f"gateway.{suffix}")
    async with listening(folder) as site, dialling(site.settings("east"), "east", FakeAgent("east")) as dialler:
        await problem_of(dialler, "its certificate is not a server's: see gateway.cert_file of the dispatcher")


async def test_an_agent_goes_on_trying_with_a_certificate_that_it_cannot_read_itself(folder: Path) -> None:
    file = folder / "cluster-east.crt"
    good = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(serialization.Encoding.DER)
    odd = good.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x01", 1)  # X.509 v2, which OpenSSL loads
    assert odd != good
    file.write_text(ssl.DER_cert_to_PEM_cert(odd))
    async with listening(folder) as site, dialling(site.settings("east"), "east", FakeAgent("east")) as dialler:
        assert "the dispatcher's log has the reason" in await problem_of(dialler, "may not accept our certificate")


async def test_a_cluster_whose_agents_certificate_ends_while_it_is_connected_is_told_of_with_that_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.service.gateway.gateway.remaining_s", lambda _: 0.2)
    async with listening(folder) as site, dialling(site.settings("east"), "east", FakeAgent("east")):
        east = Named("east", "observer")
        await eventually(lambda: "certificate of its agent has expired" in str(site.gateway._line(east)))
        assert "`global-dispatcher join`" in str(site.gateway._line(east))


async def test_a_cluster_whose_agent_cannot_come_in_leads_to_the_logs_that_say_why(folder: Path, lines: Lines) -> None:
    _expired(folder)
    async with listening(folder) as site, dialling(site.settings("east"), "east", FakeAgent("east")):
        await eventually(lambda: any(one["event"] == "a TLS handshake failed" for one in lines))
        assert "or the gateway's, as `a TLS handshake failed`" in str(site.gateway._line(Named("east", "observer")))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"urls": ["wss://localhost:99999"]}, "no HOST:PORT with a port of 1 to 65535: see gateway.urls"),
        ({"urls": ["wss://localhost:port"]}, "no HOST:PORT with a port of 1 to 65535: see gateway.urls"),
        ({"proxy": "http://me:word@localhost:99999"}, "gateway.proxy is no http://USER:SECRET@HOST:PORT"),
        ({"proxy": "http://"}, "gateway.proxy names no host: write http://HOST:PORT"),
    ],
)
async def test_an_address_that_is_none_is_told_with_its_key_and_no_password(
    folder: Path, given: Mapping[str, Any], words: str
) -> None:
    settings = Site(Gateway(section(folder), ["east"]), folder).settings("east", **given)
    async with dialling(settings, "east", FakeAgent("east")) as dialler:
        assert "word" not in await problem_of(dialler, words)


async def test_where_nobody_listens_an_agent_says_what_to_look_at(folder: Path) -> None:
    settings = Site(Gateway(section(folder), ["east"]), folder).settings("east", urls=["wss://localhost:1"])
    async with dialling(settings, "east", FakeAgent("east")) as dialler:
        await problem_of(dialler, "Connection refused: nothing listens there: see the port in gateway.urls")


def test_a_gateway_that_is_listed_twice_is_refused(folder: Path) -> None:
    site = Site(Gateway(section(folder), ["east"]), folder)
    with pytest.raises(ValueError, match="wss://gw:7443 is listed twice: name each gateway once"):
        site.settings("east", urls=["wss://gw:7443", "wss://gw:7443"])


async def test_an_agent_whose_files_are_good_is_led_to_the_dispatchers_log(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    for name in ("ca.crt", "cluster-east.crt", "cluster-east.key"):
        shutil.copy(folder / name, tmp_path / "agent" / name)
    revoke(folder, "east")
    async with listening(folder) as site:
        settings = Site(site.gateway, tmp_path / "agent").settings("east")
        async with dialling(settings, "east", FakeAgent("east")) as dialler:
            assert "the dispatcher's log has the reason" in await problem_of(dialler, "may not accept our certificate")


async def test_who_looks_whether_the_port_is_open_does_not_hide_an_agent_that_cannot_come_in(
    folder: Path, lines: Lines
) -> None:
    _expired(folder)
    async with listening(folder) as site:
        socket.create_connection(("127.0.0.1", site.gateway.port)).close()  # as load balancers do, every few seconds
        await eventually(lambda: any("TLS handshake failed" in one["event"] for one in lines))
        async with dialling(site.settings("east"), "east", FakeAgent("east")) as dialler:
            await problem_of(dialler, "may not accept our certificate")
        await eventually(lambda: any("has expired" in one.get("problem", "") for one in lines))


async def test_who_speaks_no_tls_and_who_shows_no_certificate_are_told_apart(folder: Path, lines: Lines) -> None:
    async with listening(folder) as site:
        port = site.gateway.port
        _, plain = await asyncio.open_connection("127.0.0.1", port)
        plain.write(b"GET / HTTP/1.1\r\n\r\n")
        nobody = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        _, unknown = await asyncio.open_connection("127.0.0.1", port, ssl=nobody, server_hostname="localhost")
        await eventually(lambda: len([one for one in lines if "problem" in one]) == 2)
        for writer in (plain, unknown):
            writer.close()
    assert {one["problem"] for one in lines if "problem" in one} == {"it speaks no TLS 1.3", "it shows no certificate"}


@pytest.mark.parametrize("kind", [aiohttp.ServerTimeoutError, TimeoutError], ids=["agent's end", "gateway's end"])
async def test_a_peer_that_has_vanished_is_told_of_in_words(kind: type[Exception]) -> None:
    class Vanished:
        async def send_bytes(self, data: bytes) -> None:
            pass

        async def receive(self) -> aiohttp.WSMessage:
            return aiohttp.WSMessage(aiohttp.WSMsgType.ERROR, kind("No PONG received after 7.5 seconds"), None)

    with pytest.raises(ConnectionError, match=r"^the other end answers no ping: it hangs, or the way to it is cut$"):
        async for _ in Connection(Vanished()).messages():
            pass


async def test_a_connection_that_is_cut_on_the_way_is_laid_to_neither_end(folder: Path, lines: Lines) -> None:
    async with listening(folder) as site:
        relay = Relay(site.gateway.port)
        async with relay.listening() as port:
            settings = site.settings("east", urls=[f"wss://localhost:{port}"], longest_pause_s=3600)
            async with dialling(settings, "east", FakeAgent("east")) as dialler:
                await connected(site.gateway.link("east"))
                relay.cut()
                await problem_of(dialler, "broke off without being closed")
                await eventually(lambda: any(one["event"] == "agent is not connected" for one in lines))
    (line,) = [one for one in lines if one["event"] == "agent is not connected"]
    assert "broke off without being closed" in line["problem"]


async def test_an_agent_that_stops_is_told_of_as_one_that_has_closed_the_connection(folder: Path, lines: Lines) -> None:
    async with listening(folder) as site:
        async with dialling(site.settings("east"), "east", FakeAgent("east")):
            await connected(site.gateway.link("east"))
        await eventually(lambda: any(one["event"] == "agent is not connected" for one in lines))
    (line,) = [one for one in lines if one["event"] == "agent is not connected"]
    assert line["problem"] == "its agent has closed the connection"


# --- proxies ---------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def proxy(answer: str, lead_to: int) -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy that gives this status, and with 200 leads to a port here; its port, and what it was asked."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().partition("\r\n")[0])
        writer.write(f"HTTP/1.1 {answer}\r\n\r\n".encode())
        if answer.startswith("200"):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", lead_to)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer), return_exceptions=True)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
    writer.close()


@pytest.mark.parametrize("form", ["http://127.0.0.1:{}", "127.0.0.1:{}", "HTTP://user:word@127.0.0.1:{}/"])
async def test_an_agent_goes_through_the_proxy_of_its_environment_however_that_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    async with listening(folder) as site, proxy("200 OK", site.gateway.port) as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", form.format(port))
        async with dialling(site.settings("east"), "east", FakeAgent("east")):
            await connected(site.gateway.link("east"))
        assert asked == [f"CONNECT localhost:{site.gateway.port} HTTP/1.1"]


async def test_no_proxy_is_asked_for_a_host_of_no_proxy_and_the_agents_own_setting_goes_before_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(folder) as site, proxy("200 OK", site.gateway.port) as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "localhost")
        async with dialling(site.settings("east"), "east", FakeAgent("east")):
            await connected(site.gateway.link("east"))
        assert asked == []
        async with dialling(site.settings("east", proxy=f"http://127.0.0.1:{port}"), "east", FakeAgent("east")):
            await connected(site.gateway.link("east"))
            await eventually(lambda: len(asked) == 1)


@pytest.mark.parametrize(
    ("listed", "url", "direct"),
    [
        ("10.0.0.0/8", "wss://10.1.2.3:7443", True),
        (".svc, 10.1.0.0/16,fd00::/8", "wss://[fd00::1]:7443", True),
        ("10.1.2.3", "wss://10.1.2.3:7443", True),
        ("10.0.0.0/8", "wss://192.0.2.1:7443", False),
        ("10.0.0.0/8,no network/8", "wss://gateway.example:7443", False),
    ],
)
def test_no_proxy_may_list_networks_as_clusters_have_them(
    monkeypatch: pytest.MonkeyPatch, listed: str, url: str, direct: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", listed)
    assert _proxy(url, "") == (None if direct else "http://proxy.example:3128")


PROXIES = {
    "http://no-such-proxy.invalid:3128": "the proxy's name no-such-proxy.invalid has no address (DNS)",
    "http://127.0.0.1:1": "the proxy 127.0.0.1:1 cannot be reached: Connection refused",
    "socks5://127.0.0.1:1080": "HTTPS_PROXY names a proxy of the kind socks5",
    "https://user:word@127.0.0.1:1080": "HTTPS_PROXY names a proxy of the kind https",
    "http://user:word@127.0.0.1:80x": "HTTPS_PROXY is no http://USER:SECRET@HOST:PORT",
    "http://user:a/word@127.0.0.1:80": "HTTPS_PROXY is no http://",
    "user:word@": "HTTPS_PROXY is no http://",
    "user:word://127.0.0.1:80": "HTTPS_PROXY is no http://",
    "http://user:word€@127.0.0.1:80": "HTTPS_PROXY is no http://",
}


@pytest.mark.parametrize("address", PROXIES)
async def test_a_proxy_that_cannot_be_used_is_named_and_not_taken_for_the_gateway(
    folder: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    async with listening(folder) as site, dialling(site.settings("east"), "east", FakeAgent("east")) as dialler:
        assert "word" not in await problem_of(dialler, PROXIES[address])


async def test_a_name_server_that_does_not_answer_is_told_from_a_name_that_is_not_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    settings = Site(Gateway(section(folder), ["east"]), folder).settings("east", urls=["wss://gateway.invalid:7443"])
    async with dialling(settings, "east", FakeAgent("east")) as dialler:
        assert "gateway.invalid:7443: no name server answers for gateway.invalid" in await problem_of(dialler, "DNS")


async def test_a_gateway_whose_name_is_written_in_capitals_is_not_taken_for_a_proxy(folder: Path) -> None:
    async with listening(folder) as site:
        settings = site.settings("east", urls=["wss://Gateway.invalid:7443"])
        async with dialling(settings, "east", FakeAgent("east")) as dialler:
            assert await problem_of(dialler, "DNS") == "Gateway.invalid:7443: the name has no address (DNS)"


@pytest.mark.parametrize(
    ("answer", "words"),
    [("403 Forbidden", "its rules for CONNECT"), ("407 No", "a user and a password"), ("502 No", "does not reach")],
)
async def test_what_a_proxy_refuses_is_told_with_what_to_look_at(folder: Path, answer: str, words: str) -> None:
    async with listening(folder) as site, proxy(answer, site.gateway.port) as (port, _):
        settings = site.settings("east", proxy=f"http://127.0.0.1:{port}")
        async with dialling(settings, "east", FakeAgent("east")) as dialler:
            await problem_of(dialler, words)


async def test_a_proxys_password_is_not_told_where_it_answers_something_else_than_http(folder: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x15\x03\x03\x00\x02\x02\x16")  # a TLS alert: the proxy's other port
        writer.close()

    async with listening(folder) as site, await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"http://user:s3cret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with dialling(site.settings("east", proxy=address), "east", FakeAgent("east")) as dialler:
            assert "s3cret" not in await problem_of(dialler, "no HTTP")


@pytest.mark.parametrize("answer", [b"\x1b[31mno\nlevel=error of mine\r\n\r\n", b"y" * 2**16], ids=["escapes", "long"])
async def test_a_proxy_that_speaks_no_http_writes_no_lines_of_its_own(folder: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with listening(folder) as site, await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        settings = site.settings("east", proxy=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with dialling(settings, "east", FakeAgent("east")) as dialler:
            said = await problem_of(dialler, "speaks no HTTP")
    assert (said.isprintable(), len(said) <= 500) == (True, True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks no TLS"), (b"", "during the TLS handshake")],
    ids=["what speaks no TLS", "a load balancer that leads nowhere"],
)
async def test_what_does_no_tls_handshake_is_told_once_however_often_it_is_tried(
    folder: Path, lines: Lines, answer: bytes, words: str
) -> None:
    tries: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tries.append(await reader.read(2**16))
        writer.write(answer)
        writer.close()

    async with listening(folder) as site, await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        settings = site.settings("east", urls=[f"wss://localhost:{server.sockets[0].getsockname()[1]}"])
        async with dialling(settings, "east", FakeAgent("east")) as dialler:
            await problem_of(dialler, words)
            await eventually(lambda: len(tries) == 3)
    assert len([one for one in lines if one["event"] == "not connected"]) == 1
