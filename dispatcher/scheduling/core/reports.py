"""What agents report: folded into the fleet, into what is tracked of each pod of ours, and into
what wakes the queue.

A pod is ours by its schedulerName, or as the delegate of one (`source`, held against the claim that
its home cluster has signed). All others only take room. What is due for a pod whose report came is
not decided here (`reconciler`).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import repeat

from dispatcher.scheduling import clusters as views
from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import ClusterView, GapError
from dispatcher.scheduling.core.evictions import Evictions
from dispatcher.scheduling.core.peer_updates import PeerUpdates
from dispatcher.scheduling.core.retries import Retries
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation.proxy_nodes import closed_proxy, fenced_proxy, tainted_proxy
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.fleet.group_table import credible
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import OBJECT_EVENTS, ClusterEvent, placed_pod_changed
from shared.messages import Changes
from shared.messages.memory import memory_of_record
from shared.model.names import CLAIM, OWN_NETWORK, is_ours
from shared.model.node import Node
from shared.model.node_group import NodeGroups
from shared.model.objects import AnyObject
from shared.model.pod import RUNNING, Pod, PodId, SourceRef, without_claim
from shared.model.wake_events import WakeEvent
from shared.security.signatures import is_claim_of, plain_keys, read_claim

MAX_GROUPS_MEMORY = 2**20  # bytes of the node groups of a cluster
_NODES_A_POD = 4  # so many nodes take as long as one pod
_NODE_PUT = WakeEvent.NODE_ADDED | WakeEvent.NODE_CHANGED


def _is_own(before: Pod | None, after: Pod) -> bool:
    """Whether a pod was submitted to us, now as before, and is no delegate."""
    if after.source is not None or not is_ours(after.scheduler_name):
        return False
    return before is None or (
        before.source is None and before.scheduler_name == after.scheduler_name
    )


def _advance(steps: Iterator[bool], most: int | None) -> bool:
    """Take up to `most` more steps (None: all), fewer if one yields True, which ends a part.
    Whether none is left.
    """
    limited = most is not None
    return not any(
        limited and (ends_part or taken == most) for taken, ends_part in enumerate(steps, 1)
    )


def _pods_worth(view: ClusterView, changes: Changes) -> int:
    """The size of a report, in pods that take as long to fold."""
    pods = len(changes.pods) + len(changes.pods_gone)
    nodes = len(changes.nodes) + len(changes.nodes_gone)
    if changes.full:  # those that go, too
        pods = max(pods, len(view.pods))
        nodes = max(nodes, len(view.nodes))
    return pods + len(changes.objects) + len(changes.objects_gone) + nodes // _NODES_A_POD


def _is_claimed_for(view: ClusterView, pod: Pod, source: SourceRef) -> bool:
    """Whether the claim that a delegate bears is that of the source that it is shown with, for the
    cluster that shows it: by UID; by name where a UID is not known. Who has signed it is not asked
    here.
    """
    signed = read_claim(pod.annotations.get(CLAIM, ""))
    if signed is None or signed.source != source or source.namespace != pod.namespace:
        return False
    if signed.target_uid and view.uid:
        return signed.target_uid == view.uid
    return signed.target == view.name


def _is_claimed(view: ClusterView, pod: Pod) -> bool:
    """Whether the claim that a source is shown with is on it, for this very pod, and signed by its
    own cluster.
    """
    mark = pod.annotations.get(CLAIM, "")
    signed = read_claim(mark)
    if not view.keys:
        return True  # its agent has verified it; we cannot yet
    same = signed is not None and (signed.source.uid, signed.claim) == (pod.uid, pod.claim)
    return same and is_claim_of(plain_keys(view.keys), mark)


@dataclass
class _Fold:
    """A report that is folded in parts of `at_once` pods; `before`: the uid and keys of its cluster
    before it.
    """

    changes: Changes
    steps: Iterator[bool]
    at_once: int
    before: tuple[str, tuple[str, ...]]


class Reports:
    """Folds reports into the state.

    A full report of a cluster that is not Ready is folded in parts if it is large. Between two
    parts the cluster is what it was before, not Ready: nothing goes there, and nothing follows from
    what is missing. With the last part it becomes what the report says. So is a large report of a
    Ready cluster that says nothing new of its health: between two parts it is as if its agent had
    not seen some of the changes yet.
    """

    def __init__(
        self, state: CoreState, retries: Retries, evictions: Evictions, peer_updates: PeerUpdates
    ) -> None:
        self._state = state
        self._retries = retries
        self._evictions = evictions
        self._peer_updates = peer_updates
        self._folds: dict[str, _Fold] = {}

    @property
    def folding(self) -> Collection[str]:
        """Clusters of which a part of a report is still to be folded."""
        return self._folds.keys()

    def changed(self, event: events.ClusterChanged, now: float) -> None:
        """An agent reported. GapError for a report that does not continue what is known: ask for a
        full one.
        """
        changes = event.changes
        view = self._state.clusters.get(changes.cluster)
        if view is None:
            ours = ", ".join(self._state.clusters)
            raise GapError(f"cluster {changes.cluster!r} is not one of this dispatcher's: {ours}")
        if view.name in self._folds:
            self._continue_fold(view.name, None, now)
        wrong_identity = views.wrong_identity(
            view, changes, self._state.clusters
        ) or views.wrong_keys(view, changes)
        if wrong_identity:
            self._state.warn(f"cluster {wrong_identity}")
            self.silent(events.ClusterSilent(view.name, wrong_identity), now)
            return
        views.check_continues(view, changes)
        changes = views.without_older_keys(view, changes)
        self._note_executor(view, event.executor, now)
        if changes.full:
            view.memory = event.memory
        at_once = self._pods_at_once(view, changes)
        if at_once is not None and _pods_worth(view, changes) > at_once:
            steps = self._steps(view, changes, at_once)
            self._folds[view.name] = _Fold(changes, steps, at_once, (view.uid, view.keys))
            view.hidden = not view.uid
            # Its pods are known by them.
            view.uid = changes.cluster_uid or view.uid
            view.keys = changes.keys or view.keys
            if self._folds[view.name].before[1] != view.keys:
                self._keys_changed(view)
            self._continue_fold(view.name, at_once, now)
            return
        self._fold_health(view, changes, now)
        for _ in self._steps(view, changes):
            pass

    def _pods_at_once(self, view: ClusterView, changes: Changes) -> int | None:
        """How many pods of a report are folded at once; None: all, since the cluster's health comes
        first.
        """
        if not view.ready:
            return self._state.timing.fold_at_once if changes.full else None
        return self._state.timing.fold_ready_at_once if views.is_as_healthy(view, changes) else None

    def fold_on(self, event: events.FoldOn, now: float) -> None:
        """Fold the next part of a report, or go on with what follows from one."""
        if event.cluster in self._folds:
            self._continue_fold(event.cluster, self._folds[event.cluster].at_once, now)
        else:
            self._state.admit_backlog()

    def finish_all(self) -> None:
        """Fold what is left of every report: whoever follows from here on begins with whole ones."""
        for cluster in list(self._folds):
            try:
                self._continue_fold(cluster, None, self._state.fleet.now)
            except Exception as error:  # half of it is folded: forget all of it
                self._state.warn(
                    f"cluster {cluster}: its report cannot be taken in: {error!r}", error
                )
                self.forget(cluster)

    def _continue_fold(self, cluster: str, steps: int | None, now: float) -> None:
        """Take so many more steps (None: all); after the last one the cluster is as reported."""
        fold = self._folds[cluster]
        view = self._state.clusters[cluster]
        try:
            complete = _advance(fold.steps, steps)
        except (
            Exception
        ):  # it is asked for anew; what raised is not folded again, and stops nothing but itself
            del self._folds[cluster]
            (view.uid, view.keys), view.hidden = fold.before, False
            raise
        if complete:
            del self._folds[cluster]
            view.hidden = False
            self._fold_health(view, fold.changes, now)

    def _steps(self, view: ClusterView, changes: Changes, at_once: int = 0) -> Iterator[bool]:
        """Fold a report, but for the cluster's health. A step takes about as long as one pod; True
        is yielded before work that takes as long as a part, so that this begins the next one.
        """
        state = self._state
        yield from self._fold_nodes(
            view, changes, _NODES_A_POD * (at_once or state.timing.fold_at_once)
        )
        for change in views.fold_objects(view, state.fleet.kept, changes):
            self._object_changed(view.name, change, state.fleet.now)
            yield False
        if changes.uses:
            state.fleet.uses.put(view.name, changes.uses)
        if changes.readings:
            state.fleet.put_readings(view.name, changes.readings)
            state.queue.wake(WakeEvent.READINGS, state.fleet.now)
            state.update_hot(state.fleet.now)
        for pod in views.fold_pods(view, changes):
            self._pod_changed(view, pod, state.fleet.now)
            yield False
        yield True
        if changes.readings:  # of nodes whose pods are counted
            state.fleet.learn_usual()
            yield True

    def _fold_health(self, view: ClusterView, changes: Changes, now: float) -> None:
        was_ready = view.ready
        was_restored = view.restored
        keys = view.keys
        shown = view.told
        confirms = views.confirms(view, changes)
        views.fold_health(view, changes, now)
        self._note_readiness(view, was_ready, now)
        if shown != view.told:
            self._show_cluster(view, now)
        if changes.synced and (changes.full or changes.node_groups is not None):
            self._take_groups(view.name, changes.node_groups, now)
        if keys != view.keys:
            self._keys_changed(view)
        if confirms:
            self._state.orphans.release(view.name, now)
        if confirms or (
            was_restored and not view.restored
        ):  # what is missing there proves something again
            self._state.touch(view.name)

    def _take_groups(self, cluster: str, told: NodeGroups | None, now: float) -> None:
        """Node groups of a cluster; more than an agent tells of is not kept."""
        state = self._state
        if memory_of_record(told) > MAX_GROUPS_MEMORY:
            state.warn(
                f"cluster {cluster} tells of node groups in more than {MAX_GROUPS_MEMORY} bytes: "
                "they count for nothing"
            )
            told = None
        if state.fleet.groups.put(cluster, credible(told) if told is not None else None):
            state.queue.wake(WakeEvent.CLUSTER_CHANGED, now)

    def silent(self, event: events.ClusterSilent, now: float) -> None:
        """An agent is away: no new pod goes to its cluster until it reports."""
        try:
            if event.cluster in self._folds:
                self._continue_fold(event.cluster, None, now)
        finally:
            self._note_silent(event, now)

    def _note_silent(self, event: events.ClusterSilent, now: float) -> None:
        view = self._state.clusters[event.cluster]
        was_ready = view.ready
        view.silent = True
        view.problem = event.problem
        view.heard = True
        view.executor = event.executor
        self._note_readiness(view, was_ready, now)

    def forget(self, cluster: str) -> None:
        """Treat a cluster as one that has never reported to this dispatcher and is known to be
        silent.
        """
        view = self._state.clusters[cluster]
        for _ in self._steps(
            view, Changes(cluster, view.uid, view.incarnation, 0, view.revision, full=True)
        ):
            pass
        blank = ClusterView(
            cluster,
            pinned_uid=view.pinned_uid,
            pinned_key=view.pinned_key,
            network=view.network,
            most_memory=view.most_memory,
            problem=view.problem,
        )
        blank.heard = True
        self._state.clusters[cluster] = blank
        self._state.fleet.set_cluster(cluster, ready=False, synced=False)

    def _note_executor(self, view: ClusterView, executor: bool | None, now: float) -> None:
        """No new pod goes to a cluster whose executor is away, though its observer reports."""
        if view.executor == executor:
            return
        took = view.takes_orders
        view.executor = executor
        if view.ready and took != view.takes_orders:
            self._show_cluster(view, now)
            self._state.touch(view.name)

    def note_refusal(self, cluster: str, now: float, *, refuses: bool) -> None:
        """The executor of a cluster refuses what this dispatcher signs, or accepts it again."""
        view = self._state.clusters[cluster]
        if view.refuses != refuses:
            view.refuses = refuses
            if view.ready:
                self._show_cluster(view, now)
                self._state.touch(cluster)

    def note_follows(self, cluster: str, follows: tuple[str, ...], now: float) -> None:
        """What follows pods there, as its executor says."""
        view = self._state.clusters[cluster]
        served = view.serves
        view.follows = follows
        if view.ready and view.serves != served:
            self._show_cluster(view, now)
            self._state.touch(cluster)

    def _note_readiness(self, view: ClusterView, was_ready: bool, now: float) -> None:
        """Stamp a change of readiness, and tell of it. A cluster that is not ready when it is first
        heard of, or missed, is so from then on: what was before this dispatcher's life is not
        known.
        """
        if view.ready == was_ready:
            if not was_ready and view.not_ready_since == float("-inf"):
                view.not_ready_since = now
            return
        view.ready_since = float("inf") if was_ready else now
        view.not_ready_since = now if was_ready else float("inf")
        self._show_cluster(view, now)
        self._peer_updates.send_to_all()
        self._state.touch(view.name)

    def _show_cluster(self, view: ClusterView, now: float) -> None:
        self._state.fleet.set_cluster(
            view.name,
            ready=view.ready and view.takes_orders,
            synced=view.synced,
            opens=view.opens,
            priority_classes=view.priority_classes,
            runtime_classes=view.runtime_classes,
            network=view.network if view.serves else OWN_NETWORK,
        )
        self._state.queue.wake(WakeEvent.CLUSTER_CHANGED, now)

    def _fold_nodes(self, view: ClusterView, changes: Changes, most: int) -> Iterator[bool]:
        """Real nodes that are new or changed enter the fleet together, in the order of the report,
        `most` at a time.
        """
        together: list[views.Change[Node]] = []
        for change in views.fold_nodes(view, changes):
            before = change.before
            after = change.after
            put = (
                after is not None
                and not after.proxy_for
                and (before is None or not before.proxy_for)
            )
            if together and (not put or len(together) >= most):
                yield from self._put_nodes(view.name, together)
                together = []
            if put:
                together.append(change)
            else:
                self._node_changed(view.name, change, self._state.fleet.now)
                yield False
        if together:
            yield from self._put_nodes(view.name, together)

    def _put_nodes(self, cluster: str, changes: list[views.Change[Node]]) -> Iterator[bool]:
        state = self._state
        state.fleet.put_nodes(cluster, [change.after for change in changes if change.after])
        if state.queue.listens(_NODE_PUT):
            for change in changes:
                kind = WakeEvent.NODE_CHANGED if change.before else WakeEvent.NODE_ADDED
                state.queue.wake(
                    ClusterEvent(kind, cluster, change.before, change.after), state.fleet.now
                )
        yield from repeat(False, len(changes) // _NODES_A_POD)

    def _node_changed(self, cluster: str, change: views.Change[Node], now: float) -> None:
        """A node that goes, or that is or was a proxy node."""
        before = change.before
        after = change.after
        self._proxy_changed(cluster, change, now)
        if after is not None and not after.proxy_for:
            self._state.fleet.put_node(cluster, after)
            # a proxy's room is no room here
            was = before if before is not None and not before.proxy_for else None
            self._state.queue.wake(ClusterEvent(WakeEvent.NODE_CHANGED, cluster, was, after), now)
        elif before is not None and not before.proxy_for:
            self._state.fleet.remove_node(cluster, before.name)
            self._state.queue.wake(
                ClusterEvent(WakeEvent.NODE_REMOVED, cluster, before), now
            )  # its domain may be gone

    def _proxy_changed(self, home: str, change: views.Change[Node], now: float) -> None:
        """What an operator says of another cluster, on its proxy node: take no pods there, or that
        nothing runs.
        """
        was = closed_proxy(change.before)
        closed = closed_proxy(change.after)
        if was != closed:
            self._state.fleet.set_closed(home, was or closed, closed=bool(closed))
            self._state.queue.wake(WakeEvent.CLUSTER_CHANGED, now)
        (before, had), (after, has) = tainted_proxy(change.before), tainted_proxy(change.after)
        if had != has:
            self._state.fleet.set_proxy_taints(home, before or after, has)
            self._state.queue.wake(WakeEvent.CLUSTER_CHANGED, now)
        was, fenced = fenced_proxy(change.before), fenced_proxy(change.after)
        if was != fenced:
            view = self._state.clusters[home]
            view.fenced = view.fenced - {was} | ({fenced} if fenced else frozenset())
            self._state.dirty.update(pod_id for pod_id in self._state.tracked if pod_id[0] == home)

    def _object_changed(self, cluster: str, change: views.Change[AnyObject], now: float) -> None:
        kind = type(change.after or change.before).__name__
        event = ClusterEvent(OBJECT_EVENTS[kind], cluster, change.before, change.after)
        self._retries.object_changed(event, now)
        self._state.queue.wake(event, now)

    def _pod_changed(self, view: ClusterView, change: views.Change[Pod], now: float) -> None:
        before = change.before
        after = change.after
        if before is not None and after is not None and (kind := placed_pod_changed(before, after)):
            self._state.queue.wake(ClusterEvent(kind, view.name, before, after), now)
        if after is not None and _is_own(before, after):  # nearly all that is reported
            self._own_pod_changed(view, after)
            return
        was = self._known_owner(view, before) if before is not None else None
        owner = self._owner_of(view, after) if after is not None else None
        if was is not None and was != owner:
            self._state.owners.pop((view.name, before.uid if before is not None else ""), None)
            self._pod_gone(view, was, seen_deleted=change.seen_deleted and after is None)
        elif before is not None and was is None and (after is None or owner is not None):
            self._foreign_changed(view.name, before.uid, views.Change(before, None), now)
        if after is None:
            return
        if owner is None:
            self._foreign_changed(
                view.name, after.uid, change if was is None else views.Change(None, after), now
            )
            return
        if after.source is None:
            self._own_pod_changed(view, after)
            return
        tracked = self._state.track(owner)
        self._state.owners[view.name, after.uid] = owner
        tracked.see_delegate(view.name, after)
        self._state.unstarted.see(owner, after, self._state.fleet.now)
        self._state.seen(tracked)

    def _own_pod_changed(self, view: ClusterView, pod: Pod) -> None:
        """A pod submitted to us in this cluster came, or changed. It holds room elsewhere by a
        claim that its executor has signed, not by what its observer says.
        """
        state = self._state
        pod_id = (view.name, pod.uid)
        if pod.claim is not None and not _is_claimed(view, pod):
            pod = without_claim(pod)
        tracked = state.tracked.get(pod_id)
        if tracked is None and not pod.node and pod.claim is None:  # at home, that is
            state.tracked.active[pod_id] = Tracked(pod_id, pod)
            state.dirty.add(pod_id)
            return
        tracked = tracked or state.track(pod_id)
        before = tracked.source
        tracked.see_source(pod)
        if pod.group is not None or (before is not None and before.group is not None):
            self._member_changed(pod_id, before, pod)
        tracked.queued = False  # labels, gates or spec may be others now: queue it anew
        state.seen(tracked)

    def _member_changed(self, pod_id: PodId, before: Pod | None, after: Pod | None) -> None:
        """A member of a group has a place, or none any more, as its own cluster shows."""
        queue = self._state.queue
        home = pod_id[0]
        if after is not None and after.node and not after.terminal:
            if before is not None and before.group != after.group:
                queue.member_displaced(pod_id, PodInfo(before, home))
            queue.member_placed(pod_id, PodInfo(after, home))
        elif before is not None and (after is None or after.terminal):
            queue.member_displaced(pod_id, PodInfo(before, home))

    def _keys_changed(self, view: ClusterView) -> None:
        """Of the pods that are known of the cluster other claims verify now."""
        for pod in [
            one for one in view.pods.values() if one.claim is not None and _is_own(None, one)
        ]:
            self._own_pod_changed(view, pod)

    def _known_owner(self, view: ClusterView, pod: Pod) -> PodId | None:
        """The owner that was found when the pod was last seen: keys may have changed since."""
        if pod.source is None:
            return self._owner_of(view, pod)
        return self._state.owners.get((view.name, pod.uid))

    def _owner_of(self, view: ClusterView, pod: Pod) -> PodId | None:
        """The source pod that a pod is, or stands for; None for one that is not ours."""
        source = pod.source
        if source is None:
            return (view.name, pod.uid) if is_ours(pod.scheduler_name) else None
        home = next(
            (one for one in self._state.clusters.values() if one.uid == source.cluster_uid), None
        )
        if home is None or not home.keys:
            return (
                home.name if home else source.cluster,
                source.uid,
            )  # its agent has verified it; we cannot yet
        if not is_claim_of(plain_keys(home.keys), pod.annotations.get(CLAIM, "")):
            return None
        if _is_claimed_for(view, pod, source):
            return (home.name, source.uid)
        self._state.warn(
            f'cluster "{view.name}": its agent shows pod {pod.namespace}/{pod.name} as the '
            f"delegate of {home.name} "
            f"{source.namespace}/{source.name} (uid {source.uid}), but the claim on it is for "
            "another pod or cluster: "
            "it counts as a pod of another scheduler; find out who speaks there as its agent"
        )
        return None

    def _pod_gone(self, view: ClusterView, owner: PodId, *, seen_deleted: bool) -> None:
        tracked = self._state.track(owner)
        if owner[0] == view.name:
            if tracked.source is not None and tracked.source.group is not None:
                self._member_changed(owner, tracked.source, None)
            tracked.see_source(None, seen_deleted=seen_deleted)
        else:
            tracked.see_delegate(view.name, None, seen_deleted=seen_deleted)
            self._state.unstarted.started(owner)
        self._state.seen(tracked)

    def _foreign_changed(
        self, cluster: str, uid: str, change: views.Change[Pod], now: float
    ) -> None:
        pod_id = (cluster, uid)
        pod = change.after
        if pod is not None and pod.node and not pod.terminal:
            pod_info = PodInfo(pod, cluster)
            if pod.phase != RUNNING:
                pod_info = self._state.fleet.with_use(pod_info)
            self._state.fleet.place(pod_id, pod_info, cluster, pod.node, assumed=False)
            before = change.before
            if before is None or before.node != pod.node:
                gone = before if before is not None and before.node else None
                kind = (
                    WakeEvent.POD_PLACED | WakeEvent.POD_REMOVED if gone else WakeEvent.POD_PLACED
                )
                self._state.queue.wake(ClusterEvent(kind, cluster, gone, pod), now)
        elif self._state.fleet.remove(pod_id):
            self._evictions.gone(pod_id)
            self._state.queue.wake(ClusterEvent(WakeEvent.POD_REMOVED, cluster, change.before), now)
