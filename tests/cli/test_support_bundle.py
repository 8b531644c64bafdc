"""The support bundle: what is in it, what it never holds, and what happens where not everything can be had."""

import asyncio
import errno
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer
from typer.testing import CliRunner, Result

from dispatcher.api.http_api import OnlyOne, make_app
from dispatcher.api.login import Login
from dispatcher.cli.main import app
from dispatcher.cli.support_bundle import KINDS
from dispatcher.config.sections import LoginSection
from dispatcher.scheduling.views import whole
from tests.service.fakes import FakeCore, FakeViews, service


def bundle(file: Path, server: str, token: str = "") -> Result:
    environment = {"GLOBAL_DISPATCHER_TOKEN": token}
    return CliRunner().invoke(app, ["support-bundle", str(file), "--server", server], env=environment)


async def served(ask: Callable[[str], Result], login: Login | None = None) -> Result:
    shown = OnlyOne(service(FakeCore(clusters={})), FakeViews())
    async with TestServer(make_app(shown, login)) as server:
        return await asyncio.to_thread(ask, str(server.make_url("")))


def contents(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {Path(name).name: found.read() for name, found in files.items() if found}


async def test_it_holds_every_answer_of_the_api_and_the_metrics(tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    done = await served(lambda server: bundle(file, server))
    assert done.exit_code == 0, done.output
    found = contents(file)
    assert set(found) == {f"{kind}.json" for kind in KINDS} | {"metrics.txt", "bundle.json", "errors.json"}
    assert json.loads(found["clusters.json"]) == {"clusters": whole(FakeViews().clusters())}
    assert b"# HELP" in found["metrics.txt"]
    assert json.loads(found["errors.json"]) == {}


async def test_the_token_that_opened_the_api_is_not_in_it(tmp_path: Path) -> None:
    token, file, tokens = "0123456789abcdef0123", tmp_path / "bundle.tar.gz", tmp_path / "tokens"
    tokens.write_text(token)
    done = await served(lambda server: bundle(file, server, token), Login(LoginSection(token_file=str(tokens))))
    assert done.exit_code == 0, done.output
    assert not [name for name, content in contents(file).items() if token.encode() in content]


async def test_what_cannot_be_had_is_listed_and_the_rest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeViews, "rebalancing", lambda _: None)
    file = tmp_path / "bundle.tar.gz"
    done = await served(lambda server: bundle(file, server))
    assert "not had: rebalancing (errors.json)" in done.output
    assert list(json.loads(contents(file)["errors.json"])) == ["rebalancing"]
    assert "pods.json" in contents(file)


def test_without_a_dispatcher_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    done = bundle(file, "http://127.0.0.1:1")
    assert done.exit_code == 3
    assert "no dispatcher answers" in done.output
    assert not file.exists()


async def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    file.write_text("mine")
    done = await served(lambda server: bundle(file, server))
    assert done.exit_code == 1
    assert "name a new .tar.gz" in done.output
    assert file.read_text() == "mine"


@pytest.mark.parametrize("token", ["0123456789abcdef\nfedcba9876543210", "0123456789abcdéf", "0123456789 abcdef"])
def test_a_token_that_is_none_is_not_told(tmp_path: Path, token: str) -> None:
    done = bundle(tmp_path / "bundle.tar.gz", "http://127.0.0.1:1", token)
    assert done.exit_code == 2
    assert "GLOBAL_DISPATCHER_TOKEN holds no token" in done.output
    assert "0123456789" not in done.output


async def test_the_password_of_the_address_is_neither_told_nor_in_it(tmp_path: Path) -> None:
    file, hidden = tmp_path / "bundle.tar.gz", "hunter2"
    done = await served(lambda server: bundle(file, server.replace("://", f"://admin:{hidden}@")))
    assert done.exit_code == 0, done.output
    assert not [name for name, content in contents(file).items() if hidden.encode() in content]
    failed = bundle(tmp_path / "another.tar.gz", f"http://admin:{hidden}@127.0.0.1:1")
    assert "no dispatcher answers at http://127.0.0.1:1" in failed.output
    assert hidden not in failed.output


async def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    file, before = tmp_path / "bundle.tar.gz", os.umask(0)
    try:
        await served(lambda server: bundle(file, server))
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600


async def test_half_a_bundle_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dispatcher.cli.support_bundle._add", full)
    file = tmp_path / "bundle.tar.gz"
    done = await served(lambda server: bundle(file, server))
    assert (done.exit_code, "No space left" in done.output) == (1, True)
    assert not file.exists()


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "bundle.tar.gz", tmp_path / "elsewhere"
    file.symlink_to(elsewhere)
    assert (await served(lambda server: bundle(file, server))).exit_code == 1
    assert not elsewhere.exists()
