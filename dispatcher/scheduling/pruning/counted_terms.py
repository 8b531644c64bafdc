"""Domain terms of policies that state rules over counts, compiled: what `domain_terms` gets from
parts, bit for bit.

A policy is asked for its rules (`framework.domain_counts`) alone. While it answers the very same
object, all that was computed from it is used again: the counts are windows on arrays of the fleet,
so a pod costs one look for hosts that have a count, and a pass over the groups. Without a compiler,
and for rules that refuse or are malformed, `domain_terms` asks for the parts.

Example: pods of an app, spread over zones and hosts. Zone 0 has n0 with 2 of them and n1 with 1;
zone 1 has n2 with 1 and n3 with none. Numbers of pods on a host are below a width of 3, so the
group of a row is 2 * number + zone:

    row      n0  n1  n2  n3        group    0   1   2   3   4   5
    zone      0   0   1   1        members  0   1   1   1   1   0
    number    2   1   1   0        raw      -  -1  -4  -2  -5   -
    group     4   2   3   1

With terms of -1 a pod in the zone (3 and 1) and -1 a pod on the host, each group has one raw score.
Half a million rows are sorted into some hundred groups, and only these are scored. Most hosts have
none of the app's pods, and the group of their zone: what these are is known, and the few others are
moved.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import MAX_SCORE, Ints, PodInfo
from dispatcher.scheduling.framework.domain_counts import LN, CountRules, Scale
from dispatcher.scheduling.framework.kernels import (
    FloatColumn,
    IntColumn,
    Number,
    WholeNumber,
    kernel,
)
from dispatcher.scheduling.pruning.domain_terms import ClusterAnswers, DomainTerms, TermsInMaking
from dispatcher.scheduling.pruning.fitting_rows import FittingRows
from dispatcher.scheduling.pruning.rows_by_number import RowsByNumber, SplitRows
from shared.model.topology import CLUSTER_LEVEL

_KEPT = 64
_TERM_FIELDS = "factor", "offset", "elsewhere"
_MALFORMED = (AttributeError, IndexError, TypeError, ValueError)  # what malformed rules raise
_RANGE = int(Scale.RANGE)
_COST = int(Scale.COST)
# `sized`: count domains of all rows that take pods, or of those with a domain in each term
_EVERY = 1
_WITH_ALL = 2


class RuleTables(NamedTuple):
    """One policy's rules for the kernel.

    [terms]: `by_host`, and `factor`, `offset`, `elsewhere` as in ScoreTerm. [terms x groups], flat:
    `codes`, the domain, -1 unknown, and `counts`, its pods. [groups]: `members`, rows that take
    pods, and `numbers`, the pods on each of their hosts. `ln`: logarithms, for factors that rest on
    the number of domains if `sized` (0, _EVERY, _WITH_ALL). `scale`, `base`, `void`: as in
    CountRules. `weight`: that of the profile, times `grid`.
    """

    by_host: IntColumn
    factor: FloatColumn
    offset: FloatColumn
    elsewhere: FloatColumn
    ln: FloatColumn
    sized: WholeNumber
    scale: WholeNumber
    base: Number
    void: Number
    weight: Number
    grid: Number
    codes: IntColumn
    counts: IntColumn
    members: IntColumn
    numbers: IntColumn


def _domains_of(rules: Any, term: Any, seen: Any) -> Any:
    """How many domains of a term have rows that take pods. Rows without a domain count as one more:
    their code, -1, is the last entry of the scratch `seen`.
    """
    size = 0
    groups = len(rules.members)
    seen[:] = 0
    for group in range(groups):
        whole = rules.members[group] > 0
        for other in range(len(rules.factor) if rules.sized == _WITH_ALL else 0):
            whole = whole and rules.codes[other * groups + group] >= 0
        code = rules.codes[term * groups + group]
        if whole and rules.by_host[term]:
            size += rules.members[group]
        elif whole and not seen[code]:
            seen[code] = 1
            size += 1
    return size


def _raw(rules: Any, size: Any, group: Any) -> Any:
    """The raw score of a group."""
    raw = rules.base
    groups = len(rules.members)
    for term in range(len(rules.factor)):
        count = rules.numbers[group] if rules.by_host[term] else rules.counts[term * groups + group]
        factor = rules.factor[term] * rules.ln[size[term]] if rules.sized else rules.factor[term]
        if rules.codes[term * groups + group] < 0:
            raw += rules.elsewhere[term]
        else:
            raw += factor * count + rules.offset[term]
    return raw


def _normal(rules: Any, raw: Any, least: Any, most: Any) -> Any:
    """A raw score on its scale, by the formulas of `Scale`; `least`, `most`: of the raw scores, or
    (COST) the costs.
    """
    if rules.scale == _RANGE:
        return np.floor(MAX_SCORE * ((raw - least) / (most - least) if most > least else 0.0))
    if rules.scale == _COST:
        if not raw > rules.void:
            return 0.0
        cost = np.floor(0.5 - (raw - rules.base))
        return np.floor(MAX_SCORE * (most + least - cost) / most) if most > 0.0 else MAX_SCORE
    return raw


@kernel(RuleTables, "out_ints out_ints out out out", formulas=(_domains_of, _raw, _normal))
def _score(rules, seen, size, raw, normal, points):  # type: ignore[no-untyped-def]
    """Score each group with members and add that to `points`, -inf for others; 1 if a raw score is
    no finite number.
    """
    least = np.inf
    most = 0.0 if rules.scale == _COST else -np.inf
    nonsense = 0
    for term in range(len(size) if rules.sized else 0):
        size[term] = _domains_of(rules, term, seen)
    for group in range(len(points)):
        if rules.members[group] > 0:
            raw[group] = told = _raw(rules, size, group)
            nonsense |= not np.isfinite(told)
            if rules.scale != _COST or told > rules.void:
                value = np.floor(0.5 - (told - rules.base)) if rules.scale == _COST else told
                least = min(least, value)
                most = max(most, value)
    for group in range(len(points)):
        if rules.members[group] > 0:
            normal[group] = _normal(rules, raw[group], least, most)
            points[group] += np.rint(normal[group] * rules.weight) / rules.grid
        else:
            points[group] = -np.inf
    return nonsense


class _CompiledPolicy:
    """One policy's rules as the kernel takes them; `codes` [terms, groups] the domain of each
    group.
    """

    def __init__(self, one: PluginEvaluator, rules: CountRules, codes: NDArray[np.int64]) -> None:
        self.evaluator = one
        self.codes = codes.ravel()
        self.counts = np.zeros(codes.shape, dtype=np.int64)
        terms = rules.score_terms
        self._counted = [
            (at, term.domain_count.counts, codes[at])
            for at, term in enumerate(terms)
            if not term.domain_count.by_host and len(term.domain_count.counts)
        ]
        self.columns = (
            np.asarray([term.domain_count.by_host for term in terms], dtype=np.int64),
            *(
                np.asarray([getattr(term, name) for term in terms], dtype=np.float64)
                for name in _TERM_FIELDS
            ),
        )
        sized = (_WITH_ALL if rules.needs_all_domains else _EVERY) if rules.sized else 0
        self.scalars = sized, int(rules.scale), rules.base, rules.void, one.role.weight * GRID, GRID
        most = max([len(counts) for _, counts, _ in self._counted], default=0)
        self.scratch = np.zeros(most + 1, dtype=np.int64), np.zeros(len(terms), dtype=np.int64)

    def add_to(self, terms: DomainTerms, members: Ints, numbers: Ints, hosts: int) -> bool:
        """Add its scores to `terms`, by the counts of now; False if one is no finite number."""
        score_at = self.evaluator.role.score_at
        for at, counts, codes in self._counted:
            self.counts[at] = counts.take(codes)
        raw = np.zeros(len(members))
        normal = np.zeros(len(members))
        groups = self.codes, self.counts.ravel(), members, numbers
        terms.raw[score_at], terms.normal[score_at] = raw, normal
        return not _score.fast(
            *self.columns,
            LN.up_to(hosts),
            *self.scalars,
            *groups,
            *self.scratch,
            raw,
            normal,
            terms.points,
        )


@dataclass(eq=False)
class _RuleGroups:
    """The groups that `rules` are about: those of `base`, by all domains but hosts (`axes`: ids of
    its axes), split by the number of pods on the host if a rule is about these: `of_hosts` [n],
    else None.

    `width`: numbers below that are told apart, 0 at first. By group: `numbers`, `clusters`, and
    tables of `policies`.
    """

    rules: Sequence[CountRules]
    base: Partition
    axes: Sequence[int]
    of_hosts: Ints | None
    width: int = 0
    policies: Sequence[_CompiledPolicy] = ()
    numbers: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    clusters: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def widen(self, width: int, evaluators: Sequence[PluginEvaluator], clusters: int) -> None:
        """Tell so many numbers apart; `clusters`: the id of their axis."""
        codes = dict(
            zip(self.axes, (np.tile(one, width) for one in self.base.axis_codes), strict=True)
        )
        self.width, self.clusters = width, codes[clusters]
        self.numbers = np.repeat(np.arange(width), self.base.size)
        every = np.zeros(len(self.numbers), dtype=np.int64)
        self.policies = [
            _CompiledPolicy(
                one,
                rules,
                np.stack(
                    [codes.get(id(term.domain_count.domain), every) for term in rules.score_terms]
                ),
            )
            for one, rules in zip(evaluators, self.rules, strict=True)
        ]


class CountedTerms:
    """Makes domain terms out of rules over counts, and keeps what depends on nodes and rules alone."""

    def __init__(self, fitting: FittingRows) -> None:
        self._fitting = fitting
        self._at = -1
        self._kept: OrderedDict[tuple[int, ...], _RuleGroups] = OrderedDict()
        self._rows = RowsByNumber(fitting)

    def terms(
        self,
        pod_info: PodInfo,
        filters: StaticFilters,
        clusters: ClusterAnswers,
        evaluators: Sequence[PluginEvaluator],
        refused: RowList,
    ) -> DomainTerms | None:
        """What `domain_terms` answers; None if that has to be asked, also where something is wrong:
        it names the plugin whose scores are no finite numbers.
        """
        if (
            _score.fast is None
            or not evaluators
            or any(one.role.score_at is None for one in evaluators)
        ):
            return None
        try:
            return self._terms(pod_info, filters, clusters, evaluators, refused)
        except _MALFORMED:
            return None

    def _terms(
        self,
        pod_info: PodInfo,
        filters: StaticFilters,
        clusters: ClusterAnswers,
        evaluators: Sequence[PluginEvaluator],
        refused: RowList,
    ) -> DomainTerms | None:
        found = self._groups(evaluators, pod_info)
        if found is None:
            return None
        axis = self._fitting.fleet.domain(CLUSTER_LEVEL)
        split = self._rows.split(found, (found.base, found.of_hosts), found.width, filters)
        if split is None:
            return None
        if found.width < split.width:
            found.widen(split.width, evaluators, id(axis))
        members = _feasible(split, refused, clusters, found.clusters)
        terms = DomainTerms(split.group, None, len(members), by_host=found.of_hosts is not None)
        if split.whole:
            terms.base = found.base
            terms.moved = split.moved
        if clusters.evaluators:
            made = TermsInMaking(self._fitting.fleet, terms, {id(axis): found.clusters})
            open_ = members > 0
            for one, parts in zip(clusters.evaluators, clusters.parts, strict=True):
                made.add(one, parts, open_)
        for policy in found.policies:
            if not policy.add_to(terms, members, found.numbers, self._fitting.fleet.n):
                return None
        return terms

    def _groups(
        self, evaluators: Sequence[PluginEvaluator], pod_info: PodInfo
    ) -> _RuleGroups | None:
        """Those of the rules that these state, kept by the rules' ids while these live in what is
        kept.
        """
        fleet = self._fitting.fleet
        if self._at != fleet.changes.position:
            self._kept.clear()
            self._at = fleet.changes.position
        told = [one.count_rules(pod_info) for one in evaluators]
        rules = [one for one in told if one is not None]
        name = tuple(map(id, told))
        found = self._kept.get(name)
        if found is None and len(rules) == len(told):
            found = self._made_of(rules)
        if found is not None:
            self._kept[name] = found
            self._kept.move_to_end(name)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _made_of(self, rules: Sequence[CountRules]) -> _RuleGroups | None:
        """None for rules that refuse, score nothing or by a table, count two kinds of pods on hosts, or have
        arrays of odd shape.
        """
        fleet = self._fitting.fleet
        if any(term.table is not None for one in rules for term in one.score_terms):
            return None
        terms = [term.domain_count for one in rules for term in one.score_terms]
        hosts = list({id(one.counts): one.counts for one in terms if one.by_host}.values())
        if any(one.refusals or not one.score_terms for one in rules) or len(hosts) > 1:
            return None
        if any(
            one.domain.shape != (fleet.n,)
            or {one.domain.dtype.kind, one.counts.dtype.kind} != {"i"}
            for one in terms
        ):
            return None
        if any(not len(one.counts) and (one.domain >= 0).any() for one in terms):
            return None  # compiled code would look behind their end
        if any(
            one.shape != (fleet.n,) or one.dtype != np.int64 or not one.flags.c_contiguous
            for one in hosts
        ):
            return None
        axes = {
            id(one): one
            for one in (
                fleet.domain(CLUSTER_LEVEL),
                *(one.domain for one in terms if not one.by_host),
            )
        }
        base = self._fitting.partitions.of(list(axes.values()))
        return (
            None
            if base is None
            else _RuleGroups(rules, base, list(axes), hosts[0] if hosts else None)
        )


def _feasible(
    split: SplitRows, refused: RowList, clusters: ClusterAnswers, clusters_of: Ints
) -> Ints:
    """[groups] how many rows take the pod; `clusters_of`: by group."""
    members = split.members.copy()
    if len(refused):
        np.subtract.at(members, split.group[refused], 1)
    if clusters.closes:
        members[np.append(clusters.closed, np.uint16(0))[clusters_of] != 0] = 0
    return members
