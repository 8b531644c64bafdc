"""What policies by fault domain add to the score of each group of rows, by their rules
(`framework.domain_counts`).

Rows that share the domains of all rules, and the raw scores of columns that normalise, are one
group; where a rule counts pods on hosts, the number of pods on its host tells rows of a group
apart. Half a million rows are some hundred groups, and only these are scored. Example: pods of an
app, spread over zones and hosts. Zone 0 has n0 with 2 of them and n1 with 1; zone 1 has n2 with 1
and n3 with none. Numbers of pods on a host are below a width of 3; the group of a row is
number * 2 + zone:

    row      n0  n1  n2  n3        group    0   1   2   3   4   5
    zone      0   0   1   1        members  0   1   1   1   1   0
    number    2   1   1   0        raw      -  -1  -4  -2  -5   -
    group     4   2   3   1

With terms of -1 a pod in the zone (3 and 1) and -1 a pod on the host each group has one raw score.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator, weighted
from dispatcher.scheduling.equivalence.partitions import Partition, Partitions
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import MAX_SCORE, Floats, Ints
from dispatcher.scheduling.framework.domain_counts import LN, CountRules, Scale
from dispatcher.scheduling.framework.kernels import (
    FloatColumn,
    IntColumn,
    Number,
    WholeNumber,
    kernel,
)
from shared.model.topology import CLUSTER_LEVEL

WIDEST = 1 << 16  # groups: with more, going by groups saves nothing
_TERM_FIELDS = "factor", "offset", "elsewhere"
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


class GroupPoints:
    """By group: `points`, and `raw` and `normal` scores by score_at. Points are -inf where no row
    takes the pod.
    """

    def __init__(self, members: Ints) -> None:
        self.members = members
        self.points: Floats = np.zeros(len(members))
        self.raw: dict[int | None, Floats] = {}
        self.normal: dict[int | None, Floats] = {}

    def add(self, one: PluginEvaluator, raw: Floats) -> None:
        """Add the scores of a policy, normalised over the groups that take the pod if it does so."""
        role = one.role
        normal = raw
        takes = self.members > 0
        if role.normalizes and takes.any():
            normal = raw.copy()
            normal[takes] = one.normalize(raw[takes])
        self.raw[role.score_at], self.normal[role.score_at] = raw, normal
        self.points += weighted(normal, role.weight)


class _CompiledPolicy:
    """One policy's rules as the kernel takes them; `codes` [terms, groups] the domain of each
    group.
    """

    def __init__(self, one: PluginEvaluator, rules: CountRules, codes: NDArray[np.int64]) -> None:
        self._score_at = one.role.score_at
        self._codes = codes.ravel()
        self._counts = np.zeros(codes.shape, dtype=np.int64)
        terms = rules.score_terms
        self._counted = [
            (at, term.domain_count.counts, codes[at])
            for at, term in enumerate(terms)
            if not term.domain_count.by_host and len(term.domain_count.counts)
        ]
        self._columns = (
            np.asarray([term.domain_count.by_host for term in terms], dtype=np.int64),
            *(
                np.asarray([getattr(term, name) for term in terms], dtype=np.float64)
                for name in _TERM_FIELDS
            ),
        )
        sized = (_WITH_ALL if rules.needs_all_domains else _EVERY) if rules.sized else 0
        self._scalars = (
            sized,
            int(rules.scale),
            rules.base,
            rules.void,
            one.role.weight * GRID,
            GRID,
        )
        most = max([len(counts) for _, counts, _ in self._counted], default=0)
        self._scratch = np.zeros(most + 1, dtype=np.int64), np.zeros(len(terms), dtype=np.int64)

    def add_to(self, found: GroupPoints, numbers: Ints, hosts: int) -> bool:
        """Add its scores to what is `found`, by the counts of now; False if one is no finite number."""
        for at, counts, codes in self._counted:
            self._counts[at] = counts.take(codes)
        raw, normal = np.zeros((2, len(numbers)))
        found.raw[self._score_at], found.normal[self._score_at] = raw, normal
        return not _score.fast(
            *self._columns,
            LN.up_to(hosts),
            *self._scalars,
            self._codes,
            self._counts.ravel(),
            found.members,
            numbers,
            *self._scratch,
            raw,
            normal,
            found.points,
        )


class RuleGroups:
    """The groups that the `rules` of `policies` and the values of `columns` are about.

    `group` [n] of each row by all but hosts, of `size` ones; `of_hosts` [n]: pods on each host if a
    rule is about these, else None. Split by these numbers there are `size` * `width` groups, as in
    the example above; `clusters` [groups] their cluster.
    """

    def __init__(
        self,
        rules: Sequence[CountRules],
        policies: Sequence[PluginEvaluator],
        columns: Sequence[StaticColumn],
        base: Partition,
        axes: Sequence[int],
        of_hosts: Ints | None,
    ) -> None:
        self._rules = rules
        self._policies = policies
        self._columns = columns
        self._values = [one.value for one in columns]  # kept, so that no other gets their ids
        self._codes = dict(zip(axes, base.axis_codes, strict=True))
        self._cluster_axis = axes[0]
        self._compiled: Sequence[_CompiledPolicy] = ()
        self.base = base
        self.group = base.group
        self.size = base.size
        self.of_hosts = of_hosts
        self.widen(1)

    def widen(self, width: int) -> None:
        """Tell so many numbers of pods on a host apart."""
        codes = {axis: np.tile(one, width) for axis, one in self._codes.items()}
        self.width = width
        self.clusters: Ints = codes[self._cluster_axis]
        self._numbers: Ints = np.repeat(np.arange(width), self.size)
        self._value_codes = [codes[id(one)] for one in self._values]
        hosts = np.zeros(len(self._numbers), dtype=np.int64)
        self._compiled = [
            _CompiledPolicy(
                one,
                rules,
                np.stack(
                    [codes.get(id(term.domain_count.domain), hosts) for term in rules.score_terms]
                ),
            )
            for one, rules in zip(self._policies, self._rules, strict=True)
        ]

    def points(self, members: Ints, hosts: int) -> GroupPoints | None:
        """What columns and policies add, `members` [groups] being the rows that take the pod; None
        where a raw score is no finite number. `hosts`: how many there are.
        """
        found = GroupPoints(members)
        for column, codes in zip(self._columns, self._value_codes, strict=True):
            found.add(column.evaluator, np.asarray(column.values)[codes] + 0.0)
        for policy in self._compiled:
            if not policy.add_to(found, self._numbers, hosts):
                return None
        if not self._compiled:
            found.points[members == 0] = -np.inf
        return found


def rule_groups(
    fleet: FleetState,
    partitions: Partitions,
    policies: Sequence[PluginEvaluator],
    rules: Sequence[CountRules],
    columns: Sequence[StaticColumn],
) -> RuleGroups | None:
    """The groups of these rules and columns; None for rules that refuse, score nothing, count two
    kinds of pods on hosts or have arrays of odd shape, and where there is nearly a group a row.
    """
    terms = [term.domain_count for one in rules for term in one.score_terms]
    hosts = list({id(one.counts): one.counts for one in terms if one.by_host}.values())
    if any(one.refusals or not one.score_terms for one in rules) or len(hosts) > 1:
        return None
    if any(
        one.domain.shape != (fleet.n,) or {one.domain.dtype.kind, one.counts.dtype.kind} != {"i"}
        for one in terms
    ):
        return None
    if any(one.domain.max(initial=-1) >= len(one.counts) for one in terms):
        return None  # there are not counts of all domains
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
            *(one.value for one in columns),
        )
    }
    base = partitions.of(list(axes.values()))
    if base is None:
        return None
    return RuleGroups(rules, policies, columns, base, list(axes), hosts[0] if hosts else None)


def name_of(rules: Sequence[CountRules], columns: Sequence[StaticColumn]) -> Hashable:
    """By what groups are kept: while these live, nothing else has their ids."""
    return tuple(map(id, rules)), tuple([id(one.value) for one in columns])
