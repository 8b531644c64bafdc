"""Carries a procedure's requests to the API server, and waits where the server must be given time.

A procedure never hears 429: the server did nothing, so the very same request is sent again after
the time it asks for. After an answer that leaves doubt the procedure's next request waits, too, a
little longer each time, and is not sent at all where the order may not go on by then. No slot is
held meanwhile, so that only this pod waits.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from agents.runtime.slot_queue import Sleep, SlotQueue
from shared.kube.http import TOO_BUSY, Procedure, Request, Response
from shared.kube.verdicts import POSTPONED

T = TypeVar("T")
Objection = Callable[[], str]  # why something may not go on, '' while it may

# of a pause that the server asks for
SHORTEST_S = 0.2
LONGEST_S = 10.0
UNASKED_S = 1.0  # after a 429 without Retry-After
_DOUBT_S = 0.1
_MOST_DOUBT_S = 2.0


class ApiClient(Protocol):
    """What is needed of a client. It never raises for what the server or the network does."""

    async def send(self, request: Request) -> Response:
        """One call; status 0 when no answer came."""

    async def send_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Calls that the server does one after the other, cheaper than each for itself; an answer
        for each.
        """


@dataclass(slots=True)
class Execution:
    """How a procedure is carried out. `lane` is its lane in the queue of slots; without one it
    needs no slot.

    While the server is too busy it waits until `deadline` (monotonic seconds), or until there is an
    `objection` (why it may go on no longer, '' while it may), which ends it after an answer that
    leaves doubt, too. `wrote`: a write was sent that may have been done. `behind`: the execution
    that has to end before. `own_state`: its writes are about what the executor stores for itself,
    which their resourceVersion guards; all others need a permit.
    """

    deadline: float
    lane: str | None = None
    objection: Objection = lambda: ""
    wrote: bool = False
    behind: "Execution | None" = None
    own_state: bool = False
    ticket: int | None = field(default=None, init=False)


@dataclass(frozen=True, slots=True)
class Pauses:
    """How to wait, and what makes one pause unlike the next: callers that were refused together
    come back apart.
    """

    sleep: Sleep = asyncio.sleep
    dice: random.Random = field(default_factory=lambda: random.Random(random.random()))


class GivenUpError(Exception):
    """Given up before its end: the server was too busy, or the order may not go on; the text says
    why.
    """


class BarredError(GivenUpError):
    """This executor may write no more. Another one of the cluster may have done what was asked, or
    do it now.
    """


class Driver:
    """Drives procedures against one API server. `permit` is called when one begins: what it gives
    is asked before each of its writes (see ExecutorLease).
    """

    def __init__(
        self, client: ApiClient, slot_queue: SlotQueue, seconds: Callable[[], float], pauses: Pauses
    ) -> None:
        self.permit: Callable[[], Objection] = lambda: lambda: ""
        self._client = client
        self._slot_queue = slot_queue
        self._seconds = seconds
        self._sleep = pauses.sleep
        self._dice = pauses.dice

    async def drive(self, procedure: Procedure[T], execution: Execution) -> T:
        """The procedure's result; GivenUpError if the server was too busy for too long, or its
        order may not go on.

        Holds a slot at its return.
        """
        doubt_s = _DOUBT_S
        barred = self.permit()
        try:
            request = next(procedure)
            while True:
                response = await self._ask(request, execution, barred)
                request = procedure.send(response)
                if response.unknown or response.status in POSTPONED:
                    await self._hesitate(doubt_s * self._dice.uniform(0.5, 1.0), execution)
                    doubt_s = min(2 * doubt_s, _MOST_DOUBT_S)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            procedure.close()

    async def begin(self, execution: Execution) -> None:
        """Wait for the slot."""
        if execution.lane is not None:
            execution.ticket = await self._slot_queue.take(execution.lane)

    def hangs(self, execution: Execution) -> bool:
        """Whether it is held up by requests that hang, its own or those before it; not by others
        that get on.
        """
        while execution.behind is not None:
            execution = execution.behind
        return execution.lane is not None and self._slot_queue.hangs(
            execution.ticket, execution.lane
        )

    def end(self, execution: Execution) -> None:
        """Give the slot back."""
        if execution.ticket is not None:
            ticket = execution.ticket
            execution.ticket = None
            self._slot_queue.give(ticket)

    async def _ask(self, request: Request, execution: Execution, barred: Objection) -> Response:
        if request.elsewhere:  # who answers slowly, or never, holds no slots of this server by that
            self.end(execution)
            response = await self._client.send(request)
            await self._go_on(execution)
            return response
        guarded = request.method != "GET" and not execution.own_state
        while True:
            if guarded and (why := barred()):
                raise BarredError(why)
            response = await self._client.send(request)
            if response.status != TOO_BUSY:
                break
            self._slot_queue.refused()
            await self._patience(response, execution)
        if response.ok:
            self._slot_queue.answered()
        if request.method != "GET" and (response.ok or response.unknown):
            execution.wrote = True
        return response

    async def _hesitate(self, seconds: float, execution: Execution) -> None:
        """Wait after an answer that leaves doubt; GivenUpError on an objection."""
        await self._pause(seconds, execution)
        if why := execution.objection():
            raise GivenUpError(why)

    async def _patience(self, response: Response, execution: Execution) -> None:
        """Wait as the server asks; GivenUpError past the deadline or on an objection."""
        asked = min(max(response.retry_after_s or UNASKED_S, SHORTEST_S), LONGEST_S)
        left = execution.deadline - self._seconds()
        await self._pause(max(0.0, min(asked * self._dice.uniform(1.0, 1.3), left)), execution)
        if self._seconds() >= execution.deadline:
            raise GivenUpError("the API server is too busy (HTTP 429)")
        if why := execution.objection():
            raise GivenUpError(why)

    async def _pause(self, seconds: float, execution: Execution) -> None:
        """Sleep without the slot, then go on before the others of the lane."""
        self.end(execution)
        await self._sleep(seconds)
        await self._go_on(execution)

    async def _go_on(self, execution: Execution) -> None:
        if execution.lane is not None:
            execution.ticket = await self._slot_queue.take(execution.lane, first=True)
