"""One of our pods with everything known about it: its source, its delegates, its in-flight intent."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.in_flight import InFlightIntent
from dispatcher.scheduling.delegation.protocol import ObservedState, confirms, target_of
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.queue import QueuedPod
from shared.model.bounds import HIGHEST_PRIORITY
from shared.model.names import CLAIM
from shared.model.pod import TERMINAL, Pod, PodId
from shared.security.signatures import read_claim

T = TypeVar("T")

_NOWHERE: frozenset[str] = frozenset()
_ANOTHER = b"-"  # a status that no delegate has
_NONE: Mapping[str, Any] = MappingProxyType(
    {}
)  # nearly always empty: one for all; who adds to one makes a new dict


class ConfirmedEnd(NamedTuple):
    """Of the delegate with this UID: its final phase, or DELETING."""

    uid: str
    end: str


class Tracked(msgspec.Struct, gc=False):
    """A source pod (None: not seen or gone) and its delegates by cluster.

    `gone`: clusters whose API server has said that the pod is gone: the source (home), or its
    delegate (all others). `said_gone`: clusters whose observer has said so; their API servers, by
    way of executors, are still to be asked. `ended`: by cluster, the end of a delegate there that
    its API server has confirmed. `doubts`: how often in a row it has confirmed another end than the
    one that is shown, or none; it is not asked again before `ask_end_at`, however often its
    observer tells something else meanwhile. `missing_since`: when a pod that ought to be there was
    first looked for in vain. `mirrored_until`: so long the watch may not show yet what `mirrored`
    has written. `claimed_at`: when we heard that our claim holds; the watch may show it as late as
    any change. `decided`: the attempt of the last claim that this dispatcher made; 0 none.
    `untouched`: the same, while no delegate can have been begun for it; 0 none. `disproved`: by
    cluster, the attempt up to which its API server has no delegate and its executor will make none.
    `given_up`: no claim of this attempt or an earlier one holds any more; its owner may have kept
    one. `orphaned_at`: when the API server of the source first said that the source is gone.
    `vanished`: the source as last seen, where a full report lacks it, nobody saw it deleted (its
    cluster was restored from a backup) and its delegate was not seen bound: that may run, so its
    room and its charge are kept for a while.
    """

    pod_id: PodId
    source: Pod | None = None
    delegates: Mapping[str, Pod] = _NONE
    gone: frozenset[str] = frozenset()  # nearly always empty: one for all
    said_gone: frozenset[str] = frozenset()
    ended: Mapping[str, ConfirmedEnd] = _NONE
    doubts: int = 0
    ask_end_at: float = float("-inf")
    missing_since: Mapping[str, float] = _NONE
    in_flight: InFlightIntent | None = None
    mirrored: bytes = b""
    generation: int = 0  # the last that was written with a status
    mirrored_until: float = float("-inf")
    mirror_at: float = float("-inf")  # no status is written before, but an end
    claimed_at: float = float("-inf")
    decided: int = 0
    untouched: int = 0
    disproved: Mapping[str, int] = _NONE
    given_up: int = 0
    orphaned_at: float | None = None
    vanished: Pod | None = None
    reported: str = ""
    nodes_help: bool = True  # as it was reported: a new node of its cluster would help
    reported_at: float = float("-inf")
    report: str = ""  # the side intent that reports it
    queued: bool = False
    item: QueuedPod | None = None  # as it was popped, for a retry with back-off
    refused: str = ""  # why the last place was refused by its cluster
    given_back: str = ""  # why its whole group lost the last places
    hold_until: float = float("-inf")  # not to be looked at before
    alarm_at: float = float(
        "-inf"
    )  # when it is looked at whatever comes: the last that was asked for
    refusals: int = 0  # of the last steps, one after the other
    # status.nominatedNodeName as last written or seen; None: never
    nominated_node: str | None = None
    left_behind: str = ""  # what of it does not go along, as the last claim told

    @property
    def home(self) -> str:
        """The cluster of submission."""
        return self.pod_id[0]

    @property
    def forgotten(self) -> bool:
        """Whether nothing is left to track."""
        return (
            self.source is None
            and not self.delegates
            and self.in_flight is None
            and self.vanished is None
        )

    @property
    def waits_for_time(self) -> bool:
        """Whether time alone may make a step due: something is missing, or marks are there that
        nothing explains.
        """
        source = self.source
        unexplained = source is not None and source.has_finalizer and source.claim is None
        return bool(self.missing_since) or unexplained or self.vanished is not None

    @property
    def abroad(self) -> bool:
        """Whether it may have to do with any other cluster than its own, or is not seen there."""
        source = self.source
        if source is None or self.delegates:
            return True
        return bool(source.node or source.claim) and bool(target_of(self.pod_id[0], source))

    @property
    def is_settled(self) -> bool:
        """Whether it stands on a node of its own cluster, and nothing is asked for it, missing, or
        marked as ours: a look would find nothing to do, whether its cluster is Ready or not.
        """
        source = self.source
        if source is None or not source.node or source.claim is not None or source.has_finalizer:
            return False
        if (
            self.in_flight is not None
            or self.queued
            or self.item is not None
            or self.vanished is not None
        ):
            return False
        return not self.abroad

    @property
    def ends(self) -> Mapping[str, str]:
        """By cluster, the confirmed end of the delegate that shows there; of another one it says
        nothing.
        """
        if not self.ended:
            return _NONE
        shown = {cluster: pod.uid for cluster, pod in self.delegates.items()}
        return {
            cluster: one.end for cluster, one in self.ended.items() if shown.get(cluster) == one.uid
        }

    def confirm_end(self, cluster: str, end: ConfirmedEnd | None) -> bool:
        """Its API server has answered how the delegate ends (None: not that we know). Whether that
        is what shows.
        """
        self.ended = _without(self.ended, cluster) if end is None else {**self.ended, cluster: end}
        delegate = self.delegates.get(cluster)
        shows = delegate is None or confirms(self.ends.get(cluster, ""), delegate)
        self.doubts = 0 if shows else self.doubts + 1
        return shows

    def touches(self, cluster: str) -> bool:
        """Whether that cluster's readiness matters to what is due here."""
        if cluster == self.pod_id[0] or cluster in self.delegates:
            return True
        return self.source is not None and target_of(self.pod_id[0], self.source) == cluster

    def goes_to(self, cluster: str) -> bool:
        """Whether it has a delegate in that other cluster, or an order to make one is under way."""
        placed = self.source is not None and target_of(self.pod_id[0], self.source) == cluster
        sent = self.in_flight is not None and self.in_flight.cluster == cluster
        return cluster != self.pod_id[0] and (placed or sent or cluster in self.delegates)

    def see_source(self, pod: Pod | None, *, seen_deleted: bool = True) -> None:
        """The home cluster reported the source pod. None: it went; `seen_deleted` if its observer
        saw it deleted.
        """
        self.vanished = None if seen_deleted or pod is not None else self._unseen_abroad()
        if self.source is not None and pod is not None and bool(self.source.live) != bool(pod.live):
            self._show_again()
        self.source = pod
        self._seen(self.pod_id[0], pod, seen_deleted=seen_deleted)

    def _unseen_abroad(self) -> Pod | None:
        """The source, if its delegate may run in a cluster that has not shown where, nor said that
        it is gone.
        """
        target = target_of(self.home, self.source) if self.source is not None else ""
        shown = any(pod.node or pod.terminal for pod in self.delegates.values())
        return (
            self.source
            if target and not shown and target not in self.gone | self.said_gone
            else None
        )

    def see_delegate(self, cluster: str, pod: Pod | None, *, seen_deleted: bool = True) -> None:
        """`cluster` reported a delegate. None: it went; `seen_deleted` if its observer saw it
        deleted.
        """
        if pod is None:
            self.delegates = _without(self.delegates, cluster)
            self.ended = _without(self.ended, cluster)
        else:
            before = self.delegates.get(cluster)
            if before is not None and before.carries != pod.carries:
                self._show_again()
            self.delegates = {**self.delegates, cluster: pod}
            self.vanished = None if pod.node or pod.terminal else self.vanished
            self.disproved = _without(self.disproved, cluster)
        self._seen(cluster, pod, seen_deleted=seen_deleted)

    def _show_again(self) -> None:
        """An agent was replaced by one of another version: home is to be told with the status which
        changes follow now.
        """
        self.mirrored = self.mirrored and _ANOTHER

    def reset_missing(self, cluster: str) -> None:
        """Forget since when the delegate is missing there; the next look that does not find it
        counts anew.
        """
        self.missing_since = _without(self.missing_since, cluster)

    def _seen(self, cluster: str, pod: Pod | None, *, seen_deleted: bool) -> None:
        if self.missing_since:
            self.reset_missing(cluster)
        if self.refusals:  # what was refused may be another step now
            self.hold_until = float("-inf")
        self.forget_gone(cluster)
        if pod is None and seen_deleted:
            self.said_gone |= {cluster}
        if pod is not None and cluster == self.pod_id[0]:
            self.orphaned_at = None

    def forget_gone(self, cluster: str) -> None:
        """Whatever was reported or confirmed of its absence there holds no more."""
        if self.gone and cluster in self.gone:
            self.gone -= {cluster}
        if self.said_gone and cluster in self.said_gone:
            self.said_gone -= {cluster}

    def confirm_gone(self, cluster: str) -> None:
        """The API server of the cluster has answered that the pod is gone."""
        self.gone |= {cluster}
        self.said_gone -= {cluster}

    def confirm_there(self, cluster: str) -> None:
        """The API server has answered that the pod is there, seen or not: it is asked again after a
        while.
        """
        self.reset_missing(cluster)
        self.said_gone -= {cluster}


