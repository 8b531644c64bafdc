"""The dispatcher's way to the Ray driver: what a driver that was captured, hangs or goes away can do to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from dispatcher.service.link import AgentDied, AgentFault, AgentMismatch, AgentMissing, AgentTimeout, LinkError
from dispatcher.service.ray_driver import client
from dispatcher.service.ray_driver.client import RayDriver
from dispatcher.service.ray_driver.connection import Connection
from dispatcher.service.ray_driver.messages import (
    ERRORS,
    MAX_FRAME,
    Alive,
    Answer,
    Beat,
    Call,
    Cancel,
    Failure,
    Ready,
    Setup,
    decode_to_driver,
)
from shared.model.backoff import Backoff


class PlayedDriver:
    """What a driver hears, and what it says to it: `on` is given each call; None: no greeting either."""

    def __init__(self, on: Callable[["PlayedDriver", Call], None] | None) -> None:
        self.heard: list[Any] = []
        self.on, self.lives = on, True
        self.connection: Connection | None = None
        self.transport: Any = None

    def accept(self) -> Connection:
        self.connection = Connection(decode_to_driver, self._take, lambda why: None)
        return self.connection

    def say(self, message: Any) -> None:
        assert self.connection is not None
        self.connection.send(message)

    def raw(self, data: bytes) -> None:
        assert self.connection is not None
        assert self.connection._transport is not None
        self.connection._transport.write(data)

    def _take(self, message: Any) -> None:
        self.heard.append(message)
        if isinstance(message, Setup) and self.on is not None:
            self.say(Ready("1"))
        elif isinstance(message, Beat) and self.lives:
            self.say(Alive())
        elif isinstance(message, Call) and self.on is not None:
            self.on(self, message)

    def calls(self) -> list[Call]:
        return [one for one in self.heard if isinstance(one, Call)]

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        server = await asyncio.get_running_loop().create_unix_server(self.accept, path)
        try:
            yield
        finally:
            server.close()
            if self.connection is not None:
                self.connection.end("over")
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - a test


def echo(driver: PlayedDriver, call: Call) -> None:
    driver.say(Answer(call.number, call.method.encode()))


def nothing(driver: PlayedDriver, call: Call) -> None:
    pass


def framed(message: Any) -> bytes:
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(4, "big") + data


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PAUSES", Backoff(0.01, 0.02))
    monkeypatch.setattr(client, "BEAT_S", 0.05)
    monkeypatch.setattr(client, "_FIRST_S", 0.0)


@asynccontextmanager
async def dispatcher(path: Path) -> AsyncIterator[RayDriver]:
    one = RayDriver(str(path), ["west"])
    async with one.serving(), asyncio.timeout(30):
        yield one


async def ask(one: RayDriver, method: str = "changes", within_s: float = 20.0) -> bytes:
    return await one.call("agent:west", method, (b"", 1.0), 0.0, within_s)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0.005)


async def test_it_says_who_is_to_be_called(tmp_path: Path) -> None:
    driver, path = PlayedDriver(echo), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        assert await ask(one) == b"changes"
        assert driver.heard[0] == Setup(driver.heard[0].build, ("west",))
        (call,) = driver.calls()
        assert (call.target, call.words) == ("agent:west", (b"", 1.0))


@pytest.mark.parametrize("kind", ERRORS)
async def test_a_call_that_failed_at_the_driver_fails_as_it_would_have_here(tmp_path: Path, kind: Any) -> None:
    driver, path = PlayedDriver(lambda one, call: one.say(Failure(call.number, kind, "why\n\x1b[31m"))), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        with pytest.raises(LinkError, match=r"^why  \[31m$") as told:
            await ask(one)
        assert type(told.value) is ERRORS[kind]
    assert {AgentTimeout, AgentDied, AgentMissing, AgentFault, AgentMismatch} == set(ERRORS.values())


UNTAKEN = {
    "too long": (MAX_FRAME + 1).to_bytes(4, "big"),
    "no msgpack": b"\x00\x00\x00\x01\xc1",
    "an ext of msgpack": framed(msgspec.msgpack.Ext(5, b"x")),
    "no message": framed([99, 1, b""]),
    "a message of the dispatcher's": framed(Beat()),
    "a body that is no bytes": framed([7, 1, {"a": 1}]),
    "a body that is missing": framed([7, 1]),
    "a number that is none": framed([7, "1", b""]),
    "an error of no kind": framed([8, 1, "SystemExit", "x"]),
    "an error of a kind without end": framed([8, 1, "\x1b" * 100_000, "x"]),
    "a text without end": framed([8, 1, "fault", "x" * 501]),
    "deeply nested": (20_000).to_bytes(4, "big") + b"\x91" * 20_000,
    "an answer to no call": framed(Answer(2, b"")),
    "an answer to call 0": framed(Answer(0, b"")),
    "an answer to no beat": framed(Alive()) * 100,
    "a second greeting": framed(Ready("1")),
}


@pytest.mark.parametrize("said", UNTAKEN.values(), ids=UNTAKEN)
async def test_a_driver_that_says_what_cannot_be_taken_loses_the_connection_and_the_calls_fail(
    tmp_path: Path, said: bytes
) -> None:
    driver, path = PlayedDriver(lambda one, call: one.raw(said)), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        with pytest.raises(AgentDied, match="the Ray driver is gone: it sends what cannot be taken: ") as told:
            await ask(one)
        assert len(str(told.value)) < 400
        assert str(told.value).isprintable()
        driver.on = echo
        await eventually(lambda: one._connection is not None)
        assert await ask(one) == b"changes"


async def test_a_call_is_answered_once(tmp_path: Path) -> None:
    driver, path = PlayedDriver(lambda one, call: one.raw(framed(Answer(call.number, b"")) * 2)), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        assert await ask(one) == b""
        await eventually(lambda: one._problem == "it sends what cannot be taken: an answer to no call")


async def test_a_message_in_pieces_and_two_at_once_are_read_as_they_were_meant(tmp_path: Path) -> None:
    pieces: list[bytes] = []

    def bytewise(driver: PlayedDriver, call: Call) -> None:
        pieces.append(framed(Answer(call.number, call.method.encode() * 1000)))

    driver, path = PlayedDriver(bytewise), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        asked = [asyncio.create_task(ask(one, method)) for method in ("a", "b", "c")]
        await eventually(lambda: len(pieces) == 3)
        driver.lives = False  # what it says between two pieces would be part of them
        whole = b"".join(pieces)
        for part in (whole[:2], whole[2:7], whole[7:1500], whole[1500:]):
            driver.raw(part)
            await asyncio.sleep(0.02)
        assert await asyncio.gather(*asked) == [b"a" * 1000, b"b" * 1000, b"c" * 1000]


async def test_a_call_that_is_given_up_is_cancelled_and_its_late_answer_harms_nobody(tmp_path: Path) -> None:
    driver, path = PlayedDriver(nothing), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        given_up = asyncio.create_task(ask(one))
        await eventually(lambda: len(driver.calls()) == 1)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        with pytest.raises(AgentTimeout, match=r"did not answer changes of agent:west within 0\.05 s"):
            await ask(one, within_s=0.05)
        await eventually(lambda: [m.number for m in driver.heard if isinstance(m, Cancel)] == [1, 2])
        driver.say(Answer(1, b"late"))
        driver.on = echo
        assert await ask(one) == b"changes"
        assert list(one._asked) == [2]
        assert len([m for m in driver.heard if isinstance(m, Setup)]) == 1


async def test_a_driver_that_hangs_is_left(tmp_path: Path) -> None:
    driver, path = PlayedDriver(nothing), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        await eventually(lambda: one._connection is not None)
        driver.lives = False
        with pytest.raises(AgentDied, match="the Ray driver is gone: it has said nothing for"):
            await ask(one)


async def test_one_that_never_says_that_it_is_ready_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_GREET_S", 0.5)
    driver, path = PlayedDriver(None), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        with pytest.raises(AgentDied, match=r"cannot be used: it has not said within 0\.5 s that it is ready"):
            await ask(one)


async def test_a_driver_that_reads_nothing_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_UNSENT", 2**20)
    driver, path = PlayedDriver(nothing), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        await eventually(lambda: one._connection is not None)
        assert driver.connection is not None
        assert driver.connection._transport is not None
        driver.connection._transport.pause_reading()
        asked = [one.call("agent:west", "send", ("", bytes(2**19)), 0.0, 20.0) for _ in range(8)]
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert {str(error) for error in told if "does not read" in str(error)} == {
            "the Ray driver is gone: the other side does not read what it is sent"
        }


async def test_what_is_too_long_to_be_taken_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, path = PlayedDriver(echo), tmp_path / "s"
    async with driver.listening(path), dispatcher(path) as one:
        assert await ask(one) == b"changes"
        monkeypatch.setattr("dispatcher.service.ray_driver.connection.MAX_FRAME", 1000)
        with pytest.raises(
            AgentFault, match=r"send of agent:west: a message of 10[0-9][0-9] bytes: 1000 are taken at most"
        ):
            await one.call("agent:west", "send", ("", bytes(1000)), 0.0, 20.0)
        assert await ask(one) == b"changes"


async def test_a_driver_that_is_not_there_is_told_of_once_and_used_when_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with capture_logs() as lines:
        async with dispatcher(path) as one:
            for _ in range(3):
                with pytest.raises(AgentDied, match=f"the Ray driver at {path} cannot be used: No such file"):
                    await ask(one)
                await asyncio.sleep(0.1)
            driver = PlayedDriver(echo)
            async with driver.listening(path):
                await eventually(lambda: one._connection is not None)
                assert await ask(one) == b"changes"
    told = [(line["event"], line.get("problem")) for line in lines]
    assert told[:2] == [
        ("the Ray driver cannot be used", "No such file or directory"),
        ("the Ray driver answers", None),
    ]


async def test_one_that_begins_a_moment_later_is_waited_for_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_FIRST_S", 20.0)
    path = tmp_path / "s"
    with capture_logs() as lines:
        async with dispatcher(path) as one:
            asked = asyncio.create_task(ask(one))
            await asyncio.sleep(0.2)
            async with PlayedDriver(echo).listening(path):
                assert await asked == b"changes"
                assert [line["event"] for line in lines] == ["the Ray driver answers"]


async def test_calls_under_way_fail_when_the_driver_ends_and_later_ones_are_of_the_next(tmp_path: Path) -> None:
    path, first, second = tmp_path / "s", PlayedDriver(nothing), PlayedDriver(echo)
    async with dispatcher(path) as one:
        async with first.listening(path):
            await eventually(lambda: one._connection is not None)
            asked = [asyncio.create_task(ask(one)) for _ in range(3)]
            await eventually(lambda: len(first.calls()) == 3)
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in told] == [AgentDied] * 3
        async with second.listening(path):
            await eventually(lambda: one._connection is not None)
            assert await ask(one) == b"changes"
