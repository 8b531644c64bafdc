"""How many pods match a selector in each fault domain: counted once, then kept up to date pod by pod."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dispatcher.model.labels import LabelSelector
from dispatcher.model.pod import Pod
from dispatcher.scheduling.columns import grown, read_only
from dispatcher.scheduling.framework import Ints

Match = Callable[[Pod], bool]
DomainOf = Callable[[str, int], int]  # (level, row) -> domain code, -1 unknown
Build = Callable[[str, str], Iterable[tuple[Pod, int]]]  # (namespace, level) -> pods placed, with their domain


def selector_key(pod: Pod, selector: LabelSelector | None) -> Hashable:
    """A hashable name for what `selector` matches; None stands for the pods of the same app as `pod`."""
    if selector is None:
        return ("app", frozenset(pod.app_labels.items()))
    return ("selector", frozenset(selector.match_labels.items()), selector.match_expressions)


def _match(pod: Pod, selector: LabelSelector | None) -> Match:
    if selector is not None:
        return lambda other: selector.matches(other.labels)
    app = pod.app_labels
    return lambda other: other.app_labels == app


@dataclass(eq=False)
class MatchCount:
    """[domains of `key`] pods of `namespace` that match; `version` moves with every change."""

    namespace: str
    key: str
    matches: Match
    counts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    version: int = 0

    def add(self, domain: int, amount: int) -> None:
        """Count `amount` more pods in a domain; -1 (unknown domain) counts nowhere."""
        if domain < 0:
            return
        self.counts = grown(self.counts, domain + 1, 0)
        self.counts[domain] += amount
        self.version += 1

    def window(self, domains: int) -> Ints:
        """The counts of the first `domains` domains, read-only."""
        self.counts = grown(self.counts, domains, 0)
        window: Ints = read_only(self.counts[:domains])
        return window


@dataclass
class Observed:
    """What somebody looked at besides the rows: the clock, counts of matching pods, kinds of objects."""

    now: bool = False
    counts: dict[int, MatchCount] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)


class MatchCounts:
    """Every count somebody asked for, by (namespace, selector, topology key). Terminating pods are not counted.

    At most `limit` counts are kept; the one unused for longest is dropped and counted afresh if asked for again.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._counts: dict[Hashable, MatchCount] = {}
        self._by_namespace: dict[str, list[MatchCount]] = {}

    def find(self, pod: Pod, selector: LabelSelector | None, key: str, build: Build) -> MatchCount:
        """The count for the pods of `pod`'s namespace; `build` lists what is placed."""
        name = (pod.namespace, selector_key(pod, selector), key)
        count = self._counts.pop(name, None)
        if count is None:
            count = self._build(pod, selector, key, build)
        self._counts[name] = count  # dicts keep order: the first is the one unused for longest
        return count

    def _build(self, pod: Pod, selector: LabelSelector | None, key: str, build: Build) -> MatchCount:
        if len(self._counts) >= self._limit:
            oldest = self._counts.pop(next(iter(self._counts)))
            oldest.version += 1  # whoever still looks at it learns that it is stale
            self._by_namespace[oldest.namespace].remove(oldest)
        count = MatchCount(pod.namespace, key, _match(pod, selector))
        self._by_namespace.setdefault(pod.namespace, []).append(count)
        for other, domain in build(pod.namespace, key):
            if not other.terminating and count.matches(other):
                count.add(domain, 1)
        return count

    def shift(self, pod: Pod, row: int, domain_of: DomainOf, amount: int) -> None:
        """A pod came to (`amount` 1) or left (-1) a row."""
        counts = self._by_namespace.get(pod.namespace)
        if not counts or pod.terminating:
            return
        for count in counts:
            if count.matches(pod):
                count.add(domain_of(count.key, row), amount)

    def dump(self) -> Mapping[Hashable, Sequence[int]]:
        """Every count as plain numbers, zeros at the end left out."""
        return {name: np.trim_zeros(count.counts, "b").tolist() for name, count in self._counts.items()}
