"""What nodes tell by name, as columns: one a name, made when somebody first asks, kept up to date."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.fleet.columns import grown, read_only
from shared.model.node import Node

_MOST = 1024


class ToldColumns:
    """name -> [rows] value as `read` says, `absent` where there is no node.

    At most _MOST names are kept; the one unused for longest is dropped, and made anew if asked for
    again.
    """

    def __init__(self, read: Callable[[Node, str], Any], absent: Any) -> None:
        self._read = read
        self._absent = absent
        self._columns: dict[str, NDArray[Any]] = {}

    def values(self, name: str, nodes: Sequence[Node | None]) -> NDArray[Any]:
        """[len(nodes)] read-only; `nodes` are the rows, None where a row is dead."""
        column = self._columns.pop(name, None)
        if column is None:
            if len(self._columns) >= _MOST:
                del self._columns[next(iter(self._columns))]
            values = (self._absent if node is None else self._read(node, name) for node in nodes)
            column = np.fromiter(values, dtype=type(self._absent), count=len(nodes))
        self._columns[name] = column = grown(column, len(nodes), self._absent)
        window: NDArray[Any] = read_only(column[: len(nodes)])
        return window

    def replace(self, row: int, after: Node | None) -> None:
        """The node of a row is now `after`."""
        for name, column in self._columns.items():
            self._columns[name] = grown(column, row + 1, self._absent)
            self._columns[name][row] = self._absent if after is None else self._read(after, name)
