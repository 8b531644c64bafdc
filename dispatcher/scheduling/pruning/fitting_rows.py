"""How many rows of each group the shared filters let pass: counted once for all pods, until a node changes."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.equivalence.partitions import Partition, Partitions
from dispatcher.scheduling.equivalence.static_answers import StaticColumn, StaticFilters
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Ints

_KEPT = 16
_Names = tuple[object, ...]


@dataclass(frozen=True)
class Fitting:
    """[groups] how many rows fit, and the first of them. `kept`: what this was made of, so that nothing else can come
    to have the same id.
    """

    counts: Ints
    first: RowList
    kept: tuple[Partition, tuple[StaticColumn, ...]]


class FittingRows:
    """Of partitions and filters that were last asked about."""

    def __init__(self, fleet: FleetState, partitions: Partitions) -> None:
        self.fleet, self.partitions = fleet, partitions
        self._at = -1
        self._kept: OrderedDict[_Names, Fitting] = OrderedDict()
        self._clusters: tuple[Ints, RowList, Ints] | None = None

    def of(self, partition: Partition, filters: StaticFilters) -> Fitting:
        """By group; `filters` are up to date."""
        self._follow()
        name = (id(partition), *[(id(one), one.version) for one in filters.columns])
        found = self._kept.get(name)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            rows = np.flatnonzero(filters.first[: self.fleet.n] == 0)
            groups = partition.group[rows]
            first = np.zeros(partition.size, dtype=np.intp)
            first[groups[::-1]] = rows[::-1]
            counts = np.bincount(groups, minlength=partition.size)
            found = self._kept[name] = Fitting(counts, first, (partition, filters.columns))
        return found

    def of_clusters(self) -> tuple[Ints, RowList]:
        """The clusters that have nodes, by index, and a row of each."""
        known, rows, _ = self._nodes()
        return known, rows

    def nodes(self) -> Ints:
        """[clusters] how many nodes there are."""
        return self._nodes()[2]

    def _nodes(self) -> tuple[Ints, RowList, Ints]:
        self._follow()
        if self._clusters is None:
            fleet = self.fleet
            rows, counts = np.flatnonzero(fleet.live), np.zeros(len(fleet.clusters), dtype=np.int64)
            clusters = fleet.cluster[rows]
            first = np.zeros(len(counts), dtype=np.intp)
            first[clusters[::-1]] = rows[::-1]
            counts += np.bincount(clusters, minlength=len(counts))
            known = np.flatnonzero(counts)
            self._clusters = known, first[known], counts
        return self._clusters

    def _follow(self) -> None:
        if self._at != self.fleet.changes.position:
            self._kept.clear()
            self._clusters = None
            self._at = self.fleet.changes.position
