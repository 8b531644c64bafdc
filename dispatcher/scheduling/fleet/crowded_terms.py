"""Many affinity terms of placed pods that have to be tried for the same pods: what they come to is
remembered.

Any tenant can write terms that mean nearly everybody. For pods that are the same in all that these
terms look at, they are tried once, and from then on only those that come; and where many of one
kind and topology key mean a pod, they are counted as one: whoever reads them adds them up anyway.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeVar

import numpy as np

from dispatcher.scheduling.fleet.counts import DomainCount
from dispatcher.scheduling.fleet.held_term import HeldTerm
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import Label, LabelsOf, StandingTerm, TermKind
from shared.messages.pod_cache import PodCache
from shared.model.pod import Pod

T = TypeVar("T")
_MOST_KEPT = 1_000_000  # terms, added up over all kinds of pods that are remembered
_FEWEST_KINDS = 8  # are remembered even so
_MOST_SUMS = 64
_NOT_NAMED = "\0 a namespace, a cluster, or a value of a label, that no term names"


@dataclass(eq=False)
class TermSum(DomainCount):
    """What many terms of one kind and topology key add up to; `terms` by number."""

    terms: dict[int, HeldTerm] = field(kw_only=True)

    def recount(self) -> None:
        """Add up anew: nobody has kept it up to date."""
        total = Counter[int]()
        for held in self.terms.values():
            for domain, amount in held.by_domain.items():
                total[domain] += amount
        self.counts = np.zeros(max(total, default=-1) + 1, dtype=np.int64)
        for domain, amount in total.items():
            self.counts[domain] = amount
        self.version += 1


@dataclass(frozen=True, slots=True)
class SummedTerm(StandingTerm):
    """Many terms that mean a pod, counted as one. The number is another one as soon as one of them
    is.
    """

    total: TermSum = field(compare=False, repr=False)

    def brought(self, brings: Mapping[int, int]) -> int:
        """What a pod adds to all of them."""
        return sum(amount for number, amount in brings.items() if number in self.total.terms)


class LiveSums:
    """The sums that were used last, kept up to date; who looked at another one knows that it is
    stale.
    """

    def __init__(self, limit: int = _MOST_SUMS) -> None:
        self._limit = limit
        self._sums: dict[int, TermSum] = {}  # by id, the one unused for longest first

    def __bool__(self) -> bool:
        return bool(self._sums)

    def use(self, total: TermSum) -> TermSum:
        """The sum as it is now."""
        if self._sums.pop(id(total), None) is None:
            total.recount()
            if len(self._sums) >= self._limit:
                self._sums.pop(next(iter(self._sums))).version += 1
        self._sums[id(total)] = total
        return total

    def add(self, held: HeldTerm, domains: Mapping[int, int], amount: int) -> None:
        """A term's holders came or went: so many in each domain."""
        number = held.term.number
        for total in self._sums.values():
            if number in total.terms:
                for domain, times in domains.items():
                    total.add(domain, times * amount)

    def enter(self, total: TermSum, held: HeldTerm) -> None:
        """One more term counts, with those that hold it already."""
        total.terms[held.term.number] = held
        if id(total) in self._sums:
            for domain, amount in held.by_domain.items():
                total.add(domain, amount)

    def forget(self, total: TermSum) -> None:
        """Its terms are others now."""
        if self._sums.pop(id(total), None) is not None:
            total.version += 1


@dataclass(eq=False)
class _Verdict:
    """The terms that mean one kind of pods, by kind and topology key; `answer` as long as none
    comes or goes.

    `tried`: how many terms had come when it was last asked for.
    """

    pod: Pod
    home: str
    namespace_labels: dict[str, str]
    tried: int = 0
    sums: dict[tuple[TermKind, str], TermSum] = field(default_factory=dict)
    answer: tuple[StandingTerm, ...] | None = None

    def labels_of(self, cluster: str, namespace: str) -> Mapping[str, str]:
        return self.namespace_labels


