"""An affinity term that placed pods have, with what its holders add up to in each fault domain."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from dispatcher.scheduling.fleet.counts import DomainCount
from dispatcher.scheduling.framework import Ints, SmallInts
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm


@dataclass(eq=False)
class HeldTerm(DomainCount):
    """A term; the counts are of its holders, or for a preferred term of their weights.

    `stands`: whether its topology key has been seen on any node since it came; until then it is
    about nobody. `by_domain` holds what is not zero. `counts` is spread out of it when somebody
    asks: of many terms with a host as their domain, few are asked for, and each has few holders.
    """

    name: Hashable = field(kw_only=True)
    term: StandingTerm = field(kw_only=True)
    pods: PodSet = field(kw_only=True)
    said: int = 0  # bytes of the name of `pods`
    holders: int = 0
    stands: bool = False
    by_domain: dict[int, int] = field(default_factory=dict)
    spread_out: bool = False

    def add(self, domain: int, amount: int) -> None:
        """Add `amount` in a domain; -1 (unknown domain) counts nowhere."""
        if domain < 0:
            return
        total = self.by_domain.get(domain, 0) + amount
        if total:
            self.by_domain[domain] = total
        else:
            self.by_domain.pop(domain, None)
        if self.spread_out:
            super().add(domain, amount)
        else:
            self.version += 1

    def add_all(self, domains: SmallInts, amount: int) -> None:
        """Add `amount` in each of `domains`, as often as it is among them."""
        for domain, times in Counter(domains.tolist()).items():
            self.add(domain, times * amount)

    def window(self, domains: int) -> Ints:
        """The counts of the first `domains` domains, read-only."""
        if not self.spread_out:
            self.spread_out = True
            self.counts = np.zeros(max(domains, *self.by_domain, 0) + 1, dtype=np.int64)
            for domain, amount in self.by_domain.items():
                self.counts[domain] = amount
        return super().window(domains)

    def fold(self) -> None:
        """Forget `counts` until somebody asks again."""
        self.spread_out, self.counts = False, np.zeros(0, dtype=np.int64)
