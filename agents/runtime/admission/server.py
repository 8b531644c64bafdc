"""The webhook as a process of its own: `global-dispatcher admit`. It has no account, and asks
nobody anything.
"""

import asyncio
import signal
import ssl
from contextlib import nullcontext, suppress
from pathlib import Path

import structlog
from aiohttp import web

from agents.runtime.admission.review import NotAReviewError, answer

LOG = structlog.get_logger("admit")
LARGEST = 8 << 20  # an API server takes objects of 3 MiB; a review holds one, as JSON
# nearly all are shorter; longer ones take memory, and anybody in the cluster may send one
SMALL = 64 << 10
MOST_LARGE = 4  # at once
READ_S = 2.0  # for a review to arrive: the API server waits no longer (timeoutSeconds of the chart)
LOOK_S = 10.0  # between two looks at the certificate's files


class Certificate:
    """TLS with a certificate that may be renewed in its files: connections from then on get the new
    one.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """OSError, ssl.SSLError: a file is missing, or is none."""
        self._files = (cert_file, key_file)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._fresh = self.context
        self.context.sni_callback = self._renew
        self._read = self._text()
        self.context.load_cert_chain(*self._files)

    def _text(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)

    def _renew(self, connection: ssl.SSLObject, *_: object) -> None:
        connection.context = self._fresh

    def refresh(self) -> bool:
        """Read files that have changed; whether they had. OSError, ssl.SSLError: what was read
        before holds.
        """
        found = self._text()
        if found == self._read:
            return False
        # A context of its own: half a new pair does not fit the other, and an old certificate with
        # another kind of key (RSA, then ECDSA) would be served beside the new one.
        fresh = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        fresh.load_cert_chain(*self._files)
        self._fresh = fresh
        self._read = found
        return True


def application() -> web.Application:
    """POST /admit, and GET /livez."""

    large = asyncio.Semaphore(MOST_LARGE)

    async def admit(request: web.Request) -> web.Response:
        is_large = request.content_length is None or request.content_length > SMALL
        if is_large and large.locked():
            raise web.HTTPServiceUnavailable(text="too many large reviews at once")
        try:
            async with large if is_large else nullcontext(), asyncio.timeout(READ_S):
                body = await request.read()
            return web.Response(body=answer(body), content_type="application/json")
        except TimeoutError:
            raise web.HTTPRequestTimeout(text=f"no whole review in {READ_S:g} s") from None
        except NotAReviewError as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview of a pod: {error}") from None

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application(client_max_size=LARGEST)
    app.router.add_post("/admit", admit)
    app.router.add_get("/livez", alive)
    return app


def serve(host: str, port: int, cert_file: Path, key_file: Path) -> None:
    """Until SIGTERM or SIGINT. OSError, ssl.SSLError: files or address cannot be had."""
    asyncio.run(_serve(host, port, Certificate(cert_file, key_file)))


async def _serve(host: str, port: int, certificate: Certificate) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(application(), access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=certificate.context).start()
        LOG.info("serving", address=f"https://{host}:{runner.addresses[0][1]}/admit")
        while not stop.is_set():
            try:
                if certificate.refresh():
                    LOG.info("certificate read anew")
            except (OSError, ssl.SSLError) as error:
                LOG.warning(
                    "the certificate's files cannot be read: the one from before is served",
                    error=str(error),
                )
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_S)
    finally:
        await runner.cleanup()
