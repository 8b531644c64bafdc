"""One row as it was when a decision was taken, so that it can be explained later at leisure."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dispatcher.model.labels import LabelSelector
from dispatcher.model.pod import Pod
from dispatcher.model.resources import Resources
from dispatcher.scheduling.fleet.columns import NodeColumns, RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.signals import SignalView
from dispatcher.scheduling.fleet.volumes import UsedVolume
from dispatcher.scheduling.framework import Floats, Ints, K, Placed, SmallInts
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm
from dispatcher.scheduling.rules.requests import nonzero_request, requested


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What moves with every pod and reading, copied: amounts per resource, and (share, sampled at) per signal."""

    row: int
    now: float
    allocatable: Ints
    requested: Ints
    nonzero: Ints
    recent: Ints
    readings: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, fleet: FleetState, row: int) -> "RowFacts":
        """Copy them from the fleet as it is now."""
        return cls(
            row,
            fleet.clock,
            fleet.allocatable[:, row].copy(),
            fleet.requested[:, row].copy(),
            fleet.nonzero[:, row].copy(),
            fleet.recent[:, row].copy(),
            fleet.readings_of(row),
        )


class FactSheet:
    """The facts of many rows as they were before the first of a batch of equal pods came, copied in one go."""

    def __init__(self, fleet: FleetState, rows: RowList, pod: Pod) -> None:
        self.now, self.pod, self.axis = fleet.clock, pod, fleet.axis
        self.at = {row: at for at, row in enumerate(rows.tolist())}
        self.allocatable, self.requested = fleet.allocatable[:, rows], fleet.requested[:, rows]
        self.nonzero, self.recent = fleet.nonzero[:, rows], fleet.recent[:, rows]
        self.used, self.used_at = fleet.used[:, rows], fleet.used_at[:, rows]
        self.taken: dict[int, int] = {}

    def pods(self, row: int) -> int:
        """How many pods of the batch the row has taken."""
        return self.taken.get(row, 0)

    def booked(self, row: int) -> None:
        """A pod of the batch has come to the row."""
        self.taken[row] = self.taken.get(row, 0) + 1

    def facts(self, row: int, pods: int) -> RowFacts:
        """The facts of a row that has taken `pods` pods of the batch."""
        at = self.at[row]
        asked = np.zeros(len(self.requested), dtype=np.int64)
        for resource, amount in requested(self.pod):
            column = self.axis.column(resource)
            if column is not None and column < len(asked):
                asked[column] = amount
        more = np.asarray(nonzero_request(self.pod), dtype=np.int64)
        return RowFacts(
            row,
            self.now,
            self.allocatable[:, at].copy(),
            self.requested[:, at] + pods * asked,
            self.nonzero[:, at] + pods * more,
            self.recent[:, at] + pods * more,
            tuple(zip(self.used[:, at].tolist(), self.used_at[:, at].tolist(), strict=True)),
        )