class TermCrowd:
    """The `terms` at one place of an index: for one kind of pods, more than `many` of a kind and
    key become one.

    A kind of pods is what the terms look at: labels under keys that they mention, likewise those of
    the namespace, and the namespace and the cluster of submission if they are named. Of labels
    whose value no term names it is only that there is one. A term that comes is tried, once the
    kind is asked for again, for a pod that has this and nothing else: pods that have more of what
    it looks at are of another kind from then on.

    Example: 300 terms "not on a host with pods that have no label `tier`", none of which looks at
    anything else. Pods labelled app=a and app=b are of one kind: the 300 are tried for the first
    alone, and for both one sum counts them all. Pods with tier=db are of another. Comes a term on
    app=a, then app=a and app=b are two kinds from there on.
    """

    def __init__(
        self,
        terms: Iterable[HeldTerm],
        many: int,
        labels_of: LabelsOf,
        numbers: Iterator[int],
        sums: LiveSums,
    ) -> None:
        self._many = many
        self._labels_of = labels_of
        self._numbers = numbers
        self._sums = sums
        self._labels = Counter[str | Label]()
        self._namespace_labels = Counter[str | Label]()
        self._namespaces = Counter[str]()
        self._homes = Counter[str]()
        self._terms: dict[HeldTerm, int] = {}  # the how many-th that came, in this order
        self._came = 0
        self._verdicts: PodCache[Hashable, _Verdict] = PodCache()
        for held in terms:
            self.put(held)

    def __len__(self) -> int:
        return len(self._terms)

    def put(self, held: HeldTerm) -> None:
        """A term came."""
        self._came += 1
        self._terms[held] = self._came
        looks = held.pods.looks()
        self._labels.update(looks.labels)
        self._namespaces.update(looks.namespaces)
        self._namespace_labels.update(looks.namespace_labels)
        self._homes.update(looks.homes)

    def drop(self, held: HeldTerm) -> None:
        """A term went."""
        del self._terms[held]
        looks = held.pods.looks()
        _uncount(self._labels, looks.labels)
        _uncount(self._namespaces, looks.namespaces)
        _uncount(self._namespace_labels, looks.namespace_labels)
        _uncount(self._homes, looks.homes)
        name = held.term.kind, held.term.key
        for verdict in self._verdicts.values():
            total = verdict.sums.get(name)
            if total is not None and total.terms.pop(held.term.number, None) is not None:
                self._sums.forget(total)
                verdict.answer = None

    def about(self, pod_info: PodInfo) -> tuple[StandingTerm, ...]:
        """The terms that mean a pod."""
        verdict = self._verdict(pod_info)
        if verdict.answer is None:
            verdict.answer = tuple(self._answer(verdict))
        return verdict.answer

    def _answer(self, verdict: _Verdict) -> Iterator[StandingTerm]:
        for (kind, key), total in verdict.sums.items():
            if len(total.terms) > self._many:
                yield SummedTerm(next(self._numbers), kind, key, total)
            else:
                yield from (held.term for held in total.terms.values())

    def _verdict(self, pod_info: PodInfo) -> _Verdict:
        pod = pod_info.pod
        labels = _looked_at(pod.labels, self._labels)
        namespace = pod.namespace if pod.namespace in self._namespaces else _NOT_NAMED
        home = pod_info.home if pod_info.home in self._homes else _NOT_NAMED
        about = _looked_at(self._labels_of(pod_info.home, pod.namespace), self._namespace_labels)
        name = (
            frozenset(labels.items()),
            namespace,
            home,
            frozenset(about.items()),
            pod.labels_cut,
        )
        verdict = self._verdicts.get(name)
        if verdict is None:
            like = Pod("", namespace, "", labels=labels, labels_cut=pod.labels_cut)
            verdict = _Verdict(like, home, about)
            self._verdicts.most = max(_FEWEST_KINDS, _MOST_KEPT // len(self._terms))
            self._verdicts.put(name, verdict)
        self._catch_up(verdict)
        return verdict

    def _catch_up(self, verdict: _Verdict) -> None:
        """Try the terms that came since the last time."""
        came = takewhile(lambda one: one[1] > verdict.tried, reversed(self._terms.items()))
        for held, _ in reversed(list(came)):
            self._try(held, verdict)
        verdict.tried = self._came

    def _try(self, held: HeldTerm, verdict: _Verdict) -> None:
        if not held.pods.matches(verdict.pod, verdict.home, verdict.labels_of):
            return
        name = held.term.kind, held.term.key
        total = verdict.sums.get(name)
        if total is None:
            total = verdict.sums[name] = TermSum(held.term.key, terms={})
        self._sums.enter(total, held)
        verdict.answer = None


def _looked_at(labels: Mapping[str, str], looks: Counter[str | Label]) -> dict[str, str]:
    return {
        key: value if (key, value) in looks else _NOT_NAMED
        for key, value in labels.items()
        if key in looks
    }


def _uncount(counted: Counter[T], gone: Iterable[T]) -> None:
    for one in gone:
        counted[one] -= 1
        if not counted[one]:
            del counted[one]
