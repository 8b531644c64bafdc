"""How many pods of a set are in each fault domain: counted once, then kept up to date pod by pod."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, grown, read_only
from dispatcher.scheduling.framework import Ints, PodInfo, SmallInts
from dispatcher.scheduling.framework.pod_sets import LabelsOf, PodSet, PodSetIndex, any_label
from shared.messages.pod_cache import POD_CACHE_BYTES, said

DomainOf = Callable[[str, int], int]  # (level, row) -> domain code, -1 unknown
DomainsOf = Callable[[str, RowList], SmallInts]  # the same of many rows
Build = Callable[
    [PodSet, str], Iterable[tuple[PodInfo, int]]
]  # (set, level) -> placed that may be in it, domain
# To list a pod while counting afresh costs a 32nd of looking at a pod that comes or goes.
_LEAST_WORTH = 16
_LISTED_PER_LOOK = 32
# bytes of a count that is large: one by host in a large fleet; and of all of these, but for a few
_LARGE = 2**16
_MOST_BYTES = 2**27
_LEAST_LARGE = 16


@dataclass(eq=False)
class DomainCount:
    """[domains of `key`] whole numbers; `version` moves with every change. One that is `dropped` is
    kept up to date no longer.
    """

    key: str
    counts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    version: int = 0
    dropped: bool = False
    _window: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64), init=False)

    def add(self, domain: int, amount: int) -> None:
        """Add `amount` in a domain; -1 (unknown domain) counts nowhere."""
        if domain < 0:
            return
        if domain >= len(self.counts):
            self.counts = grown(self.counts, domain + 1, 0)
        self.counts[domain] += amount
        self.version += 1

    def add_all(self, domains: SmallInts, amount: int) -> None:
        """Add `amount` in each of `domains`, as often as it is among them."""
        known = domains[domains >= 0]
        if len(known):
            self.counts = grown(self.counts, int(np.maximum.reduce(known)) + 1, 0)
            np.add.at(
                self.counts, known, amount
            )  # not by a count of each domain: there may be many more hosts
            self.version += 1

    def has(self, pod_info: PodInfo, labels_of: LabelsOf) -> bool:
        """Whether a placed pod counts."""
        return False

    def window(self, domains: int) -> Ints:
        """The counts of the first `domains` domains, read-only: the very same array as long as it
        shows them.
        """
        if len(self._window) != domains or self._window.base is not self.counts:
            self.counts = grown(self.counts, domains, 0)
            self._window = read_only(self.counts[:domains])
        return self._window


@dataclass(eq=False)
class MatchCount(DomainCount):
    """Members of `pods` in each domain. `namespaces_at`: the version of the namespaces' labels it
    was counted with.

    `unasked`: how many pods have been looked at for it since it was last asked for; `worth`: for
    how many that is worth it, None where only pods with a label of the set are looked at.
    """

    pods: PodSet = field(kw_only=True)
    namespaces_at: int = field(kw_only=True)
    said: int = 0  # bytes of the set's name
    unasked: int = 0
    worth: int | None = None

    def has(self, pod_info: PodInfo, labels_of: LabelsOf) -> bool:
        """Whether a placed pod counts."""
        pod = pod_info.pod
        return (self.pods.terminating or not pod.terminating) and self.pods.matches(
            pod, pod_info.home, labels_of
        )


class MatchCounts:
    """Every count somebody asked for, by (set of pods, topology key).

    At most `limit` counts are kept, of sets that are told in 16 MiB, and of large ones as many as
    fit into 128 MiB; the one unused
    for longest is dropped and counted afresh if asked for again. So is a count for which labels of
    namespaces have a say, once any of these has changed; and one for which every pod has to be
    looked at, once that has cost more than to count afresh.

    Example: a pod prefers to be near pods that NotIn means, by 4,000 terms. Its counts would be
    looked at with every pod of anybody that comes or goes, 12 ms each time. In a fleet of 3,200
    pods they are dropped after 116 of these.
    """

    def __init__(self, labels_of: LabelsOf, limit: int = 4096) -> None:
        self._labels_of = labels_of
        self._limit = limit
        self._counts: dict[Hashable, MatchCount] = {}
        self._said = 0  # bytes of the names of these sets
        self._large: dict[Hashable, MatchCount] = {}
        self._index: PodSetIndex[MatchCount] = PodSetIndex()

    def __len__(self) -> int:
        return len(self._counts)

    def find(self, pods: PodSet, key: str, build: Build, namespaces_at: int) -> MatchCount:
        """The count of a set; `build` lists what is placed, `namespaces_at` is the version of
        namespaces' labels.
        """
        name = (pods.name, key)
        count = self._counts.pop(name, None)
        if (
            count is not None
            and count.pods.asks_namespaces
            and count.namespaces_at != namespaces_at
        ):
            self._drop(count)
            count = None
        if count is None:
            count = self._build(pods, key, build, namespaces_at)
        count.unasked = 0
        self._counts[name] = count  # dicts keep order: the first is the one unused for longest
        if count.counts.nbytes >= _LARGE:
            self._large.pop(name, None)
            self._large[name] = count
            most = max(_LEAST_LARGE, _MOST_BYTES // count.counts.nbytes)
            while len(self._large) > most:
                self._drop(self._counts.pop(next(iter(self._large))))
        return count

    def _build(self, pods: PodSet, key: str, build: Build, namespaces_at: int) -> MatchCount:
        count = MatchCount(key, pods=pods, namespaces_at=namespaces_at, said=said(pods.name))
        self._said += count.said
        while self._counts and (len(self._counts) >= self._limit or self._said > POD_CACHE_BYTES):
            self._drop(self._counts.pop(next(iter(self._counts))))
        self._index.put(count, pods)
        # Pods of a template share their labels (`SharedDicts`), and nothing else tells whether one
        # is a member.
        known = dict[tuple[str, str, int, bool, bool], bool]()
        members = list[int]()
        listed = 0
        for pod_info, domain in build(pods, key):
            pod = pod_info.pod
            listed = listed + 1
            like = (pod_info.home, pod.namespace, id(pod.labels), pod.terminating, pod.labels_cut)
            if (has := known.get(like)) is None:
                has = known[like] = count.has(pod_info, self._labels_of)
            if has:
                members.append(domain)
        count.add_all(np.asarray(members, dtype=np.int32), 1)
        if any_label(pods):
            count.worth = _LEAST_WORTH + listed // _LISTED_PER_LOOK
        return count

    def _drop(self, count: MatchCount) -> None:
        count.dropped = True  # whoever still looks at it learns that it is stale
        self._said -= count.said
        self._large.pop((count.pods.name, count.key), None)
        self._index.drop(count, count.pods)

    def shift(self, pod_info: PodInfo, row: int, domain_of: DomainOf, amount: int) -> None:
        """A pod came to (`amount` 1) or left (-1) a row."""
        known = dict[
            Hashable, bool
        ]()  # by set of pods: each is asked once, however many keys it is counted by
        for count in self._worth_it(pod_info):
            name = count.pods.name
            if (has := known.get(name)) is None:
                has = known[name] = count.has(pod_info, self._labels_of)
            if has:
                count.add(domain_of(count.key, row), amount)

    def shift_all(self, like: PodInfo, rows: RowList, domains_of: DomainsOf, amount: int) -> None:
        """The same of many pods that are `like` this one to every set of pods, one on each of
        `rows`.
        """
        for count in self._worth_it(like):
            if count.has(like, self._labels_of):
                count.add_all(domains_of(count.key, rows), amount)

    def _worth_it(self, pod_info: PodInfo) -> list[MatchCount]:
        """The counts that a pod may be part of, without those that are dropped now."""
        kept = list[MatchCount]()
        for count in self._index.near(pod_info.pod, pod_info.home, self._labels_of):
            if count.worth is not None:
                count.unasked += 1
                if count.unasked > count.worth:
                    del self._counts[count.pods.name, count.key]
                    self._drop(count)
                    continue
            kept.append(count)
        return kept

    def dump(self) -> Mapping[Hashable, Sequence[int]]:
        """Every count as plain numbers, zeros at the end left out."""
        return {
            name: np.trim_zeros(count.counts, "b").tolist() for name, count in self._counts.items()
        }
