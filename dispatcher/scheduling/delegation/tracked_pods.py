"""All pods of ours by id. Nearly all are bound in their own cluster and run: of these the source alone is kept."""

from collections.abc import Iterator, Mapping

from dispatcher.model.pod import Pod, PodId
from dispatcher.scheduling.delegation.tracking import Tracked

_NONE: Mapping[str, Tracked | Pod] = {}


class TrackedPods:
    """What is tracked of each pod of ours: cluster by cluster, in the order in which they came.

    Of a pod at rest nothing is known but its source, which the view of its cluster holds, too. What is got of it may be
    changed, and is kept from then on until the pod is at rest again; what is found of it may not be changed.
    """

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Tracked | Pod]] = {}  # by cluster of submission and UID

    def __len__(self) -> int:
        return sum(map(len, self._pods.values()))

    def __contains__(self, pod_id: PodId) -> bool:
        home, uid = pod_id
        return uid in self._pods.get(home, _NONE)

    def __iter__(self) -> Iterator[PodId]:
        return ((home, uid) for home, pods in self._pods.items() for uid in pods)

    def __getitem__(self, pod_id: PodId) -> Tracked:
        home, uid = pod_id
        found = self._pods[home][uid]
        if type(found) is not Tracked:
            found = self._pods[home][uid] = _tracked(pod_id, found)
        return found

    def __setitem__(self, pod_id: PodId, tracked: Tracked) -> None:
        home, uid = pod_id
        self._pods.setdefault(home, {})[uid] = tracked

    def get(self, pod_id: PodId) -> Tracked | None:
        """What is tracked of a pod, to be changed; None if it is not ours."""
        home, uid = pod_id
        known = self._pods.get(home, _NONE).get(uid)
        return known if known is None or type(known) is Tracked else self[pod_id]

    def find(self, pod_id: PodId) -> Tracked | None:
        """The same, only to be looked at."""
        home, uid = pod_id
        known = self._pods.get(home, _NONE).get(uid)
        return None if known is None else _tracked(pod_id, known)

    def items(self) -> Iterator[tuple[PodId, Tracked]]:
        """Each pod, only to be looked at."""
        for home, pods in self._pods.items():
            for uid, known in pods.items():
                pod_id = (home, uid)
                yield pod_id, _tracked(pod_id, known)

    def values(self) -> Iterator[Tracked]:
        """What is tracked of each, only to be looked at."""
        return (tracked for _, tracked in self.items())

    def sources(self) -> Iterator[tuple[PodId, Pod]]:
        """The source of each pod that has one: faster than all that is tracked."""
        for home, pods in self._pods.items():
            for uid, known in pods.items():
                source = known.source if type(known) is Tracked else known
                if type(source) is Pod:
                    yield (home, uid), source

    def unsettled(self) -> Iterator[Tracked]:
        """Those that are not at rest, among them all that have to do with another cluster than their own."""
        return (known for pods in self._pods.values() for known in pods.values() if type(known) is Tracked)

    def drop(self, pod_id: PodId) -> None:
        """Nothing is left to track of it."""
        home, uid = pod_id
        self._pods.get(home, {}).pop(uid, None)

    def rest(self, tracked: Tracked) -> None:
        """A pod was looked at, and nobody holds what is tracked of it: keep its source alone if it is at rest."""
        (home, uid), source = tracked.pod_id, tracked.source
        if source is None or not source.node or tracked.reported or self._pods.get(home, _NONE).get(uid) is not tracked:
            return
        # What it was told while it waited is over.
        told = tracked.reported_at, tracked.report, tracked.promised
        plain = Tracked(tracked.pod_id, source, reported_at=told[0], report=told[1], promised=told[2])
        if tracked == plain and not tracked.abroad:
            self._pods[home][uid] = source


def _tracked(pod_id: PodId, known: Tracked | Pod) -> Tracked:
    return known if isinstance(known, Tracked) else Tracked(pod_id, known)
