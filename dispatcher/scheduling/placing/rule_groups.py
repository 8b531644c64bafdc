"""What policies by fault domain say of each group of rows, by their rules
(`framework.domain_counts`): refused, or so many points.

Rows that share the domains of all rules, and the raw scores of columns that normalise, are one
group; where rules count pods on hosts, the numbers of pods on its host tell rows of a group apart.
Half a million rows are some hundred groups, and only these are judged. Example: pods of an app,
spread over zones and hosts. Zone 0 has n0 with 2 of them and n1 with 1; zone 1 has n2 with 1 and n3
with none. Numbers of pods on a host are below a width of 3; the group of a row is number * 2 +
zone:

    row      n0  n1  n2  n3        group    0   1   2   3   4   5
    zone      0   0   1   1        members  0   1   1   1   1   0
    number    2   1   1   0        raw      -  -1  -4  -2  -5   -
    group     4   2   3   1

With terms of -1 a pod in the zone (3 and 1) and -1 a pod on the host each group has one raw score.
A rule that refuses zones with more than 2 pods refuses groups 0, 2 and 4.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator, weighted
from dispatcher.scheduling.equivalence.partitions import Partition, Partitions
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats, Ints
from dispatcher.scheduling.framework.domain_counts import (
    COST,
    LN,
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
    ScoreTerm,
    on_scale,
)
from dispatcher.scheduling.framework.kernels import (
    FloatColumn,
    IntColumn,
    Number,
    WholeNumber,
    kernel,
)
from shared.model.topology import CLUSTER_LEVEL

# groups: so many, or one a row, up to the most; with more, going by groups saves nothing
_FEW = 1 << 10
_WIDEST = 1 << 16
_BYTES_PER_CELL = 24  # a count: domain 8, pods 8, offset 8
# `sized`: count domains of all rows that take pods, or of those with a domain in each term
_EVERY = 1
_WITH_ALL = 2


class RuleTables(NamedTuple):
    """One policy's rules for the kernel.

    [terms]: `by_host`, and `factor`, `elsewhere` as in ScoreTerm. [terms x groups], flat: `codes`,
    the domain, -1 unknown, `counts`, its pods, and `offset`, what is added to these. [groups]:
    `members`, rows that take pods. `ln`: logarithms, for factors that rest on the number of domains
    if `sized` (0, _EVERY, _WITH_ALL). `scale`, `base`, `void`: as in CountRules. `weight`: that of
    the profile, times `grid`.
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
        count = rules.counts[term * groups + group]
        factor = rules.factor[term] * rules.ln[size[term]] if rules.sized else rules.factor[term]
        if rules.codes[term * groups + group] < 0:
            raw += rules.elsewhere[term]
        else:
            raw += factor * count + rules.offset[term * groups + group]
    return raw


@kernel(RuleTables, "out_ints out_ints out out out", formulas=(_domains_of, _raw, on_scale))
def _score(rules, seen, size, raw, normal, points):  # type: ignore[no-untyped-def]
    """Score each group with members and add that to `points`, -inf for others; 1 if a raw score is
    no finite number.
    """
    least = np.inf
    most = 0.0 if rules.scale == COST else -np.inf
    nonsense = 0
    for term in range(len(size) if rules.sized else 0):
        size[term] = _domains_of(rules, term, seen)
    for group in range(len(points)):
        if rules.members[group] > 0:
            raw[group] = told = _raw(rules, size, group)
            nonsense |= not np.isfinite(told)
            if rules.scale != COST or told > rules.void:
                value = np.floor(0.5 - (told - rules.base)) if rules.scale == COST else told
                least = min(least, value)
                most = max(most, value)
    for group in range(len(points)):
        if rules.members[group] > 0:
            normal[group] = on_scale(rules.scale, raw[group], least, most, rules.base, rules.void)
            points[group] += np.rint(normal[group] * rules.weight) / rules.grid
        else:
            points[group] = -np.inf
    return nonsense


