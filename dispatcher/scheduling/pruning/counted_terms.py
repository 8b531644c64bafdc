"""Domain terms of policies that state rules over counts, compiled: what `domain_terms` gets from parts, bit for bit.

A policy is asked for its rules (`framework.domain_counts`) alone. While it answers the very same object, all that was
computed from it is used again: the counts are windows on arrays of the fleet, so a pod costs one pass over the counts
of hosts and one over the groups. Without a compiler, and for rules that refuse or are malformed, `domain_terms` asks
for the parts.

Example: pods of an app, spread over zones and hosts. Zone 0 has n0 with 2 of them and n1 with 1; zone 1 has n2 with 1
and n3 with none. Numbers of pods on a host are below a width of 3, so the group of a row is 3 * zone + number:

    row      n0  n1  n2  n3        group    0   1   2   3   4   5
    zone      0   0   1   1        members  0   1   1   1   1   0
    number    2   1   1   0        raw      -  -4  -5  -1  -2   -
    group     2   1   4   3

With terms of -1 a pod in the zone (3 and 1) and -1 a pod on the host, each group has one raw score. Half a million rows
are sorted into some hundred groups, and only these are scored.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.model.topology import CLUSTER_LEVEL
from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import MAX_SCORE, Ints, Placed, Rows, SmallInts
from dispatcher.scheduling.framework.domain_counts import LN, CountRules, Scale
from dispatcher.scheduling.framework.kernels import FloatColumn, IntColumn, Number, WholeNumber, kernel
from dispatcher.scheduling.framework.memory import untouched, window_of
from dispatcher.scheduling.pruning.domain_terms import ClusterAnswers, DomainTerms, TermsInMaking
from dispatcher.scheduling.pruning.fitting_rows import WIDEST, FittingRows

_KEPT = 64
_FEW = 64  # rows that are followed one by one
_TERM_FIELDS = "factor", "offset", "elsewhere"
_MALFORMED = (AttributeError, IndexError, TypeError, ValueError)  # what malformed rules raise
_RANGE, _COST = int(Scale.RANGE), int(Scale.COST)
_EVERY, _WITH_ALL = 1, 2  # `sized`: count domains of all rows that take pods, or of those with a domain in each term


@kernel("wholes ints int marks out_wholes out_ints")
def _split_by_number(group, numbers, width, refused, found, members):  # type: ignore[no-untyped-def]
    """`found` [n]: each row's group * width + number; `members`: added the rows in each that are not refused.

    Returns the highest number. Nothing holds if that is `width` or more, or -1: a number is below 0.
    """
    highest = 0
    for row in range(len(group)):
        number = numbers[row]
        if number < 0:
            return -1
        highest = max(highest, number)
        if number < width:
            found[row] = group[row] * width + number
            members[found[row]] += refused[row] == 0
    return highest


class RuleTables(NamedTuple):
    """One policy's rules for the kernel.

    [terms]: `by_host`, and `factor`, `offset`, `elsewhere` as in ScoreTerm. [terms x groups], flat: `codes`, the
    domain, -1 unknown, and `counts`, its pods. [groups]: `members`, rows that take pods, and `numbers`, the pods on
    each of their hosts. `ln`: logarithms, for factors that rest on the number of domains if `sized` (0, _EVERY,
    _WITH_ALL). `scale`, `base`, `void`: as in CountRules. `weight`: that of the profile, times `grid`.
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
    """How many domains of a term have rows that take pods. Rows without a domain count as one more: their code, -1, is
    the last entry of the scratch `seen`.
    """
    size, groups = 0, len(rules.members)
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
    raw, groups = rules.base, len(rules.members)
    for term in range(len(rules.factor)):
        count = rules.numbers[group] if rules.by_host[term] else rules.counts[term * groups + group]
        factor = rules.factor[term] * rules.ln[size[term]] if rules.sized else rules.factor[term]
        if rules.codes[term * groups + group] < 0:
            raw += rules.elsewhere[term]
        else:
            raw += factor * count + rules.offset[term]
    return raw


def _normal(rules: Any, raw: Any, least: Any, most: Any) -> Any:
    """A raw score on its scale, by the formulas of `Scale`; `least`, `most`: of the raw scores, or (COST) the costs."""
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
    """Score each group with members and add that to `points`, -inf for others; 1 if a raw score is no finite number."""
    least, most, nonsense = np.inf, 0.0 if rules.scale == _COST else -np.inf, 0
    for term in range(len(size) if rules.sized else 0):
        size[term] = _domains_of(rules, term, seen)
    for group in range(len(points)):
        if rules.members[group] > 0:
            raw[group] = told = _raw(rules, size, group)
            nonsense |= not np.isfinite(told)
            if rules.scale != _COST or told > rules.void:
                value = np.floor(0.5 - (told - rules.base)) if rules.scale == _COST else told
                least, most = min(least, value), max(most, value)
    for group in range(len(points)):
        if rules.members[group] > 0:
            normal[group] = _normal(rules, raw[group], least, most)
            points[group] += np.rint(normal[group] * rules.weight) / rules.grid
        else:
            points[group] = -np.inf
    return nonsense


