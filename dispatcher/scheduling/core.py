"""The dispatcher as a state machine: events in, effects out. No clock, no socket, no await.

`handle(event, now)` is the only door. Reports are folded into the fleet and into what is tracked of each of our pods;
a Tick decides queued pods; outcomes move flights on. Truth is what the agents report: after a crash the core starts
empty and comes to the same state from full reports. Until every cluster was heard of once nothing is decided, since
the room and quota in use would be unknown.
"""

from collections.abc import Sequence

from dispatcher.model.messages import Changes
from dispatcher.model.names import CLAIM, is_ours
from dispatcher.model.node import Node
from dispatcher.model.objects import AnyObject
from dispatcher.model.pod import Pod, PodId
from dispatcher.model.reasons import Reason, Why
from dispatcher.model.signatures import is_claim_of, plain_keys
from dispatcher.scheduling import clusters as reports
from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import ClusterView, GapError
from dispatcher.scheduling.core_state import CoreState
from dispatcher.scheduling.core_timing import CoreTiming
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.deciding import Deciding
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.delegation import shared_keys, strangers
from dispatcher.scheduling.delegation.fences import Fences
from dispatcher.scheduling.delegation.flights import ENDED_WITH_SOURCE, PLACING, settled
from dispatcher.scheduling.delegation.orphans import Orphans
from dispatcher.scheduling.delegation.peers import closed_proxy
from dispatcher.scheduling.delegation.protocol import Situation, Step, next_step, wants_place
from dispatcher.scheduling.delegation.steps import Attempt, order_of
from dispatcher.scheduling.delegation.tracking import Tracked, place_of, situation
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.hints import OBJECT_EVENTS, Happening
from dispatcher.scheduling.outcomes import Outcomes
from dispatcher.scheduling.queue import SchedulingQueue, WakeEvent
from dispatcher.scheduling.telling import Telling

__all__ = ["CoreTiming", "SchedulerCore"]

_PAUSE_S = 1.0  # of a pod whose turn has not come
_TOLD = {Step.HOLD: Reason.STILL_ELSEWHERE, Step.WAIT: Reason.UNANSWERED}


