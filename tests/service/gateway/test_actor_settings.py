"""What gateway actors are made with, by a dispatcher that is newer or older than the code of their node."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from dispatcher.config.sections import GatewaySection, HttpSection, LoginSection, Section
from dispatcher.service.gateway import actor, serving
from dispatcher.service.gateway.actor import GatewayActor
from dispatcher.service.gateway.actor_settings import ActorSettings, decoded, digest_of, section_of, settings_of
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.batches import Collected, Since, decode_collected, encode_any
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.serving import Serving
from shared.version import version
from tests.service.gateway.actors import held_port
from tests.service.gateway.test_gateway import WAIT_S, eventually

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
async def begun(
    section: dict[str, Any], log_level: str = "info", beside: Mapping[str, Any] | None = None
) -> AsyncIterator[Serving]:
    """What an actor does that is made with this section, and with other settings `beside` it."""

    async def nobody(actor: str, passed: bytes) -> bool:
        return False

    told = ActorSettings("9.0.0", 0, section, ("east",), log_level).encoded()
    settings, unknown = decoded(msgspec.json.encode({**msgspec.json.decode(told), **(beside or {})}))
    served = Serving(settings, nobody, unknown)
    running = asyncio.create_task(served.run())
    yield served
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def collected(served: Serving) -> Collected:
    """What a dispatcher hears of the actor; RuntimeError: it does not listen."""
    return decode_collected(await served.call(lambda exchange: exchange.collect(encode_any(Since("s")), 0)))


async def listens(served: Serving) -> Collected:
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(RuntimeError):
                return await collected(served)
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


def faults(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the log has of why the actor cannot serve."""
    return [line["problem"] for line in lines if line["event"] == "the gateway actor cannot serve"]


async def test_settings_that_are_not_known_are_passed_over_and_named_to_whoever_reads_a_log(
    files: dict[str, str],
) -> None:
    beside = {"of_the_next_version": {"name": 1}, "and_another": 2}
    named = [*beside, "gateway.next_setting", "gateway.another", "log.level: trace (info is used)"]
    with held_port() as port, capture_logs() as lines:
        async with begun({**files, "port": port, "actors": 1, **NEWER}, log_level="trace", beside=beside) as served:
            told = await listens(served)
    assert (told.build, list(told.passed_over)) == (version(), named)
    said = [line for line in lines if "are passed over: node and dispatcher differ in version" in line["event"]]
    assert [(line["settings"], line["version"], line["made_by"]) for line in said] == [(named, version(), "9.0.0")]


async def test_a_fault_that_lasts_is_logged_once_and_again_when_it_has_changed(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LISTEN_AGAIN_S", 0.01)
    key = tmp_path / "gateway.key"
    with held_port() as port, capture_logs() as lines:
        async with begun({**files, "port": port, "actors": 1, "key_file": str(key)}) as served:
            await problem(served, "No such file")
            await asyncio.sleep(0.1)
            key.write_text("no key")
            await problem(served, "PEM")
            await asyncio.sleep(0.1)
            shutil.copy(files["key_file"], key)
            await listens(served)
    said = faults(lines)
    assert ["No such file" in said[0], "PEM" in said[-1], len(said)] == [True, True, 2]
    assert [line["actor"] for line in lines if line["event"] == "the gateway actor serves again"] == ["gateway-0"]


async def test_a_fault_that_comes_again_after_the_actor_listened_is_logged_again(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaks(Gateway):
        @contextlib.asynccontextmanager
        async def serving(self) -> AsyncIterator[None]:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    yield
            raise OSError("the network is down")

    monkeypatch.setattr(serving, "LISTEN_AGAIN_S", 0.01)
    monkeypatch.setattr(serving, "Gateway", Breaks)
    with capture_logs() as lines:
        async with begun({**files, "actors": 1}):
            await eventually(lambda: len(faults(lines)) > 1)
    assert set(faults(lines)) == {"the network is down"}


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


def test_keys_in_one_of_several_kinds_of_section_are_named_where_they_cannot_be_left_out() -> None:
    class Either(Section):
        one: HttpSection | LoginSection = LoginSection()

    with pytest.raises(
        ValueError, match=r"cannot be used: one\.HttpSection\.of_next: .*; one\..*LoginSection.*\.of_next: "
    ):
        section_of({"one": {"of_next": 1}, "next": 1}, Either)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor in this process leaves it as it is, and does not listen."""
    for name in ("configure_logging", "allow_open_files", "collect_less_often"):
        monkeypatch.setattr(actor, name, lambda *_: None)
    monkeypatch.setattr(actor, "run", lambda serving: serving.close())


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"section": {"port": "any"}}, "used: port: Input should be a valid integer"),
        ({"section": {"port": -1, "actors": 65, "next_setting": 1}}, "used: port: .*; actors: "),
        (
            {"section": {"port": 0, "actors": 2, "next_setting": 1}},
            "used: Value error, actors need a port that is fixed",
        ),
        ({"section": 1}, r"read: Expected `object`, got `int` - at `\$.section`"),
        ({"clusters": [{"name": "east"}]}, r"read: Expected `str`, got `object` - at `\$.clusters\[0\]`"),
        ({"log_level": 10}, r"read: Expected `str`, got `int` - at `\$.log_level`"),
    ],
)
async def test_settings_that_cannot_be_used_are_told_to_callers_by_an_actor_that_stays(
    wrong: dict[str, Any], named: str
) -> None:
    """Its digest is told, too, so that a dispatcher with settings that can be used replaces it."""
    made_with = msgspec.json.encode({**msgspec.json.decode(OF_0_1_0), **wrong})
    with capture_logs() as lines:
        made = GatewayActor(made_with)
    with pytest.raises(RuntimeError, match=f"what the dispatcher tells it to do cannot be {named}") as told:
        await made.collect(encode_any(Since("s")), 0)
    assert "\n" not in str(told.value), "callers are shown one line"
    assert faults(lines) == [str(told.value)]
    assert await made.digest() == digest_of(made_with)


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize(("word", "level"), [("trace", "info"), ("warning", "warning")])
async def test_a_log_level_that_is_not_known_is_info(word: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[str] = []
    monkeypatch.setattr(actor, "configure_logging", lambda level, _: levels.append(level))
    GatewayActor(OF_0_1_0.replace(b'"info"', b'"' + word.encode() + b'"'))
    assert levels == [level]


@pytest.mark.usefixtures("no_process")
def test_an_actor_says_of_which_version_it_is_and_who_made_it() -> None:
    with capture_logs() as lines:
        GatewayActor(OF_0_1_0.replace(b'"0.1.0"', b'"9.0.0"'))
    (line,) = [line for line in lines if line["event"] == "gateway actor begins"]
    assert (line["actor"], line["version"], line["made_by"]) == ("gateway-1", version(), "9.0.0")


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
    found = {name: call for name, call in vars(GatewayActor).items() if callable(call) and name != "_call"}
    calls = {name: list(signature(call).parameters)[1:] for name, call in found.items()}
    assert (GatewayActor.__module__, GatewayActor.__name__) == ("dispatcher.service.gateway.actor", "GatewayActor")
    assert calls == {
        "__init__": ["settings"],
        "digest": [],
        "send": ["session", "batch"],
        "collect": ["since", "wait_s"],
        "relayed": ["passed"],
    }
