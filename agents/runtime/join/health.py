"""GET /livez: this process works, which a main thread that hangs does not. GET /readyz: a
dispatcher reaches it.
"""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import structlog
from aiohttp import web

from agents.runtime.join.settings import HealthSettings, WrongConfiguration

LOG = structlog.get_logger("join")
HANGS_S = 60.0  # a large cluster's list, read on a slow core, may keep the main thread for seconds


class Beat:
    """When the main thread's loop last came round. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def __call__(self) -> None:
        """It comes round."""
        self._last = self._clock()

    def hangs(self) -> str:
        """What is wrong; '' while it comes round."""
        silent_s = self._clock() - self._last
        return f"the main thread has hung for {silent_s:.0f} s" if silent_s > HANGS_S else ""


@contextmanager
def serving(unwell: Callable[[], str], settings: HealthSettings, beat: Beat) -> Iterator[None]:
    """Serve both in a thread of its own, which a main one that hangs does not hold;
    WrongConfiguration when the address cannot be had.

    `unwell` says what is wrong now, '' if nothing. `beat` is called by the main thread's loop.
    """
    with asyncio.Runner() as loop:
        app = _app(beat.hangs, unwell)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0
        )  # probes are not worth a line
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
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
    except OSError as error:
        why = f"cannot listen on {settings.host}:{settings.port}: {os.strerror(error.errno or 0)}"
        fix = "each agent of a machine needs a health.port of its own"
        raise WrongConfiguration(f"health: {why}; {fix}") from None


def _app(hangs: Callable[[], str], unwell: Callable[[], str]) -> web.Application:
    def answering(wrong: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(_: web.Request) -> web.Response:
            problem = wrong()
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            return web.Response(status=status, body=(problem or "ok").encode("utf-8", "replace"))

        return answer

    app = web.Application()
    app.router.add_get("/livez", answering(hangs))
    app.router.add_get("/readyz", answering(unwell))
    return app
