"""HTTP to servers that lie, redirect, drip and blow up; and what never leaves for them."""

import gzip
import ipaddress
import ssl
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from agents.telemetry.source import SourceError
from agents.telemetry.web import Credentials, Limits, Pool, Tls, Web, refused
from tests.agents.telemetry.servers import HOSTILE, LIMITS, answering, serving, web_at


@pytest.mark.parametrize("lie", [name for name in HOSTILE if name not in {"HTML", "nothing"}])
async def test_an_answer_that_is_none_is_a_source_error_that_says_why(lie: str) -> None:
    handler, problem = HOSTILE[lie]
    async with serving(handler) as base:
        client = web_at(base)
        with pytest.raises(SourceError, match=problem):
            await client.get("/")
        await client.close()


async def test_an_answer_is_read_compressed_or_not() -> None:
    async def handle(request: web.Request) -> web.Response:
        answer = web.Response(body=b"x" * 100_000)
        if request.path == "/zipped":
            answer.enable_compression(web.ContentCoding.gzip)
        return answer

    async with serving(handle) as base:
        client = web_at(base)
        assert [len((await client.get(path)).body) for path in ("/plain", "/zipped")] == [100_000, 100_000]
        await client.close()


async def test_credentials_are_read_anew_for_every_request(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        names = ("Authorization", "X-Scope-OrgID", "X-Key")
        seen.append(tuple(request.headers.get(name, "") for name in names))  # type: ignore[arg-type]
        return web.Response(body=b"{}")

    token, key = tmp_path / "token", tmp_path / "key"
    token.write_text("first\n")
    key.write_text("k")
    async with serving(handle) as base:
        client = web_at(base, Credentials(str(token), headers={"X-Scope-OrgID": "t"}, header_files={"X-Key": str(key)}))
        await client.get("/")
        token.write_text("second\n")
        await client.get("/")
        await client.close()
    assert seen == [("Bearer first", "t", "k"), ("Bearer second", "t", "k")]


async def test_basic_authentication_has_its_password_from_a_file(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response()

    (tmp_path / "password").write_text("pw")
    async with serving(handle) as base:
        client = web_at(base, Credentials(user="me", password_file=str(tmp_path / "password")))
        await client.get("/")
        await client.close()
    assert seen == ["Basic bWU6cHc="]


@pytest.mark.parametrize("secret", ["", "two\nlines", "a\x00b", "ä"])
async def test_a_secret_that_cannot_be_sent_is_named_by_its_file_and_never_shown(tmp_path: Path, secret: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(secret.encode())
    async with serving(answering(b"{}")) as base:
        client = web_at(base, Credentials(str(file)))
        with pytest.raises(SourceError, match="token") as told:
            await client.get("/")
        await client.close()
    assert not secret or secret not in str(told.value)


async def test_a_token_goes_to_a_server_only_after_its_certificate_was_verified(tmp_path: Path) -> None:
    authority, seen = trustme.CA(), list[str]()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    (tmp_path / "token").write_text("secret")

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(body=b"{}")

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    base = f"https://localhost:{runner.addresses[0][1]}"
    good, bad = (
        web_at(base, Credentials(str(tmp_path / "token")), Tls(ca_file=str(tmp_path / name)))
        for name in ("ca.pem", "other.pem")
    )
    assert (await good.get("/")).body == b"{}"  # verified by its name although it is reached by its address
    with pytest.raises(SourceError, match="certificate"):
        await bad.get("/")
    for client in (good, bad):
        await client.close()
    await runner.cleanup()
    assert seen == ["Bearer secret"]


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fe80::1",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "224.0.0.1",
    ],
)
def test_addresses_where_no_source_is_are_refused(address: str) -> None:
    assert refused(address)
    assert not refused(address, [ipaddress.ip_network("::/0"), ipaddress.ip_network("0.0.0.0/0")])


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1"])
def test_addresses_of_servers_are_asked(address: str) -> None:
    assert not refused(address)


@pytest.mark.parametrize("leads", [["169.254.169.254"], ["127.0.0.1"], ["10.0.0.1", "169.254.169.254"]])
async def test_a_name_that_leads_where_no_source_is_is_not_asked(leads: list[str]) -> None:
    asked: list[int] = []

    async def handle(_: web.Request) -> web.Response:
        asked.append(1)
        return web.Response()

    async def resolve(_host: str, _port: int) -> list[str]:
        return leads

    async with serving(handle) as base:
        client = Web(base.replace("127.0.0.1", "prometheus.example"), LIMITS, Pool(), resolve=resolve)
        with pytest.raises(SourceError, match="allow_addresses"):
            await client.get("/")
        await client.close()
    assert not asked


async def test_an_address_that_is_allowed_by_name_is_asked() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async with serving(answering(b"here")) as base:
        limits = Limits(allowed=(ipaddress.ip_network("127.0.0.0/8"),))
        client = Web(base.replace("127.0.0.1", "prometheus.example"), limits, Pool(), resolve=resolve)
        assert (await client.get("/")).body == b"here"
        await client.close()


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with serving(answering(b"here")) as base:
        client = Web(base.replace("127.0.0.1", "localhost"), LIMITS, Pool(), resolve=resolve)
        assert (await client.get("/")).body == b"here"
        await client.close()


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with serving(answering(b"direct")) as base:
        client = web_at(base)
        assert (await client.get("/")).body == b"direct"
        await client.close()


WORDS = b'{"status":"error","errorType":"bad_data","error":"invalid parameter \\"query\\": parse error"}'


@pytest.mark.parametrize(
    ("body", "headers", "text"),
    [
        (gzip.compress(WORDS), {"Content-Encoding": "gzip"}, 'invalid parameter "query": parse error'),
        (WORDS, {}, 'invalid parameter "query": parse error'),
        (b'{"message": "no\\n such"}', {}, "no such"),
        (b"<html>\n gone</html>", {}, "<html> gone</html>"),
        (b"\x1f\x8bnonsense", {"Content-Encoding": "gzip"}, "without a word"),
        (gzip.compress(b"a" * 10**7), {"Content-Encoding": "gzip"}, "a" * 200),
        (b"a" * 10**6, {}, "a" * 200),
        (b"", {}, "without a word"),
    ],
    ids=["compressed", "plain", "another key", "HTML", "no gzip", "a bomb", "endless", "nothing"],
)
async def test_why_a_server_refuses_is_told_in_its_own_words(body: bytes, headers: dict[str, str], text: str) -> None:
    async with serving(answering(body, 400, headers)) as url:
        one = Web(url, LIMITS)
        with pytest.raises(SourceError) as caught:
            await one.get("/x")
        await one.close()
    assert str(caught.value) == f"{url} answers 400: {text}"


async def test_a_server_that_repeats_what_it_was_asked_does_not_make_secrets_known(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=403, text=f"denied: {dict(request.headers)}")

    (tmp_path / "token").write_text("s3cr3t-token")
    (tmp_path / "key").write_text("s3cr3t-key")
    async with serving(handle) as base:
        client = web_at(base, Credentials(str(tmp_path / "token"), header_files={"A-Key": str(tmp_path / "key")}))
        with pytest.raises(SourceError) as caught:
            await client.get("/x")
        await client.close()
    assert "answers 403: denied" in str(caught.value)
    assert "***" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
