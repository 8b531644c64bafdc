"""The Ray driver's side: a dispatcher that is gone, paused or started again; Ray's calls are played."""

import asyncio
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import ray

from dispatcher.service import ray_caller
from dispatcher.service.gateway import actor
from dispatcher.service.gateway.actor_settings import ActorSettings, NamedSettings, digest_of
from dispatcher.service.link import AgentDied, AgentFault, AgentMissing
from dispatcher.service.ray_driver import server
from dispatcher.service.ray_driver.client import RayDriver
from dispatcher.service.ray_driver.connection import Connection
from dispatcher.service.ray_driver.messages import Answer, Beat, Call, Failure, Ready, Setup, decode_to_dispatcher
from dispatcher.service.ray_driver.server import Server
from tests.service.gateway.test_gateway import eventually

OURS = ActorSettings("1", 0, {}, ("east",), "info")
OTHERS = ActorSettings("1", 0, {}, ("east", "west"), "info")
LEADS_S = 0.3


class PlayedActor:
    """An actor with a digest; `collect` answers with what it was made with, once `held` is set."""

    def __init__(self, settings: NamedSettings) -> None:
        self._settings = settings
        self.held, self.digest_held = asyncio.Event(), threading.Event()
        self.held.set()
        self.digest_held.set()
        self.digest = self.collect = self.changes = self
        self.asked = self.cancelled = 0

    def remote(self, *words: object) -> Any:
        return digest_of(self._settings.encoded()) if not words else self._answer()

    async def _answer(self) -> bytes:
        self.asked += 1
        try:
            await self.held.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self._settings.encoded()


class PlayedRay:
    """Actors by name."""

    def __init__(self) -> None:
        self.held: dict[str, PlayedActor] = {}
        self.killed: list[PlayedActor] = []

    def get_actor(self, name: str, namespace: str) -> PlayedActor:
        if name not in self.held:
            raise ValueError(f"no actor {name}")
        return self.held[name]

    def kill(self, one: PlayedActor) -> None:
        self.killed.append(one)
        self.held = {name: other for name, other in self.held.items() if other is not one}

    def make_actor(self, settings: NamedSettings) -> PlayedActor:
        return self.held.setdefault(settings.name, PlayedActor(settings))

    def get(self, answer: object, timeout: float) -> object:
        for one in self.held.values():
            one.digest_held.wait(timeout)
        return answer


