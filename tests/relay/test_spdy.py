"""An exec over SPDY that breaks off ends with a failure on its error stream, and never within another frame."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime.relay.spdy import ERROR_STREAM, Frames
from tests.relay.fake_api import Asked
from tests.relay.world import WAIT_S, World, world

EXEC = "/exec/default/web/main?command=sleep&input=1&output=1"
REPLY = b"\x80\x03\x00\x02" + b"\x00" + b"\x00\x00\x04" + b"\x00\x00\x00\x01"  # SYN_REPLY to stream 1
OUTPUT = b"\x00\x00\x00\x05" + b"\x00" + b"\x00\x00\x06" + b"begun\n"
# As kubelets say it: without FIN.
ENDED = b"\x00\x00\x00\x01" + b"\x00" + b"\x00\x00\x10" + b'{"status":"S..."'


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


def last_word(data: bytes) -> dict[str, object]:
    """The Status in a frame of the error stream that ends it."""
    assert data[:5] == ERROR_STREAM.to_bytes(4, "big") + b"\x01"
    assert int.from_bytes(data[5:8], "big") == len(data) - 8
    status: dict[str, object] = json.loads(data[8:])
    return status


@given(st.lists(st.sampled_from([REPLY, OUTPUT]), max_size=5), st.data())
def test_between_two_frames_however_they_came_the_failure_is_said(frames: list[bytes], data: st.DataObject) -> None:
    came, followed = b"".join(frames), Frames()
    at = 0
    while at < len(came):
        size = data.draw(st.integers(1, len(came) - at))
        followed.follow(came[at : at + size])
        at += size
    status = last_word(followed.farewell("gone"))
    assert (status["status"], status["message"]) == ("Failure", "the connection to the pod's cluster broke: gone")


@given(st.sampled_from([REPLY, OUTPUT]), st.data())
def test_nothing_is_said_within_a_frame(frame: bytes, data: st.DataObject) -> None:
    followed = Frames()
    followed.follow(OUTPUT + frame[: data.draw(st.integers(1, len(frame) - 1))])
    assert followed.farewell("gone") == b""


def test_an_empty_frame_of_the_error_stream_tells_nothing_yet() -> None:
    followed = Frames()
    followed.follow(ENDED[:5] + b"\x00\x00\x00")
    assert followed.farewell("gone")


def test_nothing_is_said_when_the_command_has_told_how_it_ended() -> None:
    followed = Frames()
    followed.follow(REPLY + OUTPUT + ENDED)
    assert followed.farewell("gone") == b""


@pytest.mark.parametrize(
    ("protocol", "told"), [pytest.param("SPDY/3.1", True, id="SPDY"), pytest.param("websocket", False, id="WebSocket")]
)
async def test_an_exec_whose_cluster_is_lost_is_told_so_where_a_cut_would_be_success(
    fleet: World, protocol: str, told: bool
) -> None:
    async def script(asked: Asked) -> None:
        await asked.switch(protocol)
        await asked.say(REPLY + OUTPUT)
        await asked.reader.read()

    fleet.target.api.script = script
    answer = await fleet.ask(EXEC, method="POST", upgrade=protocol)
    assert await answer.reader.readexactly(len(REPLY + OUTPUT)) == REPLY + OUTPUT
    fleet.diallers["west"].cancel()
    try:
        rest = await asyncio.wait_for(answer.rest(), WAIT_S)
    except ConnectionError:
        rest = b""
    assert bool(rest) == told
    assert not told or last_word(rest)["status"] == "Failure"
