"""One row as it was when a decision was taken, so that it can be explained later at leisure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dispatcher.model.labels import LabelSelector
from dispatcher.model.pod import Pod, Volume
from dispatcher.model.resources import Resources
from dispatcher.model.signals import SignalAxis
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.signals import SignalColumns, SignalView, outlook_of
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import FleetView, Floats, Ints, Readings, SmallInts
from dispatcher.scheduling.rules.requests import nonzero_request, requested


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What moves with pods and readings, copied; `readings`: (share, sampled at), `means`: (mean, usual),
    `outlooks`: (forecast, its error, the last value's), by signal.
    """

    row: int
    now: float
    allocatable: Ints
    requested: Ints
    nonzero: Ints
    recent: Ints
    settling: Ints
    readings: tuple[tuple[float, float], ...]
    means: tuple[tuple[float, float], ...]
    outlooks: tuple[tuple[float, float, float], ...]
    sources: Mapping[str, str]

    @classmethod
    def of(cls, fleet: FleetState, row: int) -> "RowFacts":
        """Copy them from the fleet as it is now."""
        return cls(
            row,
            fleet.now,
            fleet.allocatable[:, row].copy(),
            fleet.requested[:, row].copy(),
            fleet.nonzero[:, row].copy(),
            fleet.recent[:, row].copy(),
            fleet.settling[:, row].copy(),
            fleet.readings_of(row),
            tuple(zip(fleet.used_mean[:, row].tolist(), fleet.usual[:, row].tolist(), strict=True)),
            _outlooks([column[:, row] for column in outlook_of(fleet)]),
            fleet.sources_of(row),
        )


class FactSheet:
    """The facts of many rows as they were before the first of a batch of equal pods came, copied in one go."""

    def __init__(self, fleet: FleetState, rows: RowList, pod: Pod) -> None:
        self.now, self.pod, self.axis = fleet.now, pod, fleet.axis
        self.at = {row: at for at, row in enumerate(rows.tolist())}
        self.allocatable, self.requested = fleet.allocatable[:, rows], fleet.requested[:, rows]
        self.nonzero, self.recent = fleet.nonzero[:, rows], fleet.recent[:, rows]
        self.settling = fleet.settling[:, rows]
        self.used, self.used_at = fleet.used[:, rows], fleet.used_at[:, rows]
        self.used_mean, self.usual = fleet.used_mean[:, rows], fleet.usual[:, rows]
        self.outlook = [column[:, rows] for column in outlook_of(fleet)]
        self.source_set, self.source_sets = fleet.source_set[rows], fleet.source_sets
        self.taken: dict[int, int] = {}

    def pods(self, row: int) -> int:
        """How many pods of the batch the row has taken."""
        return self.taken.get(row, 0)

    def booked(self, row: int) -> None:
        """A pod of the batch has come to the row."""
        self.taken[row] = self.taken.get(row, 0) + 1

    @cached_property
    def _amounts(self) -> tuple[Ints, Ints]:
        """What one pod takes: by resource, and what it is expected to use."""
        asked = np.zeros(len(self.requested), dtype=np.int64)
        for resource, amount in requested(self.pod):
            column = self.axis.column(resource)
            if column is not None and column < len(asked):
                asked[column] = amount
        return asked, np.asarray(nonzero_request(self.pod), dtype=np.int64)

    def facts(self, row: int, pods: int) -> RowFacts:
        """The facts of a row that has taken `pods` pods of the batch."""
        at, (asked, more) = self.at[row], self._amounts
        return RowFacts(
            row,
            self.now,
            self.allocatable[:, at].copy(),
            self.requested[:, at] + pods * asked,
            self.nonzero[:, at] + pods * more,
            self.recent[:, at] + pods * more,
            self.settling[:, at] + pods * more,
            tuple(zip(self.used[:, at].tolist(), self.used_at[:, at].tolist(), strict=True)),
            tuple(zip(self.used_mean[:, at].tolist(), self.usual[:, at].tolist(), strict=True)),
            _outlooks([column[:, at] for column in self.outlook]),
            self.source_sets[self.source_set.item(at)],
        )


