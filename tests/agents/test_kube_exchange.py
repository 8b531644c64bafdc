"""Short calls over kept connections, against a server that misbehaves as it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agents.kube.answers import Answer
from agents.kube.exchange import Exchanges

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


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
    exchanges = Exchanges(f"http://127.0.0.1:{server.port}/prefix/", None, None, 2.0)
    try:
        yield server, exchanges
    finally:
        exchanges.close()
        listening.close()
        await listening.wait_closed()


async def post(exchanges: Exchanges, path: str = "/api", **headers: str) -> Answer:
    async with asyncio.timeout(5):
        return await exchanges.call("POST", path, headers, b"body", 1000)


async def test_a_request_goes_out_whole() -> None:
    async with serving() as (server, exchanges):
        answer = await post(exchanges, Accept="application/json")
    assert (answer.status, answer.body) == (200, b"ok")
    lines = f"Host: 127.0.0.1:{server.port}\r\nAccept: application/json\r\nContent-Length: 4\r\n\r\nbody"
    assert server.requests == [f"POST /prefix/api HTTP/1.1\r\n{lines}".encode()]


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
            async with asyncio.timeout(0.2):
                await post(exchanges)
        assert (await post(exchanges)).body == b"ok"
        assert server.connections == 2


async def test_an_answer_that_comes_after_its_call_was_given_up_is_nobodys() -> None:
    async with serving(b"") as (server, exchanges):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await exchanges.call("POST", "/slow", {}, b"", 1000)
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
        async with asyncio.timeout(5):
            await server.asked.wait()
        exchanges.close()
        with pytest.raises(OSError, match="closed"):
            await call


async def test_nobody_listening_is_an_error() -> None:
    async with serving() as (_, exchanges):
        pass
    with pytest.raises(OSError, match="onnect"):
        await post(exchanges)


@pytest.mark.parametrize(
    ("path", "token"),
    [("/a b", ""), ("/a\r\nX: y", ""), ("/ä", ""), ("/a", "x\r\nHost: evil")],
    ids=["a space", "a line break", "not ASCII", "a line break in a header"],
)
async def test_what_would_break_a_request_is_not_sent(path: str, token: str) -> None:
    async with serving() as (server, exchanges):
        with pytest.raises(ValueError, match="not to be sent"):
            await post(exchanges, path, Authorization=token)
    assert not server.requests
