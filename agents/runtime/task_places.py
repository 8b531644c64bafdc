"""How many reconcile tasks run at once, shared fairly by namespace: the rules of `executor.slots`,
asked once a tick.

Which tasks are due is found anew at each tick, so no task waits here: a namespace does, with its
turn, for as many places as it has tasks due, and a place that it is granted goes to whatever it has
due then.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TypeVar

from agents.executor.bounds.slots import SlotRules, Slots

T = TypeVar("T")


class TaskPlaces:
    """`limit` places. One namespace alone may hold them all; beside others it holds a quarter while
    they wait. A task that takes more than a second counts as hanging, and its place is opened anew
    for other namespaces.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._slots = Slots(SlotRules.of(limit))
        self._tickets = count()
        self._waiting: dict[str, deque[int]] = {}  # tickets by namespace
        self._namespaces: dict[int, str] = {}  # of the tickets that wait

    def grant(self, due: Mapping[str, Sequence[T]], now: float) -> list[tuple[int, T]]:
        """Which of these may begin, with the ticket to give each place back with; of a namespace
        the first come first.

        `due`: all that are due and not under way, by namespace. `now`: monotonic seconds.
        """
        for namespace in tuple(dict.fromkeys((*self._waiting, *due))):
            self._wait_for(namespace, min(len(due.get(namespace, ())), self.limit), now)
        left = {namespace: iter(tasks) for namespace, tasks in due.items()}
        granted = []
        for ticket in self._slots.grant(now):
            namespace = self._namespaces.pop(ticket)
            self._waiting[namespace].remove(ticket)
            granted.append((ticket, next(left[namespace])))
        return granted

    def give_back(self, ticket: int, now: float) -> None:
        """A task has ended."""
        self._slots.free(ticket, now)

    def _wait_for(self, namespace: str, wanted: int, now: float) -> None:
        waiting = self._waiting.setdefault(namespace, deque())
        while len(waiting) > wanted:
            ticket = waiting.pop()
            del self._namespaces[ticket]
            self._slots.free(ticket, now)
        while len(waiting) < wanted:
            ticket = next(self._tickets)
            waiting.append(ticket)
            self._namespaces[ticket] = namespace
            self._slots.ask(ticket, namespace)
        if not waiting:
            del self._waiting[namespace]
