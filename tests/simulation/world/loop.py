"""An asyncio loop whose clock is virtual: when nothing is ready, time jumps to the next timer.

Everything belongs to a `Process` (a context variable, inherited by tasks and callbacks). A paused process's callbacks
wait for its end of pause, as after SIGSTOP; a dead one's never run again, as after SIGKILL.
"""

import asyncio
import heapq
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

import dispatcher.runtime.service as service_module

T = TypeVar("T")
START = 1_000.0  # monotonic seconds at the start of a world
EPOCH = 1_800_000_000.0  # and its wall clock there
_MOST_AT_ONCE = 300_000  # callbacks without time passing: then something runs in circles


@dataclass(eq=False)
class Process:
    """One life of something that can be paused and killed. `offset`: how wrong its wall clock is, seconds."""

    name: str
    offset: float = 0.0
    alive: bool = True
    paused: bool = False


WORLD = Process("world")
PROCESS: ContextVar[Process] = ContextVar("PROCESS", default=WORLD)
ORDERS: ContextVar[str] = ContextVar("ORDERS", default="")  # the process by whose orders an agent acts, "" its own


class StuckError(AssertionError):
    """Virtual time stands still."""


class VirtualLoop(asyncio.BaseEventLoop):
    """No sockets, no threads: timers and callbacks only."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self._parked: dict[Process, list[asyncio.Handle]] = {}
        self._graves: list[asyncio.Handle] = []
        self._circles = 0
        self.processes: list[Process] = []

    def time(self) -> float:
        """Virtual monotonic seconds."""
        return self.now

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def resume(self, process: Process) -> None:
        """Run what has waited for the end of a pause."""
        process.paused = False
        self._ready.extend(self._parked.pop(process, ()))  # type: ignore[attr-defined]

    def raise_dead(self) -> None:
        """So that what is left of them can be cleared away."""
        for process in self.processes:
            process.alive, process.paused = True, False
        parked = [handle for handles in self._parked.values() for handle in handles]
        self._ready.extend((*self._graves, *parked))  # type: ignore[attr-defined]
        self._graves.clear()
        self._parked.clear()

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready:
            while timers and timers[0]._cancelled:
                heapq.heappop(timers)._scheduled = False
            if not timers:
                raise StuckError("nothing is left to happen")
            if timers[0]._when > self.now:
                self.now, self._circles = timers[0]._when, 0
        while timers and timers[0]._when <= self.now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        self._circles += len(ready)
        if self._circles > _MOST_AT_ONCE:
            raise StuckError(f"{_MOST_AT_ONCE} callbacks at {self.now:.3f} s without time passing")
        for _ in range(len(ready)):
            self._run_one(ready.popleft())

    def _run_one(self, handle: asyncio.Handle) -> None:
        if not handle._cancelled:
            process = handle._context.get(PROCESS, WORLD)  # type: ignore[attr-defined]
            if process.paused:
                self._parked.setdefault(process, []).append(handle)
            elif process.alive:
                handle._run()
            else:
                self._graves.append(handle)


@contextmanager
def virtual_clocks(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """For as long as a world lives: the clocks of this interpreter show its time, and chance is drawn from its seed."""
    dice = random.Random(f"product {seed}")

    def wall() -> float:
        return EPOCH + loop.now - START + PROCESS.get().offset

    patches: list[tuple[Any, str, Any]] = [
        (time, "monotonic", lambda: loop.now),
        (time, "clock_gettime", lambda _: loop.now),
        (time, "time", wall),
        (time, "time_ns", lambda: int(wall() * 1e9)),
        (uuid, "uuid4", lambda: uuid.UUID(int=dice.getrandbits(128), version=4)),
        (service_module, "perf_counter", lambda: loop.now),
        (random, "uniform", dice.uniform),
        (random, "random", dice.random),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in patches]
    for where, name, value in patches:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)


def live(main: Callable[[], Coroutine[Any, Any, T]], seed: int) -> T:
    """Run a world to its end."""
    loop = VirtualLoop()
    with virtual_clocks(loop, seed):
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(main())
        finally:
            PROCESS.set(WORLD)
            _bury(loop)
            asyncio.set_event_loop(None)


def _bury(loop: VirtualLoop) -> None:
    """End what has not ended, without a word about it."""
    loop.raise_dead()
    loop.set_exception_handler(lambda *_: None)
    for _ in range(3):
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=30.0))
    loop.close()


def running_loop() -> VirtualLoop:
    """The loop of this world."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def in_process(process: Process, call: Callable[..., T], *args: Any) -> T:
    """Call as that process: the tasks that it makes are its own."""
    context = copy_context()
    context.run(PROCESS.set, process)
    if process is WORLD:
        context.run(ORDERS.set, "")
    return context.run(call, *args)
