"""The affinity terms of placed pods: each distinct one once, with what its holders add up to in each fault domain.

A pod to be placed is matched against distinct terms, never against pods. A term that nobody holds any more is kept for
a while: pods come and go in templates, and its number stays the same.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.counts import DomainCount, DomainOf, DomainsOf
from dispatcher.scheduling.framework import Ints, Placed, SmallInts
from dispatcher.scheduling.framework.pod_sets import LabelsOf, PodSet, PodSetIndex, StandingTerm, TermKind
from dispatcher.scheduling.rules.affinity import AffinityBook, AffinityRule


@dataclass(eq=False)
class _Held(DomainCount):
    """A term; the counts are of its holders, or for a preferred term of their weights.

    `by_domain` holds what is not zero. `counts` is spread out of it when somebody asks: of many terms with a host as
    their domain, few are asked for, and each has few holders.
    """

    name: Hashable = field(kw_only=True)
    term: StandingTerm = field(kw_only=True)
    pods: PodSet = field(kw_only=True)
    holders: int = 0
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


class TermCounts:
    """All terms of placed pods. At most `idle_limit` terms without a holder are kept, and `limit` spread out."""

    def __init__(self, labels_of: LabelsOf, idle_limit: int = 1024, limit: int = 1024) -> None:
        self._labels_of, self._idle_limit, self._limit = labels_of, idle_limit, limit
        self._spread_out: dict[int, _Held] = {}  # by number, the one unused for longest first
        self._book = AffinityBook()
        self._held: dict[Hashable, _Held] = {}
        self._by_number: dict[int, _Held] = {}
        self._index: PodSetIndex[_Held] = PodSetIndex()
        self._idle: dict[Hashable, _Held] = {}
        self._next = self._changed = 0  # `_changed` moves when a term comes or goes
        self._asked: tuple[Mapping[str, str], object, tuple[StandingTerm, ...]] = ({}, None, ())

    def shift(self, placed: Placed, row: int, domain_of: DomainOf, amount: int) -> None:
        """A pod came to (`amount` 1) or left (-1) a row."""
        rules = self._book.rules_of(placed.pod)
        for kind, rule in rules.counted() if rules else ():
            held = self._term(kind, rule)
            held.add(domain_of(rule.key, row), amount * rule.weight)
            self._hold(held, amount)

    def shift_all(self, like: Placed, rows: RowList, domains_of: DomainsOf, amount: int) -> None:
        """The same of many pods with the terms of this one, one on each of `rows`."""
        rules = self._book.rules_of(like.pod)
        for kind, rule in rules.counted() if rules else ():
            held = self._term(kind, rule)
            held.add_all(domains_of(rule.key, rows), amount * rule.weight)
            self._hold(held, amount * len(rows))

    def _hold(self, held: _Held, pods: int) -> None:
        held.holders += pods
        if held.holders:
            self._idle.pop(held.name, None)
        else:
            self._rest(held)

    def _term(self, kind: TermKind, rule: AffinityRule) -> _Held:
        name = (kind, rule.key, rule.pods.name)
        found = self._held.get(name)
        if found is None:
            term = StandingTerm(self._next, kind, rule.key)
            self._next += 1
            self._changed += 1
            found = self._held[name] = _Held(rule.key, name=name, term=term, pods=rule.pods)
            self._by_number[term.number] = found
            self._index.put(found, found.pods)
        return found

    def _rest(self, held: _Held) -> None:
        self._idle[held.name] = held
        if len(self._idle) > self._idle_limit:
            oldest = self._idle.pop(next(iter(self._idle)))
            oldest.version += 1  # whoever still looks at it learns that it is stale
            self._changed += 1
            del self._held[oldest.name], self._by_number[oldest.term.number]
            self._spread_out.pop(oldest.term.number, None)
            self._index.drop(oldest, oldest.pods)

    def brought_by(self, placed: Placed) -> dict[int, int] | None:
        """Number of each term of a pod -> what it adds where it goes; None if one of them is not known yet."""
        rules, brought = self._book.rules_of(placed.pod), dict[int, int]()
        for kind, rule in rules.counted() if rules else ():
            held = self._held.get((kind, rule.key, rule.pods.name))
            if held is None:
                return None
            brought[held.term.number] = brought.get(held.term.number, 0) + rule.weight
        return brought

    def about(self, placed: Placed, namespaces_at: int = 0) -> tuple[StandingTerm, ...]:
        """The terms that match a pod, by number; `namespaces_at` is the version of namespaces' labels."""
        if not self._held:
            return ()
        pod, asked = placed.pod, (placed.pod.namespace, placed.home, namespaces_at, self._changed)
        labels, before, answer = self._asked
        if before == asked and (labels is pod.labels or labels == pod.labels):  # the next pod of a batch
            return answer
        answer = self._find(placed)
        self._asked = pod.labels, asked, answer
        return answer

    def _find(self, placed: Placed) -> tuple[StandingTerm, ...]:
        pod, home, labels_of = placed.pod, placed.home, self._labels_of
        found = [held.term for held in self._index.near(pod) if held.pods.matches(pod, home, labels_of)]
        return tuple(sorted(found, key=lambda term: term.number))

    def count(self, term: StandingTerm) -> DomainCount:
        """The count of a term that `about` answered since the last change of any pod."""
        held = self._by_number[term.number]
        self._spread_out.pop(term.number, None)
        if len(self._spread_out) >= self._limit:
            self._spread_out.pop(next(iter(self._spread_out))).fold()
        self._spread_out[term.number] = held
        return held