def _without(known: Mapping[str, T], cluster: str) -> Mapping[str, T]:
    return (
        {one: value for one, value in known.items() if one != cluster}
        if cluster in known
        else known
    )


class ClusterReachability(NamedTuple):
    """Which clusters answer now, and which went back in time: the same for every pod, found out
    once for many.

    `executor_only`: clusters whose executors take orders, but whose observers are away;
    `observer_only`: the reverse.
    """

    ready: frozenset[str]
    restored: frozenset[str]
    executor_only: frozenset[str] = frozenset()
    observer_only: frozenset[str] = frozenset()

    @classmethod
    def of(cls, clusters: Mapping[str, ClusterView]) -> "ClusterReachability":
        """By what is known of them now."""
        ready = list[str]()
        restored = list[str]()
        executor_only = list[str]()
        observer_only = list[str]()
        for (
            name,
            view,
        ) in clusters.items():  # for each event: `ready` and `takes_orders` of ClusterView, inlined
            orders = (
                not view.silent if view.executor is None else view.executor
            ) and not view.refuses
            if view.synced and view.api_ok and not view.silent:
                ready.append(name)
                if not orders:
                    observer_only.append(name)
            elif orders and view.silent:
                executor_only.append(name)
            if view.restored:
                restored.append(name)
        return cls(*map(frozenset, (ready, restored, executor_only, observer_only)))


