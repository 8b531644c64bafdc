"""The Ray driver's side: a dispatcher that is gone, paused or started again; Ray's calls are played."""

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dispatcher.service import ray_caller
from dispatcher.service.link import AgentDied, AgentFault, AgentMissing
from dispatcher.service.ray_driver import server
from dispatcher.service.ray_driver.client import RayDriver
from dispatcher.service.ray_driver.connection import Connection
from dispatcher.service.ray_driver.messages import Answer, Call, Failure, Ready, Setup, decode_to_dispatcher
from dispatcher.service.ray_driver.server import Server
from tests.service.gateway.test_gateway import eventually

ANSWER = b"what an agent says"


class PlayedActor:
    """An actor that answers, once `held` is set."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.held.set()
        self.changes = self
        self.asked = 0

    def remote(self, *words: object) -> Any:
        return self._answer()

    async def _answer(self) -> bytes:
        self.asked += 1
        await self.held.wait()
        return ANSWER


class PlayedRay:
    """Actors by name."""

    def __init__(self) -> None:
        self.held: dict[str, PlayedActor] = {}

    def joined_actor(self, cluster: str) -> PlayedActor:
        if (found := self.held.get(f"agent:{cluster}")) is None:
            raise ValueError(f"no actor agent:{cluster}")
        return found


@pytest.fixture(autouse=True)
def rays(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    one = PlayedRay()
    monkeypatch.setattr(server, "joined_actor", one.joined_actor)
    return one


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    async with Server().listening(tmp_path / "s"):
        yield tmp_path / "s"


class Dispatcher:
    """Says what it is told to, and nothing by itself: one that is paused is not heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.lost = ""
        self.connection = Connection(decode_to_dispatcher, self.heard.append, self._lose)

    def _lose(self, why: str) -> None:
        self.lost = why

    def say(self, message: Any) -> None:
        self.connection.send(message)

    def answers(self) -> dict[int, Any]:
        return {one.number: one for one in self.heard if isinstance(one, Answer | Failure)}


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Dispatcher]:
    one = Dispatcher()
    await asyncio.get_running_loop().create_unix_connection(lambda: one.connection, str(path))
    one.say(Setup("1", ("west",)))
    await eventually(lambda: any(isinstance(message, Ready) for message in one.heard))
    try:
        yield one
    finally:
        one.connection.end("over")


def changes(number: int) -> Call:
    return Call(number, "agent:west", "changes", 60.0, ("", 0, 1.0))


async def test_the_socket_is_for_this_user_and_group_and_takes_the_place_of_a_stale_one(tmp_path: Path) -> None:
    for _ in range(2):
        async with Server().listening(tmp_path / "s"), connected(tmp_path / "s"):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660


async def test_a_new_connection_takes_over_from_a_stale_one(path: Path) -> None:
    async with connected(path) as stale, connected(path) as one:
        await eventually(lambda: bool(stale.lost))
        one.say(changes(1))
        await eventually(lambda: 1 in one.answers())
        assert (one.lost, stale.answers()) == ("", {})


@pytest.mark.parametrize(
    "said",
    [
        Call(1, "agent:west", "execute", 0.0, ({"a": 1},)),
        Setup("1", ()),
        Answer(1, b""),
    ],
    ids=["a word that is none", "a second setup", "a message of the driver's"],
)
async def test_a_dispatcher_that_says_what_cannot_be_taken_loses_the_connection(path: Path, said: Any) -> None:
    async with connected(path) as one:
        one.say(said)
        await eventually(lambda: bool(one.lost))


# --- with the dispatcher's own side ----------------------------------------------------------------------------------


@asynccontextmanager
async def dispatcher(path: Path) -> AsyncIterator[RayDriver]:
    one = RayDriver(str(path), ["west"])
    async with one.serving(), asyncio.timeout(30):
        yield one


async def ask(one: RayDriver, target: str, method: str, *words: Any) -> bytes:
    return await one.call(target, method, words, 60.0, 80.0)


async def test_calls_of_agents_fail_by_their_kinds(
    path: Path, rays: PlayedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dispatcher(path) as one:
        with pytest.raises(AgentMissing, match="agent of cluster west cannot be started: no actor agent:west"):
            await ask(one, "agent:west", "changes", "", 0, 1.0)
        rays.held["agent:west"] = PlayedActor()
        assert await ask(one, "agent:west", "changes", "", 0, 1.0) == ANSWER
        monkeypatch.setattr(rays.held["agent:west"], "_answer", hostile)
        with pytest.raises(AgentFault, match="agent of cluster west answered changes with an object of Python"):
            await ask(one, "agent:west", "changes", "", 0, 1.0)
        with pytest.raises(AgentFault, match="agent:south is none of what the dispatcher has said that it calls"):
            await ask(one, "agent:south", "changes", "", 0, 1.0)


async def hostile() -> object:
    return object()


@pytest.mark.parametrize("odd", [RuntimeError("\ud800 surrogate"), KeyError("x" * 10_000), StopAsyncIteration()])
async def test_whatever_an_actor_makes_ray_raise_fails_that_call_alone(
    path: Path, rays: PlayedRay, monkeypatch: pytest.MonkeyPatch, odd: Exception
) -> None:
    async def raises() -> bytes:
        raise odd

    async with dispatcher(path) as one:
        rays.held["agent:west"] = PlayedActor()
        with monkeypatch.context() as patched:
            patched.setattr(rays.held["agent:west"], "_answer", raises)
            with pytest.raises(AgentFault):
                await ask(one, "agent:west", "changes", "", 0, 1.0)
        assert await ask(one, "agent:west", "changes", "", 0, 1.0) == ANSWER


async def test_a_call_that_is_given_up_is_cancelled_at_the_actor(
    path: Path, rays: PlayedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    monkeypatch.setattr(ray_caller, "cancel", ended.append)
    rays.held["agent:west"] = PlayedActor()
    rays.held["agent:west"].held.clear()
    async with dispatcher(path) as one:
        poll = asyncio.create_task(ask(one, "agent:west", "changes", "", 0, 1.0))
        await eventually(lambda: rays.held["agent:west"].asked == 1)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await eventually(lambda: len(ended) == 1)


async def test_a_driver_that_begins_again_has_the_same_actors(tmp_path: Path, rays: PlayedRay) -> None:
    rays.held["agent:west"] = PlayedActor()
    async with dispatcher(tmp_path / "s") as one:
        async with Server().listening(tmp_path / "s"):
            await eventually(lambda: one._connection is not None)
            assert await ask(one, "agent:west", "changes", "", 0, 1.0) == ANSWER
            rays.held["agent:west"].held.clear()
            under_way = asyncio.create_task(ask(one, "agent:west", "changes", "", 0, 1.0))
            await eventually(lambda: rays.held["agent:west"].asked == 2)
        with pytest.raises(AgentDied, match="the Ray driver is gone"):
            await under_way
        rays.held["agent:west"].held.set()
        async with Server().listening(tmp_path / "s"):
            await eventually(lambda: one._connection is not None)
            assert await ask(one, "agent:west", "changes", "", 0, 1.0) == ANSWER
