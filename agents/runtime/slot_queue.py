"""The fair queue of request slots (`executor.slots`) for coroutines: a caller waits here until it
is granted a slot.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

from agents.executor.bounds.slots import SlotRules, Slots
from agents.executor.bounds.throttle import Throttle

Sleep = Callable[[float], Awaitable[None]]
_LEAST_S = 0.01  # between two looks at slots that may have become slow


class SlotQueue:
    """The slots of one API server. `seconds` is a monotonic clock, `sleep` waits on the same."""

    def __init__(self, limit: int, seconds: Callable[[], float], sleep: Sleep) -> None:
        self._slots = Slots(SlotRules.of(limit))
        self._throttle = Throttle(limit)
        self._seconds = seconds
        self._sleep = sleep
        self._tickets = count()
        self._awaited: dict[int, asyncio.Future[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether whoever comes now has to wait."""
        return self._slots.full

    async def take(self, lane: str, *, first: bool = False) -> int:
        """Wait for a slot; the ticket to give it back with. `first`: before the others of the lane."""
        ticket = next(self._tickets)
        self._slots.ask(ticket, lane, first=first)
        if self._grant(self._seconds(), ticket):
            return ticket
        granted = self._awaited[ticket] = asyncio.get_running_loop().create_future()
        self._look_later()
        try:
            await granted
        except asyncio.CancelledError:
            self._awaited.pop(ticket, None)
            self.give(ticket)
            raise
        return ticket

    def give(self, ticket: int) -> None:
        """Give a slot back."""
        now = self._seconds()
        self._slots.free(ticket, now)
        if self._awaited:
            self._grant(now)

    def hangs(self, ticket: int | None, lane: str) -> bool:
        """Whether whoever holds this ticket, or waits in this lane, is held up by requests that
        hang.
        """
        return self._slots.hangs(ticket, lane, self._seconds())

    def refused(self) -> None:
        """The server said 429: fewer at once."""
        self._throttle.refused(self._seconds())
        self._slots.limit = self._throttle.limit

    def answered(self) -> None:
        """The server did what it was asked: more at once, if they were fewer."""
        if self._slots.limit < self._slots.rules.limit:
            self._throttle.answered()
            self._slots.limit = self._throttle.limit

    def stop(self) -> None:
        """Grant no more slots by time."""
        if self._looking is not None:
            self._looking.cancel()

    def _grant(self, now: float, asking: int = -1) -> bool:
        """Grant what may be granted; whether the one that asks just now is among them."""
        mine = False
        for ticket in self._slots.grant(now):
            if ticket == asking:
                mine = True
            elif (granted := self._awaited.pop(ticket, None)) is not None and not granted.done():
                granted.set_result(None)
        return mine

    def _look_later(self) -> None:
        if self._looking is None and self._slots.due() is not None:
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        """See whether slots have become slow, as long as anybody waits for one."""
        while (due := self._slots.due()) is not None:
            await self._sleep(max(_LEAST_S, due - self._seconds()))
            self._grant(self._seconds())
        self._looking = None