class OneRow:
    """Satisfies `framework.FleetView`: a fleet of one row, row 0, for `explain`. Amounts and readings are the facts as
    they were; labels, conditions, counts and objects are those of the whole fleet now.
    """

    def __init__(self, fleet: FleetState, facts: RowFacts) -> None:
        whole, at = view_of(fleet), facts.row
        self.now, self.n = facts.now, 1
        self.axis, self.reasons, self.clusters, self.closed = fleet.axis, fleet.reasons, fleet.clusters, fleet.closed
        self.nodes = _NodesOfRow(fleet, facts)
        self.topology, self.affinity = _TopologyOfRow(whole, at), whole.affinity
        self.volumes, self.images, self.objects = _VolumesOfRow(whole, at), _ImagesOfRow(whole, at), whole.objects
        used, times = (np.asarray([[pair[at]] for pair in facts.readings]) for at in (0, 1))
        mean, usual = (np.asarray([[pair[at]] for pair in facts.means], dtype=np.float32) for at in (0, 1))
        outlook = (np.asarray([[told[at]] for told in facts.outlooks], dtype=np.float32) for at in range(3))
        columns = SignalColumns(used.astype(np.float32), times, mean, usual, *outlook)
        self.signals = NotedSignals(fleet.signal_axis, columns)
        self.links = whole.links


class NotedSignals(SignalView):
    """The same, and `asked` has the signals whose readings were asked for, in that order."""

    __slots__ = ("asked",)

    def __init__(self, axis: SignalAxis, columns: SignalColumns) -> None:
        super().__init__(axis, columns)
        self.asked: dict[str, None] = {}

    def used(self, name: str) -> Readings:
        """[n] share 0..1 of the capacity, NaN unknown."""
        self.asked[name] = None
        return super().used(name)


def _outlooks(columns: Sequence[Readings]) -> tuple[tuple[float, float, float], ...]:
    forecast, error, last_error = (column.tolist() for column in columns)
    return tuple(zip(forecast, error, last_error, strict=True))


class _NodesOfRow:
    def __init__(self, fleet: FleetState, facts: RowFacts) -> None:
        self._fleet, self._at = fleet, slice(facts.row, facts.row + 1)
        self.taint_sets = fleet.taint_sets
        self.live, self.cluster = fleet.live[self._at], fleet.cluster[self._at]
        self.ready, self.unschedulable = fleet.ready[self._at], fleet.unschedulable[self._at]
        self.taint_set = fleet.taint_set[self._at]
        self.allocatable, self.requested = _column(facts.allocatable, fleet), _column(facts.requested, fleet)
        self.nonzero, self.recent = facts.nonzero[:, None], facts.recent[:, None]
        self.settling, self.rank = facts.settling[:, None], fleet.rank[self._at]

    def name_of(self, row: int) -> tuple[str, str]:
        return self._fleet.name_of(self._at.start + row)

    def row_of(self, cluster: str, node: str) -> int | None:
        return 0 if self._fleet.row_of(cluster, node) == self._at.start else None

    def label(self, key: str) -> SmallInts:
        return self._fleet.label(key)[self._at]

    def label_values(self, key: str) -> Sequence[str]:
        return self._fleet.label_values(key)

    def metric(self, name: str) -> Floats:
        return self._fleet.metric(name)[self._at]

    def ports_taken(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        return self._fleet.ports_taken(self._at.start + row)

    def rows_with_ports(self) -> Sequence[int]:
        return [0] if self._at.start in self._fleet.rows_with_ports() else []

    def allocatable_total(self) -> Resources:
        return self._fleet.allocatable_total()


class _FacetOfRow:
    def __init__(self, whole: FleetView, row: int) -> None:
        self._whole, self._row = whole, row


class _TopologyOfRow(_FacetOfRow):
    def domain(self, key: str) -> SmallInts:
        return self._whole.topology.domain(key)[self._row : self._row + 1]

    def domain_values(self, key: str) -> Sequence[str]:
        return self._whole.topology.domain_values(key)

    def count_matching(self, pod: Pod, selector: LabelSelector | None, key: str) -> Ints:
        return self._whole.topology.count_matching(pod, selector, key)


class _VolumesOfRow(_FacetOfRow):
    def on(self, row: int) -> Collection[tuple[str, Volume]]:
        return self._whole.volumes.on(self._row + row)

    def rows(self) -> Sequence[int]:
        return [0] if self._whole.volumes.on(self._row) else []

    def claim_users(self, cluster: str, namespace: str, claim: str) -> int:
        return self._whole.volumes.claim_users(cluster, namespace, claim)


class _ImagesOfRow(_FacetOfRow):
    def sizes(self, image: str) -> Ints:
        return self._whole.images.sizes(image)[self._row : self._row + 1]

    def nodes_with(self, image: str) -> int:
        return self._whole.images.nodes_with(image)


def _column(values: Ints, fleet: FleetState) -> Ints:
    # A resource that came up since then was not on this row.
    column: Ints = np.zeros((len(fleet.axis), 1), dtype=np.int64)
    column[: len(values), 0] = values
    return column
