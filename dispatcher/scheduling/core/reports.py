"""What agents report: folded into the fleet, into what is tracked of each pod of ours, and into what wakes the queue.

A pod is ours by its schedulerName, or as the delegate of one (`spec.source`, held against the keys of its home
cluster). All others only take room. What is due for a pod whose report came is not decided here (`reconciler`).
"""

from dispatcher.model.messages import Changes
from dispatcher.model.names import CLAIM, is_ours
from dispatcher.model.node import Node
from dispatcher.model.objects import AnyObject
from dispatcher.model.pod import Pod, PodId
from dispatcher.model.signatures import is_claim_of, plain_keys
from dispatcher.scheduling import clusters as views
from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import ClusterView, GapError
from dispatcher.scheduling.core.evictions import Evictions
from dispatcher.scheduling.core.retries import Retries
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.core.telling import Telling
from dispatcher.scheduling.delegation.peers import closed_proxy
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.hints import OBJECT_EVENTS, ClusterEvent, WakeEvent


class Reports:
    """Folds reports into the state."""

    def __init__(self, state: CoreState, retries: Retries, evictions: Evictions, telling: Telling) -> None:
        self._state, self._retries, self._evictions, self._telling = state, retries, evictions, telling

    def changed(self, event: events.ClusterChanged, now: float) -> None:
        """An agent reported. GapError for a report that does not continue what is known: ask for a full one."""
        changes = event.changes
        view = self._state.clusters.get(changes.cluster)
        if view is None:
            ours = ", ".join(self._state.clusters)
            raise GapError(f"cluster {changes.cluster!r} is not one of this dispatcher's: {ours}")
        wrong_identity = views.wrong_identity(view, changes, self._state.clusters)
        if wrong_identity:
            self._state.trouble(f"cluster {wrong_identity}")
            self.silent(events.ClusterSilent(view.name, wrong_identity), now)
            return
        views.check_continues(view, changes)
        self._fold_health(view, changes, now)
        for node in views.fold_nodes(view, changes):
            self._node_changed(view.name, node, now)
        for change in views.fold_objects(self._state.fleet.kept, changes):
            self._object_changed(view.name, change, now)
        for reading in changes.readings:
            self._state.fleet.put_reading(view.name, reading)
        if changes.readings:
            self._state.fleet.learn_usual()
            self._state.queue.wake(WakeEvent.READINGS, now)
        for pod in views.fold_pods(view, changes):
            self._pod_changed(view, pod, now)

    def _fold_health(self, view: ClusterView, changes: Changes, now: float) -> None:
        was_ready, was_restored, opened = view.ready, view.restored, view.opens
        confirms = views.confirms(view, changes)
        views.fold_health(view, changes, now)
        self._note_readiness(view, was_ready, now)
        if opened != view.opens:
            self._show_cluster(view, now)
        if confirms:
            self._state.orphans.release(view.name, now)
        if confirms or (was_restored and not view.restored):  # what is missing there proves something again
            self._state.touch(view.name)

    def silent(self, event: events.ClusterSilent, now: float) -> None:
        """An agent is away: nothing new goes there until it views."""
        view = self._state.clusters[event.cluster]
        was_ready = view.ready
        view.silent, view.problem, view.heard = True, event.problem, True
        self._note_readiness(view, was_ready, now)

    def _note_readiness(self, view: ClusterView, was_ready: bool, now: float) -> None:
        if not views.note_readiness(view, was_ready, now):
            return
        self._show_cluster(view, now)
        self._telling.tell_peers()
        self._state.touch(view.name)

    def _show_cluster(self, view: ClusterView, now: float) -> None:
        self._state.fleet.set_cluster(view.name, ready=view.ready, synced=view.synced, opens=view.opens)
        self._state.queue.wake(WakeEvent.CLUSTER_CHANGED, now)

    def _node_changed(self, cluster: str, change: views.Change[Node], now: float) -> None:
        before, after, _ = change
        self._proxy_changed(cluster, change, now)
        if after is not None and not after.proxy_for:
            self._state.fleet.put_node(cluster, after)
            kind = WakeEvent.NODE_CHANGED if before else WakeEvent.NODE_ADDED
            self._state.queue.wake(ClusterEvent(kind, cluster, before, after), now)
        elif before is not None and not before.proxy_for:
            self._state.fleet.remove_node(cluster, before.name)

    def _proxy_changed(self, home: str, change: views.Change[Node], now: float) -> None:
        """What an operator says of another cluster, on its proxy node: take no pods there, or that nothing runs."""
        was, closed = closed_proxy(change.before), closed_proxy(change.after)
        if was != closed:
            self._state.fleet.set_closed(home, was or closed, closed=bool(closed))
            self._state.queue.wake(WakeEvent.CLUSTER_CHANGED, now)
        if self._state.fences.note(home, change):
            self._state.due.update(pod_id for pod_id in self._state.tracked if pod_id[0] == home)

    def _object_changed(self, cluster: str, change: views.Change[AnyObject], now: float) -> None:
        kind = type(change.after or change.before).__name__
        event = ClusterEvent(OBJECT_EVENTS[kind], cluster, change.before, change.after)
        self._retries.object_changed(event, now)
        self._state.queue.wake(event, now)

    def _pod_changed(self, view: ClusterView, change: views.Change[Pod], now: float) -> None:
        before, after, told = change
        was, owner = self._known_owner(view, before), self._owner_of(view, after)
        if was is not None and was != owner:
            self._state.owners.pop((view.name, before.uid if before is not None else ""), None)
            self._went(view, was, told=told and after is None)
        elif before is not None and was is None and (after is None or owner is not None):
            self._foreign_changed(view.name, before.uid, views.Change(before, None), now)
        if after is None:
            return
        if owner is None:
            self._foreign_changed(view.name, after.uid, change if was is None else change._replace(before=None), now)
            return
        tracked = self._state.track(owner)
        if after.source is not None:
            self._state.owners[view.name, after.uid] = owner
            tracked.see_delegate(view.name, after)
        else:
            tracked.see_source(after)
            tracked.queued = False  # labels, gates or spec may be others now: queue it anew
        self._state.due.add(owner)

    def _known_owner(self, view: ClusterView, pod: Pod | None) -> PodId | None:
        """Whose a pod was taken for when it was last seen: keys may be others since."""
        if pod is None or pod.source is None:
            return self._owner_of(view, pod)
        return self._state.owners.get((view.name, pod.uid))

    def _owner_of(self, view: ClusterView, pod: Pod | None) -> PodId | None:
        """The source pod that a pod is, or stands for; None for one that is not ours."""
        if pod is None:
            return None
        source = pod.source
        if source is None:
            return (view.name, pod.uid) if is_ours(pod.scheduler_name) else None
        home = next((one for one in self._state.clusters.values() if one.uid == source.cluster_uid), None)
        if home is None or not home.keys:
            return (home.name if home else source.cluster, source.uid)  # its agent has verified it; we cannot yet
        return (home.name, source.uid) if is_claim_of(plain_keys(home.keys), pod.annotations.get(CLAIM, "")) else None

    def _went(self, view: ClusterView, owner: PodId, *, told: bool) -> None:
        tracked = self._state.track(owner)
        if owner[0] == view.name:
            tracked.see_source(None, told=told)
        else:
            tracked.see_delegate(view.name, None, told=told)
        self._state.due.add(owner)

    def _foreign_changed(self, cluster: str, uid: str, change: views.Change[Pod], now: float) -> None:
        pod_id, pod = (cluster, uid), change.after
        if pod is not None and pod.node and not pod.terminal:
            self._state.fleet.place(pod_id, Placed(pod, cluster), cluster, pod.node, assumed=False)
            before = change.before
            if before is None or (before.node, before.labels) != (pod.node, pod.labels):
                gone = before if before is not None and before.node else None
                kind = WakeEvent.POD_PLACED | WakeEvent.POD_REMOVED if gone else WakeEvent.POD_PLACED
                self._state.queue.wake(ClusterEvent(kind, cluster, gone, pod), now)
        elif self._state.fleet.remove(pod_id):
            self._evictions.gone(pod_id)
            self._state.queue.wake(ClusterEvent(WakeEvent.POD_REMOVED, cluster, change.before), now)
