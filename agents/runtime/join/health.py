"""GET /livez: this process runs. GET /readyz: its actor answered in the last round."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import structlog
from aiohttp import web

from agents.runtime.join.settings import HealthSettings

LOG = structlog.get_logger("join")


@contextmanager
def serving(unwell: Callable[[], str], settings: HealthSettings) -> Iterator[None]:
    """Serve both in a thread of its own, for the main one waits for Ray; OSError when the address cannot be had.

    `unwell` says what is wrong now, '' if nothing.
    """
    with asyncio.Runner() as loop:
        runner = web.AppRunner(_app(unwell), access_log=None, shutdown_timeout=1.0)  # probes are not worth a line
        loop.run(_start(runner, settings))
        LOG.info("serving", address=f"http://{settings.host}:{runner.addresses[0][1]}")
        stop = asyncio.Event()
        thread = threading.Thread(target=loop.run, args=(stop.wait(),), name="health", daemon=True)
        thread.start()
        try:
            yield
        finally:
            loop.get_loop().call_soon_threadsafe(stop.set)
            thread.join()
            loop.run(runner.cleanup())


async def _start(runner: web.AppRunner, settings: HealthSettings) -> None:
    await runner.setup()
    await web.TCPSite(runner, settings.host, settings.port).start()


def _app(unwell: Callable[[], str]) -> web.Application:
    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        problem = unwell()
        status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
        return web.Response(status=status, body=(problem or "ok").encode("utf-8", "replace"))

    app = web.Application()
    app.router.add_get("/livez", alive)
    app.router.add_get("/readyz", ready)
    return app
