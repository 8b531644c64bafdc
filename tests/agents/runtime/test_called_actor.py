"""The shell that Ray runs: bytes in, bytes out. Ray itself is not started."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.runtime import called_actor as actor
from agents.runtime.settings import AgentSettings
from shared.messages import (
    UNKNOWN,
    Bind,
    Changes,
    Hello,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    PodRef,
    Telemetry,
    WireError,
    decode,
    encode,
)
from shared.version import version
from tests.agents.kube.fake_server import FakeApi, fake_api


@asynccontextmanager
async def an_actor(api: FakeApi, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[actor.CalledActor]:
    """An actor's object, its process-wide settings left alone."""
    monkeypatch.setattr(actor, "configure_logging", lambda level, file: None)
    monkeypatch.setattr(actor, "allow_open_files", lambda: 0)
    monkeypatch.setattr(actor, "collect_less_often", lambda: None)
    monkeypatch.setattr(actor, "keep_freed_memory", lambda: None)
    settings = AgentSettings.model_validate({"cluster": "east", "kubeconfig": api.kubeconfig(folder)})
    shell = actor.CalledActor(settings.model_dump_json().encode())
    try:
        yield shell
    finally:
        await shell.stop()


async def until_obeyed(shell: actor.CalledActor, epoch: int) -> None:
    async with asyncio.timeout(60):
        while decode(Hello, await shell.hello()).obeys < epoch:  # noqa: ASYNC110 - told by nothing but the answer
            await asyncio.sleep(0.005)


async def test_all_calls_speak_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_api() as api, an_actor(api, tmp_path, monkeypatch) as shell:
        hello = decode(Hello, await shell.hello())
        changes = decode(Changes, await shell.changes("", 0, 5.0))
        assert (hello.cluster, hello.incarnation) == ("east", changes.incarnation)
        assert (hello.agent_version, abs(hello.now - time.time()) < 60) == (version(), True)
        heard = decode(PeersAck, await shell.set_peers(encode(Peers("d", 2))))
        assert heard.word
        await until_obeyed(shell, 2)  # a call of its own, so the batch might overtake it
        batch = IntentBatch("older", 1, (Bind("i1", PodRef("default", "p", "u"), 1, "n0"),))
        answer = decode(OutcomeBatch, await shell.execute(encode(batch)))
        assert [(one.id, one.verdict) for one in answer.outcomes] == [("i1", UNKNOWN)]
        assert (answer.obeys, answer.leader, decode(Hello, await shell.hello()).obeys) == (2, "d", 2)
        telemetry = decode(Telemetry, await shell.telemetry())
        assert (telemetry.cluster, [one.name for one in telemetry.sources]) == ("east", ["kubelet"])


async def test_bytes_that_are_no_batch_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_api() as api, an_actor(api, tmp_path, monkeypatch) as shell:
        with pytest.raises(WireError, match="not a IntentBatch"):
            await shell.execute(b"junk")
        assert decode(Hello, await shell.hello()).cluster == "east"


async def test_a_new_life_has_a_new_incarnation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_api() as api, an_actor(api, tmp_path, monkeypatch) as shell:
        first = decode(Hello, await shell.hello()).incarnation
        await shell.stop()
        assert decode(Hello, await shell.hello()).incarnation != first
