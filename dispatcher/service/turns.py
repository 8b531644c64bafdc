"""Few at once, without waiting for those that hang."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Turns:
    """At most `most` have a turn at once. Those that hang hold others up for a bit: who waits goes without a turn once
    none has ended for `patience_s`, but by an error, as of one that was given up.
    """

    def __init__(self, most: int, patience_s: float) -> None:
        self._free, self._patience_s, self._ended = asyncio.Semaphore(most), patience_s, 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one, and have it meanwhile."""
        got = await self._wait()
        try:
            yield
            self._ended += got
        finally:
            if got:
                self._free.release()

    async def _wait(self) -> bool:
        ended = -1
        while ended != self._ended:
            ended = self._ended
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    return await self._free.acquire()
        return False
