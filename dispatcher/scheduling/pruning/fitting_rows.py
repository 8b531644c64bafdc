"""How many rows of each group the shared filters let pass: counted once for all pods, until a node
changes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.partitions import Partition, Partitions
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Ints, SmallInts
from dispatcher.scheduling.framework.kernels import kernel

_KEPT = 16
WIDEST = 1 << 16  # groups: with more, going by groups saves nothing
_Names = tuple[object, ...]


@dataclass(frozen=True)
class Fitting:
    """Groups of rows, `width` names of them; some name no row that fits.

    `group` [n] of each row; `names`, ascending: the groups in which rows fit, `counts` how many,
    `last` the last one.
    """

    group: SmallInts
    width: int
    names: RowList
    counts: Ints
    last: RowList

    @classmethod
    def of(cls, group: SmallInts, counts: Ints, last: RowList) -> "Fitting":
        """`counts`, `last`: of all names."""
        names = np.flatnonzero(counts)
        return cls(group, len(counts), names, counts[names], last[names])


@dataclass(frozen=True)
class _Kept:
    """`made_of`: so that nothing else can come to have the same id."""

    found: Fitting
    made_of: tuple[Partition, tuple[StaticColumn, ...]]


@kernel("wholes marks out_ints out_ints")
def _count(group, refused, counts, last):  # type: ignore[no-untyped-def]
    """See `_counted`."""
    for row in range(len(group)):
        if refused[row] == 0:
            counts[group[row]] += 1
            last[group[row]] = row


@kernel("wholes ints int marks out_wholes out_ints out_ints")
def _split(group, numbers, width, refused, found, counts, last):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """The group of each row when `numbers` tell rows apart, too; of each, how many rows fit, and
    the last of them.
    """
    for row in range(len(group)):
        name = group[row] * width + numbers[row]
        found[row] = name
        if refused[row] == 0:
            counts[name] += 1
            last[name] = row


class FittingRows:
    """Of partitions and filters that were last asked about."""

    def __init__(self, fleet: FleetState, partitions: Partitions) -> None:
        self.fleet = fleet
        self.partitions = partitions
        self._at = -1
        self._kept: OrderedDict[_Names, _Kept] = OrderedDict()

    def of(self, partition: Partition, filters: StaticFilters) -> Fitting:
        """By group; `filters` are up to date."""
        if self._at != self.fleet.changes.position:
            self._kept.clear()
            self._at = self.fleet.changes.position
        name = (id(partition), *[(id(one), one.version) for one in filters.columns])
        found = self._kept.get(name)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            counts = _counted(partition, filters.refusal_codes[: self.fleet.n])
            found = self._kept[name] = _Kept(
                Fitting.of(partition.group, *counts), (partition, filters.columns)
            )
        return found.found

    def split(
        self, base: Fitting, filters: StaticFilters, numbers: Sequence[tuple[Ints, int]]
    ) -> tuple[Fitting, list[NDArray[np.int64]]] | None:
        """`base` when `numbers` tell rows apart, too: [n] each, from 0 up to below a width; None if
        that is too fine. And what it was made of, by name: the base's names, and each of the
        numbers.
        """
        codes = [base.names]
        for one, width in numbers:
            if base.width * width > WIDEST:
                return None
            coarse = base.names
            base = _finer(base, one, width, filters.refusal_codes[: self.fleet.n])
            parents, told = np.divmod(base.names, width)
            at = np.searchsorted(coarse, parents)
            codes = [*[before[at] for before in codes], told]
        return base, codes

    def of_clusters(self) -> tuple[Ints, RowList]:
        """The clusters that have nodes, by index, and a row of each."""
        rows = self.fleet.row_of_each_cluster()
        known = np.flatnonzero(rows >= 0)
        return known, rows[known]


def _counted(partition: Partition, refused: Codes) -> tuple[Ints, RowList]:
    """By group how many rows fit, and the last of them."""
    counts = np.zeros(partition.size, dtype=np.int64)
    last = np.zeros(partition.size, dtype=np.int64)
    if _count.fast is not None:
        _count.fast(partition.group, refused, counts, last)
    else:
        rows = np.flatnonzero(refused == 0)
        groups = partition.group[rows]
        counts += np.bincount(groups, minlength=partition.size)
        last[groups] = rows
    return counts, last


def _finer(base: Fitting, numbers: Ints, width: int, refused: Codes) -> Fitting:
    counts = np.zeros(base.width * width, dtype=np.int64)
    last = np.zeros(len(counts), dtype=np.int64)
    if _split.fast is not None:
        group = np.empty(len(base.group), dtype=np.int32)
        _split.fast(base.group, numbers, width, refused, group, counts, last)
    else:
        group = (base.group * np.int32(width) + numbers).astype(np.int32)
        rows = np.flatnonzero(refused == 0)
        np.add.at(counts, group[rows], 1)
        last[group[rows]] = rows
    return Fitting.of(group, counts, last)
