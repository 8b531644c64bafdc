"""What kubectl's API server gets at the kubelet endpoint of a proxy node: the same as of a kubelet, or a plain no."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.runtime.relay.places import OF_NAMESPACE
from tests.relay.fake_api import Asked
from tests.relay.world import DELEGATE, WAIT_S, World, ask, world

LOGS = "/containerLogs/default/web/main"
EXEC = "/exec/default/web/main?command=sh&command=-c&command=a%26b&input=1&output=1&tty=1"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


async def _echo(asked: Asked) -> None:
    await asked.switch()
    while data := await asked.reader.read(65536):
        await asked.say(data)


def _log(*lines: bytes) -> object:
    async def script(asked: Asked) -> None:
        await asked.begin_log()
        for line in (*lines, b""):
            await asked.chunk(line)

    return script


async def test_a_log_is_that_of_the_delegate_with_what_was_asked(fleet: World) -> None:
    fleet.target.api.script = _log(b"one\n", b"two\n")  # type: ignore[assignment]
    answer = await fleet.ask(f"{LOGS}?tailLines=5&previous=true&sinceSeconds=7&timestamps=true&insecure=1")
    assert (answer.status, answer.headers["content-type"], await answer.rest()) == (200, "text/plain", b"one\ntwo\n")
    (asked,) = fleet.target.api.asked
    assert (asked.method, asked.path) == ("GET", f"/api/v1/namespaces/default/pods/{DELEGATE}/log")
    wanted = {"tailLines": "5", "previous": "true", "sinceSeconds": "7", "timestamps": "true", "container": "main"}
    assert dict(asked.query) == wanted
    assert asked.headers["authorization"] == "Bearer west-token"


async def test_a_followed_log_comes_as_it_is_written_and_ends_with_its_reader(fleet: World) -> None:
    go_on, gone = asyncio.Event(), asyncio.Event()

    async def script(asked: Asked) -> None:
        await asked.begin_log()
        await asked.chunk(b"first\n")
        await go_on.wait()
        await asked.chunk(b"second\n")
        await asked.reader.read()
        gone.set()

    fleet.target.api.script = script
    answer = await fleet.ask(f"{LOGS}?follow=true")
    assert await answer.chunk() == b"first\n"
    go_on.set()
    assert await answer.chunk() == b"second\n"
    answer.writer.close()
    await asyncio.wait_for(gone.wait(), WAIT_S)


async def test_a_silent_log_that_is_given_up_before_its_first_line_ends_too(fleet: World) -> None:
    asked_at, gone = asyncio.Event(), asyncio.Event()

    async def script(asked: Asked) -> None:
        asked_at.set()
        await asked.reader.read()
        gone.set()

    fleet.target.api.script = script
    _, writer = await fleet.open()
    writer.write(f"GET {LOGS}?follow=true HTTP/1.1\r\nHost: node\r\n\r\n".encode())
    await asyncio.wait_for(asked_at.wait(), WAIT_S)
    writer.close()
    await asyncio.wait_for(gone.wait(), WAIT_S)


async def test_a_log_whose_server_dies_is_cut_and_not_ended(fleet: World) -> None:
    async def script(asked: Asked) -> None:
        await asked.begin_log()
        await asked.chunk(b"first\n")
        asked.writer.transport.abort()

    fleet.target.api.script = script
    answer = await fleet.ask(f"{LOGS}?follow=true")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await answer.rest()


@pytest.mark.parametrize("side", ["east", "west"])
async def test_a_log_is_cut_when_an_agent_dies(fleet: World, side: str) -> None:
    async def script(asked: Asked) -> None:
        await asked.begin_log()
        await asked.chunk(b"first\n")
        await asked.reader.read()

    fleet.target.api.script = script
    answer = await fleet.ask(f"{LOGS}?follow=true")
    assert await answer.chunk() == b"first\n"
    fleet.diallers[side].cancel()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await asyncio.wait_for(answer.rest(), WAIT_S)


async def test_exec_switches_and_passes_bytes_both_ways(fleet: World) -> None:
    fleet.target.api.script = _echo
    extra = (
        "X-Stream-Protocol-Version: v5.channel.k8s.io\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nCookie: a=b"
    )
    answer = await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1", extra=extra)
    assert (answer.status, answer.headers["upgrade"]) == (101, "SPDY/3.1")
    answer.writer.write(b"hello")
    assert await asyncio.wait_for(answer.reader.readexactly(5), WAIT_S) == b"hello"
    (asked,) = fleet.target.api.asked
    assert (asked.method, asked.path) == ("POST", f"/api/v1/namespaces/default/pods/{DELEGATE}/exec")
    shown = [("stdin", "true"), ("stdout", "true"), ("tty", "true"), ("command", "sh"), ("command", "-c")]
    assert asked.query == [*shown, ("command", "a&b"), ("container", "main")]
    assert (asked.headers["upgrade"], asked.headers["connection"]) == ("SPDY/3.1", "Upgrade")
    assert "cookie" not in asked.headers


async def test_port_forward_and_websockets_pass_too(fleet: World) -> None:
    fleet.target.api.script = _echo
    extra = "Sec-WebSocket-Key: k\r\nSec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\nSec-WebSocket-Version: 13"
    answer = await fleet.ask("/portForward/default/web?port=80,443", upgrade="websocket", extra=extra)
    assert answer.status == 101
    (asked,) = fleet.target.api.asked
    assert asked.query == [("ports", "80"), ("ports", "443")]
    assert asked.headers["sec-websocket-protocol"] == "SPDY/3.1+portforward.k8s.io"


async def test_much_passes_both_ways_within_the_window(fleet: World) -> None:
    fleet.target.api.script = _echo
    answer = await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1")
    size = 10 * 1024 * 1024
    sent = bytes(range(256)) * (size // 256)

    async def send() -> None:
        for at in range(0, size, 65536):
            answer.writer.write(sent[at : at + 65536])
            await answer.writer.drain()

    sending = asyncio.create_task(send())
    assert await asyncio.wait_for(answer.reader.readexactly(size), 60) == sent
    await sending


async def test_a_reader_who_does_not_read_holds_up_nobody_else(fleet: World) -> None:
    produced = 0

    async def flood(asked: Asked) -> None:
        nonlocal produced
        await asked.switch()
        while True:
            await asked.say(b"x" * 65536)
            produced += 65536

    fleet.target.api.script = flood
    answer = await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1")
    answer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    before = -1
    while produced != before:
        before = produced
        await asyncio.sleep(0.5)
    assert produced < 32 * 1024 * 1024
    fleet.target.api.script = _log(b"quick\n")  # type: ignore[assignment]
    assert await asyncio.wait_for((await fleet.ask(LOGS)).rest(), WAIT_S) == b"quick\n"
    answer.writer.transport.abort()


@pytest.mark.parametrize("which", ["server", "east", "west", "gateway"])
async def test_exec_is_cut_when_a_side_dies(fleet: World, which: str) -> None:
    ended = asyncio.Event()

    async def script(asked: Asked) -> None:
        try:
            await _echo(asked)
        finally:
            ended.set()

    fleet.target.api.script = script
    answer = await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1")
    answer.writer.write(b"x")
    assert await answer.reader.readexactly(1) == b"x"
    if which == "server":
        fleet.target.api.die()
    elif which == "gateway":
        for _, socket in list(fleet.gateway._lines.values()):
            await socket.close()
    else:
        fleet.diallers[which].cancel()
    with contextlib.suppress(ConnectionError):  # TLS may tell an abort as an end
        await asyncio.wait_for(answer.rest(), WAIT_S)
    await asyncio.wait_for(ended.wait(), WAIT_S)


async def test_the_end_of_the_caller_is_the_end_of_the_command(fleet: World) -> None:
    got = asyncio.Queue[bytes]()

    async def script(asked: Asked) -> None:
        await asked.switch()
        got.put_nowait(await asked.reader.read())

    fleet.target.api.script = script
    answer = await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1")
    answer.writer.write(b"last words" * 10_000)
    answer.writer.close()
    assert await asyncio.wait_for(got.get(), WAIT_S) == b"last words" * 10_000


async def test_what_the_command_says_after_the_caller_is_silent_still_arrives(fleet: World) -> None:
    async def script(asked: Asked) -> None:
        await asked.switch()
        await asked.say(b"said" * 2_000_000)

    fleet.target.api.script = script
    answer = await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1")
    assert await asyncio.wait_for(answer.rest(), WAIT_S) == b"said" * 2_000_000


@pytest.mark.parametrize(("status", "shown"), [(400, 400), (403, 500), (404, 500), (503, 500)])
async def test_what_the_target_refuses_is_told_with_the_pods_own_name(fleet: World, status: int, shown: int) -> None:
    async def script(asked: Asked) -> None:
        await asked.refuse(status, f'container "main" in pod "{DELEGATE}" is waiting')

    fleet.target.api.script = script
    text = 'container "main" in pod "web" is waiting'
    answer = await fleet.ask(LOGS)
    assert (answer.status, (await answer.rest()).decode()) == (shown, text)
    answer = await fleet.ask(EXEC, upgrade="SPDY/3.1")
    assert (answer.status, json.loads(await answer.rest())["message"]) == (shown, text)


async def test_more_streams_than_a_namespace_may_have_are_refused_in_words(fleet: World) -> None:
    fleet.target.api.script = _echo
    answers = [await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1") for _ in range(OF_NAMESPACE)]
    assert {answer.status for answer in answers} == {101}
    one_more = await fleet.ask(LOGS)
    assert (one_more.status, b"end one of them" in await one_more.rest()) == (500, True)
    for answer in answers:
        answer.writer.close()

    while (await fleet.ask(EXEC, method="POST", upgrade="SPDY/3.1")).status != 101:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.1)


async def test_a_hundred_logs_are_served_as_many_in_parallel_as_a_namespace_may_have(fleet: World) -> None:
    fleet.target.api.script = _log(b"one\n", b"two\n")  # type: ignore[assignment]
    trust, several = fleet.trust(), asyncio.Semaphore(OF_NAMESPACE)

    async def one() -> tuple[int, bytes]:
        async with several:
            answer = await ask(*await fleet.open(trust), LOGS, method="GET", upgrade="", extra="")
            return answer.status, await answer.rest()

    assert set(await asyncio.gather(*(one() for _ in range(100)))) == {(200, b"one\ntwo\n")}
