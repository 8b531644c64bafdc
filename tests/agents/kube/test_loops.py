"""Calls to an API server over TLS go alike on each event loop."""

import asyncio
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import trustme

from shared.kube.exchange import Exchanges

POST = b"POST /api HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n"
Loops = Callable[[], asyncio.AbstractEventLoop]


def _uvloop() -> asyncio.AbstractEventLoop:
    made: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return made


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of the server and of its clients."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    client = ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Numbers the answers of a connection; the tenth is the end of it."""
    for number in range(10):
        try:
            await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            break
        body = b"%d" % number * 50_000
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    writer.close()


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, _uvloop], ids=["asyncio", "uvloop"])
def test_calls_and_series_over_tls(loops: Loops, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def talk() -> tuple[list[bytes], list[bytes], Exception | None, bytes]:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0, ssl=contexts[0])
        port = server.sockets[0].getsockname()[1]
        exchanges = Exchanges(urlsplit(f"https://127.0.0.1:{port}"), contexts[1], None, 5.0)
        calls = [(await exchanges.call(POST, 10**6, 5.0)).body[:1] for _ in range(4)]
        series, problem = await exchanges.series([POST] * 8, 10**6, 5.0)
        again = (await exchanges.call(POST, 10**6, 5.0)).body[:1]
        exchanges.close()
        server.close()
        await server.wait_closed()
        return calls, [answer.body[:1] for answer in series], problem, again

    with asyncio.Runner(loop_factory=loops) as runner:
        calls, series, problem, again = runner.run(talk())
    assert (calls, series) == ([b"0", b"1", b"2", b"3"], [b"4", b"5", b"6", b"7", b"8", b"9"])
    assert isinstance(problem, ConnectionError)
    assert again == b"0"
