"""The fleet's columns: one array per property, one row per node, grown by doubling; and the exact
sums in them.

Plugins see read-only windows of the first n rows; only the fleet writes, through the store behind
them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework import Bools, Floats, Ints, Readings, Rows, SmallInts
from dispatcher.scheduling.framework.kernels import kernel
from shared.model.resources import MAX_QUANTITY

RowList = NDArray[np.intp]  # rows by index, ascending unless said otherwise
Amounts = Sequence[tuple[int, int]]  # (column, amount)


class NodeColumns:
    """Names and types of the columns (see `framework.Nodes` for what each one holds)."""

    live: Bools
    cluster: SmallInts
    ready: Bools
    unschedulable: Bools
    allocatable: Ints
    requested: Ints
    nonzero: Ints
    recent: Ints
    settling: Ints
    taint_set: SmallInts
    used: Readings  # [signals, n]
    used_at: Floats  # [signals, n]
    used_mean: Readings  # [signals, n] see `readings.take_sample`
    usual: Readings  # [signals, n] see `usual.py`
    used_variance: Readings  # [signals, n] see `deviations.py`; [0, n] while no profile asks for it
    hot_since: Floats  # [rules, n] see `hot.py`
    hot: SmallInts  # [n] by which rules a node is hot, a bit each
    # [n] from where each signal was read: code of a set of sources (`readings.SourceSets`)
    source_set: SmallInts
    rank: Ints  # [n] stable tie-break: a hash of (cluster, node), the same after every restart


# Leading axes of columns with one number a resource, a signal, a signal whose deviation is kept, a
# rule of hot nodes.
RESOURCES = -1
SIGNALS = -2
DEVIATIONS = -3
RULES = -4
# column -> (dtype, value of an empty row, leading axis: 0 none, one of these, else its length)
_TABLE: dict[str, tuple[type[np.generic], Any, int]] = {
    "live": (np.bool_, False, 0),
    "cluster": (np.int32, -1, 0),
    "ready": (np.bool_, False, 0),
    "unschedulable": (np.bool_, False, 0),
    "allocatable": (np.int64, 0, RESOURCES),
    "requested": (np.int64, 0, RESOURCES),
    "nonzero": (np.int64, 0, 2),
    "recent": (np.int64, 0, 2),
    "settling": (np.int64, 0, 2),
    "taint_set": (np.int32, 0, 0),
    "used": (np.float32, np.nan, SIGNALS),
    "used_at": (np.float64, -np.inf, SIGNALS),
    "used_mean": (np.float32, np.nan, SIGNALS),
    "usual": (np.float32, 1.0, SIGNALS),
    "used_variance": (np.float32, np.nan, DEVIATIONS),
    "hot_since": (np.float64, np.nan, RULES),
    "hot": (np.int32, 0, 0),
    "source_set": (np.int32, 0, 0),
    "rank": (np.int64, 0, 0),
}


_MANY = 10_000  # entries


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A window on the same memory that cannot be written through."""
    window = array.view()
    window.flags.writeable = False
    return window


def grown(array: NDArray[Any], length: int, fill: object) -> NDArray[Any]:
    """`array` with at least `length` entries on its last axis: itself, or a copy of twice the size.
    The first one has some to spare if it is large: to copy it for a few nodes more would take long.
    """
    have = array.shape[-1]
    if length <= have:
        return array
    spare = 0 if have or length < _MANY else length // 16
    shape = (*array.shape[:-1], max(length + spare, 2 * have, 16))
    # Zeros come from the system untouched: no memory is spent before it is used.
    bigger = np.full(shape, fill, dtype=array.dtype) if fill else np.zeros(shape, dtype=array.dtype)
    bigger[..., :have] = array
    return bigger


