"""A shard: its rows' columns, and the plugins that look at one row each, asked about all of them.

It runs the very code that the driver would run over these rows. It keeps nothing of a class between two questions.
"""

from collections.abc import Iterable, Sequence
from typing import cast

from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.equivalence.rows import RowTable
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.points import Plan, PluginError
from dispatcher.scheduling.framework.roles import Role, roles_of
from dispatcher.scheduling.shards.answers import numbers_of
from dispatcher.scheduling.shards.frames import (
    ENCODER,
    NOTHING,
    REQUESTS,
    Body,
    Frame,
    Question,
    Reply,
    ShardRequest,
    unpack,
)
from dispatcher.scheduling.shards.held import HeldRows


class Shard:
    """Takes orders, in order, and answers the questions in them."""

    def __init__(self) -> None:
        self.held = HeldRows()
        self.number = 0  # of the last order that was taken
        self._policy = ""
        self._roles: dict[str, dict[str, Role]] = {}
        self._fleet = cast(FleetState, self.held)  # what it lacks of one is told by NotHeldError
        self._nodes = StaticFilters(())
        self._table = RowTable(self._fleet)

    def configure(self, policy: str, plans: Iterable[Plan]) -> None:
        """Answer by these profiles from now on; `policy` is their name in questions."""
        self._policy = policy
        self._roles = {plan.profile: {role.name: role for role in roles_of(plan)} for plan in plans}

    def take(self, frame: Frame) -> Frame:
        """Take a ShardRequest; the answer is a Reply."""
        order = REQUESTS.decode(frame.head)
        if not order.blank and order.after != self.number:
            return _frame(Reply(order.number, behind=True))
        self._write(order, frame.body)
        if order.question is None:
            return _frame(Reply(order.number))
        if order.question.policy != self._policy:
            return _frame(Reply(order.number, other_policy=True))
        try:
            return self._answer(order.number, order.question)
        except PluginError as error:  # also for what is not held here: the driver asks its own plugin
            return _frame(Reply(order.number, declined=str(error)))

    def _write(self, order: ShardRequest, body: Body) -> None:
        if order.blank:
            self.held.forget()
        if order.length != self.held.n:
            self._nodes = StaticFilters(())
        self.held.reserve(order.length, order.resources, order.signals, order.derived)
        if order.touched:
            unpack(body, order.touched, self.held)
        self.number = order.number

    def _answer(self, number: int, question: Question) -> Frame:
        self.held.clock = question.now
        placed = Placed(question.pod, question.home, counts_as=question.counts_as)
        known = self._roles.get(question.profile, {})
        names = list(dict.fromkeys((*question.filters, *question.scores)))
        missing = [name for name in names if name not in known]
        if missing:
            return _frame(Reply(number, declined=f"this shard has no plugin {missing[0]}"))
        evaluators = {name: PluginEvaluator(known[name], self._fleet) for name in names}
        for name, evaluator in evaluators.items():
            if evaluator.pre_filter(placed) is not None or evaluator.skipped:
                return _frame(Reply(number, declined=f"plugin {name} says less here than it does for the driver"))
        found = self._ask(
            [evaluators[one] for one in question.filters], [evaluators[one] for one in question.scores], placed
        )
        if found is None:
            return _frame(Reply(number, declined="points below 0"))
        clocked = tuple(name for name, evaluator in evaluators.items() if evaluator.observed.now)
        return Frame(ENCODER.encode(Reply(number, reasons=found[1], clocked=clocked)), found[0])

    def _ask(
        self, filters: Sequence[PluginEvaluator], scores: Sequence[PluginEvaluator], placed: Placed
    ) -> tuple[Body, tuple[tuple[tuple[str, str, bool], ...], ...]] | None:
        self._nodes.refresh(self._fleet)
        self._table.select_active(self._nodes, filters, (), scores)
        self._table.fill_all(placed)
        n = self.held.n
        return numbers_of(self._table.first[:n], self._table.total[:n], self.held.reasons)


def _frame(told: Reply) -> Frame:
    return Frame(ENCODER.encode(told), NOTHING)
