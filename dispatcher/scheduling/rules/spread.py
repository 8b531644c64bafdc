"""How the pods of an app lie over fault domains: counts per domain, which domains are eligible, and
the skew.

All counts are of matching pods of the namespace in the whole fleet, running and assumed, each once.
Unit: pods.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dispatcher.scheduling.framework import Bools, FleetView, Ints, SmallInts
from dispatcher.scheduling.framework.domain_counts import MaxCount, RuleCount
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.lifecycle import RowList
from dispatcher.scheduling.framework.memory import window_of
from dispatcher.scheduling.framework.pod_sets import PodSet, pods_beside, selector_key
from dispatcher.scheduling.framework.value_columns import (
    Column,
    Same,
    fields,
    numbers,
    picked,
    where,
)
from dispatcher.scheduling.rules.eligibility import topology_key
from dispatcher.scheduling.rules.spread_domains import (
    Domains,
    Name,
    domains_of,
    domains_on,
    rows_with,
    with_domains,
)
from shared.model.pod import Pod, SpreadConstraint
from shared.model.topology import CLUSTER_LEVEL, HOST_LEVEL

_MOST_AREAS = 32
_MOST_NAMED = 3  # clusters of a domain, in a sentence


@dataclass(frozen=True)
class ConstraintDomains:
    """One constraint on the domains of its level; it counts `pods`. `own` is 1 if the pod matches
    its own selector, so that it adds to what is counted.
    """

    constraint: SpreadConstraint
    domains: Domains
    own: int
    pods: PodSet

    @property
    def level(self) -> str:
        """Of the domains."""
        return self.domains.level

    @property
    def domain(self) -> SmallInts:
        """[n] domain of each row."""
        return self.domains.domain

    @property
    def present(self) -> Bools:
        """[domains] which ones are eligible."""
        return self.domains.present

    @cached_property
    def has_min_domains(self) -> bool:
        """Whether there are `min_domains` eligible domains."""
        return self.domains.size >= max(self.constraint.min_domains, 1)

    @property
    def counts_all(self) -> bool:
        """Whether pods on all nodes count that have a domain."""
        return self.domains.counted is None

    def counts(self, fleet: FleetView) -> Ints:
        """[domains] matching pods."""
        where = self.domains.where
        if where is None:
            return fleet.affinity.count_in(self.pods, self.level)
        by_row = fleet.affinity.count_in(self.pods, HOST_LEVEL)[where]
        if self.level == HOST_LEVEL:
            return self.domains.by_host(self.pods.name, by_row)
        found = np.bincount(self.domain[where], weights=by_row, minlength=len(self.present))
        counts: Ints = found.astype(np.int64)
        return counts


@dataclass(frozen=True)
class ConstraintCounts:
    """One constraint as things stand: [domains] matching pods."""

    area: ConstraintDomains
    counts: Ints

    @classmethod
    def of(cls, area: ConstraintDomains, fleet: FleetView) -> "ConstraintCounts":
        """Count anew."""
        return cls(area, area.counts(fleet))

    @property
    def least(self) -> int:
        """The least count over the eligible domains, 0 while there are fewer than `min_domains`."""
        return _least(self.area, self.counts, []) if self.area.has_min_domains else 0

    @property
    def domain_count(self) -> RuleCount:
        """The counts, and what one more pod of the class adds."""
        area = self.area
        return RuleCount(
            area.domain,
            self.counts,
            area.own,
            by_host=area.level == HOST_LEVEL,
            counted=area.domains.counting,
        )

    def max_count(self, code: int, elsewhere: int) -> MaxCount:
        """Refuses, with `code`, domains that are full; with `elsewhere` rows without a domain."""
        area = self.area
        most = area.constraint.max_skew - area.own
        return MaxCount(
            self.domain_count,
            most,
            code,
            elsewhere,
            present=area.present if area.has_min_domains else None,
        )

    @property
    def most(self) -> int:
        """How many pods a domain may hold to take one more."""
        return self.area.constraint.max_skew + self.least - self.area.own

    def hint(self, fleet: FleetView) -> str:
        """Which domain is in the way of a pod that finds no place, '' if the constraint keeps it
        out of none.

        The emptiest domain always takes one more by this constraint: it is its nodes that cannot.
        """
        area = self.area
        key = self.area.constraint.key
        if not (self.counts[area.present] > self.most).any():
            return ""
        if not area.has_min_domains:
            wanted = area.constraint.min_domains
            return (
                f"spread over {key}: {area.domains.size} domains count, and minDomains asks for "
                f"{wanted}"
            )
        emptiest = np.flatnonzero(area.present & (self.counts == self.least))
        first = int(emptiest[0])
        known, others = area.domains.names_of([first], fleet)
        name = "/".join(known[first] if first in known else others[first])
        in_it = np.unique(fleet.nodes.cluster[fleet.nodes.live & (area.domain == first)]).tolist()
        names = ", ".join(sorted(fleet.clusters[one].name for one in in_it[:_MOST_NAMED]))
        where = "" if area.level in (HOST_LEVEL, CLUSTER_LEVEL) else f" (cluster {names})"
        more = f" and {len(emptiest) - 1} more like it" if len(emptiest) > 1 else ""
        return (
            f"spread over {key}: domain {name!r}{where}{more} has {self.least} of the pods that "
            "count, "
            "and no node there can take this one"
        )

    def record(self, fleet: FleetView, row: int) -> dict[str, Any]:
        """For people: domain of the row, its skew, the least count and the counts of (the first)
        eligible domains.
        """
        found: dict[str, Any] = self.explanation(np.asarray([row]), fleet).told([0]).values(1)[0]
        return found

    def explanation(self, rows: RowList, fleet: FleetView) -> "SpreadExplanation":
        """The records of pods of the class that go to `rows`, one after the other."""
        area = self.area
        domains = self.area.domains
        more = self.area.own
        chosen = area.domain[rows]
        found = sorted(code for code in set(chosen.tolist()) if code >= 0)
        met = [code for code in found if area.present.item(code)]
        return SpreadExplanation(
            area.constraint,
            chosen,
            more if domains.counting is None else domains.counting[rows] * more,
            self.counts[domains.shown],
            {code: self.counts.item(code) for code in found},
            domains.names_of(found, fleet),
            domains.shown_codes,
            domains.size,
            met,
            _least(area, self.counts, met) if len(met) < domains.size else None,
            has_min_domains=area.has_min_domains,
        )


@kernel("ints bools ints int int")
def _find_least(counts, eligible, left_out, first, last):  # type: ignore[no-untyped-def]
    """The least count over the eligible domains from `first` to before `last`, but those left out."""
    least = np.iinfo(np.int64).max
    for domain in range(first, last):
        if eligible[domain] and counts[domain] < least:
            out = False
            for other in left_out:
                out = out or other == domain
            if not out:
                least = counts[domain]
                if least <= 0:
                    break
    return least


def _least(area: ConstraintDomains, counts: Ints, left_out: list[int]) -> int:
    """The least count over the eligible domains but these eligible ones, which must leave some.
    IndexError where counts are not of these domains.
    """
    if len(counts) != len(area.present):
        raise IndexError(f"{len(counts)} counts of {len(area.present)} domains")
    others, (first, last) = np.asarray(left_out, dtype=np.int64), area.domains.span
    if _find_least.fast is not None:
        return int(_find_least.fast(counts, area.present, others, first, last))
    eligible = np.setdiff1d(np.flatnonzero(area.present), others, assume_unique=True)
    return int(counts[eligible].min(initial=np.iinfo(np.int64).max))


@dataclass(slots=True)
class SpreadExplanation:
    """What a constraint had to say of each pod of a batch; it holds no more than that takes, for it
    is kept long.

    `chosen`: by pod, the domain it went to (-1 unknown); `more`: what it adds there, by pod or of
    each. `of_shown`, `of_chosen`: counts of these domains before the first pod; `names` (of a host:
    cluster and node) of the `shown` ones and of the others. `met`: the eligible ones among the
    chosen; `least_else`: the least count of the other eligible ones, None without any.
    """

    constraint: SpreadConstraint
    chosen: SmallInts
    more: SmallInts | int
    of_shown: Ints
    of_chosen: Mapping[int, int]
    names: tuple[Mapping[int, Name], Mapping[int, Name]]
    shown: Sequence[int]
    domains: int
    met: Sequence[int]
    least_else: int | None
    has_min_domains: bool

    def told(self, ats: Sequence[int]) -> Column:
        """What there was to say when pods of these numbers, ascending, were decided."""
        before = {**dict(zip(self.shown, self.of_shown.tolist(), strict=True)), **self.of_chosen}
        adds: Ints = np.where(self.chosen >= 0, self.more, 0).astype(np.int64, copy=False)
        own, least = self._own_and_least(ats, adds)
        chosen = self.chosen[ats].tolist()
        domains = {code: self._name(code) if code >= 0 else None for code in dict.fromkeys(chosen)}
        counts: dict[str, Column] = {}
        for code in self.shown:
            mine = np.where(self.chosen == code, adds, 0) if code in self.met else None
            told = (
                Same(before[code])
                if mine is None
                else numbers((before[code] + np.cumsum(mine) - mine)[ats])
            )
            counts[self._name(code)] = told
        skews = numbers(own - least)
        return fields(
            {
                "domain": picked([domains[code] for code in chosen]),
                "max_skew": Same(self.constraint.max_skew),
                "hard": Same(self.constraint.hard),
                "min": numbers(least),
                "skew": where(numbers(self.chosen[ats] < 0), Same(None), skews)
                if None in domains.values()
                else skews,
                "counts": fields(counts),
                "domains": Same(self.domains),
            }
        )

    def _name(self, code: int) -> str:
        shown, others = self.names
        return "/".join(shown[code] if code in shown else others[code])

    def _own_and_least(self, ats: Sequence[int], adds: Ints) -> tuple[Ints, Ints]:
        """By pod, the count of the domain it went to, and the least of the eligible ones (0 while
        these are few).
        """
        chosen = self.chosen.tolist()
        last = ats[-1] + 1
        met = frozenset(self.met)
        places = {code: at for at, code in enumerate(dict.fromkeys(chosen))}
        at = np.asarray([places[code] for code in chosen[:last]], dtype=np.int64)
        counts = np.asarray([self.of_chosen.get(code, 0) for code in places], dtype=np.int64)
        eligible = np.asarray(
            [self.has_min_domains and code in met for code in places], dtype=np.bool_
        )
        least_else = _NO_COUNT if self.least_else is None else self.least_else
        found = np.empty((2, last), dtype=np.int64)
        count_on = _count_on.fast or _count_on.function
        count_on(
            at, adds[:last], eligible, least_else if self.has_min_domains else 0, counts, *found
        )
        return (found[0], found[1]) if len(ats) == last else (found[0, ats], found[1, ats])


_NO_COUNT = np.iinfo(np.int64).max


@kernel("ints ints bools int out_ints out_ints out_ints")
def _count_on(at, adds, eligible, least_else, counts, own, leasts):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """Write for pods, one after the other, the count of its domain before it, and the least count
    of eligible ones.

    `at` [pods]: which of the chosen domains it goes to, where it `adds` so much; `eligible`,
    `counts` [chosen domains]; `least_else`: of the other eligible ones.
    """
    # `left`: how many of the chosen ones have no more than the least; counts only rise
    least = least_else
    left = 0
    for pod in range(len(at)):
        if left == 0 and (pod == 0 or least < least_else):
            least = least_else
            for domain in range(len(counts)):
                if eligible[domain] and counts[domain] < least:
                    least = counts[domain]
            for domain in range(len(counts)):
                left += eligible[domain] and counts[domain] == least
        count = counts[at[pod]]
        own[pod], leasts[pod] = count, least
        if adds[pod] != 0:
            left -= eligible[at[pod]] and count == least
            counts[at[pod]] = count + adds[pod]


def area_of(
    one: SpreadConstraint, pod: Pod, fleet: FleetView, eligible: Bools
) -> ConstraintDomains:
    """A constraint of `pod` on the nodes; `eligible`: [n] the live rows whose pods and domains have
    a part in it.
    """
    return _area(one, pod, domains_of(topology_key(one.key, pod), fleet, eligible))


def _area(one: SpreadConstraint, pod: Pod, domains: Domains) -> ConstraintDomains:
    return ConstraintDomains(
        one, domains, int(counts_itself(one, pod)), pods_beside(pod, one.selector)
    )


class KnownDomains:
    """The areas of constraints that go by nodes alone: by their domains, their labels and their
    names. What they are is found once for all pods that ask for the same, until a node changes; so
    that classes of many homes have the very same arrays, and what is made of these is made once,
    too.
    """

    def __init__(self) -> None:
        self._at: SmallInts | None = None
        self._known: OrderedDict[tuple[str, tuple[str, ...], Hashable], Domains] = OrderedDict()
        # by the pods that were asked about last
        self._selected: tuple[Hashable, RowList] | None = None
        self._having: dict[str, int] = {}  # level -> how many rows have such a domain

    def area_of(
        self,
        one: SpreadConstraint,
        pod: Pod,
        fleet: FleetView,
        levels: tuple[str, ...],
        selects: tuple[Hashable, Callable[[], RowList]] | None = None,
    ) -> ConstraintDomains:
        """A constraint of `pod` on the nodes that have domains of all `levels`, and of these on the
        live rows that the pod selects, ascending, if it `selects` any: by this key, the rows being
        asked for where they are not known.
        """
        hosts = fleet.topology.domain(HOST_LEVEL)
        if hosts is not self._at:  # while no node changes, it is the very same array
            self._at = hosts
            self._known.clear()
            self._having.clear()
            self._selected = None
        level = topology_key(one.key, pod)
        selection = selects[0] if selects else None
        found = self._known.pop((level, levels, selection), None)
        if found is None:
            if selects:
                found = self._select(level, fleet, levels, *selects)
            else:
                found = domains_of(level, fleet, with_domains(fleet, levels))
        self._known[level, levels, selection] = found
        if len(self._known) > _MOST_AREAS:
            self._known.popitem(last=False)
        return _area(one, pod, found)

    def _select(
        self,
        level: str,
        fleet: FleetView,
        levels: tuple[str, ...],
        selection: Hashable,
        selects: Callable[[], RowList],
    ) -> Domains:
        if self._selected is None or self._selected[0] != (levels, selection):
            rows = selects()
            for each in levels:
                rows = _having(fleet.topology.domain(each), rows)
            self._selected = (levels, selection), rows
        others = (one for key, one in self._known.items() if key[1:] == (levels, selection))
        if level not in self._having:
            self._having[level] = rows_with(level, fleet)
        rows = _having(fleet.topology.domain(level), self._selected[1])
        return domains_on(level, fleet, rows, self._having[level], next(others, None))


def _having(domain: SmallInts, rows: RowList) -> RowList:
    """Those of the rows that have a domain; the very same ones where all have."""
    has = domain[window_of(rows)] >= 0
    return rows if has.all() else rows[has]


def counts_itself(one: SpreadConstraint, pod: Pod) -> bool:
    """Whether a pod is among those that its constraint counts."""
    return one.selector is None or one.selector.matches(pod.labels)


def spread_key(one: SpreadConstraint, pod: Pod) -> Hashable:
    """Everything of a constraint and of its pod that `area_of` and `ConstraintCounts.of` look at,
    but the namespace.
    """
    counted = selector_key(pod, one.selector)
    policies = (one.honor_affinity, one.honor_taints)
    own = counts_itself(one, pod)
    return (
        topology_key(one.key, pod),
        one.max_skew,
        one.hard,
        one.min_domains,
        counted,
        own,
        policies,
    )
