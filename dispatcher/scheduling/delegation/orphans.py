"""Delegates whose source is gone without having been seen to go, and a cap on how many may be
collected at once.

A source cluster that was restored from an old backup lacks all pods that are younger: one by one
each looks like an orphan's. So if more than a fifth of a cluster's remote pods lack their source,
none of their delegates is deleted. Worked example: of 40 remote pods of cluster a, 8 may be
orphans; with the ninth, all nine stay, also when there are more remote pods or fewer orphans later,
until somebody deletes them, their sources are back, or an operator of cluster a confirms that what
its API server shows is meant. Orphans that come after them are counted for themselves. Copies in
clusters that an operator has fenced are not meant: none is to run there.
"""

from collections import Counter
from collections.abc import Mapping

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from shared.model.pod import PodId

SHARE = 0.2
# for so long a confirmation counts: each source is asked for again after `orphan_s` (600 s)
CONFIRMED_S = 1800.0


class Orphans:
    """Counts orphans by the cluster of their source; the count holds for one moment, what it holds
    back for good.
    """

    def __init__(self, tracked: TrackedPods, clusters: Mapping[str, ClusterView]) -> None:
        self._tracked = tracked
        self._clusters = clusters
        self._suspected: set[PodId] = set()
        self._held: set[PodId] = set()
        self._counted_at = float("-inf")
        self._too_many: dict[str, str] = {}
        self._confirmed_until: dict[str, float] = {}

    def suspect(self, pod_id: PodId) -> None:
        """The source of these delegates is gone, and nobody has seen it go."""
        self._suspected.add(pod_id)

    def may_go(self, pod_id: PodId, now: float) -> bool:
        """Whether the delegates of this orphan may be collected now."""
        self.excess(now)
        return pod_id not in self._held

    def release(self, home: str, now: float) -> None:
        """An operator confirms what cluster `home` shows: its orphans are collected, also where
        they are many.
        """
        self._confirmed_until[home] = now + CONFIRMED_S
        self._held = {pod_id for pod_id in self._held if pod_id[0] != home}
        self._counted_at = float("-inf")

    def excess(self, now: float) -> Mapping[str, str]:
        """Clusters with too many orphans, and what to tell an operator."""
        if not self._suspected:
            return {}
        if now != self._counted_at:
            self._counted_at, self._too_many = now, self._count(now)
        return self._too_many

    def _count(self, now: float) -> dict[str, str]:
        self._suspected = {pod_id for pod_id in self._suspected if self._is_orphan(pod_id)}
        confirmed = {home for home, until in self._confirmed_until.items() if now < until}
        meant = {
            pod_id
            for pod_id in self._suspected
            if pod_id[0] not in confirmed and not self._fenced(pod_id)
        }
        remote = Counter(
            tracked.home for tracked in self._tracked.active.values() if tracked.delegates
        )
        orphans = Counter(home for home, _ in meant - self._held)
        many = {home for home, count in orphans.items() if count > max(1, SHARE * remote[home])}
        self._held = {pod_id for pod_id in meant if pod_id in self._held or pod_id[0] in many}
        held = Counter(home for home, _ in self._held)
        return {home: _warning(home, count, remote[home]) for home, count in held.items()}

    def _fenced(self, pod_id: PodId) -> bool:
        home = self._clusters.get(pod_id[0])
        return home is not None and home.fenced.issuperset(self._tracked[pod_id].delegates)

    def _is_orphan(self, pod_id: PodId) -> bool:
        tracked = self._tracked.peek(pod_id)
        return tracked is not None and tracked.orphaned_at is not None and bool(tracked.delegates)


def _warning(home: str, orphans: int, remote: int) -> str:
    return (
        f"cluster {home}: {orphans} of its {remote} remote pods are gone there without having "
        "been deleted: restored "
        f"from a backup? Their delegates run on. If what {home} shows is meant, so that they "
        "shall go: "
        f"global-dispatcher cluster confirm {home}. Else delete those that are not wanted in "
        "their own clusters"
    )
