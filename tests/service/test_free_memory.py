"""Free memory is given back in quiet moments after something was taken in, and not often."""

import ctypes
from pathlib import Path

import pytest

from dispatcher.scheduling.events import Answered
from dispatcher.service.free_memory import FreeMemory, trim
from tests.service.fakes import FakeCore, running, service

_HALF_PAGE = 2048


class Held:
    """What gives back, by a clock that stands."""

    def __init__(self) -> None:
        self.now, self.times = 100.0, list[float]()
        self.memory = FreeMemory(lambda: self.now, lambda: self.times.append(self.now))


def test_a_quiet_moment_after_a_report_gives_back_once() -> None:
    held = Held()
    held.memory.quiet()
    assert held.times == []
    held.memory.used()
    held.memory.quiet()
    held.memory.quiet()
    assert held.times == [100.0]


def test_what_comes_soon_after_waits_for_the_next_time() -> None:
    held = Held()
    for now in (100.0, 101.0, 104.0, 105.0):
        held.now = now
        held.memory.used()
        held.memory.quiet()
    assert held.times == [100.0, 105.0]


def test_nothing_is_given_back_however_long_nothing_comes_in() -> None:
    held = Held()
    held.memory.used()
    for now in (100.0, 110.0, 1000.0):
        held.now = now
        held.memory.quiet()
    assert held.times == [100.0]


async def test_a_service_gives_back_once_what_came_in_is_taken_in_and_not_for_ticks_alone() -> None:
    core, held = FakeCore(), Held()
    subject = service(core)
    subject.memory = held.memory
    async with running(subject):
        await core.until(lambda: core.ticks > 2)
        assert held.times == []
        await subject.deliver(Answered("east", ()))
        await core.until(lambda: held.times == [100.0])


def test_free_pages_between_blocks_that_stay_go_back_to_the_system() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library cannot give back")
    blocks = [bytes(_HALF_PAGE) for _ in range(20_000)]
    kept = blocks[::16]  # each ends what would be one free block
    before = _resident()
    del blocks
    held = _resident()
    trim()
    assert held > before / 2
    assert held - _resident() > 20_000 * _HALF_PAGE / 2
    assert len(kept) == 1250


def _resident() -> int:
    """Bytes of this process's own memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