def observed_state(
    tracked: Tracked,
    clusters: dict[str, ClusterView],
    now: float,
    timing: CoreTiming,
    *,
    reach: ClusterReachability,
    orphans_may_go: bool,
) -> ObservedState:
    """What is seen of one pod. What is missing in a Ready cluster for the grace time is to be asked
    for.
    """
    reachable, restored, executor_only, observer_only = reach
    source = tracked.source
    target = target_of(tracked.home, source) if source is not None else ""
    if another_than_claimed(source, clusters.get(target)):
        reachable -= {target}  # whoever answers under its name has no say in what runs there
    sought = (
        target if target and target not in tracked.delegates and target not in tracked.gone else ""
    )
    missing = frozenset(
        (sought,) if sought and _to_ask(tracked, sought, clusters, now, timing.confirm_s) else ()
    )
    home = clusters.get(tracked.pod_id[0])
    settled_at = max(home.ready_since, tracked.claimed_at) if home is not None else float("inf")
    fenced = fenced_for(home)
    claim = source.claim if source is not None else None
    source_gone = source is None and (
        _source_gone(tracked, clusters, now, timing, orphans_may_go=orphans_may_go)
        or _gone_from_fenced(tracked, clusters, fenced)
    )
    return ObservedState(
        tracked.home,
        source,
        tracked.delegates,
        source_gone=source_gone,
        source_missing=source is None and _source_missing(tracked, clusters, now, timing),
        home_settled=now - settled_at >= timing.absence_grace_s,
        reachable=reachable,
        restored=restored,
        executor_only=executor_only,
        observer_only=observer_only,
        absent=tracked.gone - {tracked.home},
        missing=missing,
        ended=tracked.ends,
        doubted=now < tracked.ask_end_at,
        decided=claim is not None and claim.epoch == tracked.decided,
        untouched=claim is not None and claim.epoch == tracked.untouched,
        disproved=claim is not None and claim.epoch <= tracked.disproved.get(target, 0),
        given_up=claim is not None and claim.epoch <= tracked.given_up,
        mirrored=tracked.mirrored,
        generation=tracked.generation,
        unshown=now < tracked.mirrored_until,
        paced=now < tracked.mirror_at,
        fenced=fenced,
    )