@kernel("ints ints ints ints ints ints ints ints out_marks")
def _refuse(required, exempt, most, code, elsewhere, codes, counts, members, refused):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """Write `refused` [groups]: why the first rule refuses each group with members, else 0.

    [rules]: `required` is 1 for a RequiredCount and 0 for a MaxCount, of `most` pods; `exempt` is 1
    while a RequiredCount refuses no domain. [rules x groups], flat: `codes` and `counts`.
    """
    groups = len(members)
    for group in range(groups):
        refused[group] = 0
        for rule in range(len(code) if members[group] > 0 else 0):
            count = counts[rule * groups + group]
            if codes[rule * groups + group] < 0:
                refused[group] = elsewhere[rule]
            elif required[rule]:
                refused[group] = code[rule] if count <= 0 and not exempt[rule] else 0
            else:
                refused[group] = code[rule] if count > most[rule] else 0
            if refused[group] != 0:
                break


class GroupPoints:
    """By group: `refused`, why policies refuse its rows, else 0; `points`, -inf where no row takes
    the pod; `raw` and `normal` scores by score_at. `members`: rows that nobody else refuses.
    """

    def __init__(self, members: Ints, refused: Codes | None) -> None:
        self.members = members
        self.refused = refused
        self.taking: Ints = members if refused is None else np.where(refused == 0, members, 0)
        self.points: Floats = np.zeros(len(members))
        self.raw: dict[int | None, Floats] = {}
        self.normal: dict[int | None, Floats] = {}

    def add(self, one: PluginEvaluator, raw: Floats) -> None:
        """Add the scores of a policy, normalised over the groups that take the pod if it does so."""
        role = one.role
        normal = raw
        if role.normalizes and (takes := self.taking > 0).any():
            normal = raw.copy()
            normal[takes] = one.normalize(raw[takes])
        self.raw[role.score_at], self.normal[role.score_at] = raw, normal
        self.points += weighted(normal, role.weight)

    def refused_rows(self, clusters: Ints) -> Mapping[tuple[int, int], int]:
        """(reason code, cluster index) -> rows that policies refuse; `clusters` [groups]."""
        found = dict[tuple[int, int], int]()
        refused = _NO_CODES if self.refused is None else self.refused
        for group in refused.nonzero()[0].tolist():
            why = refused.item(group), clusters.item(group)
            found[why] = found.get(why, 0) + self.members.item(group)
        return found


class _Counted:
    """Counts of pods by group: `codes` [counts, groups] the domain of each group, `counts` its pods
    as they are now.
    """

    def __init__(
        self,
        every: Sequence[RuleCount],
        codes: Mapping[int, NDArray[np.int64]],
        on_hosts: Mapping[int, Ints],
        groups: int,
    ) -> None:
        nothing = np.zeros(groups, dtype=np.int64)
        by_group = [codes.get(id(one.domain), nothing) for one in every]
        self.codes: Ints = np.asarray([*by_group, nothing])[:-1].reshape(-1)
        self._counts = np.zeros((len(every), groups), dtype=np.int64)
        self._moving = list[tuple[int, Ints, Ints]]()
        for at, one in enumerate(every):
            if one.by_host:
                self._counts[at] = on_hosts[id(one.counts)]
            elif len(one.counts):
                self._moving.append((at, one.counts, by_group[at]))

    def offsets(self, terms: Sequence[ScoreTerm]) -> Floats:
        """[terms x groups], flat: what terms of these counts add whatever the counts are."""
        groups = self._counts.shape[1]
        told = [
            np.full(groups, term.offset)
            if term.table is None
            else np.append(term.table, 0.0)[self.codes[at * groups : (at + 1) * groups]]
            for at, term in enumerate(terms)
        ]
        return np.asarray([*told, np.zeros(groups)])[:-1].reshape(-1)

    def counts(self) -> Ints:
        """[counts x groups], flat."""
        for at, counts, codes in self._moving:
            self._counts[at] = counts.take(codes)
        return self._counts.reshape(-1)


