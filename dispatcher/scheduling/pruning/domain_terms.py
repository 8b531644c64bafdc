"""What clusters and other fault domains say of every row, for one pod: known by group of rows, not
row by row.

Rows in the same domains of all keys but the host's are one group, as far as what is said of hosts
does not tell them apart: that rests on how many pods each host holds (`CountedAnswers`), a number
with few values. A pod that is spread over hosts is judged by some hundred groups, however many
nodes there are; and what rests on the cluster alone, as on where a pod was submitted, costs no
column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator, finite, weighted
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, Codes, Floats, Ints, Part, SmallInts
from dispatcher.scheduling.framework.domains import CountedAnswers
from dispatcher.scheduling.pruning.fitting_rows import Fitting, FittingRows
from dispatcher.scheduling.pruning.row_bounds import GroupPoints
from shared.model.topology import CLUSTER_LEVEL, HOST_LEVEL

_SLACK = 2.0**-15  # single precision errs less


@dataclass(frozen=True)
class ClusterAnswers:
    """What the `evaluators` say that look at nothing of a node but its cluster.

    `closed` [clusters]: the first that refuses its nodes, else 0; `parts`: of each evaluator, its
    scores.
    """

    evaluators: Sequence[PluginEvaluator]
    closed: Codes
    parts: Sequence[Sequence[Part]]

    @cached_property
    def closes(self) -> bool:
        """Whether any cluster is closed."""
        return bool(self.closed.any())

    @classmethod
    def ask(cls, fitting: FittingRows, evaluators: Sequence[PluginEvaluator]) -> "ClusterAnswers":
        """Ask about one node of each cluster; `evaluators` in profile order."""
        fleet, (known, rows) = fitting.fleet, fitting.of_clusters()
        closed = np.zeros(len(fleet.clusters), dtype=np.uint16)
        parts = list[Sequence[Part]]()
        for one in evaluators:
            if one.role.filter_at is not None:
                closed[known] = np.where(closed[known] == 0, one.codes(rows), closed[known])
            scores = np.zeros(len(closed) + 1)
            if one.role.score_at is not None:
                scores[known] = one.finite_scores(rows)
            parts.append(
                [Part(fleet.domain(CLUSTER_LEVEL), scores)] if one.role.score_at is not None else []
            )
        return cls(evaluators, closed, parts)


class DomainTerms:
    """By group: `points`, and `raw` and `normal` scores by score_at. Points are -inf where no row
    is feasible.

    `group` [n] the name of each row's group, of `width` ones; `names`, ascending: those of the
    groups told of, None: all. `by_host`: a score is by hosts. `base`, `moved`: as in GroupPoints.
    """

    def __init__(
        self, group: SmallInts, names: RowList | None, width: int, *, by_host: bool
    ) -> None:
        self.group = group
        self._names = names
        self._width = width
        self.by_host = by_host
        self.base: Partition | None = None
        self.moved: Sequence[RowList] = ()
        self.points: Floats = np.zeros(width if names is None else len(names))
        self.raw: dict[int | None, Floats] = {}
        self.normal: dict[int | None, Floats] = {}

    def group_of(self, row: int) -> int:
        """Where the group of a row that fits stands."""
        name = self.group.item(row)
        return name if self._names is None else int(np.searchsorted(self._names, name))

    @cached_property
    def by_name(self) -> Floats:
        """[names of groups] the points; -inf where no row fits."""
        if self._names is None:
            return self.points
        whole = np.full(self._width, INFEASIBLE)
        whole[self._names] = self.points
        return whole

    def upper_bounds(self) -> GroupPoints:
        """The points, rounded up."""
        points = self.by_name
        slack = (
            1.0 + np.abs(points, where=np.isfinite(points), out=np.zeros(len(points)))
        ) * _SLACK
        moved = np.concatenate([np.zeros(0, dtype=np.int64), *self.moved])
        return GroupPoints((points + slack).astype(np.float32), self.group, self.base, moved)


def domain_terms(
    fitting: FittingRows,
    filters: StaticFilters,
    clusters: ClusterAnswers,
    evaluators: Sequence[PluginEvaluator],
    refused: RowList,
) -> DomainTerms | None:
    """What clusters and `evaluators`, policies by domains, say of a pod; None if these refuse, or
    rows are not alike.

    `refused`: the rows that only filters by row refuse.
    """
    if any(one.filter_parts() for one in evaluators):
        return None
    told = [one.score_parts() for one in evaluators]
    made = _Terms.of(fitting, filters, [part for parts in told for part in parts])
    if made is None:
        return None
    open_, rows, alike = made.feasible(clusters.closed, refused)
    for one, parts in zip(clusters.evaluators, clusters.parts, strict=True):
        made.add(one, parts, open_)
    for one, parts in zip(evaluators, told, strict=True):
        if one.role.pre_scores_domains and parts:
            state = one.pre_score_groups(rows, alike)
            if state is None:
                return None
            if state is not one.score_state:  # it may be that of an earlier pod
                one.score_state = state
                parts = one.score_parts()  # noqa: PLW2901 - they say something else now
        if not made.add(one, parts, open_):
            return None
    made.terms.points[~open_] = INFEASIBLE
    return made.terms


class TermsInMaking:
    """Terms in the making. `codes`: by id of an axis (the domains of a key, or the counts of hosts)
    those of groups.
    """

    def __init__(
        self, fleet: FleetState, terms: DomainTerms, codes: dict[int, NDArray[Any]]
    ) -> None:
        self._hosts = fleet.domain(HOST_LEVEL)
        self._codes = codes
        self.terms = terms

    def add(self, one: PluginEvaluator, parts: Sequence[Part], open_: Bools) -> bool:
        """Add the scores of a policy; False if it is about domains that it did not tell of before."""
        role = one.role
        if role.score_at is None:
            return True
        raw = np.zeros(len(open_))
        for part in parts:
            of_hosts = (
                part.answers
                if part.domain is self._hosts and isinstance(part.answers, CountedAnswers)
                else None
            )
            codes = self._codes.get(id(part.domain if of_hosts is None else of_hosts.counts))
            if codes is None:
                return False
            raw = raw + (one.answers(part, codes) if of_hosts is None else of_hosts.values[codes])
        finite(role.plugin, raw[open_])
        normal = raw
        if role.normalizes and open_.any():
            normal = raw.copy()
            normal[open_] = one.normalize(raw[open_])
        self.terms.raw[role.score_at], self.terms.normal[role.score_at] = raw, normal
        self.terms.points += weighted(normal, role.weight)
        return True


class _Terms(TermsInMaking):
    """Of the groups in which rows fit."""

    def __init__(
        self, fleet: FleetState, fitting: Fitting, codes: dict[int, NDArray[Any]], *, by_host: bool
    ) -> None:
        super().__init__(
            fleet, DomainTerms(fitting.group, fitting.names, fitting.width, by_host=by_host), codes
        )
        self._fitting = fitting
        self._clusters = codes[id(fleet.domain(CLUSTER_LEVEL))]

    @classmethod
    def of(
        cls, fitting: FittingRows, filters: StaticFilters, every: Sequence[Part]
    ) -> "_Terms | None":
        """For `every` part; None if these tell too many rows apart."""
        fleet = fitting.fleet
        hosts = fleet.domain(HOST_LEVEL)
        counts = dict[int, CountedAnswers]()
        axes = {id(axis): axis for axis in (fleet.domain(CLUSTER_LEVEL),)}
        for part in every:
            if part.domain is not hosts:
                axes[id(part.domain)] = part.domain
            elif isinstance(part.answers, CountedAnswers) and len(part.answers.counts) == fleet.n:
                counts[id(part.answers.counts)] = part.answers
            else:
                return None
        partition = fitting.partitions.of(list(axes.values()))
        if partition is None:
            return None
        numbers = [(one.counts, len(one.values)) for one in counts.values()]
        split = fitting.split(fitting.of(partition, filters), filters, numbers)
        if split is None:
            return None
        found, (groups, *of_hosts) = split
        codes = {
            axis: of_groups[groups]
            for axis, of_groups in zip(axes, partition.axis_codes, strict=True)
        }
        made = cls(
            fleet,
            found,
            {**codes, **dict(zip(counts, of_hosts, strict=True))},
            by_host=bool(counts),
        )
        made.terms.base = None if counts else partition
        return made

    def feasible(self, closed: Codes, refused: RowList) -> tuple[Bools, RowList, Ints]:
        """[groups] whether any row is feasible; of these, one row each and how many it stands for."""
        fitting = self._fitting
        counts = fitting.counts
        if len(refused):
            gone = np.searchsorted(fitting.names, fitting.group[refused])
            counts = counts - np.bincount(gone, minlength=len(counts))
        open_ = counts > 0
        if closed.any():
            open_ &= np.append(closed, np.uint16(0))[self._clusters] == 0
        return open_, fitting.last[open_], counts[open_]