@pytest.fixture(autouse=True)
def rays(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    one = PlayedRay()
    for call in (one.get_actor, one.kill, one.get):
        monkeypatch.setattr(ray, call.__name__, call)
    monkeypatch.setattr(actor, "make_actor", one.make_actor)
    monkeypatch.setattr(actor, "list_named_actors", lambda: list(one.held))
    monkeypatch.setattr(actor, "SURPLUS_S", 0.02)
    monkeypatch.setattr(server, "LEADS_S", LEADS_S)
    monkeypatch.setattr(server, "joined_actor", lambda cluster: one.get_actor(f"agent:{cluster}", ""))
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

    def leads(self) -> bool:
        """Say so, again and again on a slow machine."""
        self.say(Beat(True))
        return True

    def answers(self) -> dict[int, Any]:
        return {one.number: one for one in self.heard if isinstance(one, Answer | Failure)}


@asynccontextmanager
async def connected(path: Path, actors: tuple[ActorSettings, ...] = (OURS,)) -> AsyncIterator[Dispatcher]:
    one = Dispatcher()
    await asyncio.get_running_loop().create_unix_connection(lambda: one.connection, str(path))
    one.say(Setup("1", ("west",), {each.name: each.encoded() for each in actors}))
    await eventually(lambda: any(isinstance(message, Ready) for message in one.heard))
    try:
        yield one
    finally:
        one.connection.end("over")


def collect(number: int, *, leads: bool = False) -> Call:
    return Call(number, leads, "gateway-0", "collect", 0.0, (b"", 60.0))


async def test_the_socket_is_for_this_user_and_group_and_takes_the_place_of_a_stale_one(tmp_path: Path) -> None:
    for _ in range(2):
        async with Server().listening(tmp_path / "s"), connected(tmp_path / "s"):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660


async def test_a_gateway_actor_is_made_with_what_the_dispatcher_says_byte_for_byte(path: Path, rays: PlayedRay) -> None:
    async with connected(path) as one:
        one.say(collect(1, leads=True))
        await eventually(lambda: 1 in one.answers())
        assert one.answers()[1] == Answer(1, OURS.encoded())
        assert list(rays.held) == ["gateway-0"]


async def test_surplus_actors_end_while_the_dispatcher_says_that_it_leads_and_no_longer(
    path: Path, rays: PlayedRay
) -> None:
    async with connected(path) as one:
        rays.held["gateway-3"] = PlayedActor(OTHERS)
        await eventually(lambda: one.leads() and len(rays.killed) == 1)
        await asyncio.sleep(LEADS_S + 0.05)  # it is paused
        rays.held["gateway-4"] = PlayedActor(OTHERS)
        await asyncio.sleep(LEADS_S)
        assert (len(rays.killed), "gateway-4" in rays.held) == (1, True)
        one.say(Beat(False))
        await asyncio.sleep(0.1)
        assert len(rays.killed) == 1
        await eventually(lambda: one.leads() and len(rays.killed) == 2)


async def test_an_actor_with_other_settings_is_replaced_by_who_leads_and_not_by_who_did_long_ago(
    path: Path, rays: PlayedRay
) -> None:
    rays.held["gateway-0"] = PlayedActor(OTHERS)
    rays.held["gateway-0"].digest_held.clear()
    async with connected(path) as one:
        one.say(collect(1, leads=True))
        await asyncio.sleep(LEADS_S + 0.05)  # its digest is slow, and the dispatcher is paused
        rays.held["gateway-0"].digest_held.set()
        await eventually(lambda: 1 in one.answers())
        assert (one.answers()[1], rays.killed) == (Answer(1, OTHERS.encoded()), [])
        one.say(collect(2, leads=True))
        await eventually(lambda: one.leads() and 2 in one.answers())
        assert (one.answers()[2], len(rays.killed)) == (Answer(2, OURS.encoded()), 1)


async def test_a_dispatcher_that_is_gone_ends_nothing_any_more(path: Path, rays: PlayedRay) -> None:
    async with connected(path) as one:
        one.say(Beat(True))
        one.say(collect(1, leads=True))
        await eventually(lambda: 1 in one.answers())
        rays.held["gateway-0"].held.clear()
        one.say(collect(2, leads=True))
        await eventually(lambda: rays.held["gateway-0"].asked == 2)
    await eventually(lambda: rays.held["gateway-0"].cancelled == 1)  # the end of the connection is known there
    rays.held["gateway-3"] = PlayedActor(OTHERS)
    await asyncio.sleep(0.1)
    assert rays.killed == []


async def test_a_new_connection_takes_over_from_a_stale_one(path: Path) -> None:
    async with connected(path) as stale, connected(path) as one:
        await eventually(lambda: bool(stale.lost))
        one.say(collect(1, leads=True))
        await eventually(lambda: 1 in one.answers())
        assert (one.lost, stale.answers()) == ("", {})


@pytest.mark.parametrize(
    "said",
    [
        Call(1, False, "gateway-0", "send", 0.0, ({"a": 1},)),
        Setup("1", (), {}),
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
    one = RayDriver(str(path), ["west"], [OURS], lambda: True)
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
        rays.held["agent:west"] = PlayedActor(OURS)
        assert await ask(one, "agent:west", "changes", "", 0, 1.0) == OURS.encoded()
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
        rays.held["agent:west"] = PlayedActor(OURS)
        monkeypatch.setattr(rays.held["agent:west"], "_answer", raises)
        with pytest.raises(AgentFault):
            await ask(one, "agent:west", "changes", "", 0, 1.0)
        assert await ask(one, "gateway-0", "collect", b"", 1.0) == OURS.encoded()


async def test_a_call_that_is_given_up_is_cancelled_at_the_actor(
    path: Path, rays: PlayedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    monkeypatch.setattr(ray_caller, "cancel", ended.append)
    rays.held["agent:west"] = PlayedActor(OURS)
    rays.held["agent:west"].held.clear()
    async with dispatcher(path) as one:
        poll = asyncio.create_task(ask(one, "agent:west", "changes", "", 0, 1.0))
        await eventually(lambda: rays.held["agent:west"].asked == 1)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await eventually(lambda: len(ended) == 1)


async def test_a_driver_that_begins_again_has_the_same_actors(tmp_path: Path, rays: PlayedRay) -> None:
    async with dispatcher(tmp_path / "s") as one:
        async with Server().listening(tmp_path / "s"):
            await eventually(lambda: one._connection is not None)
            assert await ask(one, "gateway-0", "collect", b"", 1.0) == OURS.encoded()
            rays.held["gateway-0"].held.clear()
            under_way = asyncio.create_task(ask(one, "gateway-0", "collect", b"", 1.0))
            await eventually(lambda: rays.held["gateway-0"].asked == 2)
        with pytest.raises(AgentDied, match="the Ray driver is gone"):
            await under_way
        rays.held["gateway-0"].held.set()
        async with Server().listening(tmp_path / "s"):
            await eventually(lambda: one._connection is not None)
            assert await ask(one, "gateway-0", "collect", b"", 1.0) == OURS.encoded()
    assert rays.killed == []