class _Refusals:
    """The rules of all policies that refuse, in order."""

    def __init__(self, rules: Sequence[CountRules], counted: _Counted) -> None:
        self._rules = [(one, of) for of in rules for one in of.refusals]
        told = [one for one, _ in self._rules]
        self._required = _ints([isinstance(one, RequiredCount) for one in told])
        self._code = _ints([one.code for one in told])
        self._elsewhere = _ints(
            [one.elsewhere if isinstance(one, MaxCount) else one.code for one in told]
        )
        self._counted = counted

    def refused(self, members: Ints) -> Codes | None:
        """[groups] by the counts of now; None without rules."""
        if not self._rules:
            return None
        found: Codes = np.empty(len(members), dtype=np.uint16)
        _refuse.fast(
            self._required,
            _ints([of.is_exempt for _, of in self._rules]),
            _ints([one.limit if isinstance(one, MaxCount) else 0 for one, _ in self._rules]),
            self._code,
            self._elsewhere,
            self._counted.codes,
            self._counted.counts(),
            members,
            found,
        )
        return found


class _Scores:
    """The score terms of one policy."""

    def __init__(self, one: PluginEvaluator, rules: CountRules, counted: _Counted) -> None:
        self._score_at = one.role.score_at
        self._counted = counted
        terms = rules.score_terms
        self._columns = (
            _ints([term.domain_count.by_host for term in terms]),
            _floats([term.factor for term in terms]),
            counted.offsets(terms),
            _floats([term.elsewhere for term in terms]),
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
        most = max([len(term.domain_count.counts) for term in terms], default=0)
        self._scratch = np.zeros(most + 1, dtype=np.int64), np.zeros(len(terms), dtype=np.int64)

    def add_to(self, found: GroupPoints, hosts: int) -> bool:
        """Add them to what is `found`, by the counts of now; False if one is no finite number."""
        raw, normal = np.zeros((2, len(found.members)))
        found.raw[self._score_at], found.normal[self._score_at] = raw, normal
        return not _score.fast(
            *self._columns,
            LN.up_to(hosts),
            *self._scalars,
            self._counted.codes,
            self._counted.counts(),
            found.taking,
            *self._scratch,
            raw,
            normal,
            found.points,
        )


class RuleGroups:
    """The groups that the `rules` of `policies` and the values of `columns` are about.

    `group` [n] of each row by all but hosts, of `size` ones; `on_hosts`: distinct counts of pods
    [n] on the host of each row that rules are about. Split by these numbers, each below its width,
    groups are numbered as in the example above; `clusters` [groups] their cluster.
    """

    def __init__(
        self,
        rules: Sequence[CountRules],
        policies: Sequence[PluginEvaluator],
        columns: Sequence[StaticColumn],
        base: Partition,
        axes: Sequence[int],
        on_hosts: Sequence[Ints],
    ) -> None:
        self._rules = rules
        self._policies = policies
        self._columns = columns
        self._values = [one.value for one in columns]  # kept, so that no other gets their ids
        self._codes = dict(zip(axes, base.axis_codes, strict=True))
        self._cluster_axis = axes[0]
        self.group = base.group
        self.size = base.size
        self.on_hosts = on_hosts
        self._widths = [0] * len(on_hosts)
        self._beside = base.group.nbytes + sum([one.nbytes for one in on_hosts])
        self.nbytes = self._beside  # and of its tables
        if not on_hosts:
            self._widen([])

    def numbers(self) -> Ints | None:
        """[n] the numbers on each row's host as one, empty where none are counted; None if that is
        too many groups, or a number is below 0.
        """
        if not self.on_hosts:
            return _NO_NUMBERS
        # as an unsigned number, one below 0 is a huge one
        most = [int(one.view(np.uint64).max(initial=0)) for one in self.on_hosts]
        widths = [max(one + 1, width) for one, width in zip(most, self._widths, strict=True)]
        if widths != self._widths:
            groups = self.size
            for width in widths:
                groups *= width
            if groups > max(_FEW, min(len(self.group), _WIDEST)):
                return None
            self._widen(widths)
        found, *others = self.on_hosts
        stride = self._widths[0]
        for one, width in zip(others, self._widths[1:], strict=True):
            found = found + one * stride
            stride *= width
        return found

    def _widen(self, widths: Sequence[int]) -> None:
        """Tell so many numbers of pods on hosts apart."""
        self._widths = list(widths)
        split = 1
        told = list[Ints]()
        for width in widths:
            told = [np.tile(one, width) for one in told]
            told.append(np.repeat(np.arange(width), split))
            split *= width
        on_hosts = {
            id(one): np.repeat(numbers, self.size)
            for one, numbers in zip(self.on_hosts, told, strict=True)
        }
        codes = {axis: np.tile(one, split) for axis, one in self._codes.items()}
        self.groups = self.size * split
        self.clusters: Ints = codes[self._cluster_axis]
        self._value_codes = [codes[id(one)] for one in self._values]

        def counted(every: Sequence[RuleCount]) -> _Counted:
            return _Counted(every, codes, on_hosts, self.groups)

        refusing = [one.domain_count for of in self._rules for one in of.refusals]
        self._refusals = _Refusals(self._rules, counted(refusing))
        self._scores = [
            _Scores(one, rules, counted([term.domain_count for term in rules.score_terms]))
            for one, rules in zip(self._policies, self._rules, strict=True)
            if one.role.score_at is not None
        ]
        counts = sum(len(of.refusals) + len(of.score_terms) for of in self._rules)
        self.nbytes = self._beside + _BYTES_PER_CELL * self.groups * (counts + len(codes))

    def points(self, members: Ints, hosts: int) -> GroupPoints | None:
        """What columns and policies say, `members` [groups] being the rows that nobody else
        refuses; None where a raw score is no finite number. `hosts`: how many there are.
        """
        found = GroupPoints(members, self._refusals.refused(members))
        for column, codes in zip(self._columns, self._value_codes, strict=True):
            found.add(column.evaluator, np.asarray(column.values)[codes] + 0.0)
        for policy in self._scores:
            if not policy.add_to(found, hosts):
                return None
        if not self._scores:  # whose loop does so
            found.points[found.taking == 0] = -np.inf
        return found


_NO_NUMBERS: Ints = np.zeros(0, dtype=np.int64)
_NO_CODES: Codes = np.zeros(0, dtype=np.uint16)


def _ints(values: Sequence[int]) -> Ints:
    return np.asarray(values, dtype=np.int64)


def _floats(values: Sequence[float]) -> Floats:
    return np.asarray(values, dtype=np.float64)


def rule_groups(
    fleet: FleetState,
    partitions: Partitions,
    policies: Sequence[PluginEvaluator],
    rules: Sequence[CountRules],
    columns: Sequence[StaticColumn],
) -> RuleGroups | None:
    """The groups of these rules and columns; None for rules with arrays of odd shape, and where
    there is nearly a group a row.
    """
    terms = [one.domain_count for of in rules for one in (*of.refusals, *of.score_terms)]
    hosts = list({id(one.counts): one.counts for one in terms if one.by_host}.values())
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
    return None if base is None else RuleGroups(rules, policies, columns, base, list(axes), hosts)


def name_of(
    policies: Sequence[PluginEvaluator],
    rules: Sequence[CountRules],
    columns: Sequence[StaticColumn],
) -> Hashable:
    """By what groups are kept: while these live, nothing else has their ids."""
    whose = tuple([(one.role, id(of)) for one, of in zip(policies, rules, strict=True)])
    return whose, tuple([id(one.value) for one in columns])
