"""On uvloop, which agents take where it is there; `make laws` runs all on asyncio, too."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop

from tests.laws.examples import ALL


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What pytest-asyncio makes loops with."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    return {**loops, "asyncio": asyncio.new_event_loop} if ALL else loops
