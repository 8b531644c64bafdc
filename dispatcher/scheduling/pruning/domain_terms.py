"""What clusters and other fault domains say of every row, for one pod: known by group of rows, not row by row.

Rows in the same domains of all keys but the host's are one group; and few hosts differ from the others in what is said
of hosts, so each of these is a group of its own. A pod that is spread over hosts is judged by some hundred groups,
however many nodes there are; and what rests on the cluster alone, as on where a pod was submitted, costs no column.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatcher.model.topology import CLUSTER_LEVEL, HOST_LEVEL
from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator, finite, weighted
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.columns import RowList, distinct
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Codes, Floats, Ints, Part, Rows, SmallInts
from dispatcher.scheduling.framework.domains import FewAnswers
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.pruning.fitting_rows import Fitting, FittingRows
from dispatcher.scheduling.pruning.upper_bounds import GroupPoints

_MOST_SHARE = 8  # if more than an eighth of all hosts differ, going by groups saves nothing
_SLACK = 2.0**-15  # single precision errs less
_NO_ROWS: RowList = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class ClusterAnswers:
    """What the `evaluators` say that look at nothing of a node but its cluster.

    `closed` [clusters]: the first that refuses its nodes, else 0; `parts`: of each evaluator, its scores.
    """

    evaluators: Sequence[PluginEvaluator]
    closed: Codes
    parts: Sequence[Sequence[Part]]

    @classmethod
    def ask(cls, fitting: FittingRows, evaluators: Sequence[PluginEvaluator]) -> "ClusterAnswers":
        """Ask about one node of each cluster; `evaluators` in profile order."""
        fleet, (known, rows) = fitting.fleet, fitting.of_clusters()
        closed, parts = np.zeros(len(fleet.clusters), dtype=np.uint16), list[Sequence[Part]]()
        for one in evaluators:
            if one.role.filter_at is not None:
                closed[known] = np.where(closed[known] == 0, one.codes(rows), closed[known])
            scores = np.zeros(len(closed) + 1)
            if one.role.score_at is not None:
                scores[known] = one.finite_scores(rows)
            parts.append([Part(fleet.domain(CLUSTER_LEVEL), scores)] if one.role.score_at is not None else [])
        return cls(evaluators, closed, parts)


class DomainTerms:
    """By group, and after the groups by row that stands alone: `points`, and `raw` and `normal` scores by score_at.

    `alone`: these rows, ascending. `by_host`: a score is by hosts. Points are -inf where no row is feasible.
    """

    def __init__(self, partition: Partition, alone: RowList, *, by_host: bool) -> None:
        self._partition, self.alone, self.by_host = partition, alone, by_host
        self.points: Floats = np.zeros(partition.size + len(alone))
        self.raw: dict[int | None, Floats] = {}
        self.normal: dict[int | None, Floats] = {}

    def groups(self, rows: Rows) -> NDArray[np.intp]:
        """The group of each of some rows; a slice is of all rows."""
        found: NDArray[np.intp] = self._partition.group[rows].astype(np.intp)
        size, alone = self._partition.size, self.alone
        if isinstance(rows, slice):
            found[alone] = size + np.arange(len(alone))
        elif len(alone):
            at = np.minimum(np.searchsorted(alone, rows), len(alone) - 1)
            hit = alone[at] == rows
            found[hit] = size + at[hit]
        return found

    def upper_bounds(self) -> GroupPoints:
        """The points, rounded up; of rows that stand alone they mean nothing."""
        points = self.points[: self._partition.size]
        slack = (1.0 + np.abs(points, where=np.isfinite(points), out=np.zeros(len(points)))) * _SLACK
        return GroupPoints((points + slack).astype(np.float32), self._partition.group)


def domain_terms(
    fitting: FittingRows,
    filters: StaticFilters,
    clusters: ClusterAnswers,
    evaluators: Sequence[PluginEvaluator],
    refused: RowList,
) -> DomainTerms | None:
    """What clusters and `evaluators`, policies by domains, say of a pod; None if these refuse, or rows are not alike.

    `refused`: the rows that only filters by row refuse.
    """
    fleet = fitting.fleet
    if any(one.filter_parts() for one in evaluators):
        return None
    told = [one.score_parts() for one in evaluators]
    hosts = fleet.domain(HOST_LEVEL)
    every = [part for parts in told for part in parts]
    axes = [fleet.domain(CLUSTER_LEVEL), *[part.domain for part in every if part.domain is not hosts]]
    axes = list({id(axis): axis for axis in axes}.values())
    partition, alone = fitting.partitions.of(axes), _alone(every, fleet)
    if partition is None or alone is None:
        return None
    by_host = any(part.domain is hosts for part in every)
    made = _Terms(fleet, axes, DomainTerms(partition, alone, by_host=by_host), partition)
    open_, rows, alike = made.feasible(fitting.of(partition, filters), filters, clusters.closed, refused)
    for one, parts in zip(clusters.evaluators, clusters.parts, strict=True):
        made.add(one, parts, open_)
    for one, parts in zip(evaluators, told, strict=True):
        if one.role.pre_scores_domains and parts:
            state = guarded(one.role.plugin, one.role.plugin.pre_score_groups, one.state, one.view, rows, alike)
            if state is None:
                return None
            one.score_state = state
            parts = one.score_parts()  # noqa: PLW2901 - they say something else now
            still = _alone(parts, fleet)
            if still is None or len(distinct(still, alone)) > len(alone):
                return None
        if not made.add(one, parts, open_):
            return None
    made.terms.points[~open_] = INFEASIBLE
    return made.terms


def _alone(parts: Sequence[Part], fleet: FleetState) -> RowList | None:
    """The hosts that a part tells from the others, ascending; None if these are too many, or it does not say which."""
    hosts, found = fleet.domain(HOST_LEVEL), [_NO_ROWS]
    for part in parts:
        if part.domain is hosts:
            if not isinstance(part.answers, FewAnswers) or part.answers.size != fleet.n:
                return None
            found.append(part.answers.others)
            if len(found[-1]) * _MOST_SHARE > fleet.n:
                return None
    return distinct(*found)


class _Terms:
    """Terms in the making: the codes of groups and of rows that stand alone, on each axis; the first is the cluster."""

    def __init__(self, fleet: FleetState, axes: Sequence[SmallInts], terms: DomainTerms, partition: Partition) -> None:
        self._fleet, self._partition, self.terms = fleet, partition, terms
        split = zip(axes, partition.axis_codes, strict=True)
        self._codes = {id(axis): np.concatenate([codes, axis[terms.alone]]) for axis, codes in split}
        self._clusters = self._codes[id(axes[0])]

    def feasible(
        self, fitting: Fitting, filters: StaticFilters, closed: Codes, refused: RowList
    ) -> tuple[Bools, RowList, Ints]:
        """[groups] whether any row is feasible; of these, one row each and how many it stands for."""
        size, alone = self._partition.size, self.terms.alone
        fits = filters.first[alone] == 0
        fits[np.isin(alone, refused, assume_unique=True)] = False
        gone = np.concatenate([refused, alone[fits]])
        counts = fitting.counts - np.bincount(self._partition.group[gone], minlength=size)
        counts = np.concatenate([counts, fits.astype(counts.dtype)])
        open_ = (counts > 0) & (np.append(closed, np.uint16(0))[self._clusters] == 0)
        return open_, np.concatenate([fitting.first, alone])[open_], counts[open_]

    def add(self, one: PluginEvaluator, parts: Sequence[Part], open_: Bools) -> bool:
        """Add the scores of a policy; False if it is about domains that it did not tell of before."""
        role, hosts = one.role, self._fleet.domain(HOST_LEVEL)
        if role.score_at is None:
            return True
        raw = np.zeros(len(open_))
        for part in parts:
            if part.domain is hosts and isinstance(part.answers, FewAnswers):
                told = np.full(len(open_), part.answers.usual)
                at = self._partition.size + np.searchsorted(self.terms.alone, part.answers.others)
                told[at] = part.answers.values
            elif id(part.domain) in self._codes:
                told = one.answers(part, self._codes[id(part.domain)])
            else:
                return False
            raw = raw + told
        finite(role.plugin, raw[open_])
        normal = raw
        if role.normalizes and open_.any():
            normal = raw.copy()
            normal[open_] = one.normalize(raw[open_])
        self.terms.raw[role.score_at], self.terms.normal[role.score_at] = raw, normal
        self.terms.points += weighted(normal, role.weight)
        return True
