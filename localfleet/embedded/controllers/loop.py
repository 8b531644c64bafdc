"""The work queue that drives all controllers of a cluster: keys once each, retries with back-off,
timers.
"""

import asyncio
import heapq
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from math import inf
from time import monotonic
from typing import NamedTuple, Protocol

from localfleet.embedded.api import ApiError, Subscription
from localfleet.embedded.controllers.world import Clock, Ref, World
from localfleet.embedded.meta import Object

_LOG = logging.getLogger(__name__)
_GATHER_S = 0.01  # events that come together are answered by one reconcile
_SLICE_S = 0.005  # how long one turn may keep the API server waiting
_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 30.0


class Controller(Protocol):
    """One controller. It holds no truth of its own: `reconcile` of any key at any time is right."""

    name: str

    def keys(self, ref: Ref, obj: Object, old: Object | None) -> Iterable[Ref]:
        """What to look at when `obj` has changed (`old`: as it was, None when new)."""

    def reconcile(self, key: Ref, now: float) -> float | None:
        """Bring `key` closer to what is wanted; answers when to look again (seconds from now),
        None: on an event.
        """


class Task(NamedTuple):
    """One key of one controller."""

    controller: int
    key: Ref


class ControlLoop:
    """Runs `controllers` over one `world`. `clock` is unix seconds."""

    def __init__(self, world: World, controllers: Sequence[Controller], clock: Clock) -> None:
        self._world = world
        self._controllers = controllers
        self._clock = clock
        self._queue: OrderedDict[Task, None] = OrderedDict()
        self._timers: list[tuple[float, int, Task]] = []
        self._due: dict[Task, float] = {}
        self._failures: dict[Task, int] = {}
        self._order = count()
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Watch from now on, and look at everything once."""
        for ref, obj in list(self._world.open()):
            self._enqueue(ref, obj, None)

    def step(self) -> bool:
        """Take over what has changed, and reconcile one key; False when there is none to do now."""
        for ref, event in list(self._world.refresh()):
            self._enqueue(ref, event.object, event.old)
        self._ring()
        if not self._queue:
            return False
        task, _ = self._queue.popitem(last=False)
        self._reconcile(task)
        return True

    def settle(self, most: int = 100_000) -> None:
        """Step until nothing is left to do at this moment; for tests and for the start."""
        for _ in range(most):
            if not self.step():
                return
        raise RuntimeError(
            f"controllers still busy after {most} steps: {next(iter(self._queue), None)}"
        )

    def next_due(self) -> float:
        """When the next timer rings (unix seconds), inf for none."""
        return self._timers[0][0] if self._timers else inf

    async def run(self) -> None:
        """Watch and reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource, watch in self._world.subscriptions().items():
                tasks.create_task(self._follow(resource, watch))
            tasks.create_task(self._work())

    async def _follow(self, resource: str, watch: Subscription) -> None:
        async for event in watch:
            ref = self._world.take(resource, event)
            self._enqueue(ref, event.object, event.old)
            self._wake.set()

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            until = monotonic() + _SLICE_S
            while self.step():
                if monotonic() > until:
                    await asyncio.sleep(0)
                    until = monotonic() + _SLICE_S
            wait = self.next_due() - self._clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(wait, 0.0) if wait < inf else None):
                    await self._wake.wait()
            await asyncio.sleep(_GATHER_S)

    def _enqueue(self, ref: Ref, obj: Object, old: Object | None) -> None:
        for number, controller in enumerate(self._controllers):
            for key in controller.keys(ref, obj, old):
                self._queue.setdefault(Task(number, key), None)

    def _ring(self) -> None:
        now = self._clock()
        while self._timers and self._timers[0][0] <= now:
            due, _, task = heapq.heappop(self._timers)
            if self._due.get(task) == due:
                del self._due[task]
                self._queue.setdefault(task, None)

    def _reconcile(self, task: Task) -> None:
        controller = self._controllers[task.controller]
        try:
            again = controller.reconcile(task.key, self._clock())
        except ApiError as error:
            again = self._retry(task)
            _LOG.info(
                "%s %s: %s; again in %.1f s",
                controller.name,
                task.key,
                error.status.get("message"),
                again,
            )
        except Exception:  # what one object makes go wrong must not stop the others
            again = self._retry(task)
            _LOG.exception("%s failed on %s; again in %.1f s", controller.name, task.key, again)
        else:
            self._failures.pop(task, None)
        if again is not None:
            self._later(task, self._clock() + again)

    def _retry(self, task: Task) -> float:
        failures = self._failures[task] = self._failures.get(task, -1) + 1
        return float(min(_FIRST_RETRY_S * 2 ** min(failures, 16), _LONGEST_RETRY_S))

    def _later(self, task: Task, due: float) -> None:
        # The earliest wish wins: every reconcile says anew when it wants to be called.
        if due < self._due.get(task, inf):
            self._due[task] = due
            heapq.heappush(self._timers, (due, next(self._order), task))
