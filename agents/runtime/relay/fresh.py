"""Answers that several ask for: each is asked for once, and good for some seconds from when it
came.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Asked(Generic[Answer]):
    task: "asyncio.Task[Answer]"
    until: float = math.inf  # monotonic s; then it is asked for anew


class Fresh(Generic[Answer]):
    """By key. What fails fails for all that have waited, and for those that ask within `failed_s`."""

    def __init__(
        self, good_s: float, failed_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._good_s = good_s
        self._failed_s = failed_s
        self._clock = clock
        self._asked: dict[str, _Asked[Answer]] = {}

    async def get(self, key: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer, or what `ask` raises. Who gives up waiting takes it from nobody else."""
        now = self._clock()
        self._asked = {one: known for one, known in self._asked.items() if now < known.until}
        if key not in self._asked:
            task = asyncio.create_task(_awaited(ask), name="an answer that several wait for")
            known = self._asked[key] = _Asked(task)
            task.add_done_callback(lambda done: self._came(known, done))
        return await asyncio.shield(self._asked[key].task)

    def _came(self, known: _Asked[Answer], done: "asyncio.Task[Answer]") -> None:
        if done.cancelled():
            known.until = -math.inf
            return
        failed = done.exception() is not None  # asked for, or asyncio logs it
        known.until = self._clock() + (self._failed_s if failed else self._good_s)


async def _awaited(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    return await ask()
