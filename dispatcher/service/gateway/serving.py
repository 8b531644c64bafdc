"""What a gateway actor does in its thread: it listens, again and again, and says to callers why it does not."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog

from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway.actor_settings import ActorSettings, section_of
from dispatcher.service.gateway.exchange import Exchange
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.peers import PassOn
from dispatcher.service.gateway.sparing_log import LastingLog
from shared.version import version

T = TypeVar("T")
log = structlog.get_logger("gateway")

LISTEN_AGAIN_S = 1.0


class Serving:
    """The gateway of an actor."""

    def __init__(self, settings: ActorSettings, pass_on: PassOn, unknown: tuple[str, ...]) -> None:
        """`pass_on` is the way to the other actors, `unknown` are fields of the settings that this version passes over.

        ValueError: the settings cannot be used.
        """
        self._settings = settings
        self._pass_on = pass_on
        self._section, of_section = section_of(settings.section, GatewaySection)
        self._passed_over = (*unknown, *(f"gateway.{key}" for key in of_section))
        if settings.known_level != settings.log_level:
            self._passed_over += (f"log.level: {settings.log_level} ({settings.known_level} is used)",)
        self._problem = "it has not begun to listen"
        self._log = LastingLog("the gateway actor cannot serve", "the gateway actor serves again", actor=settings.name)
        self._served: tuple[asyncio.AbstractEventLoop, Exchange] | None = None

    async def run(self) -> None:
        """Until cancelled."""
        if self._passed_over:
            log.warning(
                "settings that this version does not know are passed over: node and dispatcher differ in version",
                settings=list(self._passed_over),
                version=version(),
                made_by=self._settings.build,
            )
        while True:
            try:
                await self._serve()
            except Exception as error:  # a file that is being written, a port of a process that is just ending, a fault
                self._served, self._problem = None, str(error) or repr(error)
                self._log.tell(self._problem)
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def call(self, call: Callable[[Exchange], Coroutine[Any, Any, T]]) -> T:
        """Of the exchange, from any thread's event loop. RuntimeError: it does not listen, and why."""
        if self._served is None:
            raise RuntimeError(self._problem)
        loop, exchange = self._served
        answer: Future[T] = asyncio.run_coroutine_threadsafe(call(exchange), loop)
        return await asyncio.wrap_future(answer)

    async def _serve(self) -> None:
        gateway = Gateway(self._section, self._settings.clusters)
        exchange = Exchange(gateway, self._settings.name, self._pass_on, self._passed_over)
        try:
            async with gateway.serving():
                self._served = (asyncio.get_running_loop(), exchange)
                self._problem = ""
                self._log.tell("")
                await asyncio.Event().wait()
        finally:
            exchange.peers.close()
