"""Carries out the orders of a batch: each alone, or binds of one namespace as a series over one connection.

Of a series a bind costs the agent's process half the CPU that it costs alone: requests leave in one write, and
answers wake one task. A series holds one slot, as one request does, and the server carries it out one by one, so no
more happens at once than before. What its first answer does not settle goes on alone, in a slot of its own. While the
server is slow nothing goes in series: an order would wait for those before it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from agents.executor.answer import outcome
from agents.executor.http import Procedure, Request, Response
from agents.executor.local import Local, Moment
from agents.executor.procedures import carry_out
from agents.runtime.driver import Driver, Execution, GivenUpError
from dispatcher.model.messages import STALE, UNKNOWN, AnyIntent, Bind, CreateDelegate, IntentBatch, Outcome

BULK = 32  # binds of one namespace in a batch, from which on they go in series
SERIES = 4  # binds in one
_SLOW_S = 0.5  # a series that took longer is the last one for _ALONE_S; a slot that is held twice as long is slow
_ALONE_S = 10.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Order:
    """An intent under way; `end` has its outcome."""

    intent: AnyIntent
    batch: IntentBatch
    execution: Execution
    end: asyncio.Future[Outcome]


@dataclass(frozen=True, slots=True)
class _Begun:
    """An order whose first request is known."""

    order: Order
    procedure: Procedure[Outcome]
    request: Request


def may_join(intent: AnyIntent) -> bool:
    """Whether it may be one of a series: a bind to a real node, which is one short request."""
    return isinstance(intent, Bind) and not intent.proxy


def series_of(orders: Sequence[Order]) -> list[Sequence[Order]]:
    """The orders in series of SERIES, the last one with what is left."""
    return [orders[first : first + SERIES] for first in range(0, len(orders), SERIES)]


class Carrier:
    """Drives orders. `tasks` are those that it has begun itself."""

    def __init__(self, local: Local, driver: Driver, clock: Callable[[], Moment]) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._local, self._driver, self._clock = local, driver, clock
        self._alone_until = float("-inf")

    async def alone(self, intent: AnyIntent, batch: IntentBatch, execution: Execution) -> Outcome:
        """Carry out one intent when its turn has come."""
        try:
            await self._driver.begin(execution)
            return await self._in_turn(intent, batch, execution)
        finally:
            self._driver.end(execution)

    def begin_series(self, orders: Sequence[Order]) -> None:
        """Carry out binds of one lane, which have no order of the same pod before them; each `end` is set."""
        self._spawn(self._series(orders), orders)

    async def _series(self, orders: Sequence[Order]) -> None:
        first = orders[0].execution
        for one in orders[1:]:
            one.execution.behind = first  # it hangs while that does
        try:
            await self._driver.begin(first)
            if self._clock().mono < self._alone_until:
                self._part(orders[1:])
                _end(orders[0], await self._in_turn(orders[0].intent, orders[0].batch, first))
            else:
                await self._in_one(orders)
        finally:
            self._driver.end(first)

    async def _in_one(self, orders: Sequence[Order]) -> None:
        now = self._clock()
        begun = [one for one in (self._first_of(order, now) for order in orders) if one is not None]
        asked = [(one.request, one.order.execution) for one in begun]
        try:
            answers = await self._driver.series(asked) if asked else ()
        except Exception as error:
            _log.error("series failed", pods=[one.order.intent.pod.name for one in begun], exc_info=error)
            for one in begun:
                one.procedure.close()
                _end(one.order, _fault(one.order.intent, error))
            return
        took = self._clock().mono - now.mono
        if took > _SLOW_S:
            self._alone_until = now.mono + took + _ALONE_S
        left: list[tuple[_Begun, Response]] = []
        for one, answer in zip(begun, answers, strict=True):
            if answer.ok:
                order = one.order
                _end(order, await self._driven(order.intent, one.procedure, order.execution, (one.request, answer)))
            else:
                left.append((one, answer))
        self._driver.end(orders[0].execution)  # who goes on takes a slot of his own
        for one, answer in left:
            self._spawn(self._go_on(one, answer), (one.order,))

    def _first_of(self, order: Order, now: Moment) -> _Begun | None:
        """Its first request; None where it has ended without one."""
        intent, execution = order.intent, order.execution
        if early := self._too_late(intent, order.batch, execution, now):
            _end(order, early)
            return None
        procedure = carry_out(intent, order.batch.dispatcher_epoch, self._local, now)
        try:
            return _Begun(order, procedure, next(procedure))
        except StopIteration as end:
            _end(order, end.value)
        except Exception as error:
            _end(order, _failed(intent, error))
        return None

    def _part(self, orders: Sequence[Order]) -> None:
        """Each for itself."""
        for order in orders:
            order.execution.behind = None
            self._spawn(self._one(order), (order,))

    async def _one(self, order: Order) -> None:
        _end(order, await self.alone(order.intent, order.batch, order.execution))

    async def _go_on(self, one: _Begun, answer: Response) -> None:
        order, execution = one.order, one.order.execution
        execution.behind = None
        try:
            await self._driver.begin(execution)
            _end(order, await self._driven(order.intent, one.procedure, execution, (one.request, answer)))
        finally:
            self._driver.end(execution)

    def _spawn(self, work: Coroutine[Any, Any, None], orders: Sequence[Order]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, orders))

    def _ended(self, task: asyncio.Task[None], orders: Sequence[Order]) -> None:
        """A task that did not come to its end leaves nobody waiting."""
        self.tasks.discard(task)
        if task.cancelled() or task.exception() is not None:
            for order in orders:
                order.end.cancel()

    async def _in_turn(self, intent: AnyIntent, batch: IntentBatch, execution: Execution) -> Outcome:
        now = self._clock()
        if early := self._too_late(intent, batch, execution, now):
            return early
        return await self._driven(intent, carry_out(intent, batch.dispatcher_epoch, self._local, now), execution)

    def _too_late(self, intent: AnyIntent, batch: IntentBatch, execution: Execution, now: Moment) -> Outcome | None:
        if now.mono > execution.deadline:
            return not_done(intent, f"not begun within its {batch.deadline_s:g} s")
        late = execution.objection()
        return outcome(intent, UNKNOWN, late) if late else None

    async def _driven(
        self,
        intent: AnyIntent,
        procedure: Procedure[Outcome],
        execution: Execution,
        begun: tuple[Request, Response] | None = None,
    ) -> Outcome:
        try:
            return await self._driver.drive(procedure, execution, begun)
        except GivenUpError as error:
            return outcome(intent, UNKNOWN, str(error)) if execution.wrote else not_done(intent, str(error))
        except Exception as error:
            return _failed(intent, error)


def not_done(intent: AnyIntent, why: str) -> Outcome:
    """Nothing was sent. A delegate may be there from an earlier send of the order: only a look could deny it."""
    return outcome(intent, UNKNOWN if isinstance(intent, CreateDelegate) else STALE, why)


def _failed(intent: AnyIntent, error: Exception) -> Outcome:
    where = f"{intent.pod.namespace}/{intent.pod.name}"
    _log.error("procedure failed", pod=where, intent=type(intent).__name__, exc_info=error)
    return _fault(intent, error)


def _fault(intent: AnyIntent, error: Exception) -> Outcome:
    where = f"{intent.pod.namespace}/{intent.pod.name}"
    return outcome(intent, UNKNOWN, f"pod {where}: {type(error).__name__}: {error}")


def _end(order: Order, result: Outcome) -> None:
    if not order.end.done():
        order.end.set_result(result)