class _CompiledPolicy:
    """One policy's rules as the kernel takes them; `codes` [terms, groups] the domain of each group."""

    def __init__(self, one: PluginEvaluator, rules: CountRules, codes: NDArray[np.int64]) -> None:
        self.evaluator, self.codes, self.counts = one, codes.ravel(), np.zeros(codes.shape, dtype=np.int64)
        terms = rules.score_terms
        self._counted = [
            (at, term.domain_count.counts, codes[at])
            for at, term in enumerate(terms)
            if not term.domain_count.by_host and len(term.domain_count.counts)
        ]
        self.columns = (
            np.asarray([term.domain_count.by_host for term in terms], dtype=np.int64),
            *(np.asarray([getattr(term, name) for term in terms], dtype=np.float64) for name in _TERM_FIELDS),
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
        raw, normal = np.zeros(len(members)), np.zeros(len(members))
        groups = self.codes, self.counts.ravel(), members, numbers
        terms.raw[score_at], terms.normal[score_at] = raw, normal
        return not _score.fast(
            *self.columns, LN.up_to(hosts), *self.scalars, *groups, *self.scratch, raw, normal, terms.points
        )


@dataclass(eq=False)
class _RuleGroups:
    """The groups that `rules` are about: those of `base`, by all domains but hosts (`axes`: ids of its axes), split by
    the number of pods on the host if a rule is about these: `of_hosts` [n], else None.

    `width`: numbers below that are told apart, 0 at first. By group: `numbers`, `clusters`, and tables of `policies`.
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
        codes = dict(zip(self.axes, (np.repeat(one, width) for one in self.base.axis_codes), strict=True))
        self.width, self.clusters = width, codes[clusters]
        self.numbers = np.tile(np.arange(width), self.base.size)
        every = np.zeros(len(self.numbers), dtype=np.int64)
        self.policies = [
            _CompiledPolicy(
                one, rules, np.stack([codes.get(id(term.domain_count.domain), every) for term in rules.score_terms])
            )
            for one, rules in zip(evaluators, self.rules, strict=True)
        ]


@dataclass(slots=True)
class _Split:
    """The rows as they were split last. `of`: the groups, their width, the filters and their version; `loads_at`: up to
    which change of rows. `group` [n] of each row; `members` [groups]: rows that fit.
    """

    of: tuple[_RuleGroups, int, StaticFilters, int]
    loads_at: int
    group: SmallInts
    members: Ints


class CountedTerms:
    """Makes domain terms out of rules over counts, and keeps what depends on nodes and rules alone."""

    def __init__(self, fitting: FittingRows) -> None:
        self._fitting, self._at = fitting, -1
        self._kept: OrderedDict[tuple[int, ...], _RuleGroups] = OrderedDict()
        self._last: _Split | None = None

    def terms(
        self,
        placed: Placed,
        filters: StaticFilters,
        clusters: ClusterAnswers,
        evaluators: Sequence[PluginEvaluator],
        refused: RowList,
    ) -> DomainTerms | None:
        """What `domain_terms` answers; None if that has to be asked, also where something is wrong: it names the plugin
        whose scores are no finite numbers.
        """
        if _score.fast is None or not evaluators or any(one.role.score_at is None for one in evaluators):
            return None
        try:
            return self._terms(placed, filters, clusters, evaluators, refused)
        except _MALFORMED:
            return None

    def _terms(
        self,
        placed: Placed,
        filters: StaticFilters,
        clusters: ClusterAnswers,
        evaluators: Sequence[PluginEvaluator],
        refused: RowList,
    ) -> DomainTerms | None:
        found = self._groups(evaluators, placed)
        if found is None:
            return None
        axis = self._fitting.fleet.domain(CLUSTER_LEVEL)
        split = self._split_again(found, filters) or self._split(found, filters, evaluators, id(axis))
        if split is None:
            return None
        group, members = split
        if len(refused):
            np.subtract.at(members, group[refused], 1)
        if clusters.closes:
            members[np.append(clusters.closed, np.uint16(0))[found.clusters] != 0] = 0
        terms = DomainTerms(group, None, len(members), by_host=found.of_hosts is not None)
        if clusters.evaluators:
            made, open_ = TermsInMaking(self._fitting.fleet, terms, {id(axis): found.clusters}), members > 0
            for one, parts in zip(clusters.evaluators, clusters.parts, strict=True):
                made.add(one, parts, open_)
        for policy in found.policies:
            if not policy.add_to(terms, members, found.numbers, self._fitting.fleet.n):
                return None
        return terms

    def _split_again(self, found: _RuleGroups, filters: StaticFilters) -> tuple[SmallInts, Ints] | None:
        """What `_split` answers, by the last split and the rows that changed since: only their hosts' numbers may have.
        None if that was of other groups, too many rows changed, or there is no group for a number.
        """
        last, of_hosts, loads = self._last, found.of_hosts, self._fitting.fleet.loads
        if last is None or of_hosts is None or last.of != (found, found.width, filters, filters.version):
            return None
        rows = loads.since(last.loads_at)
        if rows is None or len(rows) > _FEW:
            return None
        for row in rows.tolist():
            number, fits = of_hosts.item(row), int(filters.first.item(row) == 0)
            if not 0 <= number < found.width:
                return None
            last.members[last.group.item(row)] -= fits
            last.group[row] = group = found.base.group.item(row) * found.width + number
            last.members[group] += fits
        last.loads_at = loads.position
        return last.group, last.members.copy()

    def _split(
        self, found: _RuleGroups, filters: StaticFilters, evaluators: Sequence[PluginEvaluator], clusters: int
    ) -> tuple[SmallInts, Ints] | None:
        """[n] the group of each row, and [groups] how many rows fit; None for too many groups, or a number below 0.
        Where few rows fit, the groups of others are anything.

        Numbers grow as pods come: a highest number that does not fit is known after a pass, and the next has room.
        """
        n, few = self._fitting.fleet.n, filters.few_open
        rows = slice(0, n) if few is None else window_of(few)
        base, first, highest = found.base.group[rows], filters.first[rows], max(found.width, 1) - 1
        of_hosts = None if found.of_hosts is None else found.of_hosts[rows]
        while highest >= 0 and found.base.size * (highest + 1) <= WIDEST:
            if found.width <= highest:
                found.widen(highest + 1, evaluators, clusters)
            members = np.zeros(len(found.numbers), dtype=np.int64)
            if of_hosts is None:
                return found.base.group, np.bincount(base[first == 0], minlength=len(members))
            group = np.empty(len(base), dtype=np.int32)
            highest = _split_by_number.fast(base, of_hosts, found.width, first, group, members)
            if 0 <= highest < found.width:
                if few is not None:
                    return _spread(group, rows, n), members
                of = found, found.width, filters, filters.version
                self._last = _Split(of, self._fitting.fleet.loads.position, group, members)
                return group, members.copy()
        return None

    def _groups(self, evaluators: Sequence[PluginEvaluator], placed: Placed) -> _RuleGroups | None:
        """Those of the rules that these state, kept by the rules' ids while these live in what is kept."""
        fleet = self._fitting.fleet
        if self._at != fleet.changes.position:
            self._kept.clear()
            self._at = fleet.changes.position
        told = [one.count_rules(placed) for one in evaluators]
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
        """None for rules that refuse, score nothing, count two kinds of pods on hosts, or have arrays of odd shape."""
        fleet = self._fitting.fleet
        terms = [term.domain_count for one in rules for term in one.score_terms]
        hosts = list({id(one.counts): one.counts for one in terms if one.by_host}.values())
        if any(one.refusals or not one.score_terms for one in rules) or len(hosts) > 1:
            return None
        if any(
            one.domain.shape != (fleet.n,) or {one.domain.dtype.kind, one.counts.dtype.kind} != {"i"} for one in terms
        ):
            return None
        if any(not len(one.counts) and (one.domain >= 0).any() for one in terms):
            return None  # compiled code would look behind their end
        if any(one.shape != (fleet.n,) or one.dtype != np.int64 or not one.flags.c_contiguous for one in hosts):
            return None
        axes = {
            id(one): one for one in (fleet.domain(CLUSTER_LEVEL), *(one.domain for one in terms if not one.by_host))
        }
        base = self._fitting.partitions.of(list(axes.values()))
        return None if base is None else _RuleGroups(rules, base, list(axes), hosts[0] if hosts else None)


def _spread(group: SmallInts, rows: Rows, n: int) -> SmallInts:
    """[n] the group of each of the rows; 0 for all others."""
    found: SmallInts = untouched(n, np.int32)
    found[rows] = group
    return found
