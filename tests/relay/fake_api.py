"""An API server that knows pods, reviews and one ConfigMap, and whose subresources of pods are scripts."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Script = Callable[["Asked"], Awaitable[None]]


@dataclass
class Asked:
    """A request to a subresource, and the connection that it came by."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        """Raw bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def switch(self, protocol: str = "SPDY/3.1") -> None:
        """Answer 101."""
        await self.say(
            f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode()
        )

    async def begin_log(self) -> None:
        """Answer 200, with chunks to follow."""
        await self.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """One chunk; b'' is the last."""
        await self.say(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def refuse(self, status: int, message: str) -> None:
        """A metav1 Status."""
        body = json.dumps({"kind": "Status", "message": message, "code": status}).encode()
        await self.say(f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


@dataclass
class FakeApi:
    """`pods` by namespace/name; `allowed`: users whose reviews are granted; `script` answers subresources; `tokens`:
    the users behind them.
    """

    pods: dict[str, Any] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    client_ca: str = ""
    tokens: dict[str, Any] = field(default_factory=dict)
    token_reviews: int = 0
    script: Script | None = None
    asked: list[Asked] = field(default_factory=list)
    reviews: list[Any] = field(default_factory=list)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def listening(self, tls: ssl.SSLContext) -> AsyncIterator[int]:
        """Serve meanwhile; the port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20, ssl=tls)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            self.die()

    def die(self) -> None:
        """End all connections at once."""
        for writer in list(self.writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.rstrip().split("\r\n")
        method, target, _ = line.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        url = urlsplit(target)
        parts = url.path.strip("/").split("/")
        if parts[2:3] == ["namespaces"] and len(parts) == 7:
            asked = Asked(method, url.path, parse_qsl(url.query), headers, reader, writer)
            self.asked.append(asked)
            assert self.script is not None
            await self.script(asked)
            return False
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        status, answer = self._answer(parts, body)
        text = json.dumps(answer).encode()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()
        return True

    def _answer(self, parts: list[str], body: bytes) -> tuple[int, Any]:
        if parts[-1] == "subjectaccessreviews":
            spec = json.loads(body)["spec"]
            self.reviews.append(spec)
            return 201, {"status": {"allowed": spec["user"] in self.allowed}}
        if parts[-1] == "tokenreviews":
            self.token_reviews += 1
            user = self.tokens.get(json.loads(body)["spec"]["token"])
            return 201, {"status": {"authenticated": True, "user": user} if user else {"error": "invalid"}}
        if parts[-1] == "extension-apiserver-authentication":
            return 200, {"data": {"client-ca-file": self.client_ca}}
        found = self.pods.get("/".join((parts[3], parts[5])) if len(parts) == 6 else "")
        return (200, found) if found is not None else (404, {"kind": "Status", "message": "not found"})
