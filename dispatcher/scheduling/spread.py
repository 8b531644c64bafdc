"""How the pods of an app lie over fault domains: counts per domain, which domains are eligible, and the skew.

All counts are of matching pods of the namespace in the whole fleet, running and assumed, each once. Unit: pods.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dispatcher.model.pod import Pod, SpreadConstraint
from dispatcher.model.topology import HOST_LEVEL
from dispatcher.scheduling.eligibility import topology_key
from dispatcher.scheduling.framework import Bools, Fleet, Ints, SmallInts
from dispatcher.scheduling.pod_sets import selector_key

_SHOWN_DOMAINS = 16


@dataclass(frozen=True)
class Spread:
    """One constraint as things stand: [n] domain of each row, [domains] matching pods and which are eligible.

    `least` is the least count over the eligible domains, 0 while there are fewer than `min_domains`. `own` is 1 if the
    pod matches its own selector, so that it adds to what is counted.
    """

    constraint: SpreadConstraint
    level: str
    domain: SmallInts
    counts: Ints
    present: Bools
    least: int
    own: int

    @property
    def most(self) -> int:
        """How many pods a domain may hold to take one more."""
        return self.constraint.max_skew + self.least - self.own

    def record(self, fleet: Fleet, row: int) -> dict[str, Any]:
        """For people: domain of the row, its skew, the least count and the counts of (the first) eligible domains."""
        at, eligible = int(self.domain[row]), np.flatnonzero(self.present)
        return {
            "domain": self._name(at, fleet) if at >= 0 else None,
            "max_skew": self.constraint.max_skew,
            "hard": self.constraint.hard,
            "min": self.least,
            "skew": int(self.counts[at]) - self.least if at >= 0 else None,
            "counts": {self._name(code, fleet): int(self.counts[code]) for code in eligible[:_SHOWN_DOMAINS].tolist()},
            "domains": len(eligible),
        }

    def _name(self, code: int, fleet: Fleet) -> str:
        # Not domain_values for hosts: it would name every node of the fleet for the sake of a few.
        if self.level == HOST_LEVEL:
            return "/".join(fleet.name_of(code))
        return fleet.domain_values(self.level)[code]


def spread_of(one: SpreadConstraint, pod: Pod, fleet: Fleet, eligible: Bools) -> Spread:
    """A constraint of `pod` as things stand; `eligible`: [n] the rows whose domains have a part in the least count."""
    key = topology_key(one.key, pod)
    domain, counts = fleet.domain(key), fleet.count_matching(pod, one.selector, key)
    if key == HOST_LEVEL:  # every row is a domain of its own
        present = eligible
    else:
        present = np.zeros(len(counts) + 1, dtype=np.bool_)  # the last entry takes what has no domain
        present[domain[eligible]] = True
        present = present[:-1]
    found = counts[present]
    least = int(found.min()) if len(found) >= max(one.min_domains, 1) else 0
    return Spread(one, key, domain, counts, present, least, int(counts_itself(one, pod)))


def counts_itself(one: SpreadConstraint, pod: Pod) -> bool:
    """Whether a pod is among those that its constraint counts."""
    return one.selector is None or one.selector.matches(pod.labels)


def spread_key(one: SpreadConstraint, pod: Pod) -> Hashable:
    """Everything of a constraint and of its pod that `spread_of` looks at, but the namespace."""
    counted = selector_key(pod, one.selector)
    return topology_key(one.key, pod), one.max_skew, one.hard, one.min_domains, counted, counts_itself(one, pod)
