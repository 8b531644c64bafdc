"""Kernels come when a fleet is large, and not before; then its objects are left out of garbage collections."""

import asyncio
import gc
import weakref

import pytest
from structlog.testing import capture_logs

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.service import warm_up
from tests.builders import node
from tests.service.fakes import FAST, FakeCore, service


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []

    def compile_all() -> bool:
        made.append(1)
        return True

    monkeypatch.setattr(warm_up, "_LOOK_S", 0.0)
    monkeypatch.setattr(warm_up, "compile_all", compile_all)
    return made


async def test_a_large_fleet_gets_kernels_once(calls: list[int]) -> None:
    sizes = iter([3, 999, 1000])
    await warm_up.compile_when_large(lambda: next(sizes))
    assert (calls, next(sizes, None)) == ([1], None)


async def test_a_small_fleet_never_compiles(calls: list[int]) -> None:
    waiting = asyncio.create_task(warm_up.compile_when_large(lambda: 999))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (waiting.done(), calls) == (False, [])
    waiting.cancel()


async def test_a_compiler_that_fails_is_told_of_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, calls: list[int]
) -> None:
    def compile_all() -> bool:
        raise OSError("no space left on device")

    monkeypatch.setattr(warm_up, "compile_all", compile_all)
    with capture_logs() as logs:
        await warm_up.compile_when_large(lambda: 1000)
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("error", "kernels cannot be compiled: NumPy decides")
    ]


@pytest.mark.parametrize(("nodes", "frozen"), [(999, 0), (1000, 1)])
async def test_a_large_fleet_is_left_out_of_collections_once_before_its_first_decisions(
    monkeypatch: pytest.MonkeyPatch, nodes: int, frozen: int
) -> None:
    core, closed, seen = FakeCore(open=False), list[int](), list[bool]()
    core.clusters["east"] = ClusterView("east", nodes=dict.fromkeys(map(str, range(nodes)), node().build()))
    monkeypatch.setattr(gc, "freeze", lambda: seen.append(core.open and core.budgets == closed))
    subject = service(core, timing=FAST.__class__(tick_s=0.001))
    running = asyncio.create_task(subject.run())
    await core.until(lambda: len(core.budgets) >= 2)
    core.open, closed = True, list(core.budgets)
    await core.until(lambda: len(core.budgets) >= len(closed) + 3)
    subject.stop()
    await running
    assert seen == [True] * frozen


class _Kept:
    """Something in a cycle."""

    itself: object = None


def test_what_ended_terms_left_out_is_collected() -> None:
    ended = _Kept()
    ended.itself, known = ended, weakref.ref(ended)
    gc.freeze()
    del ended
    gc.collect()
    assert known() is not None
    warm_up.collect_ended_terms()
    assert known() is None


def test_few_new_objects_are_looked_at_for_garbage_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    before, looked_at = gc.get_threshold(), list[int]()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 1:
            looked_at.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))

    monkeypatch.setattr(gc, "freeze", lambda: None)
    warm_up.collect_less_often()
    gc.collect()
    gc.callbacks.append(note)
    try:
        kept = [[object()] for _ in range(200_000)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert len(kept) == 200_000
    assert looked_at
    assert max(looked_at) < 40_000
