"""Short calls over kept connections, against a server that misbehaves as it is told."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from shared.kube.exchange import MAX_CONNECTIONS, Exchange, Exchanges
from shared.kube.http import Request
from shared.kube.read_batching import ReadBatching
from shared.kube.rendering import USER_AGENT, Rendering
from shared.kube.response_reader import RawResponse

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POST = b"POST /api HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbody"


class Server:
    """Reads one request at a time and writes what `answers` say; b"" is silence, None the end of the connection."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                self.asked.set()
                answer = self.answers.pop(0) if self.answers else OK
                if answer is None:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def serving(*answers: bytes | None) -> AsyncIterator[tuple[Server, Exchanges]]:
    server = Server(*answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    exchanges = Exchanges(urlsplit(f"http://127.0.0.1:{server.port}"), None, None, 2.0)
    try:
        yield server, exchanges
    finally:
        exchanges.close()
        listening.close()
        await listening.wait_closed()


async def post(exchanges: Exchanges, timeout_s: float = 5.0) -> RawResponse:
    return await exchanges.call(POST, 1000, timeout_s)


async def test_a_request_goes_out_whole() -> None:
    async with serving() as (server, exchanges):
        answer = await post(exchanges)
    assert (answer.status, answer.body) == (200, b"ok")
    assert server.requests == [POST]


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async with serving() as (server, exchanges):
        for _ in range(5):
            await post(exchanges)
    assert (len(server.requests), server.connections) == (5, 1)


async def test_calls_at_once_have_a_connection_each() -> None:
    async with serving() as (server, exchanges):
        answers = await asyncio.gather(*(post(exchanges) for _ in range(8)))
    assert {answer.body for answer in answers} == {b"ok"}
    assert server.connections == 8


UNANSWERED = {
    "closed instead of answered": None,
    "half an answer": OK[:-1],
    "no HTTP": b"nonsense\r\n\r\n",
    "a body above the bound": b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
}


@pytest.mark.parametrize("answer", UNANSWERED.values(), ids=UNANSWERED.keys())
async def test_a_call_without_answer_is_an_error_and_the_next_one_well(answer: bytes | None) -> None:
    async with serving(answer) as (server, exchanges):
        with pytest.raises((OSError, ValueError)):
            await post(exchanges, 0.2)
        assert (await post(exchanges)).body == b"ok"
        assert server.connections == 2


async def test_an_answer_that_comes_after_its_call_was_given_up_is_nobodys() -> None:
    async with serving(b"") as (server, exchanges):
        with pytest.raises(TimeoutError):
            await post(exchanges, 0.1)
        assert (await post(exchanges)).body == b"ok"
        assert server.connections == 2


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    async with serving(OK + OK) as (server, exchanges):
        await post(exchanges)
        await post(exchanges)
    assert server.connections == 2


async def test_a_connection_that_the_server_ended_is_not_used_again() -> None:
    ended = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with serving(ended) as (server, exchanges):
        assert (await post(exchanges)).body == b"ok"
        assert (await post(exchanges)).body == b"ok"
    assert server.connections == 2


async def test_closing_ends_calls_under_way() -> None:
    async with serving(b"") as (server, exchanges):
        call = asyncio.create_task(post(exchanges))
        async with asyncio.timeout(60):
            await server.asked.wait()
        exchanges.close()
        with pytest.raises(OSError, match="closed"):
            await call


class Noted(ReadBatching):
    """How long each answer was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s: list[float] = []

    def came(self, loop: asyncio.AbstractEventLoop, waited_s: float) -> None:
        self.waited_s.append(waited_s)


@pytest.mark.parametrize(("requests", "answers", "came"), [(1, [], 1), (3, [], 3), (3, [OK, None], 1), (1, [b""], 0)])
async def test_naps_are_told_of_each_answer_and_of_none_that_does_not_come(
    requests: int, answers: list[bytes | None], came: int
) -> None:
    async with serving(*answers) as (_, exchanges):
        noted = exchanges.naps = Noted()
        begun = time.monotonic()
        await exchanges.series([POST] * requests, 1000, 5.0 if came else 0.05)
        assert len(noted.waited_s) == came
        assert all(0 < waited_s < time.monotonic() - begun for waited_s in noted.waited_s)


async def test_the_time_to_connect_is_part_of_a_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(b"") as (_, exchanges):
        connect = exchanges._connect

        async def slowly(timeout_s: float) -> Exchange:
            await asyncio.sleep(0.4)
            return await connect(timeout_s)

        monkeypatch.setattr(exchanges, "_connect", slowly)
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            await post(exchanges, 0.5)
        assert time.monotonic() - begun < 0.8


@pytest.mark.parametrize("kept", [False, True], ids=["a new connection", "a kept one"])
async def test_what_waited_too_long_for_a_connection_to_be_free_is_not_sent(kept: bool) -> None:
    async with serving() as (server, exchanges):
        if kept:
            await post(exchanges)
        for _ in range(MAX_CONNECTIONS):
            await exchanges._room.acquire()
        waiting = asyncio.create_task(post(exchanges, 0.05))
        await asyncio.sleep(0.1)
        exchanges._room.release()
        with pytest.raises(TimeoutError):
            await waiting
    assert len(server.requests) == kept


async def test_nobody_listening_is_an_error() -> None:
    async with serving() as (_, exchanges):
        pass
    with pytest.raises(OSError, match="onnect"):
        await post(exchanges)


async def test_a_series_has_one_connection_and_its_answers_in_turn() -> None:
    said = [b"HTTP/1.1 20%d OK\r\nContent-Length: 0\r\n\r\n" % number for number in range(3)]
    async with serving(*said) as (server, exchanges):
        answers, problem = await exchanges.series([POST] * 3, 1000, 5.0)
        await post(exchanges)
    assert ([answer.status for answer in answers], problem) == ([200, 201, 202], None)
    assert (server.requests, server.connections) == ([POST] * 4, 1)


CUT = {
    "the connection ends": (None, ConnectionError),
    "silence": (b"", TimeoutError),
    "no HTTP": (b"nonsense\r\n\r\n", ValueError),
    "the server will close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", ConnectionError),
}


@pytest.mark.parametrize(("answer", "error"), CUT.values(), ids=CUT.keys())
async def test_a_series_that_is_cut_off_tells_what_was_answered(answer: bytes | None, error: type[Exception]) -> None:
    async with serving(OK, answer) as (server, exchanges):
        answers, problem = await exchanges.series([POST] * 4, 1000, 0.2)
        assert {one.status for one in answers} == {200}
        assert len(answers) < 4
        assert isinstance(problem, error)
        assert (await post(exchanges)).body == b"ok"
        assert server.connections == 2


async def test_an_answer_too_many_ends_the_connection_of_a_series() -> None:
    async with serving(OK, OK + OK) as (server, exchanges):
        answers, _ = await exchanges.series([POST] * 2, 1000, 5.0)
        await post(exchanges)
    assert (len(answers), server.connections) == (2, 2)


def test_a_request_is_rendered_with_what_the_session_adds() -> None:
    rendering = Rendering(urlsplit("https://user@here:6443/prefix/"))
    lines = f"Host: here:6443\r\nAccept: application/json\r\nUser-Agent: {USER_AGENT}\r\n"
    ending = "Authorization: Bearer x\r\nContent-Length: "
    body = f"POST /prefix/api HTTP/1.1\r\n{lines}Content-Type: application/json\r\n{ending}4\r\n\r\nbody"
    assert rendering.render(Request("POST", "/api", b"body"), "Bearer x") == body.encode()
    bare = f"DELETE /prefix/api HTTP/1.1\r\n{lines}{ending}0\r\n\r\n"
    assert rendering.render(Request("DELETE", "/api"), "Bearer x") == bare.encode()


def test_a_request_carries_the_token_of_its_own_time() -> None:
    rendering = Rendering(urlsplit("https://here"))
    tokens = ["Bearer a", "Bearer b", "", "Bearer a"]
    sent = [rendering.render(Request("POST", "/api", b"{}"), token).decode() for token in tokens]
    assert [text.partition("Authorization: ")[2].partition("\r\n")[0] for text in sent] == tokens


@pytest.mark.parametrize(
    ("path", "token"),
    [("/a b", ""), ("/a\r\nX: y", ""), ("/ä", ""), ("/a", "x\r\nHost: evil")],
    ids=["a space", "a line break", "not ASCII", "a line break in a header"],
)
def test_what_would_break_a_request_is_not_sent(path: str, token: str) -> None:
    with pytest.raises(ValueError, match="not to be sent"):
        Rendering(urlsplit("https://here")).render(Request("POST", path), token)
