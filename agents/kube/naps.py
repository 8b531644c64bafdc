"""Naps: while answers come fast, the event loop's thread sleeps before it takes in more, so that one wake-up finds
several of them, and the watch events that came beside.

A wake-up costs its switch of threads and colder caches, whatever it finds. A nap lasts as long as a quarter of the
requests under way will take to be answered, so that the server does not run out of work meanwhile, and MOST_S at most.
A thread that is busy for half of the time or more takes none: it finds several answers anyway.

Example: 16 requests are under way, and an answer comes each 1.2 ms. What came is taken in, and what it sets off is
sent; then the thread sleeps 4.8 ms, in which four more come, to be taken in together. With 7 requests under way, or
where an answer comes each 6 ms, nothing waits: a nap that finds fewer than LEAST answers is not worth it.
"""

import asyncio
import time
from collections.abc import Callable

MOST_S = 0.010  # what an answer waits at most
SHARE = 1 / 4  # of the requests under way, which will be answered in a nap
LEAST = 2  # answers to be expected in a nap
ROUNDS = 6  # of the event loop, in which an answer's procedure ends, the next is granted its slot, and sends
Clocks = Callable[[], tuple[float, float]]


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.thread_time()


class Naps:
    """Of one pool of connections. `under_way`: its requests, those of a series until its last answer. `clocks`: the
    time, of which `sleep` is, and that in which this thread was busy; seconds.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep, clocks: Clocks = _clocks) -> None:
        self.under_way = 0
        self._sleep, self._clocks = sleep, clocks
        self._came, self._last = 0, clocks()
        self._due = False

    def came(self, loop: asyncio.AbstractEventLoop) -> None:
        """An answer came."""
        self._came += 1
        if not self._due:
            self._due = True
            loop.call_soon(self._after, loop, ROUNDS)

    def _after(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        """Let the loop do what is to be done, then nap if enough answers are to be expected meanwhile."""
        if rounds:
            loop.call_soon(self._after, loop, rounds - 1)
            return
        self._due = False
        now, busy = self._clocks()
        passed_s, busy_s = now - self._last[0], busy - self._last[1]
        each_s = passed_s / self._came
        self._came, self._last = 0, (now, busy)
        nap_s = min(MOST_S, each_s * self.under_way * SHARE)
        if nap_s >= LEAST * each_s and busy_s < passed_s / 2:
            self._sleep(nap_s)
