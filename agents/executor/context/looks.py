"""Looks at who uses what is here, some of it each time: there may be very many."""

from collections.abc import Callable, Generator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Table(Protocol[T]):
    """What a look fills in. `look`: it, while it lasts; `looked_at`: when the last one began
    (monotonic), and `known_since`: the last that has come to its end; `due`: what that found.
    """

    look: Generator[None, None, T] | None
    looked_at: float
    known_since: float
    due: T


def look_on(
    table: Table[T], begin: Callable[[], Generator[None, None, T]], now: float, period_s: float
) -> None:
    """Look at some more, or begin anew `period_s` after the last look began."""
    if table.look is None and now - table.looked_at >= period_s:
        table.looked_at = now
        table.look = begin()
    look = table.look
    if look is None:
        return
    table.look = None
    try:
        next(look)
        table.look = look
    except StopIteration as end:
        table.due = end.value
        table.known_since = table.looked_at
