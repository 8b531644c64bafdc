"""Which event loop a process runs on."""

import asyncio
import sys

import pytest

from shared.process import event_loop


async def _loop() -> str:
    await asyncio.sleep(0)
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_a_process_runs_on_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert event_loop.run(_loop()) == "uvloop"


def test_a_process_runs_on_asyncio_where_uvloop_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(_loop()) == "asyncio"


def test_what_the_program_raises_comes_out() -> None:
    async def fail() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        event_loop.run(fail())