class RowStore(NodeColumns):
    """The writable arrays, as long as their capacity."""

    def __init__(self, resources: int, signals: int) -> None:
        self._leads = {RESOURCES: resources, SIGNALS: signals, DEVIATIONS: 0, RULES: 0}
        self._deviates = False
        for name, (dtype, fill, lead) in _TABLE.items():
            shape = (0,) if lead == 0 else (self._leads.get(lead, lead), 0)
            setattr(self, name, np.full(shape, fill, dtype=dtype))
        self._windows: dict[str, NDArray[Any]] = {}
        self._rewindow()
        # What does not fit under MAX_QUANTITY, so that taking away is the exact inverse of adding.
        self._excess: dict[tuple[str, int, int], int] = {}

    @property
    def resources(self) -> int:
        """How many resources have a column."""
        return self._leads[RESOURCES]

    @property
    def signals(self) -> int:
        """How many signals have a column."""
        return self._leads[SIGNALS]

    def reserve(self, rows: int, resources: int, signals: int) -> None:
        """Make room for that many rows, resources and signals; what is there stays where it is."""
        if rows <= self.live.shape[0] and resources <= self.resources and signals <= self.signals:
            return
        self._leads[RESOURCES], self._leads[SIGNALS] = (
            max(resources, self.resources),
            max(signals, self.signals),
        )
        self._leads[DEVIATIONS] = self.signals if self._deviates else 0
        for name, (_, fill, lead) in _TABLE.items():
            array = grown(getattr(self, name), rows, fill)
            missing = self._leads[lead] - array.shape[0] if lead < 0 else 0
            if missing:
                more = np.full((missing, array.shape[1]), fill, dtype=array.dtype)
                array = np.concatenate([array, more])
            setattr(self, name, array)
        self._rewindow()

    def derive(self, *, deviations: bool, rules: Sequence[int | None]) -> None:
        """Keep deviations, or none; and as many rules: each with what the rule of that number had
        so far, or blank.
        """
        before = self.hot_since
        rows = self.live.shape[0]
        blank = np.full(rows, np.nan)
        self.hot_since = np.stack([blank, *(blank if at is None else before[at] for at in rules)])[
            1:
        ]
        if deviations != self._deviates:
            self._deviates = deviations
            self.used_variance = np.full(
                (self.signals if deviations else 0, rows), np.nan, dtype=np.float32
            )
        self._leads[DEVIATIONS], self._leads[RULES] = len(self.used_variance), len(rules)
        self._rewindow()

    def _rewindow(self) -> None:
        self._windows = {name: read_only(getattr(self, name)) for name in _TABLE}

    def windows(self, n: int) -> Iterator[tuple[str, NDArray[Any]]]:
        """(name, read-only window of the first n rows) of every column."""
        for name, window in self._windows.items():
            yield name, window[..., :n]

    def clear(self, row: int) -> None:
        """Make a row as it was before any node had it."""
        for name, (_, fill, _) in _TABLE.items():
            getattr(self, name)[..., row] = fill
        for key in [key for key in self._excess if key[2] == row]:
            del self._excess[key]

    def add(self, name: str, array: Ints, column: int, row: int, amount: int) -> None:
        """Add `amount` (negative: take away) to one cell of column `name`; the cell shows at most
        MAX_QUANTITY.
        """
        total: int = array.item(column, row) + amount
        if self._excess or total > MAX_QUANTITY:
            total += self._excess.pop((name, column, row), 0)
            if total > MAX_QUANTITY:
                self._excess[name, column, row] = total - MAX_QUANTITY
                total = MAX_QUANTITY
        array[column, row] = total


def cells_at(cells: NDArray[Any], rows: slice | Sequence[int] | RowList) -> NDArray[Any]:
    """[columns, rows] of `cells` [columns, n], which are an array or a window on its first rows; a
    copy unless `rows` is a slice. `take` is five times as fast as an index; but of a window (see
    `RowStore.windows`) it would copy all rows first, so it is asked of the array behind it.
    """
    if isinstance(rows, slice):
        return cells[:, rows]
    if len(rows) == 1:
        return cells[:, rows[0] : rows[0] + 1].copy()
    at = np.asarray(rows, dtype=np.intp)
    whole = cells if cells.flags.c_contiguous else cells.base
    if whole is None or whole.strides != cells.strides or len(whole) != len(cells):
        return np.ascontiguousarray(cells[:, at])
    found: NDArray[Any] = whole.take(at, axis=1)
    return found


