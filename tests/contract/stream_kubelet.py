"""A kubelet that switches connections, or refuses to; and a client that looks at the bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import trustme

from tests.contract.client import Answer, Api

WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
}
SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}


# by kind of pod: what is sent to one who is then left to wait
STARTS = {
    "silent": b"",
    "follow": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nso far\r\n",
    "endless": b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nso far\r\n",
}


class Kubelet:
    """Answers by the name of the pod: `echo-...` switches and echoes, `says-CODE` refuses in its own words; `cut-...`
    breaks off, and `silent-...`, `follow-...` and `endless-...` leave their client waiting.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []  # method, target, headers
        self.ended = asyncio.Event()  # a connection that was switched

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode(errors="surrogateescape").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in head[1:])}
            if target == "/metrics/resource":  # which API servers ask for again and again, as they please
                writer.close()
                return
            self.asked.append((method, target, headers))
            kind, _, how = urlsplit(target).path.split("/")[3].partition("-")
            if kind in STARTS:
                writer.write(STARTS[kind])
                while await reader.read(65536):
                    pass
            elif kind == "cut":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nso far")
            elif kind == "says":
                body = b"what it says"
                lines = [f"HTTP/1.1 {how} Told", "X-Own: kept", f"Content-Length: {len(body)}", "", ""]
                writer.write("\r\n".join(lines).encode() + body)
            elif kind == "echo":
                writer.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {headers['upgrade']}\r\n".encode())
                writer.write(b"Connection: Upgrade\r\nX-Own: kept\r\n\r\nfirst ")
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
                    if data.endswith(b"end"):
                        break
        writer.close()
        self.ended.set()


@asynccontextmanager
async def kubelet() -> AsyncIterator[tuple[int, Kubelet]]:
    """Its port, and itself."""
    made = Kubelet()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], made


async def ask(api: Api, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
    """An upgrade that is refused."""
    url = api.url + path
    async with api.session.request(method, url, headers=SPDY if headers is None else headers) as response:
        if response.content_type == "application/json":
            return Answer(response.status, await response.json())
        return Answer(response.status, await response.text())


@asynccontextmanager
async def switched(
    api: Api, path: str, method: str, headers: dict[str, str]
) -> AsyncIterator[tuple[str, asyncio.StreamReader, asyncio.StreamWriter]]:
    """The head of the answer, and the bytes after it."""
    host, port = urlsplit(api.url).hostname, urlsplit(api.url).port
    reader, writer = await asyncio.open_connection(host, port, ssl=api.session.connector._ssl or None)  # type: ignore[union-attr]
    given = {**headers, "Host": f"{host}:{port}", **api.session.headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    writer.write("\r\n".join(lines).encode(errors="surrogateescape"))
    try:
        yield (await reader.readuntil(b"\r\n\r\n")).decode(), reader, writer
    finally:
        writer.close()