def forget_vanished(
    tracked: Tracked,
    clusters: dict[str, ClusterView],
    now: float,
    timing: CoreTiming,
) -> None:
    """Give up a source that vanished once its target has had the time to notice a silent watch, and
    shows nothing.

    A target that was restored, that is another cluster than was claimed, or that is not configured
    proves nothing.
    """
    if tracked.vanished is None:
        return
    target = target_of(tracked.home, tracked.vanished)
    view = clusters.get(target)
    proves = (
        view is not None and not view.restored and not another_than_claimed(tracked.vanished, view)
    )
    over = target in fenced_for(clusters.get(tracked.home)) or (
        proves and _overdue(tracked, target, clusters, now, timing.absence_grace_s)
    )
    if over:
        tracked.vanished = None
    if over or not proves:
        tracked.reset_missing(target)


def fenced_for(home: ClusterView | None) -> frozenset[str]:
    """Clusters that are fenced for the pods of this one; of one that is not configured, none."""
    return home.fenced if home is not None else _NOWHERE


def another_than_claimed(source: Pod | None, view: ClusterView | None) -> bool:
    """Whether the cluster under this name is another one than the source's own cluster has signed
    the pod over to.
    """
    if source is None or source.claim is None or view is None or source.claim.cluster != view.name:
        return False
    signed = read_claim(source.annotations.get(CLAIM, ""))
    return (
        signed is not None
        and bool(signed.target_uid and view.uid)
        and signed.target_uid != view.uid
    )


def _to_ask(
    tracked: Tracked, cluster: str, clusters: dict[str, ClusterView], now: float, after_s: float
) -> bool:
    """Whether the API server is to be asked for a pod: said to be deleted, at once; else once it is
    missing so long.
    """
    return cluster in tracked.said_gone or _overdue(tracked, cluster, clusters, now, after_s)


def _overdue(
    tracked: Tracked, cluster: str, clusters: dict[str, ClusterView], now: float, after_s: float
) -> bool:
    view = clusters.get(cluster)
    if view is None or not view.ready:
        tracked.reset_missing(cluster)
        return False
    if cluster not in tracked.missing_since:
        tracked.missing_since = {**tracked.missing_since, cluster: now}
    return now - max(tracked.missing_since[cluster], view.ready_since) >= after_s