class OneRow(NodeColumns):
    """A fleet of one row, row 0, for `explain`: the facts as they were, labels and conditions as they are now."""

    def __init__(self, fleet: FleetState, facts: RowFacts) -> None:
        self._fleet, self._at = fleet, slice(facts.row, facts.row + 1)
        self.now, self.n, self.cycle = facts.now, 1, fleet.cycle
        self.axis, self.reasons = fleet.axis, fleet.reasons
        self.clusters, self.closed, self.taint_sets = fleet.clusters, fleet.closed, fleet.taint_sets
        self.live, self.cluster = fleet.live[self._at], fleet.cluster[self._at]
        self.ready, self.unschedulable = fleet.ready[self._at], fleet.unschedulable[self._at]
        self.taint_set, self.rank = fleet.taint_set[self._at], fleet.rank[self._at]
        self.allocatable, self.requested = _column(facts.allocatable, fleet), _column(facts.requested, fleet)
        self.nonzero, self.recent = facts.nonzero[:, None], facts.recent[:, None]
        self.used = np.asarray([[share] for share, _ in facts.readings], dtype=np.float32)
        self.used_at = np.asarray([[at] for _, at in facts.readings])
        self.signals = SignalView(fleet.signal_axis, self.used, self.used_at)

    def name_of(self, row: int) -> tuple[str, str]:
        """(cluster, node) of the row."""
        return self._fleet.name_of(self._at.start + row)

    def row_of(self, cluster: str, node: str) -> int | None:
        """0 for the node itself, None for any other."""
        return 0 if self._fleet.row_of(cluster, node) == self._at.start else None

    def label(self, key: str) -> SmallInts:
        """[1] code of a node label."""
        return self._fleet.label(key)[self._at]

    def label_values(self, key: str) -> Sequence[str]:
        """The texts behind the codes."""
        return self._fleet.label_values(key)

    def metric(self, name: str) -> Floats:
        """[1] the number in the node's annotation."""
        return self._fleet.metric(name)[self._at]

    def domain(self, key: str) -> SmallInts:
        """[1] fault-domain code."""
        return self._fleet.domain(key)[self._at]

    def domain_values(self, key: str) -> Sequence[str]:
        """The texts behind the codes."""
        return self._fleet.domain_values(key)

    def ports_taken(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        """Host ports taken on the row now."""
        return self._fleet.ports_taken(self._at.start + row)

    def rows_with_ports(self) -> Sequence[int]:
        """[0] if any host port is taken on the row now."""
        return [0] if self._at.start in self._fleet.rows_with_ports() else []

    def count_matching(self, pod: Pod, selector: LabelSelector | None, key: str) -> Ints:
        """[domains of key] matching pods in the whole fleet now."""
        return self._fleet.count_matching(pod, selector, key)

    def count_in(self, pods: PodSet, key: str) -> Ints:
        """[domains of key] pods of a set in the whole fleet now."""
        return self._fleet.count_in(pods, key)

    def terms_about(self, placed: Placed) -> Sequence[StandingTerm]:
        """Affinity terms of placed pods that match a pod now."""
        return self._fleet.terms_about(placed)

    def brings(self, placed: Placed) -> Mapping[int, int] | None:
        """What a pod adds to standing terms."""
        return self._fleet.brings(placed)

    def count_of(self, term: StandingTerm) -> Ints:
        """[domains of its key] what the holders of a term add up to now."""
        return self._fleet.count_of(term)

    def objects(self, cluster: str, kind: type[K]) -> Mapping[str, K]:
        """key -> object of a kind in a cluster now."""
        return self._fleet.objects(cluster, kind)

    def image_sizes(self, image: str) -> Ints:
        """[1] bytes of an image on the node now."""
        return self._fleet.image_sizes(image)[self._at]

    def nodes_with_image(self, image: str) -> int:
        """How many nodes of the fleet have an image now."""
        return self._fleet.nodes_with_image(image)

    def assume(self, cluster: str, found: Any, fields: Mapping[str, Any], holder: Hashable) -> None:
        """As in the whole fleet."""
        self._fleet.assume(cluster, found, fields, holder)

    def release(self, cluster: str, found: Any, holder: Hashable) -> None:
        """As in the whole fleet."""
        self._fleet.release(cluster, found, holder)

    def reported(self, cluster: str, found: K) -> K | None:
        """As in the whole fleet."""
        return self._fleet.reported(cluster, found)

    def volumes_on(self, row: int) -> Collection[UsedVolume]:
        """Volumes that pods use on the row now."""
        return self._fleet.volumes_on(self._at.start + row)

    def rows_with_volumes(self) -> Sequence[int]:
        """[0] if pods use volumes on the row now."""
        return [0] if self._fleet.volumes_on(self._at.start) else []

    def default_selector(self, placed: Placed) -> LabelSelector | None:
        """Which pods the Services and the owner of a pod mean."""
        return self._fleet.default_selector(placed)

    def claim_users(self, cluster: str, namespace: str, claim: str) -> int:
        """How often pods on any node name a claim now."""
        return self._fleet.claim_users(cluster, namespace, claim)

    def allocatable_total(self) -> Resources:
        """What the nodes of all Ready clusters can allocate now."""
        return self._fleet.allocatable_total()


def _column(values: Ints, fleet: FleetState) -> Ints:
    # A resource that came up since then was not on this row.
    column: Ints = np.zeros((len(fleet.axis), 1), dtype=np.int64)
    column[: len(values), 0] = values
    return column
