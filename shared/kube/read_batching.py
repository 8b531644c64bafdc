"""Naps: while answers come fast, the event loop's thread sleeps before it takes in more, so that
one wake-up finds several of them, and the watch events that came beside.

A wake-up costs its switch of threads and colder caches, whatever it finds. A nap lasts a quarter of
the time in which the last answers came, counted from sending, and MOST_S at most: in it a quarter
of the requests that are being answered will be, so that the server does not run out of work. Those
that hang, as behind a webhook that is gone, do not count. A thread that is busy for half of the
time or more takes none: it finds several answers anyway.

Example: answers take 19.2 ms each, and one comes each 1.2 ms, as 16 requests are under way. What
came is taken in, and what it sets off is sent; then the thread sleeps 4.8 ms, in which four more
come, to be taken in together. With 7 requests under way, or where an answer comes each 6 ms,
nothing waits: a nap that finds fewer than LEAST answers is not worth it.
"""

import asyncio
import time
from collections.abc import Callable

MOST_S = 0.010  # what an answer waits at most
SHARE = 1 / 4  # of the time that answers take
LEAST = 2  # answers to be expected in a nap
# of the event loop, in which an answer's procedure ends, the next is granted its slot, and sends
ROUNDS = 6
Clocks = Callable[[], tuple[float, float]]


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.thread_time()


class ReadBatching:
    """Of one pool of connections. `clocks`: the time, of which `sleep` is, and that in which this
    thread was busy; seconds.
    """

    def __init__(
        self, sleep: Callable[[float], None] = time.sleep, clocks: Clocks = _clocks
    ) -> None:
        self._sleep = sleep
        self._clocks = clocks
        self._came = 0
        self._waited_s = 0.0
        self._last = clocks()
        self._due = False

    def came(self, loop: asyncio.AbstractEventLoop, waited_s: float) -> None:
        """An answer came, so long after its request was sent."""
        self._came += 1
        self._waited_s += waited_s
        if not self._due:
            self._due = True
            loop.call_soon(self._after, loop, ROUNDS)

    def _after(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        """Let the loop do what is to be done, then nap if enough answers are to be expected
        meanwhile.
        """
        if rounds:
            loop.call_soon(self._after, loop, rounds - 1)
            return
        self._due = False
        now, busy = self._clocks()
        passed_s = now - self._last[0]
        busy_s = busy - self._last[1]
        each_s = passed_s / self._came
        nap_s = min(MOST_S, self._waited_s / self._came * SHARE)
        self._came = 0
        self._waited_s = 0.0
        self._last = (now, busy)
        if nap_s >= LEAST * each_s and busy_s < passed_s / 2:
            self._sleep(nap_s)
