"""A kubelet that acts: exec and attach run processes of this machine, and each port answers with a page.

It speaks the WebSocket protocols of kubelets: v5.channel.k8s.io, and SPDY/3.1+portforward.k8s.io.
"""

import asyncio
import json
import ssl
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import trustme
from aiohttp import web

STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\na page\n"
ATTACHED = ("sh", "-c", "while read line; do echo heard $line; done")
_SYN_STREAM, _SYN_REPLY, _PING, _FIN = 1, 2, 6, 1


@contextmanager
def acting_kubelet() -> Iterator[int]:
    """Its port, on loopback."""
    loop, found = asyncio.new_event_loop(), asyncio.run_coroutine_threadsafe
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner = web.AppRunner(_app(), shutdown_timeout=0.1)
    try:
        yield found(_serve(runner), loop).result(10)
    finally:
        found(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _app() -> web.Application:
    app = web.Application()
    app.router.add_get("/exec/{namespace}/{pod}/{container}", _exec)
    app.router.add_get("/attach/{namespace}/{pod}/{container}", _exec)
    app.router.add_get("/portForward/{namespace}/{pod}", _port_forward)
    return app


async def _serve(runner: web.AppRunner) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port: int = runner.addresses[0][1]
    return port


async def _exec(request: web.Request) -> web.StreamResponse:
    line = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
    await line.prepare(request)
    pipe = asyncio.subprocess.PIPE
    command = request.query.getall("command", ATTACHED)
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    hearing = asyncio.create_task(_hear(line, process.stdin))
    if "input" not in request.query:
        process.stdin.close()
    await asyncio.gather(_say(line, STDOUT, process.stdout), _say(line, STDERR, process.stderr))
    await line.send_bytes(bytes([ERROR]) + json.dumps(_status(await process.wait())).encode())
    await line.close()
    hearing.cancel()
    return line


async def _hear(line: web.WebSocketResponse, stdin: asyncio.StreamWriter) -> None:
    async for message in line:
        if message.data[0] == STDIN:
            stdin.write(message.data[1:])
            with suppress(OSError):
                await stdin.drain()
        elif message.data[0] == CLOSE:
            stdin.close()
    stdin.close()


async def _say(line: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader | None) -> None:
    while stream is not None and (data := await stream.read(30_000)):
        await line.send_bytes(bytes([channel]) + data)


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    words = f"command terminated with non-zero exit code: {code}"
    told = {"reason": "NonZeroExitCode", "message": words, "details": {"causes": causes}}
    return {"metadata": {}, "status": "Failure", **told}


async def _port_forward(request: web.Request) -> web.StreamResponse:
    line = web.WebSocketResponse(protocols=("SPDY/3.1+portforward.k8s.io",))
    await line.prepare(request)
    ports = Ports()
    came = b""
    async for message in line:
        came += message.data
        while len(came) >= 8 and len(came) >= (end := 8 + int.from_bytes(came[5:8], "big")):
            if answer := ports.answer(came[:8], came[8:end]):
                await line.send_bytes(answer)
            came = came[end:]
    return line


class Ports:
    """The frames of SPDY/3.1 that port-forward needs. A connection is two streams, the first of them for its errors."""

    def __init__(self) -> None:
        self._streams: list[int] = []
        self._asked: dict[int, bytes] = {}
        self._headers = zlib.compressobj()

    def answer(self, head: bytes, body: bytes) -> bytes:
        """What is said to a frame."""
        if not head[0] & 0x80:
            return self._data(int.from_bytes(head[:4], "big"), body)
        kind = int.from_bytes(head[2:4], "big")
        if kind == _PING:
            return head + body
        if kind != _SYN_STREAM:
            return b""
        self._streams.append(int.from_bytes(body[:4], "big"))
        none = self._headers.compress(bytes(4)) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        return struct.pack(">HHI", 0x8003, _SYN_REPLY, 4 + len(none)) + body[:4] + none

    def _data(self, stream: int, data: bytes) -> bytes:
        self._asked[stream] = self._asked.get(stream, b"") + data
        if not self._asked[stream].endswith(b"\r\n\r\n"):
            return b""
        errors = self._streams[self._streams.index(stream) - 1]
        return _end(stream, PAGE) + _end(errors, b"")


def _end(stream: int, data: bytes) -> bytes:
    return struct.pack(">II", stream, _FIN << 24 | len(data)) + data
