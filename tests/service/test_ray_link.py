"""The way to an actor, where Ray does not answer."""

import asyncio
import threading
from typing import Any

import pytest

from dispatcher.service import ray_caller
from dispatcher.service.link import AgentMismatch, AgentMissing, AgentTimeout
from dispatcher.service.ray_caller import RayCaller
from dispatcher.service.ray_link import RayLink


class LookUp:
    """A look-up of an actor that waits until it is told how to end."""

    def __init__(self) -> None:
        self.begun = 0
        self.end = threading.Event()
        self.error: Exception | None = None

    def __call__(self) -> Any:
        self.begun += 1
        self.end.wait()
        if self.error:
            raise self.error
        return self


async def ask_in_vain(link: RayLink) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_caller, "_OPEN_TIMEOUT_S", 0.05)
        with pytest.raises(AgentTimeout, match="look-up of its actor"):
            await link.hello(timeout_s=1)


def test_a_look_up_that_never_ends_holds_up_neither_the_loop_nor_its_end() -> None:
    look_up = LookUp()
    asyncio.run(ask_in_vain(RayLink(RayCaller("east", look_up))))  # its end waits for every thread of asyncio's own
    assert look_up.begun == 1
    assert not look_up.end.is_set()
    look_up.end.set()


async def test_one_look_up_at_a_time_and_a_late_answer_is_the_next_calls() -> None:
    look_up = LookUp()
    link = RayLink(RayCaller("east", look_up))
    await ask_in_vain(link)
    await ask_in_vain(link)
    assert look_up.begun == 1
    look_up.error = ValueError("no Ray node offers it")
    look_up.end.set()
    with pytest.raises(AgentMissing, match="cannot be started: no Ray node offers it"):
        await link.hello(timeout_s=1)
    with pytest.raises(AgentMissing):
        await link.hello(timeout_s=1)
    assert look_up.begun == 2


async def test_an_agent_of_the_version_before_that_does_not_tell_of_its_sources_is_named() -> None:
    link = RayLink(RayCaller("east", object))  # an actor without that method
    with pytest.raises(AgentMismatch, match="cluster east is of an older version, which does not tell: upgrade it"):
        await link.telemetry(timeout_s=1)


class Silent:
    """An actor whose method `changes` never answers."""

    def __init__(self) -> None:
        self.changes = self
        self.asked: list[asyncio.Future[bytes]] = []

    def remote(self, *_: object) -> asyncio.Future[bytes]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]


async def test_a_poll_that_is_cancelled_is_cancelled_at_the_agent_too(monkeypatch: pytest.MonkeyPatch) -> None:
    actor, ended = Silent(), list[object]()
    monkeypatch.setattr(ray_caller, "cancel", ended.append)
    poll = asyncio.create_task(RayLink(RayCaller("east", lambda: actor)).changes("", 0, 3.0, timeout_s=60))
    async with asyncio.timeout(30):
        while not actor.asked:  # noqa: ASYNC110 - the actor is looked up in a thread
            await asyncio.sleep(0.01)
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    assert ended == actor.asked