def as_slice(rows: RowList) -> RowList | slice:
    """The same rows as a slice if each is the one after that before it: reading and writing there
    copies less.
    """
    first = int(rows[0])
    last = int(rows[-1])
    follow = last - first + 1 == len(rows) and bool((rows[1:] == rows[:-1] + 1).all())
    return slice(first, last + 1) if follow else rows


@kernel("ints ints ints ints ints cells cells cells cells")
def _add_pods(rows, times, columns, amounts, cpu_memory, requested, nonzero, recent, settling):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """See `add_pods`; `columns` and `amounts` are of `requested`, `cpu_memory` of the other three."""
    for at in range(len(rows)):
        row = rows[at]
        more = times[at]
        for one in range(len(columns)):
            requested[columns[one], row] += more * amounts[one]
        for one in range(2):
            nonzero[one, row] += more * cpu_memory[one]
            recent[one, row] += more * cpu_memory[2 + one]
            settling[one, row] += more * cpu_memory[4 + one]


def add_pods(
    store: NodeColumns, rows: Rows, times: "int | Ints", wanted: Amounts, cpu_memory: Sequence[int]
) -> None:
    """Add pods on each of `rows`, which are distinct, so many `times` there: `wanted` (column,
    amount) to what is requested; `cpu_memory` (milli-CPU, bytes; three times) to what is nonzero,
    recent and settling.
    """
    if _add_pods.fast is not None and not isinstance(rows, slice) and isinstance(times, np.ndarray):
        by_column = np.asarray([*zip(*wanted, strict=True)])
        others = store.nonzero, store.recent, store.settling
        _add_pods.fast(
            rows,
            times,
            by_column[0],
            by_column[1],
            np.asarray(cpu_memory),
            store.requested,
            *others,
        )
        return
    for column, amount in wanted:
        store.requested[column, rows] += times * amount
    for at, cells in enumerate((store.nonzero, store.recent, store.settling)):
        for one in range(2):
            cells[one, rows] += times * cpu_memory[2 * at + one]


@kernel("ints cells cells cells")
def _highest(rows, requested, nonzero, settling):  # type: ignore[no-untyped-def]
    """See `highest`."""
    found = 0
    for cells in (requested, nonzero, settling):
        for column in range(len(cells)):
            for at in range(len(rows)):
                found = max(found, cells[column, rows[at]])
    return found


def highest(store: NodeColumns, rows: RowList) -> int:
    """The largest amount that is requested, nonzero or settling on any of `rows`; 0 for none."""
    columns = store.requested, store.nonzero, store.settling
    if _highest.fast is not None:
        return int(_highest.fast(rows, *columns))
    return max(int(cells[:, rows].max(initial=0)) for cells in columns)


def distinct(*lists: RowList) -> RowList:
    """The rows in any of the lists, each once, ascending. (np.unique takes ten times as long here.)"""
    filled = [rows for rows in lists if len(rows)]
    if sum(len(rows) for rows in filled) <= 32:
        return np.asarray(sorted({row for rows in filled for row in rows.tolist()}), dtype=np.intp)
    seen = np.zeros(1 + max(int(rows.max()) for rows in filled), dtype=np.bool_)
    for rows in filled:
        seen[rows] = True
    return np.flatnonzero(seen)


def exact_sums(values: Ints) -> list[int]:
    """Sum of each resource over the rows of [resources, rows], capped at MAX_QUANTITY and never
    wrapped.
    """
    high = values >> 32
    low = values & 0xFFFFFFFF
    pairs = zip(high.sum(axis=1).tolist(), low.sum(axis=1).tolist(), strict=True)
    return [min((upper << 32) + lower, MAX_QUANTITY) for upper, lower in pairs]
