"""How the pods of an app lie over fault domains: counts per domain, which domains are eligible, and
the skew.

All counts are of matching pods of the namespace in the whole fleet, running and assumed, each once.
Unit: pods.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dispatcher.scheduling.framework import FleetView, Ints, SmallInts
from dispatcher.scheduling.framework.domain_counts import MaxCount, RuleCount, least_count
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

    @cached_property
    def has_min_domains(self) -> bool:
        """Whether there are `min_domains` eligible domains."""
        return self.domains.size >= max(self.constraint.min_domains, 1)

    def counts(self, fleet: FleetView) -> Ints:
        """[domains] matching pods."""
        domains = self.domains
        if domains.counted is None:
            return fleet.affinity.count_in(self.pods, domains.level)
        by_row = fleet.affinity.count_in(self.pods, HOST_LEVEL)[domains.where]
        if domains.level == HOST_LEVEL:
            return domains.by_host(self.pods.name, by_row)
        codes = domains.domain[domains.where]
        found = np.bincount(codes, weights=by_row, minlength=len(domains.present))
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
        if not self.area.has_min_domains:
            return 0
        return least_count(self.counts, self.area.domains.present, *self.area.domains.span)

    @property
    def domain_count(self) -> RuleCount:
        """The counts, and what one more pod of the class adds."""
        area = self.area
        return RuleCount(
            area.domains.domain,
            self.counts,
            area.own,
            by_host=area.domains.level == HOST_LEVEL,
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
            present=area.domains.present if area.has_min_domains else None,
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
        if not (self.counts[area.domains.present] > self.most).any():
            return ""
        if not area.has_min_domains:
            wanted = area.constraint.min_domains
            return (
                f"spread over {key}: {area.domains.size} domains count, and minDomains asks for "
                f"{wanted}"
            )
        emptiest = np.flatnonzero(area.domains.present & (self.counts == self.least))
        first = int(emptiest[0])
        name = area.domains.names_of([first], fleet)[first]
        in_it = np.unique(
            fleet.nodes.cluster[fleet.nodes.live & (area.domains.domain == first)]
        ).tolist()
        names = ", ".join(sorted(fleet.clusters[one].name for one in in_it[:_MOST_NAMED]))
        where = "" if area.domains.level in (HOST_LEVEL, CLUSTER_LEVEL) else f" (cluster {names})"
        more = f" and {len(emptiest) - 1} more like it" if len(emptiest) > 1 else ""
        return (
            f"spread over {key}: domain {name!r}{where}{more} has {self.least} of the pods that "
            "count, "
            "and no node there can take this one"
        )

    def explain(self, row: int, fleet: FleetView) -> dict[str, Any]:
        """For people: the domain of a row and the skew there, the least count, and the counts of
        (the first) eligible domains.
        """
        code: int = self.area.domains.domain.item(row)
        least = self.least
        domain = skew = None
        if code >= 0:
            domain = self.area.domains.name_of(code, fleet)
            skew = self.counts.item(code) - least
        return self._explanation(domain, least, skew, fleet)

    def explain_rows(self, rows: RowList, fleet: FleetView) -> Column:
        """The same of each of `rows`."""
        chosen = self.area.domains.domain[rows]
        known = chosen >= 0
        own = np.zeros(len(chosen), dtype=np.int64)
        own[known] = self.counts[chosen[known]]
        codes: list[int] = chosen.tolist()
        names = self.area.domains.names_of([code for code in set(codes) if code >= 0], fleet)
        least = self.least
        skew = where(numbers(known), numbers(own - least), Same(None))
        domain = picked([names.get(code) for code in codes])
        found = self._explanation(domain, least, skew, fleet)
        columns = {
            name: one if name in ("domain", "skew") else Same(one) for name, one in found.items()
        }
        return fields(columns)

    def _explanation(
        self, domain: object, least: int, skew: object, fleet: FleetView
    ) -> dict[str, Any]:
        area = self.area
        counts = self.counts.take(area.domains.shown).tolist()
        return {
            "domain": domain,
            "max_skew": area.constraint.max_skew,
            "hard": area.constraint.hard,
            "min": least,
            "skew": skew,
            "counts": dict(zip(area.domains.shown_names(fleet), counts, strict=True)),
            "domains": area.domains.size,
        }


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
        own = int(counts_itself(one, pod))
        return ConstraintDomains(one, found, own, pods_beside(pod, one.selector))

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
    """Everything of a constraint and of its pod that `KnownDomains.area_of` and
    `ConstraintCounts.of` look at, but the namespace.
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
