"""One of our pods with everything seen and done about it: its source, its delegates, the intent in the air."""

from dataclasses import dataclass, field

import msgspec

from dispatcher.model.pod import Pod
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.flights import Flight
from dispatcher.scheduling.delegation.protocol import Situation
from dispatcher.scheduling.queue import QueuedPod

PodId = tuple[str, str]  # (cluster of submission, uid)


@dataclass
class Tracked:
    """A source pod (None: not seen or gone) and its delegates by cluster.

    `vanished`: clusters (home included) from which the pod was seen to go: absence there is sure.
    `missing_since`: when a pod that ought to be there was first looked for in vain.
    `claimed_at`: when we heard that our claim holds; the watch may show it as late as any change.
    """

    pod_id: PodId
    source: Pod | None = None
    delegates: dict[str, Pod] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)
    missing_since: dict[str, float] = field(default_factory=dict)
    flight: Flight | None = None
    mirrored: bytes = b""
    claimed_at: float = float("-inf")
    reported: str = ""
    reported_at: float = float("-inf")
    queued: bool = False
    item: QueuedPod | None = None  # as it was popped, for a retry with back-off
    refused: str = ""  # why the last place was refused by its cluster
    hold_until: float = float("-inf")  # not to be looked at before
    promised: str | None = None  # status.nominatedNodeName as last written or seen; None: never

    @property
    def home(self) -> str:
        """The cluster of submission."""
        return self.pod_id[0]

    @property
    def forgotten(self) -> bool:
        """Whether nothing is left to track."""
        return self.source is None and not self.delegates and self.flight is None

    @property
    def waits_for_time(self) -> bool:
        """Whether time alone may make a step due: something is missing, or a delegate has no claim yet."""
        unclaimed = bool(self.delegates) and self.source is not None and self.source.claim is None
        return bool(self.missing_since) or unclaimed

    def touches(self, cluster: str) -> bool:
        """Whether that cluster's readiness matters to what is due here."""
        claim = self.source.claim if self.source else None
        return cluster in self.delegates or self.home == cluster or (claim is not None and claim.cluster == cluster)

    def see_source(self, pod: Pod | None) -> None:
        """The home cluster reported the source pod (None: it went)."""
        self.source = pod
        self._seen(self.home, pod)

    def see_delegate(self, cluster: str, pod: Pod | None) -> None:
        """`cluster` reported a delegate (None: it went)."""
        if pod is None:
            self.delegates.pop(cluster, None)
        else:
            self.delegates[cluster] = pod
        self._seen(cluster, pod)

    def _seen(self, cluster: str, pod: Pod | None) -> None:
        self.missing_since.pop(cluster, None)
        if pod is None:
            self.vanished.add(cluster)
        else:
            self.vanished.discard(cluster)


def situation(tracked: Tracked, clusters: dict[str, ClusterView], now: float, grace_s: float) -> Situation:
    """What is seen of one pod, with absence judged: seen to go, or missing for `grace_s` while its cluster was Ready.

    The grace covers an agent whose cache is a moment behind its API server after a restart of the dispatcher.
    """
    reachable = frozenset(name for name, view in clusters.items() if view.ready)
    claim = tracked.source.claim if tracked.source else None
    target = claim.cluster if claim else ""
    gone = frozenset(
        cluster
        for cluster in (target,)
        if cluster and cluster not in tracked.delegates and _absent(tracked, cluster, clusters, now, grace_s)
    )
    source_gone = (
        tracked.source is None
        and _same_source_cluster(tracked, clusters)
        and _absent(tracked, tracked.home, clusters, now, grace_s)
    )
    home = clusters.get(tracked.home)
    settled_at = max(home.ready_since, tracked.claimed_at) if home is not None else float("inf")
    return Situation(
        tracked.home,
        tracked.source,
        tracked.delegates,
        source_gone=source_gone,
        home_settled=now - settled_at >= grace_s,
        reachable=reachable,
        delegate_gone=gone,
        mirrored=tracked.mirrored,
    )


def _absent(tracked: Tracked, cluster: str, clusters: dict[str, ClusterView], now: float, grace_s: float) -> bool:
    view = clusters.get(cluster)
    if view is None or not view.ready:
        tracked.missing_since.pop(cluster, None)
        return False
    if cluster in tracked.vanished:
        return True
    since = tracked.missing_since.setdefault(cluster, now)
    return now - max(since, view.ready_since) >= grace_s


def _same_source_cluster(tracked: Tracked, clusters: dict[str, ClusterView]) -> bool:
    # A cluster restored, wiped or swapped under the same name must never make us collect its delegates.
    view = clusters.get(tracked.home)
    return view is not None and all(
        pod.source is not None and pod.source.cluster_uid == view.uid for pod in tracked.delegates.values()
    )


def _as_submitted(source: Pod | None, delegate: Pod) -> Pod:
    # Selectors and preemption mean the pod as it was submitted; labels that controllers read, pod affinity and priority
    # do not travel with it.
    if source is None:
        return delegate
    return msgspec.structs.replace(
        delegate,
        labels=source.labels,
        priority=source.priority,
        pod_affinity=source.pod_affinity,
        pod_anti_affinity=source.pod_anti_affinity,
    )


def place_of(tracked: Tracked) -> tuple[Pod, str, str] | None:
    """(pod, cluster, node) where it holds room: its delegate's place, its own, or the place it is claimed for.

    A claim without a delegate in sight may have one that is not seen yet: it keeps its room and its charge.
    """
    for cluster in sorted(tracked.delegates):
        pod = tracked.delegates[cluster]
        if pod.node and not pod.terminal:
            return _as_submitted(tracked.source, pod), cluster, pod.node
    source = tracked.source
    if source is None or source.terminal:
        return None
    claim = source.claim
    if claim is None or claim.cluster == tracked.home:
        return (source, tracked.home, source.node) if source.node else None
    ended = claim.cluster in tracked.vanished or any(pod.terminal for pod in tracked.delegates.values())
    return None if ended else (source, claim.cluster, claim.node)
