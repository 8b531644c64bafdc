"""Values of nodes as small numbers: given to each when it is new, taken back when no node has it
any more.

Autoscalers write the time into taints, and hosts have names that never come again: what once was is
forgotten, or all who go by these numbers would carry it along.
"""

from collections.abc import Iterator
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.fleet.changed_rows import ChangedRows
from dispatcher.scheduling.framework import SmallInts
from dispatcher.scheduling.framework.coded_values import CodedValues

V = TypeVar("V")
# values, and times as many as were in use: before that it is not worth a look at all rows
LEAST = 64
GROWTH = 2


class Interned(CodedValues[V]):
    """The values by code, each once. Codes that no node has are free: such a value stays until a
    new one takes its place. Those of the values that it begins with are never free.

    Which are free is looked up once there are twice as many values as were in use the last time.
    """

    def __init__(self, *kept: V) -> None:
        self._kept = len(kept)
        self._values = list(kept)
        self._codes = {value: code for code, value in enumerate(kept)}
        self._free: dict[int, None] = {}  # the lowest last
        self._given = ChangedRows()
        self._given.extend(range(len(kept)))
        self._due = LEAST

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, code: int) -> V: ...

    @overload
    def __getitem__(self, code: slice) -> list[V]: ...

    def __getitem__(self, code: int | slice) -> V | list[V]:
        return self._values[code]

    def __iter__(self) -> Iterator[V]:
        return iter(self._values)

    @property
    def position(self) -> int:
        """How many times a value was given a code."""
        return self._given.position

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The codes that were given to values from `position` on, each once, ascending; None: look
        at all of them.
        """
        return self._given.since(position)

    def find(self, value: V) -> int | None:
        """The code of a value, None if it has none."""
        return self._codes.get(value)

    def code(self, value: V) -> int:
        """The code of a value; it gets one if it has none."""
        found = self._codes.get(value)
        if found is not None:
            self._free.pop(found, None)
            return found
        if self._free:
            found, _ = self._free.popitem()
            del self._codes[self._values[found]]
            self._values[found] = value
        else:
            found = len(self._values)
            self._values.append(value)
        self._codes[value] = found
        self._given.append(found)
        return found

    def make_room(self, column: SmallInts) -> None:
        """Find, if it is time, the codes that are not in `column`: they are free. No code may be on
        its way there: to be called before the first `code` of a change.
        """
        if len(self._values) - len(self._free) < self._due:
            return
        used = np.zeros(len(self._values) + 1, dtype=np.bool_)  # code -1 is the last
        used[column] = used[: self._kept] = True
        self._free = dict.fromkeys(np.flatnonzero(~used[:-1])[::-1].tolist())
        self._due = max(LEAST, GROWTH * (len(self._values) - len(self._free)))