def _source_gone(
    tracked: Tracked,
    clusters: dict[str, ClusterView],
    now: float,
    timing: CoreTiming,
    *,
    orphans_may_go: bool,
) -> bool:
    """Its API server has confirmed that it was deleted; or has said twice and some time apart that
    it has none, and not of many others at once.
    """
    if not _same_source_cluster(tracked, clusters):
        return False
    if tracked.home in tracked.gone and tracked.orphaned_at is None:
        return True
    at = tracked.orphaned_at
    return (
        at is not None
        and tracked.home in tracked.gone
        and now - at >= timing.orphan_s
        and orphans_may_go
    )


def _gone_from_fenced(
    tracked: Tracked, clusters: dict[str, ClusterView], fenced: frozenset[str]
) -> bool:
    """Where nothing is to run by an operator's word, one answer of the source's API server is
    enough.
    """
    asked = tracked.orphaned_at is not None or tracked.home in tracked.gone
    return (
        asked and fenced.issuperset(tracked.delegates) and _same_source_cluster(tracked, clusters)
    )


def _source_missing(
    tracked: Tracked, clusters: dict[str, ClusterView], now: float, timing: CoreTiming
) -> bool:
    """Whether the source's API server is to be asked: at once where it was said to be deleted; else
    once it is missing for the grace time, and once more later.
    """
    if not _same_source_cluster(tracked, clusters) or tracked.home in tracked.gone:
        return False
    if not _to_ask(tracked, tracked.home, clusters, now, timing.absence_grace_s):
        return False
    at = tracked.orphaned_at
    return tracked.home in tracked.said_gone or at is None or now - at >= timing.orphan_s


def _same_source_cluster(tracked: Tracked, clusters: dict[str, ClusterView]) -> bool:
    # A cluster restored, wiped or swapped under the same name must never make us collect its
    # delegates.
    view = clusters.get(tracked.home)
    return view is not None and all(
        pod.source is not None and pod.source.cluster_uid == view.uid
        for pod in tracked.delegates.values()
    )


def _as_submitted(source: Pod | None, delegate: Pod) -> Pod:
    # Selectors mean the pod as it was submitted; labels that controllers read and pod affinity do
    # not travel with it. Its priority is that of the cluster where it runs, as for everybody there.
    if source is None:  # nobody knows how important it is: it gives way to no pod
        return msgspec.structs.replace(delegate, priority=HIGHEST_PRIORITY)
    return msgspec.structs.replace(
        delegate,
        labels=source.labels,
        labels_cut=source.labels_cut,
        pod_affinity=source.pod_affinity,
        pod_anti_affinity=source.pod_anti_affinity,
    )


def place_of(tracked: Tracked, fenced: frozenset[str] = frozenset()) -> tuple[Pod, str, str] | None:
    """(pod, cluster, node) where it holds room: its delegate's place, its own, or the place it is
    claimed for.

    A claim without a delegate in sight may have one that is not seen yet: it keeps its room and its
    charge, unless its cluster's observer has said that it went: executors look at the room
    themselves. In a `fenced` cluster nothing runs.
    """
    for cluster in sorted(tracked.delegates.keys() - fenced) if tracked.delegates else ():
        pod = tracked.delegates[cluster]
        if pod.node and not pod.terminal:
            return _as_submitted(tracked.source, pod), cluster, pod.node
    source = tracked.source or tracked.vanished
    home = tracked.pod_id[0]
    if source is None or source.phase in TERMINAL:
        return None
    claim = source.claim
    if claim is None or claim.cluster == home:
        return (source, home, source.node) if source.node else None
    ended = claim.cluster in tracked.gone | tracked.said_gone | fenced or any(
        pod.terminal for pod in tracked.delegates.values()
    )
    return None if ended else (source, claim.cluster, claim.node)
