"""Agents that the dispatcher starts dial it with certificates that it made for them. Ray itself is not started."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest

from agents.runtime import actor
from agents.runtime.join.dial_out import Outbound, be_agent
from agents.runtime.join.settings import JoinSettings
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AgentSettings
from dispatcher.service.agents_on_ray.started_agents import StartedAgents
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.links.link import AgentFault
from dispatcher.service.links.signing import NO_SIGNER, Sealer, Signer
from shared.messages import Bind, IntentBatch, Peers, PodRef
from tests.agents.kube.fake_server import FakeApi, fake_api
from tests.agents.runtime.leader import signing_section
from tests.service.gateway.test_gateway import WAIT_S, connected

WEST = JoinSettings.model_validate(
    {
        "cluster": "west",
        "gateway": {"urls": ["wss://127.0.0.1:1"], "ca_file": "-", "cert_file": "-", "key_file": "-"},
    }
)
BATCH = IntentBatch("d", 1, (Bind("i1", PodRef("default", "web", "u1"), 1, "node-1"),), 20.0)


WEST = JoinSettings.model_validate(
    {
        "cluster": "west",
        "gateway": {"urls": ["wss://127.0.0.1:1"], "ca_file": "-", "cert_file": "-", "key_file": "-"},
    }
)


class Started:
    """In place of Ray: an actor is a task of the test."""

    def __init__(self) -> None:
        self.settings: list[JoinSettings] = []
        self._stop = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._files = ExitStack()
        self._loop = asyncio.get_running_loop()

    def create_actor(self, settings: JoinSettings, credentials: actor.Credentials) -> None:
        crossed = JoinSettings.model_validate_json(settings.model_dump_json())
        told = actor._in_memory(crossed, credentials, self._files)
        self.settings.append(told)
        self._loop.call_soon_threadsafe(self._begin, told)

    def _begin(self, told: JoinSettings) -> None:
        agent = be_agent(told, Outbound(), self._stop, shared=False)
        self._tasks.append(self._loop.create_task(agent, name="agent"))

    async def end(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)
        self._files.close()


@asynccontextmanager
async def started(
    api: FakeApi,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    sealer: Sealer = NO_SIGNER,
    **told: object,
) -> AsyncIterator[tuple[StartedAgents, Started]]:
    given = {"cluster": "east", "kubeconfig": api.kubeconfig(folder), **told}
    ray = Started()
    monkeypatch.setattr(actor, "create_actor", ray.create_actor)
    async with AsyncExitStack() as stack:
        settings = AgentSettings.model_validate(given)
        relays = {"east": RelaySettings(address="127.0.0.1", port=0)}
        agents = StartedAgents([settings], "127.0.0.1", stack.enter_context, sealer, relays)
        await stack.enter_async_context(agents.serving())
        stack.push_async_callback(ray.end)
        yield agents, ray


async def test_they_dial_in_and_obey_the_key_that_was_made_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_api() as api, started(api, tmp_path, monkeypatch) as (agents, ray):
        link = agents.link("east")
        await connected(link)
        assert (await link.set_peers(Peers("d", 1), timeout_s=WAIT_S)).word
        answer = await link.execute(BATCH, timeout_s=WAIT_S)
        assert [one.id for one in answer.outcomes] == ["i1"]
        (settings,) = ray.settings
        assert (settings.agent.orders.verified, settings.relay is not None) == (True, True)
        stranger = agents.gateway.link("east")  # with no key
        with pytest.raises(AgentFault, match="the leader has not signed it"):
            await stranger.execute(BATCH, timeout_s=WAIT_S)


async def test_one_that_is_told_whom_to_obey_obeys_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = tmp_path / "fleet"
    ensure(fleet, ["localhost"], [])
    orders = {"ca_file": str(fleet / "ca.crt")}
    signer = Signer(signing_section(fleet))
    async with fake_api() as api, started(api, tmp_path, monkeypatch, signer, orders=orders) as (agents, _):
        link = agents.link("east")
        await connected(link)
        assert (await link.execute(BATCH, timeout_s=WAIT_S)).outcomes
        with pytest.raises(AgentFault, match="refused"):
            await agents.gateway.link("east", agents._own_sealer).execute(BATCH, timeout_s=WAIT_S)


def test_an_actor_has_a_new_name_each_time_and_is_made_where_there_is_none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def options(**given: str) -> mock.Mock:
        names.append(given["name"])
        return mock.Mock()

    there = ["agent:westend:1", "other"]
    monkeypatch.setattr(actor, "list_named_actors", lambda: there)
    monkeypatch.setattr("ray.remote", lambda _: mock.Mock(options=options))
    for _ in range(2):
        actor.create_actor(WEST, actor.Credentials(b"", b"", b""))
    assert len(set(names)) == 2  # Ray would unpickle the class of whoever has the name that it is given
    assert all(name.startswith("agent:west:") for name in names)
    there.append(names[0])
    with pytest.raises(ValueError, match=f"{names[0]} is there"):
        actor.create_actor(WEST, actor.Credentials(b"", b"", b""))


def test_an_agent_that_fails_ends_its_process_so_that_ray_begins_another(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    for name in ("allow_open_files", "collect_less_often", "keep_freed_memory"):
        monkeypatch.setattr(actor, name, lambda: None)
    monkeypatch.setattr(actor, "configure_logging", lambda level, file: None)
    monkeypatch.setattr(threading, "Thread", _AtOnce)
    monkeypatch.setattr(actor, "_PAUSE_S", 0.0)
    monkeypatch.setattr(os, "_exit", ended.append)
    settings = JoinSettings.model_validate(
        {
            "cluster": "east",
            "key_file": "/nonexistent/key.pem",
            "gateway": {"urls": ["wss://127.0.0.1:1"], "ca_file": "-", "cert_file": "-", "key_file": "-"},
        }
    )
    actor.AgentActor(settings.model_dump_json().encode(), actor.Credentials(b"", b"", b""))
    assert ended == [1]


class _AtOnce:
    """A thread that has ended when it has begun."""

    def __init__(self, target: object, args: tuple[object, ...], **_: object) -> None:
        assert callable(target)
        target(*args)

    def start(self) -> None:
        pass
