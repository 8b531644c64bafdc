"""An asyncio loop whose clock is virtual: when nothing is ready, time jumps to the next timer.

Everything belongs to a `Process` (a context variable, inherited by tasks and callbacks). A paused process's callbacks
wait for its end of pause, as after SIGSTOP; a dead one's never run again, as after SIGKILL.
"""

import asyncio
import heapq
import random
import time
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

import dispatcher.service.service as service_module
from dispatcher.service import timing

T = TypeVar("T")
START = 1_000.0  # monotonic seconds at the start of a world
EPOCH = 1_800_000_000.0  # and its wall clock there
_MOST_AT_ONCE = 300_000  # callbacks without time passing: then something runs in circles


@dataclass(eq=False)
class Process:
    """One life of something that can be paused and killed. `offset`: how wrong its wall clock is, seconds. `rate`: how
    fast its monotonic clock runs.

    `term`: a dispatcher's newest, as writes name it.
    """

    name: str
    offset: float = 0.0
    rate: float = 1.0
    alive: bool = True
    paused: bool = False
    term: str = ""


WORLD = Process("world")
PROCESS: ContextVar[Process] = ContextVar("PROCESS", default=WORLD)
ORDERS: ContextVar[str] = ContextVar("ORDERS", default="")  # the process by whose orders an agent acts, "" its own


class StuckError(AssertionError):
    """Virtual time stands still."""


class Timer(asyncio.Handle):
    """A callback to come. asyncio's own keeps traces for debugging, and compares itself in Python."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., Any], args: Sequence[Any], context: Context) -> None:
        self._callback, self._args, self._context, self._cancelled = callback, args, context, False

    def cancel(self) -> None:
        """It shall not run."""
        self._cancelled, self._args = True, ()


class VirtualLoop(asyncio.BaseEventLoop):
    """No sockets, no threads: timers and callbacks only. What is due at the same time comes in the order it was set."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self._due: deque[Timer] = deque()
        self._later: list[tuple[float, int, Timer]] = []  # a heap of (virtual second, number, timer)
        self._number = 0
        self._parked: dict[Process, list[Timer]] = {}
        self._graves: list[Timer] = []
        self._circles = 0
        self.processes: list[Process] = []
        self.raised: list[str] = []  # exceptions that a process caught and logged with their traceback
        self.outside = copy_context()  # of the world itself; it lasts, so nothing may be set in it
        self.outside.run(PROCESS.set, WORLD)
        self.outside.run(ORDERS.set, "")

    def time(self) -> float:
        """Virtual monotonic seconds."""
        return self.now

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Timer:  # type: ignore[override]
        """Now, after what is due already."""
        timer = Timer(callback, args, copy_context() if context is None else context)
        self._due.append(timer)
        return timer

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Timer:  # type: ignore[override]
        """At a virtual second."""
        timer = Timer(callback, args, copy_context() if context is None else context)
        self._number += 1
        heapq.heappush(self._later, (when, self._number, timer))
        return timer

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Timer:  # type: ignore[override]
        """In so many virtual seconds."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def resume(self, process: Process) -> None:
        """Run what has waited for the end of a pause."""
        process.paused = False
        self._due.extend(self._parked.pop(process, ()))

    def raise_dead(self) -> None:
        """So that what is left of them can be cleared away."""
        for process in self.processes:
            process.alive, process.paused = True, False
        parked = [timer for timers in self._parked.values() for timer in timers]
        self._due.extend((*self._graves, *parked))
        self._graves.clear()
        self._parked.clear()

    def _run_once(self) -> None:
        due, later = self._due, self._later
        if not due:
            while later and later[0][2]._cancelled:
                heapq.heappop(later)
            if not later:
                raise StuckError("nothing is left to happen")
            if later[0][0] > self.now:
                self.now, self._circles = later[0][0], 0
        while later and later[0][0] <= self.now:
            due.append(heapq.heappop(later)[2])
        self._circles += len(due)
        if self._circles > _MOST_AT_ONCE:
            raise StuckError(f"{_MOST_AT_ONCE} callbacks at {self.now:.3f} s without time passing")
        for _ in range(len(due)):
            timer = due.popleft()
            if not timer._cancelled:
                self._run_one(timer)

    def _run_one(self, timer: Timer) -> None:
        process = timer._context.get(PROCESS, WORLD)
        if process.paused:
            self._parked.setdefault(process, []).append(timer)
        elif process.alive:
            try:
                timer._context.run(timer._callback, *timer._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"message": f"in {timer._callback}", "exception": error})
        else:
            self._graves.append(timer)


@contextmanager
def virtual_clocks(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """For as long as a world lives: the clocks of this interpreter show its time, and chance is drawn from its seed."""
    dice = random.Random(f"product {seed}")

    def wall() -> float:
        return EPOCH + loop.now - START + PROCESS.get().offset

    def monotonic() -> float:
        return START + (loop.now - START) * PROCESS.get().rate

    patches: list[tuple[Any, str, Any]] = [
        (time, "monotonic", monotonic),
        (time, "clock_gettime", lambda _: monotonic()),
        (time, "time", wall),
        (time, "time_ns", lambda: int(wall() * 1e9)),
        (uuid, "uuid4", lambda: uuid.UUID(int=dice.getrandbits(128), version=4)),
        (service_module, "perf_counter", lambda: loop.now),
        (timing.Slice.__init__, "__defaults__", (lambda: loop.now,)),
        (timing.Round.__init__, "__defaults__", (lambda: loop.now,)),
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