class SchedulerCore:
    """Folds events into state and answers with effects; `clusters` are all clusters that are expected to report."""

    def __init__(
        self,
        clusters: Sequence[str],
        fleet: FleetState,
        queue: SchedulingQueue,
        scheduler: Scheduler | Profiles,
        *,
        boot_epoch: int,
        timing: CoreTiming | None = None,
    ) -> None:
        profiles = scheduler if isinstance(scheduler, Profiles) else Profiles([scheduler])
        timing = timing or CoreTiming()
        state = CoreState(clusters, fleet, queue, profiles, boot_epoch=boot_epoch, timing=timing)
        self.clusters, self.tracked, self.timing, self.counters = state.clusters, state.tracked, timing, state.counters
        self.fleet, self.queue, self.log, self.outbox = fleet, queue, state.log, state.outbox
        self.refusals = state.refusals
        self._state, self._deciding = state, Deciding(state)
        self.binding, self._evictions = self._deciding.binding, self._deciding.evictions
        self._due: set[PodId] = set()  # something about them changed: to be looked at
        self._owners: dict[tuple[str, str], PodId] = {}  # by cluster and UID of each delegate
        self._fences = Fences(timing.fenced_per_s)
        self._orphans = Orphans(self.tracked, self._fences)
        self._outcomes = Outcomes(state, self._deciding, self._fences, self._orphans)
        self._telling = Telling(state)
        self._waiting: set[PodId] = set()  # only time will tell: looked at each Tick
        self._strangers_at = float("-inf")
        for name in clusters:
            fleet.set_cluster(name, ready=False, synced=False)

    def handle(self, event: events.Event, now: float) -> list[events.Effect]:
        """Take one event in; answer what shall be done now, intents grouped by cluster and in order.

        Raises GapError for a report that does not continue what is known: ask that agent for a full one.
        """
        self.fleet.now = now
        if isinstance(event, events.ClusterChanged):
            self._reported(event.changes, now)
        elif isinstance(event, events.ClusterSilent):
            self._silent(event, now)
        elif isinstance(event, events.Answered):
            for outcome in event.outcomes:
                looked_at = self._outcomes.answered(outcome, now)
                self._due.update((looked_at,) if looked_at is not None else ())
        elif isinstance(event, events.Unanswered):
            self.outbox.unanswered(event.intent_ids, now)
            self._state.errands.unanswered(event.intent_ids, now)
        elif isinstance(event, events.Unsent):
            self._outcomes.unsent(event, now)
        elif isinstance(event, events.PeersTold):
            self.clusters[event.cluster].answered_at = now
        else:
            self._tick(event, now)
        self._look(now)
        effects, self._state.effects = self._state.effects, []
        return [*effects, *self.outbox.take()]

    @property
    def profiles(self) -> Profiles:
        """Those that decide."""
        return self._state.profiles

    def use(self, profiles: Profiles) -> None:
        """From now on these decide; they have taken over from the others."""
        self._state.profiles = profiles
        self._deciding.follow_profiles()

    @property
    def open(self) -> bool:
        """Whether decisions are taken: every cluster was heard of once."""
        return all(view.heard for view in self.clusters.values())

    # Reports

    def _reported(self, changes: Changes, now: float) -> None:
        view = self.clusters.get(changes.cluster)
        if view is None:
            raise GapError(f"cluster {changes.cluster!r} is not one of this dispatcher's: {', '.join(self.clusters)}")
        stranger = reports.stranger(view, changes, self.clusters)
        if stranger:
            self._state.trouble(f"cluster {stranger}")
            self._silent(events.ClusterSilent(view.name, stranger), now)
            return
        reports.check_continues(view, changes)
        was_ready, was_restored, opened = view.ready, view.restored, view.opens
        reports.fold_health(view, changes, now)
        self._note_readiness(view, was_ready, now)
        if opened != view.opens:
            self._show_cluster(view, now)
        if was_restored and not view.restored:  # what is missing there proves something again
            self._look_again(view)
        for node in reports.fold_nodes(view, changes):
            self._node_changed(view.name, node, now)
        for change in reports.fold_objects(self.fleet.kept, changes):
            self._object_changed(view.name, change, now)
        for reading in changes.readings:
            self.fleet.put_reading(view.name, reading)
        if changes.readings:
            self.queue.wake(WakeEvent.READINGS, now)
        for pod in reports.fold_pods(view, changes):
            self._pod_changed(view, pod, now)

    def _silent(self, event: events.ClusterSilent, now: float) -> None:
        view = self.clusters[event.cluster]
        was_ready = view.ready
        view.silent, view.problem, view.heard = True, event.problem, True
        self._note_readiness(view, was_ready, now)

    def _note_readiness(self, view: ClusterView, was_ready: bool, now: float) -> None:
        if not reports.note_readiness(view, was_ready, now):
            return
        self._show_cluster(view, now)
        self._peers_at = float("-inf")
        self._look_again(view)

    def _show_cluster(self, view: ClusterView, now: float) -> None:
        self.fleet.set_cluster(view.name, ready=view.ready, synced=view.synced, opens=view.opens)
        self.queue.wake(WakeEvent.CLUSTER_CHANGED, now)

    def _look_again(self, view: ClusterView) -> None:
        self._due.update(pod_id for pod_id, tracked in self.tracked.items() if tracked.touches(view.name))

    def _node_changed(self, cluster: str, change: reports.Change[Node], now: float) -> None:
        before, after, _ = change
        self._proxy_changed(cluster, change, now)
        if after is not None and not after.proxy_for:
            self.fleet.put_node(cluster, after)
            kind = WakeEvent.NODE_CHANGED if before else WakeEvent.NODE_ADDED
            self.queue.wake(Happening(kind, cluster, before, after), now)
        elif before is not None and not before.proxy_for:
            self.fleet.remove_node(cluster, before.name)

    def _proxy_changed(self, home: str, change: reports.Change[Node], now: float) -> None:
        """What an operator says of another cluster, on its proxy node: take no pods there, or that nothing runs."""
        was, closed = closed_proxy(change.before), closed_proxy(change.after)
        if was != closed:
            self.fleet.set_closed(home, was or closed, closed=bool(closed))
            self.queue.wake(WakeEvent.CLUSTER_CHANGED, now)
        if self._fences.note(home, change):
            self._due.update(pod_id for pod_id in self.tracked if pod_id[0] == home)

    def _object_changed(self, cluster: str, change: reports.Change[AnyObject], now: float) -> None:
        kind = type(change.after or change.before).__name__
        happening = Happening(OBJECT_EVENTS[kind], cluster, change.before, change.after)
        self._deciding.retries.object_changed(happening, now)
        self.queue.wake(happening, now)

    def _pod_changed(self, view: ClusterView, change: reports.Change[Pod], now: float) -> None:
        before, after, told = change
        was, owner = self._known_owner(view, before), self._owner_of(view, after)
        if was is not None and was != owner:
            self._owners.pop((view.name, before.uid if before is not None else ""), None)
            self._went(view, was, told=told and after is None)
        elif before is not None and was is None and (after is None or owner is not None):
            self._foreign_changed(view.name, before.uid, reports.Change(before, None), now)
        if after is None:
            return
        if owner is None:
            self._foreign_changed(view.name, after.uid, change if was is None else change._replace(before=None), now)
            return
        tracked = self._track(owner)
        if after.source is not None:
            self._owners[view.name, after.uid] = owner
            tracked.see_delegate(view.name, after)
        else:
            tracked.see_source(after)
            tracked.queued = False  # labels, gates or spec may be others now: queue it anew
        self._due.add(owner)

    def _known_owner(self, view: ClusterView, pod: Pod | None) -> PodId | None:
        """Whose a pod was taken for when it was last seen: keys may be others since."""
        if pod is None or pod.source is None:
            return self._owner_of(view, pod)
        return self._owners.get((view.name, pod.uid))

    def _owner_of(self, view: ClusterView, pod: Pod | None) -> PodId | None:
        """The source pod that a pod is, or stands for; None for one that is not ours."""
        if pod is None:
            return None
        source = pod.source
        if source is None:
            return (view.name, pod.uid) if is_ours(pod.scheduler_name) else None
        home = next((one for one in self.clusters.values() if one.uid == source.cluster_uid), None)
        if home is None or not home.keys:
            return (home.name if home else source.cluster, source.uid)  # its agent has verified it; we cannot yet
        return (home.name, source.uid) if is_claim_of(plain_keys(home.keys), pod.annotations.get(CLAIM, "")) else None

    def _went(self, view: ClusterView, owner: PodId, *, told: bool) -> None:
        tracked = self._track(owner)
        if owner[0] == view.name:
            tracked.see_source(None, told=told)
        else:
            tracked.see_delegate(view.name, None, told=told)
        self._due.add(owner)

    def _track(self, pod_id: PodId) -> Tracked:
        return self.tracked.setdefault(pod_id, Tracked(pod_id))

    def _foreign_changed(self, cluster: str, uid: str, change: reports.Change[Pod], now: float) -> None:
        pod_id, pod = (cluster, uid), change.after
        if pod is not None and pod.node and not pod.terminal:
            self.fleet.place(pod_id, Placed(pod, cluster), cluster, pod.node, assumed=False)
            before = change.before
            if before is None or (before.node, before.labels) != (pod.node, pod.labels):
                gone = before if before is not None and before.node else None
                kind = WakeEvent.POD_PLACED | WakeEvent.POD_REMOVED if gone else WakeEvent.POD_PLACED
                self.queue.wake(Happening(kind, cluster, gone, pod), now)
        elif self.fleet.remove(pod_id):
            self._evictions.gone(pod_id)
            self.queue.wake(Happening(WakeEvent.POD_REMOVED, cluster, change.before), now)

    # Looking at what is due

    def _look(self, now: float) -> None:
        while self._due:
            due, self._due = sorted(self._due), set()
            for pod_id in due:
                tracked = self.tracked.get(pod_id)
                if tracked is not None:
                    self._look_safely(tracked, now)

    def _look_safely(self, tracked: Tracked, now: float) -> None:
        try:
            self._look_at(tracked, now)
        except (
            Exception
        ) as error:  # a fault of ours about one pod must not stop the others: it is looked at again later
            self.counters["faults", type(error).__name__] += 1
            self._state.trouble(f"pod {tracked.pod_id}: {type(error).__name__}: {error}")
            tracked.hold_until = now + self.timing.retry.most_s
            self._waiting.add(tracked.pod_id)

    def _look_at(self, tracked: Tracked, now: float) -> None:
        self._drop_if_over(tracked, now)
        if self.binding.holds(tracked.pod_id) and self._still_held(tracked, now):
            return
        self._occupy(tracked, now)
        if tracked.flight is not None:
            return
        if now < tracked.hold_until:
            self._waiting.add(tracked.pod_id)
            return
        seen = self._situation(tracked, now)
        due = next_step(seen)
        if not self._fences.admits(seen, due, now):
            tracked.hold_until = now + _PAUSE_S
            self._waiting.add(tracked.pod_id)
            return
        step, cluster = due
        if step is Step.QUEUE:
            self._enqueue(tracked, now)
            return
        self.queue.remove(tracked.pod_id)
        tracked.queued = False
        if step in _TOLD:
            self._state.report(tracked, Why(_TOLD[step], cluster).text, now)
        elif step is not Step.NOTHING:
            epoch, why = self.outbox.next_epoch(), self._state.why(tracked)
            self.outbox.fly(tracked, order_of(step, Attempt(tracked, cluster, self.clusters, epoch, why, now)))
        self._rest(tracked)

    def _situation(self, tracked: Tracked, now: float) -> Situation:
        orphan = tracked.orphaned_at is not None
        may_go = not orphan or self._orphans.may_go(tracked.pod_id, now)
        fenced = self._fences.of(tracked.home)
        return situation(tracked, self.clusters, now, self.timing, orphans_may_go=may_go, fenced=fenced)

    def _still_held(self, tracked: Tracked, now: float) -> bool:
        """Whether a pod that has a place, but waits for leave to be bound, still does."""
        source = tracked.source
        if source is not None and source.node:
            self.binding.release(tracked.pod_id)
        elif source is None or not wants_place(source) or source.claim is not None:
            self.binding.cancel(tracked.pod_id, now)
        return self.binding.holds(tracked.pod_id)

    def _rest(self, tracked: Tracked) -> None:
        """Nothing to do by event: forget what is over, come back by time to what is only missing."""
        if tracked.source is None or not wants_place(tracked.source):
            self.profiles.nominations.drop(tracked.pod_id)
        if tracked.forgotten:
            self.tracked.pop(tracked.pod_id, None)
        if tracked.waits_for_time and not tracked.forgotten:
            self._waiting.add(tracked.pod_id)
        else:
            self._waiting.discard(tracked.pod_id)

    def _drop_if_over(self, tracked: Tracked, now: float) -> None:
        flight = tracked.flight
        if flight is None:
            return
        shown = flight.settling and settled(flight, tracked.source, tracked.delegates.get(flight.cluster))
        late = flight.settling and now - flight.sent_at > self.timing.settle_s
        ends = tracked.source is not None and tracked.source.terminating
        unwanted = ends and flight.waits and flight.stage in ENDED_WITH_SOURCE
        over = tracked.flight_is_pointless or shown or late or unwanted
        if over or self._fences.outdates(tracked.home, flight, self.clusters):
            self.outbox.drop(tracked)

    def _occupy(self, tracked: Tracked, now: float) -> None:
        """Make the fleet hold this pod where it is, goes, or may be; nowhere once it has ended."""
        place = place_of(tracked, self._fences.of(tracked.home))
        known = self.fleet.occupant(tracked.pod_id)
        if place is None:
            placing = tracked.flight is not None and tracked.flight.stage in PLACING and tracked.source is not None
            if known is not None and not placing and not self.binding.holds(tracked.pod_id):
                self.profiles.forget(tracked.pod_id)
                self._evictions.gone(tracked.pod_id)
                self.queue.wake(WakeEvent.POD_REMOVED | WakeEvent.QUOTA_FREED, now)
            return
        pod, cluster, node = place
        placed = Placed(pod, tracked.home)
        if cluster != tracked.home and pod is tracked.source:  # no delegate shows yet how large it is there
            stays = known is not None and (known.cluster, known.node) == (cluster, node)
            sizes = (
                known.placed.refused if known is not None and stays else self._deciding.retries.known(tracked, pod, now)
            )
            placed = Placed(pod, tracked.home, sizes)
        there = placed.at(cluster).pod
        if known is None or known.assumed or (known.cluster, known.node, known.placed.pod) != (cluster, node, there):
            self.profiles.restore(tracked.pod_id, placed, cluster, node)

    def _enqueue(self, tracked: Tracked, now: float) -> None:
        pod = tracked.source
        if pod is None or tracked.queued:
            return
        never = Why(Reason.INVALID, "; ".join(pod.problems)) if pod.problems else self.profiles.unknown(pod)
        if never is not None:
            self.queue.remove(tracked.pod_id)
            self._state.report(tracked, never.text, now)
            return
        tracked.queued = True
        placed = self._deciding.retries.placed(tracked, pod, now)
        if self._deciding.retries.again(tracked, placed, now):
            return
        self._recall_promise(tracked, pod)
        self.queue.add(tracked.pod_id, placed, now)
        item = self.queue.get(tracked.pod_id)
        if item is not None and self.queue.state_of(tracked.pod_id) == "gated":
            self._state.report(tracked, item.note, now, "SchedulingGated" if pod.gated else "Unschedulable")

    def _recall_promise(self, tracked: Tracked, pod: Pod) -> None:
        """status.nominatedNodeName, written in an earlier life of ours or by somebody else, is kept."""
        if pod.nominated_node and tracked.promised is None:
            tracked.promised = pod.nominated_node
            nominee = Nominee(tracked.pod_id, Placed(pod, tracked.home), tracked.home, pod.nominated_node)
            self.profiles.nominations.put(nominee)

    # Deciding

    def _tick(self, event: events.Tick, now: float) -> None:
        self._due |= self._waiting
        self._due.update(tracked.pod_id for tracked in self.outbox.settling())
        self.outbox.resend(self.clusters, now)
        self._state.errands.resend(self.clusters, now)
        self._look(now)
        self._telling.tick(now)
        self._deciding.retries.time_passed(now)
        self.queue.flush(now)
        if self.open:
            self._deciding.decide(event.budget, now)
        self._state.effects += [events.Trouble(text) for text in self.profiles.take_troubles()]
        self._state.effects += [events.Trouble(text) for text in self._orphans.excess(now).values()]
        if now - self._strangers_at >= self.timing.strangers_s:
            self._strangers_at = now
            told = [one.text for one in strangers.of(self.tracked.values(), self.clusters)]
            told += [one.text for one in shared_keys.of(self.clusters)]
            self._state.effects += [events.Trouble(text) for text in told]
