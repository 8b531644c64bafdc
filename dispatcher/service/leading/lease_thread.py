"""The Lease is kept in a thread of its own, so that a decision which takes long does not lose it.

A process that stands still as a whole loses it as before: both threads wake up, and see by the
clock that it has run out. Where only the service's loop stands still, for longer than
`MOST_STILL_S`, it is not renewed either, so that another dispatcher may lead.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from dispatcher.service.background_task import background_task
from shared.kube.elector import Elector, awake

MOST_STILL_S = 60.0
_BEAT_S = 1.0
T = TypeVar("T")


class LoopThread:
    """An event loop that a thread runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for some work that is done there; it is cancelled with who waits."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


@asynccontextmanager
async def loop_thread(name: str) -> AsyncIterator[LoopThread]:
    """A thread that ends with this."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield LoopThread(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()


class LeaseThread:
    """A candidate whose elector works in a thread: what it says of itself may be asked from any
    other.
    """

    def __init__(
        self, elector: Elector, thread: LoopThread, clock: Callable[[], float] = awake
    ) -> None:
        self._elector = elector
        self._thread = thread
        self._clock = clock
        self._beat_at = clock()
        self.identity = elector.identity
        elector.held_up = self._stands_still

    @property
    def leader(self) -> str:
        """As of the elector."""
        return self._elector.leader

    @property
    def transitions(self) -> int:
        """As of the elector."""
        return self._elector.transitions

    @property
    def problem(self) -> str:
        """As of the elector."""
        return self._elector.problem

    def valid(self) -> bool:
        """Whether this candidate leads right now."""
        return self._elector.valid()

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        await self._thread.run(self._elector.acquire())

    async def raise_to(self, transitions: int) -> bool:
        """Make the Lease that is ours count so many transitions at least; False if it was lost over
        that.
        """
        return await self._thread.run(self._elector.raise_to(transitions))

    async def hold(self) -> str:
        """Renew the Lease that is ours until it is lost; why it was."""
        self._beat_at = self._clock()
        async with background_task(self._beat, "lease-beat"):
            return await self._thread.run(self._elector.hold())

    async def release(self) -> None:
        """Give the Lease up, if it is ours."""
        await self._thread.run(self._elector.release())

    async def _beat(self) -> None:
        while True:
            self._beat_at = self._clock()
            await asyncio.sleep(_BEAT_S)

    def _stands_still(self) -> bool:
        return self._clock() - self._beat_at > MOST_STILL_S
