"""One answer for all who ask at about the same time: however many ask, it is made once a second at
most.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

FRESH_S = 1.0
T = TypeVar("T")


class Shared(Generic[T]):
    """Who asks while an answer is made waits for that one, and within `FRESH_S` of its beginning
    gets it, too.
    """

    def __init__(self) -> None:
        self._made: asyncio.Task[T] | None = None
        self._by: object = None
        self._began = float("-inf")

    async def get(self, by: object, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer; one that was made for another `by` is no answer. What `make` raises is raised
        for all.
        """
        now = asyncio.get_running_loop().time()
        made = self._made
        if made is None or self._by is not by or (made.done() and now - self._began >= FRESH_S):
            made = self._made = asyncio.create_task(make())
            self._by = by
            self._began = now
        return await asyncio.shield(made)  # who goes away does not end it for others
