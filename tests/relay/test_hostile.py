"""Who breaks the rules harms himself: callers without rights, agents that lie, a gateway that grants too much."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.executor.relayed.relay import FORBIDDEN, Refusal, Wanted
from agents.runtime.relay import endpoint, far_end, near_end
from agents.runtime.relay.far_end import FarEnd
from dispatcher.service.gateway.certificates import Named
from shared.messages.relay import RelayAsk, RelayHead, encode_relay
from shared.messages.usage import Usage, encode_usage
from shared.model.pod import Pod
from shared.streams import FrameKind, Message, ProtocolError
from shared.streams.frames import STREAM_WINDOW, amount
from shared.streams.relayed import MAX_BETWEEN, Stream, StreamReset
from tests.relay.fake_api import Asked
from tests.relay.world import CALLER, HOME, TARGET, WAIT_S, World, world

LOGS = "/containerLogs/default/web/main"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        made.target.api.script = _said
        yield made


async def _said(asked: Asked) -> None:
    await asked.begin_log()
    await asked.chunk(b"said\n")
    await asked.chunk(b"")


async def told(fleet: World, target: str = LOGS) -> tuple[int, str]:
    answer = await fleet.ask(target)
    found = answer.status, (await answer.rest()).decode()
    answer.writer.close()
    return found


@pytest.mark.parametrize("target", ["//[", "http://[x/containerLogs/default/web/main"])
async def test_an_address_that_is_none_is_refused(fleet: World, target: str, caplog: pytest.LogCaptureFixture) -> None:
    status, text = await told(fleet, target)
    assert (status, "address cannot be read" in text) == (400, True)
    assert not caplog.records


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(encode_relay(RelayHead(200, (("content-type", "é"),))), id="a header that is none"),
        pytest.param(b"\x93\xcc\xc8\x90\xa1\xff", id="a text that is none"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_said(
    fleet: World, head: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def answered(_: FarEnd, *given: Any) -> None:
        stream: Stream = given[-1]
        await stream.write(head)
        await stream.read()

    monkeypatch.setattr(FarEnd, "_answered", answered)
    assert (await told(fleet))[0] == 500
    assert not caplog.records


async def test_a_review_that_cannot_be_read_is_said(
    fleet: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fleet.home.api, "_answer", lambda parts, body: (201, "<html>busy</html>"))
    status, text = await told(fleet)
    assert (status, "cannot read" in text) == (500, True)
    assert not caplog.records


async def test_a_target_that_never_ends_what_it_refused_takes_no_streams_away(
    fleet: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(_: FarEnd, stream: Stream) -> RelayAsk:
        await stream.write(bytes(16))
        await stream.read()
        await stream.write(encode_relay(RelayHead(FORBIDDEN, (), "no")))
        await asyncio.Event().wait()
        raise Refusal(FORBIDDEN, "never")

    monkeypatch.setattr(FarEnd, "_asked", asked)
    monkeypatch.setattr(far_end, "OPENING_S", 1_000.0)
    for _ in range(MAX_BETWEEN + 1):
        assert await told(fleet) == (FORBIDDEN, "no")


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_who_never_finishes_a_handshake_uses_up_no_files_and_keeps_nobody_out(fleet: World) -> None:
    assert fleet.endpoint is not None
    port, before = fleet.endpoint.port, _open_files()
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * endpoint.MAX_HANDSHAKES)]
    assert (await told(fleet))[0] == 200  # so all before it were accepted
    assert _open_files() - before - len(held) < 2 * endpoint.MAX_HANDSHAKES
    for _, writer in held:
        writer.close()


@pytest.mark.parametrize("name", [None, "alice"])
async def test_strangers_that_only_connect_keep_nobody_out(fleet: World, name: str | None) -> None:
    context = fleet.trust(name)
    held = [await fleet.open(context) for _ in range(endpoint.MAX_OPEN)]
    assert (await told(fleet))[0] == 200
    for _, writer in held:
        writer.close()


async def test_a_log_in_small_pieces_is_put_together_so_that_the_connection_stays_free(fleet: World) -> None:
    """Each frame costs the gateway, which reads so many a second and no more, whatever they are about."""
    pieces = 20_000

    async def script(asked: Asked) -> None:
        await asked.begin_log()
        await asked.say(b"1\r\nx\r\n" * pieces)
        await asked.chunk(b"")

    fleet.target.api.script = script
    line = fleet.gateway._lines[Named(TARGET, "executor")][0]
    before = line._connection._streams.little
    assert await told(fleet, f"{LOGS}?follow=true") == (200, "x" * pieces)
    assert line._connection._streams.little - before < pieces / 100
    assert Named(HOME, "executor") in fleet.gateway._lines


def test_a_gateway_that_grants_without_end_ends_the_connection() -> None:
    stream = Stream(lambda kind, body: None)
    with pytest.raises(ProtocolError, match="more was granted"):
        stream.take(Message(FrameKind.GRANT, 1, amount(STREAM_WINDOW)))


async def test_an_agent_whose_words_are_no_text_is_cut(fleet: World, caplog: pytest.LogCaptureFixture) -> None:
    relayed = fleet.gateway._lines[Named(TARGET, "executor")][0].relayed
    for body in (b"\x92\xa1\xff\xa1x", msgspec.msgpack.encode("x"), b"\x93\xa1x\xa1x" + b"\x91" * 10_000):
        with pytest.raises(ProtocolError, match="cannot be read"):
            relayed.take(Message(FrameKind.OPEN, 0xC000_0000, body))
    assert not caplog.records


async def test_a_source_that_reads_all_figures_and_never_finishes_ends_no_connection_and_keeps_no_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = near_end._Held()

    async def read(near: near_end.NearEnd, wanted: Wanted, pod: Pod, cluster: str, most: int) -> bytes:
        await near._asked(wanted, pod, cluster, held)
        while await held.stream.read():
            pass
        return encode_usage(Usage())

    monkeypatch.setattr(near_end.NearEnd, "read", read)
    monkeypatch.setattr(far_end, "OPENING_S", 0.3)
    monkeypatch.setattr(far_end, "ANSWER_S", 0.6)
    async with world(tmp_path) as made:
        made.home.api.allowed.add(CALLER)
        line = made.gateway._lines[Named(TARGET, "executor")][0]
        assert (await told(made, "/metrics/resource/global-dispatcher-west"))[0] == 200
        async with asyncio.timeout(WAIT_S):
            while not held.stream.over:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.05)
        assert made.gateway._lines[Named(TARGET, "executor")][0] is line


async def test_nothing_is_sent_after_the_end_was_said() -> None:
    sent: list[FrameKind] = []
    stream = Stream(lambda kind, body: sent.append(kind))
    stream.finish()
    with pytest.raises(StreamReset, match="sends no more"):
        await stream.write(b"more")
    assert sent == [FrameKind.FINISH]
