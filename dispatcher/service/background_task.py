"""Work that goes on beside other work, as long as that lasts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background_task(
    work: Callable[[], Coroutine[Any, Any, None]], name: str
) -> AsyncIterator[None]:
    """Meanwhile do `work` in a task of this name, which is cancelled at the end; what it raises is
    not told.
    """
    task = asyncio.create_task(work(), name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
