"""The affinity terms of placed pods: each distinct one once, with what its holders add up to in
each fault domain.

A pod to be placed is matched against distinct terms, never against pods. A term that nobody holds
any more is kept for a while: pods come and go in templates, and its number stays the same. A term
whose topology key no node has counts nowhere: it is no answer, so tenants gain nothing by making up
keys.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from itertools import count

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.counts import DomainCount, DomainOf, DomainsOf
from dispatcher.scheduling.fleet.crowded_terms import LiveSums, SummedTerm, TermCrowd
from dispatcher.scheduling.fleet.held_term import HeldTerm
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import (
    LabelsOf,
    Owner,
    Place,
    PodSetIndex,
    StandingTerm,
    TermKind,
)
from dispatcher.scheduling.rules.affinity import AffinityBook, AffinityRule
from shared.messages.pod_cache import POD_CACHE_BYTES, said


class TermCounts:
    """All terms of placed pods. At most `idle_limit` terms without a holder are kept, told in 16 MiB,
    and `limit` spread out.

    Where more than `crowded` have to be tried for a pod, what they come to is remembered (see
    `TermCrowd`). `has_domains`: whether any node has a topology key.
    """

    def __init__(
        self,
        labels_of: LabelsOf,
        idle_limit: int = 1024,
        limit: int = 1024,
        crowded: int = 256,
        has_domains: Callable[[str], bool] = lambda key: True,
    ) -> None:
        self._labels_of = labels_of
        self._idle_limit = idle_limit
        self._limit = limit
        self._crowded = crowded
        self._has_domains = has_domains
        # distinct terms about pods of other namespaces that somebody holds
        self._owned: Counter[Owner] = Counter()
        self._crowds: dict[Place, TermCrowd] = {}
        self._sums = LiveSums()
        self._numbers = count()
        self._spread_out: dict[int, HeldTerm] = {}  # by number, the one unused for longest first
        self._book = AffinityBook()
        self._held: dict[Hashable, HeldTerm] = {}
        self._by_number: dict[int, HeldTerm] = {}
        self._index: PodSetIndex[HeldTerm] = PodSetIndex()
        self._idle: dict[Hashable, HeldTerm] = {}
        self._idle_said = 0  # bytes of the names of these
        self._changed = 0  # `_changed` moves when a term comes or goes
        self._asked: tuple[Mapping[str, str], object, tuple[StandingTerm, ...]] = ({}, None, ())

    def shift(self, pod_info: PodInfo, row: int, domain_of: DomainOf, amount: int) -> None:
        """A pod came to (`amount` 1) or left (-1) a row."""
        rules = self._book.rules_of(pod_info)
        for kind, rule in rules.counted() if rules else ():
            held = self._term(kind, rule)
            domain = domain_of(rule.key, row)
            held.add(domain, amount * rule.weight)
            self._sums.add(held, {domain: 1}, amount * rule.weight)
            self._hold(held, amount)

    def shift_all(self, like: PodInfo, rows: RowList, domains_of: DomainsOf, amount: int) -> None:
        """The same of many pods with the terms of this one, one on each of `rows`."""
        rules = self._book.rules_of(like)
        for kind, rule in rules.counted() if rules else ():
            held = self._term(kind, rule)
            domains = domains_of(rule.key, rows)
            held.add_all(domains, amount * rule.weight)
            if self._sums:
                self._sums.add(held, Counter(domains.tolist()), amount * rule.weight)
            self._hold(held, amount * len(rows))

    def _hold(self, held: HeldTerm, pods: int) -> None:
        was_held = bool(held.holders)
        held.holders += pods
        if held.pods.owner is not None:
            self._owned[held.pods.owner] += bool(held.holders) - was_held
        if not held.holders:
            self._rest(held)
        elif self._idle.pop(held.name, None):
            self._idle_said -= held.said

    def _term(self, kind: TermKind, rule: AffinityRule) -> HeldTerm:
        name = (kind, rule.key, rule.pods.name)
        found = self._held.get(name)
        if found is None:
            term = StandingTerm(next(self._numbers), kind, rule.key)
            found = self._held[name] = HeldTerm(
                rule.key, name=name, term=term, pods=rule.pods, said=said(rule.pods.name)
            )
            self._by_number[term.number] = found
        if not found.stands and self._has_domains(rule.key):
            self._let_stand(found)
        return found

    def _let_stand(self, held: HeldTerm) -> None:
        held.stands = True
        self._changed += 1
        self._index.put(held, held.pods)
        for place in self._index.places(held):
            if place in self._crowds:
                self._crowds[place].put(held)
            elif len(terms := self._index.at(place)) > self._crowded:
                self._crowds[place] = TermCrowd(
                    terms, self._crowded, self._labels_of, self._numbers, self._sums
                )

    def _rest(self, held: HeldTerm) -> None:
        if held.name not in self._idle:
            self._idle_said += held.said
        self._idle[held.name] = held
        while len(self._idle) > self._idle_limit or self._idle_said > POD_CACHE_BYTES:
            self._forget(next(iter(self._idle.values())))

    def _forget(self, idle: HeldTerm) -> None:
        del self._idle[idle.name]
        self._idle_said -= idle.said
        idle.version += 1  # whoever still looks at it learns that it is stale
        del self._held[idle.name], self._by_number[idle.term.number]
        self._spread_out.pop(idle.term.number, None)
        if idle.stands:
            self._let_go(idle)

    def kept(self) -> Callable[[], None]:
        """What forgets the terms that come from now on, as far as nobody holds them any more: those
        that rest for a while are told of in records.
        """
        next_number = next(self._numbers)

        def forget_newer() -> None:
            for held in list(self._idle.values()):
                if held.term.number > next_number:
                    self._forget(held)

        return forget_newer

    def _let_go(self, held: HeldTerm) -> None:
        self._changed += 1
        for place in self._index.places(held):
            if place in self._crowds:
                self._crowds[place].drop(held)
                if len(self._crowds[place]) <= self._crowded:
                    del self._crowds[place]
        self._index.drop(held, held.pods)

    def brought_by(self, pod_info: PodInfo) -> dict[int, int] | None:
        """Number of each term of a pod -> what it adds where it goes; None if one of them does not
        stand yet.
        """
        rules = self._book.rules_of(pod_info)
        brought = dict[int, int]()
        for kind, rule in rules.counted() if rules else ():
            held = self._held.get((kind, rule.key, rule.pods.name))
            if held is None or (not held.stands and self._has_domains(rule.key)):
                return None
            brought[held.term.number] = brought.get(held.term.number, 0) + rule.weight
        return brought

    def owned_with(self, pod_info: PodInfo) -> int:
        """How many distinct terms about pods of other namespaces the pods of its namespace,
        submitted in its cluster, would hold if it were placed; 0 if it has none itself that nobody
        holds yet.
        """
        rules = self._book.rules_of(pod_info)
        if rules is None or not rules.reaches_beyond:
            return 0
        fresh = sum(
            1
            for name in rules.names_about_others
            if (held := self._held.get(name)) is None or not held.holders
        )
        return fresh and fresh + self._owned[pod_info.home, pod_info.pod.namespace]

    def about(self, pod_info: PodInfo, namespaces_at: int = 0) -> tuple[StandingTerm, ...]:
        """The terms that match a pod, by number; `namespaces_at` is the version of namespaces'
        labels.
        """
        if not self._held:
            return ()
        pod = pod_info.pod
        asked = (pod.namespace, pod.labels_cut, pod_info.home, namespaces_at, self._changed)
        labels, before, answer = self._asked
        if before == asked and (
            labels is pod.labels or labels == pod.labels
        ):  # the next pod of a batch
            return answer
        answer = self._find(pod_info)
        self._asked = pod.labels, asked, answer
        return answer

    def _find(self, pod_info: PodInfo) -> tuple[StandingTerm, ...]:
        pod = pod_info.pod
        home = pod_info.home
        labels_of = self._labels_of
        found: list[StandingTerm] = []
        for place, terms in self._index.places_near(pod, home, labels_of):
            crowd = self._crowds.get(place)
            if crowd is not None:
                found.extend(crowd.about(pod_info))
            else:
                found.extend(
                    [held.term for held in terms if held.pods.matches(pod, home, labels_of)]
                )
        return tuple(sorted(found, key=lambda term: term.number))

    def count(self, term: StandingTerm) -> DomainCount:
        """The count of a term that `about` answered since the last change of any pod."""
        if isinstance(term, SummedTerm):
            return self._sums.use(term.total)
        held = self._by_number[term.number]
        self._spread_out.pop(term.number, None)
        if len(self._spread_out) >= self._limit:
            self._spread_out.pop(next(iter(self._spread_out))).fold()
        self._spread_out[term.number] = held
        return held
