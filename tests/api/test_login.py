"""Who may read the HTTP API: by a token, through a proxy, and how others may try."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from pydantic import ValidationError

from dispatcher.api.http_api import OnlyOne, make_app
from dispatcher.api.listen import listen
from dispatcher.api.login import Login
from dispatcher.cli.api_client import ApiClient
from dispatcher.config.sections import LoginSection
from dispatcher.scheduling.views import whole
from dispatcher.service.errors import CommandError
from tests.service.fakes import FakeCore, FakeViews, service

TOKEN, OTHER = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


def client(**section: Any) -> TestClient[Any, Any]:
    shown = OnlyOne(service(FakeCore(clusters={})), FakeViews())
    return TestClient(TestServer(make_app(shown, Login(LoginSection(**section)))))


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"# of the platform team\n\n{TOKEN}\n")
    return file


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param(f"Bearer {TOKEN}", 200, id="the token"),
        pytest.param(f"bearer   {TOKEN} ", 200, id="in another spelling of the scheme"),
        pytest.param(f"Bearer {OTHER}", 401, id="another token"),
        pytest.param(f"Bearer {TOKEN[:-1]}", 401, id="a part of it"),
        pytest.param("Bearer ", 401, id="no token"),
        pytest.param("Bearer # of the platform team", 401, id="a comment of the file"),
        pytest.param(f"Basic {TOKEN}", 401, id="another scheme"),
        pytest.param("", 401, id="nothing"),
        pytest.param("Bearer \udcff", 401, id="no text"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/explain/default/web-1", "/metrics", "/", "/nowhere"])
async def test_only_a_token_of_the_file_opens_it(token_file: Path, path: str, header: str, status: int) -> None:
    async with client(token_file=str(token_file)) as asking:
        answer = await asking.get(path, headers={"Authorization": header} if header else {})
        assert answer.status == (404 if status == 200 and path == "/nowhere" else status)
        assert ("WWW-Authenticate" in answer.headers) is (status == 401)


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
async def test_kubelets_need_no_token(token_file: Path, path: str) -> None:
    async with client(token_file=str(token_file)) as asking:
        assert (await asking.get(path)).status != 401


def rewrite(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


async def test_a_token_that_is_taken_out_of_the_file_opens_nothing_any_more(token_file: Path) -> None:
    async with client(token_file=str(token_file)) as asking:
        rewrite(token_file, f"{OTHER}\n# longer than before\n")
        assert (await asking.get("/v1/version", headers={"Authorization": f"Bearer {TOKEN}"})).status == 401
        assert (await asking.get("/v1/version", headers={"Authorization": f"Bearer {OTHER}"})).status == 200


@pytest.mark.parametrize("text", [None, "", "short\n"], ids=["gone", "emptied", "too short"])
async def test_a_file_that_is_broken_opens_it_to_nobody_else(token_file: Path, text: str | None) -> None:
    async with client(token_file=str(token_file)) as asking:
        rewrite(token_file, text)
        assert (await asking.get("/v1/version")).status == 401
        assert (await asking.get("/v1/version", headers={"Authorization": "Bearer short"})).status == 401
        assert (await asking.get("/v1/version", headers={"Authorization": f"Bearer {TOKEN}"})).status == 200


@pytest.mark.parametrize(
    ("proxies", "headers", "status"),
    [
        pytest.param(["127.0.0.0/8"], {"X-Forwarded-User": "ada"}, 200, id="through the proxy"),
        pytest.param(["127.0.0.0/8"], {}, 401, id="past its login"),
        pytest.param(["127.0.0.0/8"], {"X-Forwarded-User": "  "}, 401, id="a user without a name"),
        pytest.param(["10.1.2.3"], {"X-Forwarded-User": "ada"}, 401, id="the header written by somebody else"),
        pytest.param(
            ["10.1.2.3"],
            {"X-Forwarded-User": "ada", "X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3"},
            401,
            id="with the proxy's address as a header",
        ),
    ],
)
async def test_a_users_name_counts_from_the_proxy_alone(
    proxies: list[str], headers: dict[str, str], status: int
) -> None:
    async with client(user_header="X-Forwarded-User", proxies=proxies) as asking:
        assert (await asking.get("/v1/clusters", headers=headers)).status == status


async def test_the_command_shows_the_token_of_its_environment(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client(token_file=str(token_file)) as asking:
        server = str(asking.make_url("/"))
        with pytest.raises(CommandError, match="not logged in: set GLOBAL_DISPATCHER_TOKEN"):
            await asyncio.to_thread(ApiClient(server).rows, "clusters")
        monkeypatch.setenv("GLOBAL_DISPATCHER_TOKEN", f"{TOKEN}\n")
        assert await asyncio.to_thread(ApiClient(server).rows, "clusters") == whole(FakeViews().clusters())


async def test_without_a_login_everybody_reads() -> None:
    async with client() as asking:
        assert (await asking.get("/v1/clusters")).status == 200


@pytest.mark.parametrize(
    ("section", "words"),
    [
        pytest.param({"user_header": "X-User"}, "user_header and proxies go together", id="a header from anybody"),
        pytest.param({"proxies": ["10.0.0.1"]}, "user_header and proxies go together", id="a proxy without a header"),
        pytest.param({"user_header": "X-User", "proxies": ["10.0.0.1/8"]}, "has host bits set", id="no network"),
    ],
)
def test_a_login_that_cannot_be_meant_is_refused(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        LoginSection(**section)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(None, "No such file", id="no file"),
        pytest.param("# nothing yet\n", "has no token: write one", id="no token"),
        pytest.param("secret\n", "has a token of less than 16 characters", id="a short one"),
    ],
)
async def test_a_dispatcher_does_not_start_open_where_its_tokens_cannot_be_read(
    tmp_path: Path, text: str | None, words: str
) -> None:
    file = tmp_path / "tokens"
    if text is not None:
        file.write_text(text)
    shown = OnlyOne(service(FakeCore(clusters={})), FakeViews())
    with pytest.raises(CommandError, match=rf"http\.login\.token_file: .*{words}"):
        await listen(shown, "127.0.0.1", 0, LoginSection(token_file=str(file)))


async def test_a_file_of_an_editor_that_begins_it_with_a_mark_opens_it_too(token_file: Path) -> None:
    rewrite(token_file, f"\ufeff{TOKEN}\r\n")
    async with client(token_file=str(token_file)) as asking:
        assert (await asking.get("/v1/version", headers={"Authorization": f"Bearer {TOKEN}"})).status == 200
