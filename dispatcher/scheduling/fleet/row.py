"""Rows as they were when decisions were taken, so that these can be explained later at leisure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, cells_at
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.signals import SignalColumns, SignalView
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import (
    Bools,
    FleetView,
    Floats,
    Ints,
    PodInfo,
    Readings,
    Rows,
    SmallInts,
)
from dispatcher.scheduling.framework.derived import Derived
from dispatcher.scheduling.rules.requests import expected_request, nonzero_request, requested
from shared.model.signals import SignalAxis

# columns of amounts that move with pods
_AMOUNTS = ("allocatable", "requested", "nonzero", "recent", "settling")


@dataclass(slots=True)
class RowFacts:
    """What moves with pods and readings, copied: columns of the same names with one entry for each
    of `rows`.

    `sources`: by row, who told each signal.
    """

    rows: Sequence[int]
    now: float
    signals: SignalColumns
    sources: Sequence[Mapping[str, str]]
    allocatable: Ints
    requested: Ints
    nonzero: Ints
    recent: Ints
    settling: Ints

    @classmethod
    def of(cls, fleet: FleetState, row: int) -> "RowFacts":
        """Copy those of one row from the fleet as it is now."""
        at = slice(row, row + 1)
        return cls(
            (row,),
            fleet.now,
            SignalColumns.of_row(fleet, row),
            (fleet.sources_of(row),),
            fleet.allocatable[:, at].copy(),
            fleet.requested[:, at].copy(),
            fleet.nonzero[:, at].copy(),
            fleet.recent[:, at].copy(),
            fleet.settling[:, at].copy(),
        )

    def alone(self, place: int) -> "RowFacts":
        """Those of one of the rows."""
        at = slice(place, place + 1)
        return RowFacts(
            self.rows[at],
            self.now,
            self.signals.rows(at),
            self.sources[at],
            **{name: getattr(self, name)[:, at] for name in _AMOUNTS},
        )


class FactSheet:
    """The facts of many rows, ascending, as they were before the first of a batch of equal pods
    came.
    """

    def __init__(self, fleet: FleetState, rows: RowList, pod_info: PodInfo) -> None:
        self.now = fleet.now
        self.pod_info = pod_info
        self.axis = fleet.axis
        self.rows = rows
        self.amounts = [cells_at(getattr(fleet, name), rows) for name in _AMOUNTS]
        self.signals = SignalColumns.of(fleet).rows(rows)
        self.source_set = fleet.source_set[rows]
        self.source_sets = fleet.source_sets

    @cached_property
    def _taken(self) -> list[Ints]:
        """What one pod takes of each of the amounts."""
        asked = np.zeros(len(self.amounts[1]), dtype=np.int64)
        for resource, amount in requested(self.pod_info.pod):
            column = self.axis.column(resource)
            if column is not None and column < len(asked):
                asked[column] = amount
        nonzero = np.asarray(nonzero_request(self.pod_info.pod), dtype=np.int64)
        expected = np.asarray(expected_request(self.pod_info), dtype=np.int64)
        return [np.zeros(1, dtype=np.int64), asked, nonzero, nonzero, expected]

    def facts(self, rows: Sequence[int], pods: Sequence[int]) -> RowFacts:
        """The facts of rows, each of which has taken so many pods of the batch."""
        at = np.searchsorted(self.rows, rows)
        times = np.asarray(pods, dtype=np.int64)
        before = zip(_AMOUNTS, self.amounts, self._taken, strict=True)
        return RowFacts(
            rows,
            self.now,
            self.signals.rows(at),
            [self.source_sets[code] for code in self.source_set[at].tolist()],
            **{name: amount[:, at] + one[:, None] * times for name, amount, one in before},
        )


class PastRows:
    """Satisfies `framework.FleetView`: a fleet of these rows alone, numbered from 0, for `explain`.
    Amounts and readings are the facts as they were; labels, conditions, counts and objects are
    those of the whole fleet now.
    """

    def __init__(self, fleet: FleetState, facts: RowFacts) -> None:
        whole = view_of(fleet)
        at = np.asarray(facts.rows, dtype=np.intp)
        self.now = facts.now
        self.n = len(at)
        self.axis = fleet.axis
        self.reasons = fleet.reasons
        self.clusters = fleet.clusters
        self.closed = fleet.closed
        self.proxy_taints = fleet.proxy_taints
        self.nodes: Any = _PastNodes(fleet, whole, facts, at)
        self.topology: Any = _PastTopology(whole, "topology", at)
        self.affinity = whole.affinity
        self.volumes: Any = _PastVolumes(whole, "volumes", at)
        self.images: Any = _PastImages(whole, "images", at)
        self.objects = whole.objects
        self.signals = NotedSignals(fleet.signal_axis, facts.signals, fleet.signals.derived)
        self.links = whole.links
        self.of_clusters = whole.of_clusters


class NotedSignals(SignalView):
    """The same, and `asked` has the signals whose readings were asked for, in that order."""

    __slots__ = ("asked",)

    def __init__(self, axis: SignalAxis, columns: SignalColumns, derived: Derived) -> None:
        super().__init__(axis, columns, derived)
        self.asked: dict[str, None] = {}

    def used(self, name: str) -> Readings:
        """[n] share 0..1 of the capacity, NaN unknown."""
        self.asked[name] = None
        return super().used(name)

    def told(self, name: str) -> tuple[Readings, Readings, Floats, Readings]:
        """That, and more."""
        self.asked[name] = None
        return super().told(name)


class _PastFacet:
    """A facet of the whole fleet: what is not by row is shown as it is there."""

    def __init__(self, fleet: FleetView, name: str, at: RowList) -> None:
        self._fleet = fleet
        self._name = name
        self._at = at

    @cached_property
    def _whole(self) -> Any:
        return getattr(self._fleet, self._name)  # made when it is asked for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class _PastNodes(_PastFacet):
    def __init__(self, fleet: FleetState, whole: FleetView, facts: RowFacts, at: RowList) -> None:
        super().__init__(whole, "nodes", at)
        for name in ("live", "cluster", "ready", "unschedulable", "taint_set", "rank"):
            setattr(self, name, getattr(fleet, name)[at])
        self.allocatable = _column(facts.allocatable, fleet)
        self.requested = _column(facts.requested, fleet)
        self.nonzero = facts.nonzero
        self.recent = facts.recent
        self.settling = facts.settling

    def name_of(self, row: int) -> tuple[str, str]:
        return self.names_of([row])[0]

    def names_of(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        return list(self._whole.names_of(self._at[rows].tolist()))

    def row_of(self, cluster: str, node: str) -> int | None:
        row = self._whole.row_of(cluster, node)
        return None if row is None else next(iter(np.flatnonzero(self._at == row).tolist()), None)

    def by_name(self) -> Ints:
        return cast(Ints, self._whole.by_name()[self._at])

    def label(self, key: str) -> SmallInts:
        return cast(SmallInts, self._whole.label(key)[self._at])

    def label_rows(self, key: str, value: str) -> RowList:
        return np.flatnonzero(np.isin(self._at, self._whole.label_rows(key, value)))

    def metric(self, name: str) -> Floats:
        return cast(Floats, self._whole.metric(name)[self._at])

    def declares(self, feature: str) -> Bools:
        return cast(Bools, self._whole.declares(feature)[self._at])

    def ports_taken(self, row: int) -> Any:
        return self._whole.ports_taken(int(self._at[row]))

    def rows_with_ports(self) -> Sequence[int]:
        return np.flatnonzero(np.isin(self._at, self._whole.rows_with_ports())).tolist()


class _PastTopology(_PastFacet):
    def domain(self, key: str) -> SmallInts:
        return cast(SmallInts, self._whole.domain(key)[self._at])


class _PastVolumes(_PastFacet):
    def on(self, row: int) -> Any:
        return self._whole.on(int(self._at[row]))

    def rows(self) -> Sequence[int]:
        return [place for place, row in enumerate(self._at.tolist()) if self._whole.on(row)]

    def counts(self, rows: Rows) -> Any:
        return self._whole.counts(self._at[rows])


class _PastImages(_PastFacet):
    def sizes(self, image: str) -> Ints:
        return cast(Ints, self._whole.sizes(image)[self._at])


def _column(values: Ints, fleet: FleetState) -> Ints:
    # A resource that came up since then was not on these rows.
    column: Ints = np.zeros((len(fleet.axis), values.shape[1]), dtype=np.int64)
    column[: len(values)] = values
    return column
