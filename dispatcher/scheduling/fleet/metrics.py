"""Numbers that annotations of nodes tell, as columns: one a metric, made when somebody first asks, kept up to date."""

from collections.abc import Sequence

import numpy as np

from dispatcher.model.node import Node
from dispatcher.scheduling.fleet.columns import grown, read_only
from dispatcher.scheduling.framework import Floats


class MetricColumns:
    """name -> [rows] value, NaN where a node does not tell it. Plugins ask for few names, so none is dropped."""

    def __init__(self) -> None:
        self._columns: dict[str, Floats] = {}

    def values(self, name: str, nodes: Sequence[Node | None]) -> Floats:
        """[len(nodes)] read-only; `nodes` are the rows, None where a row is dead."""
        column = self._columns.get(name)
        if column is None:
            values = (np.nan if node is None else node.metrics.get(name, np.nan) for node in nodes)
            column = np.fromiter(values, dtype=np.float64, count=len(nodes))
        self._columns[name] = column = grown(column, len(nodes), np.nan)
        window: Floats = read_only(column[: len(nodes)])
        return window

    def replace(self, row: int, after: Node | None) -> None:
        """The node of a row is now `after`."""
        for name, column in self._columns.items():
            self._columns[name] = grown(column, row + 1, np.nan)
            self._columns[name][row] = np.nan if after is None else after.metrics.get(name, np.nan)
