"""Node labels as columns of small integers, one a label key, kept up to date: of regions, zones and
racks always, of others from when somebody first asks.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, grown, read_only
from dispatcher.scheduling.fleet.interned import Interned
from dispatcher.scheduling.framework import Bools, SmallInts
from dispatcher.scheduling.framework.coded_values import CodedValues
from shared.model.names import RACK, REGION, ZONE
from shared.model.node import Node

ABSENT = -1
# from the first node on: made later, a column of 500,000 nodes holds a decision up for 70 ms
_KEPT = ((REGION, False), (ZONE, False), (RACK, False), (RACK, True))
_MANY = 256  # columns; before there are more, those of keys that no node has any more are dropped
ClusterOf = Callable[[int], str]  # row -> name of its cluster
Clusters = Callable[[], SmallInts]  # [n] the number of each row's cluster


@dataclass
class _Column:
    codes: SmallInts
    values: Interned[str] = field(default_factory=Interned)
    # rows by code, and where those of each code begin; None: not known
    sorted: tuple[RowList, RowList] | None = None

    def rows(self, value: str) -> RowList:
        """The rows with a value, ascending; sorted once for all values, until a label changes."""
        if self.sorted is None:
            # 16 bits: by radix
            codes = self.codes.astype(np.int16) if len(self.values) < 2**15 else self.codes
            order = np.argsort(codes, kind="stable")
            self.sorted = order, np.searchsorted(codes[order], np.arange(len(self.values) + 1))
        order, starts = self.sorted
        code = self.values.find(value)
        return order[:0] if code is None else order[starts[code] : starts[code + 1]]

    def codes_of(self, texts: Sequence[str | None]) -> SmallInts:
        """The code of each."""
        known = {text: self.code(text) for text in dict.fromkeys(texts)}
        return np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))

    def code(self, value: str | None) -> int:
        return ABSENT if value is None else self.values.code(value)

    def make_room(self) -> None:
        """Forget values that no node has, if it is time; before any that is new gets a code."""
        self.values.make_room(self.codes)


@dataclass
class Relabelling:
    """A change of labels, found before it is written: pods are taken out of their old domains
    first, and counted in the new ones after it. `columns`: those in which some of the rows differ,
    with the new codes [rows]; `seen`: all that there were, as taking pods out may make one of a key
    that other rows have.
    """

    rows: RowList
    after: Sequence[Mapping[str, str]]  # [rows] the new labels
    seen: Set[tuple[str, bool]]
    moving: Bools  # [rows] whether a fault domain of a row may become another one
    columns: list[tuple[_Column, SmallInts]] = field(default_factory=list)
    nodes_gained: Counter[str] = field(
        default_factory=Counter
    )  # by label key, negative if fewer nodes have it


class LabelColumns:
    """key -> [rows] code of the label's value, -1 where absent. A code means the same as long as a
    node has it.

    `scoped` columns tell equal values of two clusters apart: their texts are 'cluster/value'.
    Keys that no node has cost nothing, so pods cannot make the fleet grow by asking for odd labels.
    """

    def __init__(self, cluster_of: ClusterOf, clusters: Clusters) -> None:
        self._cluster_of = cluster_of
        self._clusters = clusters
        self._columns = {one: _Column(np.full(0, ABSENT, dtype=np.int32)) for one in _KEPT}
        self._nodes_with: Counter[str] = Counter()
        self._absent: SmallInts = np.full(0, ABSENT, dtype=np.int32)
        self._none = Interned[str]()

    def codes(self, key: str, nodes: Sequence[Node | None], *, scoped: bool = False) -> SmallInts:
        """[len(nodes)] codes of `key`, read-only; `nodes` are the rows, None where a row is dead."""
        column = self._column(key, nodes, scoped)
        if column is None:
            self._absent = grown(self._absent, len(nodes), ABSENT)
        window: SmallInts = read_only(
            (self._absent if column is None else column.codes)[: len(nodes)]
        )
        return window

    def values(
        self, key: str, nodes: Sequence[Node | None], *, scoped: bool = False
    ) -> CodedValues[str]:
        """The texts behind the codes of `key`."""
        column = self._column(key, nodes, scoped)
        return self._none if column is None else column.values

    def rows(self, key: str, value: str, nodes: Sequence[Node | None]) -> RowList:
        """The rows whose label has this value, ascending, read-only."""
        column = self._column(key, nodes, False)
        return np.zeros(0, dtype=np.intp) if column is None else read_only(column.rows(value))

    def _column(self, key: str, nodes: Sequence[Node | None], scoped: bool) -> _Column | None:
        found = self._columns.get((key, scoped))
        if found is not None or not self._nodes_with[key]:
            return found
        if len(self._columns) >= _MANY:
            kept = {*(key for key, _ in _KEPT), *self._nodes_with}
            self._columns = {name: one for name, one in self._columns.items() if name[0] in kept}
        plain = self._column(key, nodes, False) if scoped else None
        made = _Column(np.full(len(nodes), ABSENT, dtype=np.int32))
        if plain is None:
            values = [None if node is None else node.labels.get(key) for node in nodes]
            made.codes = made.codes_of(values)
        else:
            self._tell_apart(made, plain)
        self._columns[key, scoped] = made
        return made

    def _tell_apart(self, made: _Column, plain: _Column) -> None:
        """Fill a scoped column: each value of each cluster is looked at once."""
        rows = np.flatnonzero(plain.codes[: len(made.codes)] >= 0)
        codes = plain.codes[rows]
        pairs = self._clusters()[rows].astype(np.int64) * len(plain.values) + codes
        _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
        values = [plain.values[code] for code in codes[first].tolist()]
        made.codes[rows] = made.codes_of(self._texts(rows[first].tolist(), values, True))[which]

    def _texts(
        self, rows: Sequence[int], values: Sequence[str | None], scoped: bool
    ) -> Sequence[str | None]:
        return (
            [self._text(row, one, scoped) for row, one in zip(rows, values, strict=True)]
            if scoped
            else values
        )

    def _text(self, row: int, value: str | None, scoped: bool) -> str | None:
        return f"{self._cluster_of(row)}/{value}" if scoped and value is not None else value

    def replace(self, row: int, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """The labels of a row were `before` (empty: no node) and are now `after`."""
        for key in before:
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]
        self._nodes_with.update(after.keys())
        self._write(row, after)

    def relabelling(
        self, rows: RowList, before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
    ) -> Relabelling:
        """What changes when labels of these rows of one cluster, `before`, become `after`; nothing
        is written yet.
        """
        found = Relabelling(
            rows, after, frozenset(self._columns), np.zeros(len(rows), dtype=np.bool_)
        )
        keys = {key for key, _ in self._columns}
        for at, (was, now) in enumerate(zip(before, after, strict=True)):
            if was.keys() != now.keys():
                found.nodes_gained.update(now.keys())
                found.nodes_gained.subtract(was.keys())
                found.moving[at] = any(
                    key not in was and key not in keys for key in now
                )  # a column may be made of it
        for (key, scoped), column in self._columns.items():
            texts = [labels.get(key) for labels in after]
            if texts != [labels.get(key) for labels in before]:
                column.make_room()
                codes = column.codes_of(self._texts(rows.tolist(), texts, scoped))
                found.moving |= codes != column.codes[rows]
                found.columns.append((column, codes))
        return found

    def relabel(self, change: Relabelling) -> None:
        """Write a change that was found."""
        for column, codes in change.columns:
            column.codes[change.rows] = codes
            column.sorted = None
        for key, scoped in self._columns.keys() - change.seen:
            texts = [labels.get(key) for labels in change.after]
            column = self._columns[key, scoped]
            column.codes[change.rows] = column.codes_of(
                self._texts(change.rows.tolist(), texts, scoped)
            )
            column.sorted = None
        for key, more in change.nodes_gained.items():
            self._nodes_with[key] += more
            if not self._nodes_with[key]:
                del self._nodes_with[key]

    def add(self, rows: Sequence[int], nodes: Sequence[Node]) -> None:
        """Rows that had no node have these now."""
        self._nodes_with.update(chain.from_iterable(node.labels for node in nodes))
        most = max(rows, default=-1) + 1
        for (key, scoped), column in self._columns.items():
            values = [node.labels.get(key) for node in nodes]
            column.make_room()
            column.codes = grown(column.codes, most, ABSENT)
            column.sorted = None
            column.codes[rows] = column.codes_of(self._texts(rows, values, scoped))

    def _write(self, row: int, after: Mapping[str, str]) -> None:
        for (key, scoped), column in self._columns.items():
            column.make_room()
            column.codes = grown(column.codes, row + 1, ABSENT)
            code = column.code(self._text(row, after.get(key), scoped))
            if column.codes[row] != code:
                column.codes[row] = code
                column.sorted = None
