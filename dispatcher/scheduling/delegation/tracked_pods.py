"""All pods of ours by id. Nearly all are bound in their own cluster and run: of these the source
alone is kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter

from dispatcher.scheduling.delegation.tracking import Tracked
from shared.model.pod import Pod, PodId

_NONE: Mapping[str, Pod] = {}
_AT_ONCE = 5_000  # in some milliseconds
# All that may be known of a pod beside its source. What was reported of it while it waited is void
# once it is bound; what it would have left behind, where it stays at home.
_OVER = ("nodes_help", "reported_at", "report", "nominated_node", "left_behind")
_more_of = attrgetter(
    *(name for name in Tracked.__struct_fields__ if name not in ("pod_id", "source", *_OVER))
)
_NO_MORE = _more_of(Tracked(("", "")))


class TrackedPods:
    """What is tracked of each pod of ours.

    Of a settled pod nothing is known but its source, which the view of its cluster holds, too. Who
    gets what is tracked of it (`get`, `[]`) may change that, and it is kept whole until the pod is
    settled again; who only reads takes a `peek`. `active`: all others, among them those that have
    to do with another cluster than their own, or are in flight.
    """

    def __init__(self) -> None:
        self.active: dict[PodId, Tracked] = {}
        self._settled: dict[str, dict[str, Pod]] = {}  # by cluster of submission and UID

    def __len__(self) -> int:
        return len(self.active) + sum(map(len, self._settled.values()))

    def __contains__(self, pod_id: PodId) -> bool:
        return pod_id in self.active or pod_id[1] in self._settled.get(pod_id[0], _NONE)

    def __iter__(self) -> Iterator[PodId]:
        """The ids of the pods as they are now, whatever becomes of them while the ids are asked
        for.
        """
        settled = [(home, list(pods)) for home, pods in self._settled.items()]
        return chain(list(self.active), ((home, uid) for home, uids in settled for uid in uids))

    def __getitem__(self, pod_id: PodId) -> Tracked:
        found = self.get(pod_id)
        if found is None:
            raise KeyError(pod_id)
        return found

    def __setitem__(self, pod_id: PodId, tracked: Tracked) -> None:
        self._settled.get(pod_id[0], {}).pop(pod_id[1], None)
        self.active[pod_id] = tracked

    def get(self, pod_id: PodId) -> Tracked | None:
        """What is tracked of a pod, to be changed; None if it is not ours."""
        known = self.active.get(pod_id)
        if known is not None:
            return known
        source = self._settled.get(pod_id[0], {}).pop(pod_id[1], None)
        if source is None:
            return None
        found = self.active[pod_id] = Tracked(pod_id, source)
        return found

    def get_all(self, pod_ids: Iterable[PodId]) -> list[Tracked]:
        """The same of those that are ours, in order."""
        active = self.active.get
        get = self.get
        found = [active(pod_id) or get(pod_id) for pod_id in pod_ids]
        return [one for one in found if one is not None]

    def peek(self, pod_id: PodId) -> Tracked | None:
        """What is tracked of a pod, only to be looked at; None if it is not ours."""
        known = self.active.get(pod_id)
        if known is None:
            source = self._settled.get(pod_id[0], _NONE).get(pod_id[1])
            return None if source is None else Tracked(pod_id, source)
        return known

    def values(self) -> Iterator[Tracked]:
        """What is tracked of each, only to be looked at."""
        yield from self.active.values()
        for pod_id, source in self._all_settled():
            yield Tracked(pod_id, source)

    def source_of(self, pod_id: PodId) -> Pod | None:
        """None: the pod is not ours, or its source is gone."""
        known = self.active.get(pod_id)
        return (
            known.source
            if known is not None
            else self._settled.get(pod_id[0], _NONE).get(pod_id[1])
        )

    def named(self, namespace: str, name: str) -> list[PodId]:
        """The pods whose source is called so: one of each cluster, and more where one is not seen
        to be gone yet.

        All are looked at: an index would cost memory all the time, and this is asked by people.
        """
        found = [
            pod_id for pod_id, one in self.active.items() if _is_called(one.source, namespace, name)
        ]
        for home, pods in self._settled.items():
            found += [
                (home, uid)
                for uid, one in pods.items()
                if one.name == name and one.namespace == namespace
            ]
        return found

    def submitted(self) -> Counter[str]:
        """How many pods there are by the cluster where they were submitted."""
        found = Counter({home: len(pods) for home, pods in self._settled.items()})
        found.update(
            pod_id[0] for pod_id, tracked in self.active.items() if tracked.source is not None
        )
        return found

    def sources(self) -> Iterator[tuple[PodId, Pod]]:
        """The source of each pod that has one: faster than all that is tracked."""
        for pod_id, tracked in self.active.items():
            if tracked.source is not None:
                yield pod_id, tracked.source
        yield from self._all_settled()

    def _all_settled(self) -> Iterator[tuple[PodId, Pod]]:
        for home, pods in self._settled.items():
            for uid, source in pods.items():
                yield (home, uid), source

    def drop(self, pod_id: PodId) -> None:
        """Nothing is left to track of it."""
        self.active.pop(pod_id, None)
        self._settled.get(pod_id[0], {}).pop(pod_id[1], None)

    def compact_all(self) -> None:
        """`compact` those that are settled, though nothing was reported of them since they were
        bound.
        """
        most = len(self.active) - _AT_ONCE
        for tracked in list(self.active.values()):
            self.compact(tracked)
            if len(self.active) <= most:
                break  # the others in a minute

    def compact(self, tracked: Tracked) -> None:
        """A pod was looked at, and nobody holds what is tracked of it: keep its source alone if it
        is settled.
        """
        (home, uid), source = tracked.pod_id, tracked.source
        if (
            source is not None
            and tracked.is_settled
            and _more_of(tracked) == _NO_MORE
            and self.active.get(tracked.pod_id) is tracked
        ):
            del self.active[tracked.pod_id]
            self._settled.setdefault(home, {})[uid] = source


def _is_called(source: Pod | None, namespace: str, name: str) -> bool:
    return source is not None and source.name == name and source.namespace == namespace
