"""How the pods of an app lie over fault domains: counts per domain, which domains are eligible, and the skew.

All counts are of matching pods of the namespace in the whole fleet, running and assumed, each once. Unit: pods.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dispatcher.model.pod import Pod, SpreadConstraint
from dispatcher.model.topology import HOST_LEVEL
from dispatcher.scheduling.framework import Bools, Fleet, Ints, SmallInts
from dispatcher.scheduling.framework.lifecycle import RowList
from dispatcher.scheduling.framework.pod_sets import selector_key
from dispatcher.scheduling.framework.tallies import Cap, Tally
from dispatcher.scheduling.rules.eligibility import topology_key

_SHOWN_DOMAINS = 16


@dataclass(frozen=True)
class Area:
    """One constraint on the nodes as they are: [n] domain of each row, and [domains] which ones are eligible.

    `counted`: the rows whose pods count, None for all that have a domain. `own` is 1 if the pod matches its own
    selector, so that it adds to what is counted.
    """

    constraint: SpreadConstraint
    level: str
    domain: SmallInts
    present: Bools
    counted: RowList | None
    own: int

    @cached_property
    def enough(self) -> bool:
        """Whether there are `min_domains` eligible domains."""
        return int(np.count_nonzero(self.present)) >= max(self.constraint.min_domains, 1)

    @property
    def vain(self) -> bool:
        """An empty selector matches no pod that is placed (as in kube-scheduler)."""
        selector = self.constraint.selector
        return selector is not None and not selector.match_labels and not selector.match_expressions

    @cached_property
    def counting(self) -> Bools | None:
        """[n] the rows whose pods count; None for all that have a domain."""
        if self.counted is None:
            return None
        mask = np.zeros(len(self.domain), dtype=np.bool_)
        mask[self.counted] = True
        return mask

    def counts(self, pod: Pod, fleet: Fleet) -> Ints:
        """[domains] matching pods."""
        selector = self.constraint.selector
        if self.vain:
            return np.zeros(len(self.present), dtype=np.int64)
        if self.counted is None:
            return fleet.count_matching(pod, selector, self.level)
        by_row = fleet.count_matching(pod, selector, HOST_LEVEL)[self.counted]
        found = np.bincount(self.domain[self.counted], weights=by_row, minlength=len(self.present))
        counts: Ints = found.astype(np.int64)
        return counts


@dataclass(frozen=True)
class Spread:
    """One constraint as things stand: [domains] matching pods.

    `least` is the least count over the eligible domains, 0 while there are fewer than `min_domains`.
    """

    area: Area
    counts: Ints
    least: int

    @classmethod
    def of(cls, area: Area, pod: Pod, fleet: Fleet) -> "Spread":
        """Count anew."""
        return cls._of(area, area.counts(pod, fleet))

    @classmethod
    def _of(cls, area: Area, counts: Ints) -> "Spread":
        return cls(area, counts, int(counts[area.present].min()) if area.enough else 0)

    def after(self, rows: RowList) -> "Spread":
        """The same once pods of the class have come to `rows`."""
        area, came = self.area, self.tally.more
        if area.counting is not None and came:
            rows = rows[area.counting[rows]]
        domains = area.domain[rows]
        more = np.bincount(domains[domains >= 0], minlength=len(self.counts))
        return self._of(area, self.counts + came * more)

    @property
    def tally(self) -> Tally:
        """The counts, and what one more pod of the class adds."""
        area = self.area
        more = 0 if area.vain else area.own
        return Tally(area.domain, self.counts, more, by_host=area.level == HOST_LEVEL, counted=area.counting)

    def cap(self, code: int, elsewhere: int) -> Cap:
        """Refuses, with `code`, domains that are full; with `elsewhere` rows without a domain."""
        area = self.area
        most = area.constraint.max_skew - area.own
        return Cap(self.tally, most, code, elsewhere, present=area.present if area.enough else None)

    @property
    def most(self) -> int:
        """How many pods a domain may hold to take one more."""
        return self.area.constraint.max_skew + self.least - self.area.own

    def record(self, fleet: Fleet, row: int) -> dict[str, Any]:
        """For people: domain of the row, its skew, the least count and the counts of (the first) eligible domains."""
        at, eligible = int(self.area.domain[row]), np.flatnonzero(self.area.present)
        return {
            "domain": self._name(at, fleet) if at >= 0 else None,
            "max_skew": self.area.constraint.max_skew,
            "hard": self.area.constraint.hard,
            "min": self.least,
            "skew": int(self.counts[at]) - self.least if at >= 0 else None,
            "counts": {self._name(code, fleet): int(self.counts[code]) for code in eligible[:_SHOWN_DOMAINS].tolist()},
            "domains": len(eligible),
        }

    def _name(self, code: int, fleet: Fleet) -> str:
        # Not domain_values for hosts: it would name every node of the fleet for the sake of a few.
        if self.area.level == HOST_LEVEL:
            return "/".join(fleet.name_of(code))
        return fleet.domain_values(self.area.level)[code]


def area_of(one: SpreadConstraint, pod: Pod, fleet: Fleet, eligible: Bools) -> Area:
    """A constraint of `pod` on the nodes; `eligible`: [n] the live rows whose pods and domains have a part in it."""
    level = topology_key(one.key, pod)
    domain = fleet.domain(level)
    known = domain >= 0
    eligible = eligible & known
    counted = None if (eligible == (fleet.live & known)).all() else np.flatnonzero(eligible)
    if level == HOST_LEVEL:  # every row is a domain of its own
        present = eligible
    else:
        present = np.zeros(len(fleet.domain_values(level)), dtype=np.bool_)
        present[domain[eligible]] = True
    return Area(one, level, domain, present, counted, int(counts_itself(one, pod)))


def counts_itself(one: SpreadConstraint, pod: Pod) -> bool:
    """Whether a pod is among those that its constraint counts."""
    return one.selector is None or one.selector.matches(pod.labels)


def spread_key(one: SpreadConstraint, pod: Pod) -> Hashable:
    """Everything of a constraint and of its pod that `area_of` and `Spread.of` look at, but the namespace."""
    counted, policies = selector_key(pod, one.selector), (one.honor_affinity, one.honor_taints)
    own = counts_itself(one, pod)
    return topology_key(one.key, pod), one.max_skew, one.hard, one.min_domains, counted, own, policies
