"""What gateway actors are made with, by a dispatcher that is newer or older than the code of their node."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from dispatcher.config.sections import GatewaySection, HttpSection, LoginSection
from dispatcher.service.gateway import actor, serving
from dispatcher.service.gateway.actor import GatewayActor
from dispatcher.service.gateway.actor_settings import ActorSettings, digest_of, section_of, settings_of
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.batches import Since, decode_collected, encode_any
from dispatcher.service.gateway.serving import Serving
from dispatcher.version import version
from tests.service.gateway.test_actors import held_port
from tests.service.gateway.test_gateway import WAIT_S

# As the dispatcher of version 0.1.0 makes an actor.
OF_0_1_0 = (
    b'{"build":"0.1.0","number":1,"section":{"host":"0.0.0.0","port":7443,"cert_file":"a.crt","key_file":"a.key",'
    b'"client_ca_file":"ca.crt","actors":2},"clusters":["east","west"],"log_level":"info"}'
)
NEWER = {"next_setting": 1, "another": {"nested": True}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], ["east"])
    names = {"cert_file": "gateway.crt", "key_file": "gateway.key", "client_ca_file": "ca.crt"}
    return {key: str(folder / name) for key, name in names.items()}


@contextlib.asynccontextmanager
async def begun(section: dict[str, Any]) -> AsyncIterator[Serving]:
    """What an actor that is made with this section does."""

    async def nobody(actor: str, passed: bytes) -> bool:
        return False

    served = Serving(ActorSettings("9.0.0", 0, section, ("east",), "info"), nobody)
    running = asyncio.create_task(served.run())
    yield served
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def collected(served: Serving) -> str:
    """The life of the actor, as a dispatcher hears of it; RuntimeError: it does not listen."""
    told = decode_collected(await served.call(lambda exchange: exchange.collect(encode_any(Since("s")), 0)))
    return told.boot


async def listens(served: Serving) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(RuntimeError):
                await collected(served)
                return
            await asyncio.sleep(0.01)


async def problem(served: Serving, words: str) -> str:
    """What callers are told, once it has these words."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with pytest.raises(RuntimeError) as told:
                await collected(served)
            if words in str(told.value):
                return str(told.value)
            await asyncio.sleep(0.01)


async def test_settings_with_more_fields_than_are_known_still_listen_and_these_are_named_once_in_the_log(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LISTEN_AGAIN_S", 0.01)
    with held_port() as port, capture_logs() as lines:
        section = {**files, "port": port, "actors": 1, "key_file": "/nonexistent", **NEWER}
        async with begun(section) as served:
            await problem(served, "its certificates cannot be used")
            section["key_file"] = files["key_file"]
            await listens(served)
    said = [line for line in lines if "are passed over: upgrade this node" in line["event"]]
    assert [(line["settings"], line["made_by"]) for line in said] == [
        (["gateway.next_setting", "gateway.another"], "9.0.0")
    ]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"port": "any"}, "used: port: Input should be a valid integer"),
        ({"port": -1, "actors": 65, "next_setting": 1}, "used: port: .*; actors: "),
        ({"port": 0, "actors": 2, "next_setting": 1}, "actors need a port that is fixed"),
    ],
)
async def test_settings_that_cannot_be_used_are_told_to_callers_and_tried_again(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], named: str
) -> None:
    monkeypatch.setattr(serving, "LISTEN_AGAIN_S", 0.01)
    with held_port() as port, capture_logs() as lines:
        section = {**files, "port": port, "actors": 1, **wrong}
        async with begun(section) as served:
            told = await problem(served, "what the dispatcher tells it to do cannot be used")
            with pytest.raises(RuntimeError, match=named):
                await collected(served)
            section |= {"port": port, "actors": 1}
            await listens(served)
    assert "\n" not in told, "callers are shown one line"
    assert told in [line["problem"] for line in lines if line["event"] == "the gateway actor cannot serve"]


async def test_an_actor_says_of_which_version_it_is_and_who_made_it(files: dict[str, str]) -> None:
    with held_port() as port, capture_logs() as lines:
        async with begun({**files, "port": port, "actors": 1}) as served:
            await listens(served)
    (line,) = [line for line in lines if line["event"] == "gateway actor begins"]
    assert (line["actor"], line["version"], line["made_by"]) == ("gateway-0", version(), "9.0.0")


def test_what_an_older_dispatcher_makes_an_actor_with_is_read_and_means_what_it_meant() -> None:
    read = msgspec.json.decode(OF_0_1_0, type=ActorSettings)
    assert (read.build, read.name, read.clusters, read.log_level) == ("0.1.0", "gateway-1", ("east", "west"), "info")
    files = {"cert_file": "a.crt", "key_file": "a.key", "client_ca_file": "ca.crt"}
    assert section_of(read.section, GatewaySection) == (
        GatewaySection(host="0.0.0.0", port=7443, actors=2, **files),
        (),
    )


def test_an_older_actor_reads_in_what_we_make_it_with_all_that_it_knows() -> None:
    (made,) = settings_of(GatewaySection(actors=1), ("east",), "info")
    then, today = msgspec.json.decode(OF_0_1_0), msgspec.json.decode(made.encoded())
    assert {key: type(value) for key, value in then.items()}.items() <= {
        key: type(value) for key, value in today.items()
    }.items()
    assert {key: type(value) for key, value in then["section"].items()}.items() <= {
        key: type(value) for key, value in today["section"].items()
    }.items()


def test_a_setting_that_an_older_dispatcher_does_not_send_has_a_default() -> None:
    assert section_of({}, GatewaySection) == (GatewaySection(), ())


def test_keys_that_are_not_known_are_left_out_at_each_level() -> None:
    told = {"port": 1, "next": 1, "login": {"token_file": "tokens", "next": {"deeper": 1}}}
    login = LoginSection(token_file="tokens")
    assert section_of(told, HttpSection) == (HttpSection(port=1, login=login), ("login.next", "next"))


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor in this process leaves it as it is, and does not listen."""
    for name in ("configure_logging", "allow_open_files", "collect_less_often"):
        monkeypatch.setattr(actor, name, lambda *_: None)
    monkeypatch.setattr(actor, "run", lambda serving: serving.close())


@pytest.mark.usefixtures("no_process")
async def test_an_actor_of_another_version_is_not_taken_for_one_with_other_settings() -> None:
    """One that told the digest of what it has read would be replaced for ever: it lacks a field that it does not know,
    or has one with a default that the dispatcher does not know.
    """
    for made_with in (OF_0_1_0[:-1] + b',"of_the_next_version":1}', OF_0_1_0.replace(b":", b": ")):
        assert msgspec.json.decode(made_with, type=ActorSettings).encoded() != made_with
        assert await GatewayActor(made_with).digest() == digest_of(made_with)


def test_dispatchers_of_other_versions_find_the_class_of_actors_and_its_calls() -> None:
    """Ray names the class by its module, as the dispatcher has it, and calls are made by name."""
    calls = {name: list(signature(call).parameters)[1:] for name, call in vars(GatewayActor).items() if callable(call)}
    assert (GatewayActor.__module__, GatewayActor.__name__) == ("dispatcher.service.gateway.actor", "GatewayActor")
    assert calls == {
        "__init__": ["settings"],
        "digest": [],
        "send": ["session", "batch"],
        "collect": ["since", "wait_s"],
        "relayed": ["passed"],
    }
