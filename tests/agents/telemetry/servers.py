"""HTTP servers on loopback that answer as a test says, also as no server should."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import formatdate

from aiohttp import web

from agents.telemetry.web import Credentials, Limits, Pool, Tls, Web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NOW = 1_800_000_000.0
LIMITS = Limits(timeout_s=0.5, max_bytes=200_000)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server for every path; its address."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Handler:
    """The same answer to every request, with the date NOW."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={"Date": formatdate(NOW, usegmt=True), **(headers or {})})

    return handle


async def slow_drip(request: web.Request) -> web.StreamResponse:
    """A byte now and then, for ever."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b" ")
        await asyncio.sleep(0.01)


async def endless(request: web.Request) -> web.StreamResponse:
    """50 MB."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(800):
        await answer.write(b" " * 65_536)
    return answer


async def silent(request: web.Request) -> web.StreamResponse:
    """Accepts, and says nothing."""
    await asyncio.Event().wait()
    raise AssertionError


BOMB = answering(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"})
MOVED = answering(b"", 302, {"Location": "http://169.254.169.254/latest/meta-data/"})
HTML = answering(b"<html><body>Sign in</body></html>", headers={"Content-Type": "text/html"})
# What a server may do instead of answering -> what the error says.
HOSTILE: dict[str, tuple[Handler, str]] = {
    "404": (answering(b"not found", 404), "answers 404"),
    "500": (answering(b"oops", 500), "answers 500"),
    "a redirect to the metadata service": (MOVED, "redirects are not followed"),
    "HTML": (HTML, "cannot be read|no metrics"),
    "nothing": (answering(b""), "cannot be read|no metrics"),
    "50 MB": (endless, "larger than"),
    "a gzip bomb": (BOMB, "larger than"),
    "broken gzip": (answering(b"no gzip", headers={"Content-Encoding": "gzip"}), "Error"),
    "an unknown coding": (answering(b"x", headers={"Content-Encoding": "br"}), "content-encoding br"),
    "a slow drip": (slow_drip, "no complete answer within"),
    "silence": (silent, "no complete answer within"),
}


def web_at(base: str, credentials: Credentials | None = None, tls: Tls | None = None) -> Web:
    """A client of an impatient test."""
    return Web(base, LIMITS, Pool(tls), credentials)
