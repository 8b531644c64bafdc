"""Answers that several ask for: each is asked for once, and good for some seconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Fresh(Generic[Answer]):
    """By key. What fails fails for all that have waited, and is asked for anew by the next."""

    def __init__(self, good_s: float) -> None:
        self._good_s = good_s
        self._asked: dict[str, tuple[float, asyncio.Task[Answer]]] = {}

    async def get(self, key: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer, or what `ask` raises. Who gives up waiting takes it from nobody else."""
        now = time.monotonic()
        self._asked = {one: known for one, known in self._asked.items() if not self._is_over(*known, now)}
        if key not in self._asked:
            task = asyncio.create_task(_awaited(ask), name="an answer that several wait for")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio logs it
            self._asked[key] = now, task
        return await asyncio.shield(self._asked[key][1])

    def _is_over(self, asked_at: float, task: asyncio.Task[Answer], now: float) -> bool:
        if not task.done():
            return False
        return task.cancelled() or task.exception() is not None or now - asked_at > self._good_s


async def _awaited(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    return await ask()
