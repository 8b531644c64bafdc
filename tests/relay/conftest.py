"""On both event loops: agents take uvloop where it is there."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What pytest-asyncio makes loops with."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
