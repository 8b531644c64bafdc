"""What is due for one pod of ours, by all that is known of it: level-triggered, and the same
however it came to this.

The delegate protocol says the next step as a function of the observed state
(`delegation.protocol.next_step`); here the observed state is put together, the fleet is made to
hold the pod where it is or may be, and the step is begun: the pod is queued, an intent is sent, or
its user is told what it waits for. A fault about one pod never stops the others.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from dispatcher.scheduling.core.deciding import Deciding
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation.in_flight import PLACING
from dispatcher.scheduling.delegation.protocol import (
    NOTHING,
    QUEUE,
    NextStep,
    ObservedState,
    Step,
    next_step,
    target_of,
    wants_place,
)
from dispatcher.scheduling.delegation.steps import Attempt, intent_for
from dispatcher.scheduling.delegation.tracking import (
    ClusterReachability,
    Tracked,
    fenced_for,
    forget_vanished,
    observed_state,
    place_of,
)
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queued import QueuedPod, State
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.waiting_groups import WaitingGroup
from shared.model.pod import Pod, PodId, Toleration
from shared.model.reasons import Reasons, Why
from shared.model.token_buckets import TokenBuckets
from shared.model.wake_events import WakeEvent

_PAUSE_S = 1.0  # of a pod whose turn has not come
# Enum attributes are slow to look up.
_GATED = State.GATED
_UNGIVEN = frozenset((Reasons.UNGIVEN,))
_TOLD = {Step.HOLD: Reasons.STILL_ELSEWHERE, Step.WAIT: Reasons.UNANSWERED}
_home_of = itemgetter(0)
_uid_of = itemgetter(1)


def _in_order(pod_ids: Iterable[PodId]) -> list[PodId]:
    """`sorted`, in a third of the time: texts alone are compared faster than pairs of them."""
    return sorted(sorted(pod_ids, key=_uid_of), key=_home_of)


class Reconciler:
    """Looks at pods that are due."""

    def __init__(
        self, state: CoreState, deciding: Deciding, ledger: QuotaLedger | None = None
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._retries = deciding.retries
        self._binding = deciding.binding
        self._evictions = deciding.evictions
        self._reachability: ClusterReachability | None = None  # while nothing but pods changes
        # Of each fenced cluster, steps that nothing but the fence asks for. Example: at 20 a second
        # 3,000 pods are released in 150 s, so that what takes their place comes as fast.
        fenced_per_s = state.timing.fenced_per_s
        self._releases = TokenBuckets(max(1.0, fenced_per_s), fenced_per_s)
        self._entered: list[QueuedPod] = []  # the queue in this event, in order

    def reconcile_due(self, now: float) -> None:
        """Reconcile every pod that is due, until none is: what one needs may make another due."""
        state = self._state
        self._reachability = None
        while state.dirty:
            due = _in_order(state.dirty)
            state.dirty = set()
            for handler, run in groupby(state.tracked.get_all(due), partial(self._handler_of, now)):
                handler(self, list(run), now)
        if self._entered:
            self._wake_waiting(now)

    def _handler_of(self, now: float, tracked: Tracked) -> "_Handler":
        """How a pod is looked at among others: nearly all are to be queued, or keep their place,
        and that is done for many at once.
        """
        source = tracked.source
        if source is None or tracked.vanished is not None or now < tracked.hold_until:
            return _EACH
        try:
            if source.node:
                return _CONFIRM if self._keeps_place(tracked, now) else _EACH
            return _ENQUEUE if self._is_new(tracked, source, now) else _EACH
        except Exception:  # a look at it alone meets the error again
            return _EACH

    def _reconcile_each(self, run: Iterable[Tracked], now: float) -> None:
        self._each(self._reconcile, run, now)

    def _each(
        self, reconcile: Callable[[Tracked, float], None], run: Iterable[Tracked], now: float
    ) -> None:
        for tracked in run:
            try:
                reconcile(tracked, now)
            except Exception as error:  # a fault of ours about one pod must not stop the others
                self._retry_later(tracked, error, now)

    def occupy_due(self, now: float) -> None:
        """Make the fleet hold the pods that are due where they are, and do nothing about them:
        another leads.
        """
        state = self._state
        due = _in_order(state.dirty | state.dirty_backlog.keys())
        state.dirty = set()
        state.dirty_backlog.clear()
        state.backlog_clusters.clear()
        for pod_id in due:
            tracked = self._state.tracked.get(pod_id)
            if tracked is None:
                continue
            try:
                self._occupy(tracked, now)
            except Exception as error:  # a fault of ours about one pod must not stop the others
                self._retry_later(tracked, error, now)
            if tracked.forgotten:
                self._state.forget(pod_id)
            else:
                self._state.tracked.compact(tracked)

    def _report_fault(self, about: str, error: Exception) -> None:
        self._state.counters["faults", type(error).__name__] += 1
        self._state.warn(f"{about}: {type(error).__name__}: {error}", error)

    def _retry_later(self, tracked: Tracked, error: Exception, now: float) -> None:
        self._report_fault(f"pod {tracked.pod_id}", error)
        tracked.hold_until = now + self._state.timing.retry.most_s
        self._state.schedule_recheck(tracked, tracked.hold_until)

    def _reconcile(self, tracked: Tracked, now: float) -> None:
        """Do what is due for one pod."""
        state = self._state
        pod_id = tracked.pod_id
        if tracked.in_flight is not None and state.is_over(tracked, tracked.in_flight, now):
            state.outbox.drop(tracked)
        if self._binding.holds(pod_id) and self._still_held(tracked, now):
            return
        if tracked.vanished is not None:
            forget_vanished(tracked, state.clusters, now, state.timing)
        self._occupy(tracked, now)
        if tracked.in_flight is not None:
            return
        if now < tracked.hold_until:
            state.schedule_recheck(tracked, tracked.hold_until)
            return
        due = self._next_step(tracked, now)
        if due is None:
            tracked.hold_until = now + _PAUSE_S
            state.schedule_recheck(tracked, tracked.hold_until)
            return
        step, cluster = due
        if due is QUEUE:
            self._enqueue(tracked, now)
            return
        state.queue.remove(pod_id)
        tracked.queued = False
        if step in _TOLD:
            state.report(tracked, Why(_TOLD[step], cluster).text, now, nodes_help=False)
        elif due is not NOTHING:
            attempt = Attempt(
                tracked, cluster, state.clusters, state.outbox.next_epoch(), state.why, now
            )
            state.outbox.send(tracked, intent_for(step, attempt))
        self._rest(tracked, now)

    def _is_new(self, tracked: Tracked, source: Pod, now: float) -> bool:
        """Whether all that a look would do is to queue a pod that never was, and in which nothing
        is wrong.
        """
        if tracked.queued or tracked.item is not None or source.problems or source.nominated_node:
            return False
        if tracked.in_flight is not None or self._cached_step(tracked, now) is not QUEUE:
            return False
        pod_id = tracked.pod_id
        if self._state.fleet.occupant(pod_id) is not None or self._binding.holds(pod_id):
            return False
        return self._state.profiles.unknown(source) is None

    def _keeps_place(self, tracked: Tracked, now: float) -> bool:
        """Whether all that a look would find is that the pod is where it shows in its own cluster,
        and what was asked for it is over.
        """
        pod_id = tracked.pod_id
        if pod_id in self._state.abroad or self._binding.holds(
            pod_id
        ):  # of the former it would take longer to tell
            return False
        in_flight = tracked.in_flight
        if in_flight is not None and not self._state.is_over(tracked, in_flight, now):
            return False
        if self._cached_step(tracked, now) is not NOTHING:
            return False
        place = place_of(tracked)
        return place is not None and place[1] == pod_id[0]

    def _enqueue_all(self, run: Sequence[Tracked], now: float) -> None:
        """Queue pods of which `_is_new` holds."""
        try:
            infos = self._retries.pod_infos(
                [(tracked, tracked.source) for tracked in run if tracked.source], now
            )
            items = self._state.queue.add_all(
                zip([tracked.pod_id for tracked in run], infos, strict=True), now
            )
            self._entered += items
            for tracked, item in zip(run, items, strict=True):
                tracked.queued = True
                if item.state is _GATED:
                    self._report_gated(tracked, item, now)
        except (
            Exception
        ) as error:  # a fault of ours, or of a plugin, about one pod must not stop the others
            self._report_fault("pods that are due together", error)
            self._reconcile_each(run, now)

    def _confirm_all(self, run: Sequence[Tracked], now: float) -> None:
        """Pods of which `_keeps_place` holds are where they show, and what was asked for them is
        over.
        """
        state = self._state
        try:
            state.outbox.drop_all(run)
            state.profiles.confirm_all(
                [(one.pod_id, PodInfo(one.source, one.pod_id[0])) for one in run if one.source]
            )
            state.queue.remove_all([one.pod_id for one in run])
            watched = len(state.profiles.nominations) > 0 or len(state.recheck_each_tick) > 0
            for tracked in run:
                tracked.queued = False
                tracked.item = None
                if watched or tracked.missing_since:
                    self._rest(tracked, now)
                else:
                    state.tracked.compact(tracked)
        except Exception as error:  # a fault of ours about one pod must not stop the others
            self._report_fault("pods that show bound together", error)
            self._each(self._reconcile, state.tracked.get_all([one.pod_id for one in run]), now)

    def _next_step(self, tracked: Tracked, now: float) -> NextStep | None:
        """What is due; None: not yet, since others of a fenced cluster come first."""
        self._state.look_again(tracked, now)
        due = self._cached_step(tracked, now)
        if due is not None:
            return due
        seen = self._observed_state(tracked, now)
        due = next_step(seen)
        fenced = _released_by_fence(seen, due)
        return due if not fenced or self._releases.admit(now, fenced) is not None else None

    def _cached_step(self, tracked: Tracked, now: float) -> NextStep | None:
        """What is due, for a pod in a situation of which that is kept; None: in any other."""
        steps = self._state.steps
        key = steps.key_of(tracked, now)
        if key is None:
            return None
        return steps.get(key) or steps.keep(key, next_step(self._observed_state(tracked, now)))

    def _observed_state(self, tracked: Tracked, now: float) -> ObservedState:
        orphan = tracked.orphaned_at is not None
        may_go = not orphan or self._state.orphans.may_go(tracked.pod_id, now)
        if (
            self._reachability is None
        ):  # once for all that are due: nothing that is done for a pod makes a cluster come or go
            self._reachability = ClusterReachability.of(self._state.clusters)
        return observed_state(
            tracked,
            self._state.clusters,
            now,
            self._state.timing,
            reach=self._reachability,
            orphans_may_go=may_go,
        )

    def _still_held(self, tracked: Tracked, now: float) -> bool:
        """Whether a pod that waits at Permit, PreBind or Bind still does."""
        source = tracked.source
        if source is not None and source.node:
            self._binding.release(tracked.pod_id)
        elif source is None or not wants_place(source) or source.claim is not None:
            self._binding.cancel(tracked.pod_id, now)
        return self._binding.holds(tracked.pod_id)

    def _rest(self, tracked: Tracked, now: float) -> None:
        """Nothing to do by event: forget what is over, come back by time to what is only missing."""
        state = self._state
        pod_id = tracked.pod_id
        source = tracked.source
        if source is None or not wants_place(source):
            tracked.item = None  # never to be tried again: it would keep an old version of the pod
            if state.profiles.nominations.drop(pod_id) is not None:
                state.queue.wake(
                    WakeEvent.POD_REMOVED, now
                )  # the room that was held for it is free
        forgotten = source is None and tracked.forgotten
        if forgotten:
            state.forget(pod_id)
        if not forgotten and tracked.waits_for_time:
            state.recheck_each_tick.add(pod_id)
        elif state.recheck_each_tick:
            state.recheck_each_tick.discard(pod_id)
        if not forgotten:
            state.tracked.compact(tracked)

    def _occupy(self, tracked: Tracked, now: float) -> None:
        """Make the fleet hold this pod where it is, goes, or may be; nowhere once it has ended."""
        state = self._state
        pod_id = tracked.pod_id
        place = place_of(tracked, fenced_for(state.clusters.get(pod_id[0])))
        known = state.fleet.occupant(pod_id)
        if place is None:
            if known is None:
                return
            placing = (
                tracked.in_flight is not None
                and tracked.in_flight.kind in PLACING
                and tracked.source is not None
            )
            if not placing and not self._binding.holds(pod_id):
                state.free(pod_id, now)
                self._evictions.gone(pod_id)
            return
        pod, cluster, node = place
        pod_info = self._pod_info(tracked, pod, cluster, node, now)
        if (
            known is None
            or known.assumed
            or (known.cluster, known.node, known.pod_info.pod)
            != (cluster, node, pod_info.at(cluster).pod)
        ):
            state.profiles.restore(pod_id, pod_info, cluster, node)

    def _pod_info(self, tracked: Tracked, pod: Pod, cluster: str, node: str, now: float) -> PodInfo:
        """The pod as it is booked there: as large as its cluster makes it, as far as no delegate
        shows that yet.
        """
        home = tracked.pod_id[0]
        if cluster == home or pod is not (tracked.source or tracked.vanished):
            return PodInfo(pod, home)
        known = self._state.fleet.occupant(tracked.pod_id)
        if known is not None and (known.cluster, known.node) == (cluster, node):
            return PodInfo(pod, home, known.pod_info.refused)
        return PodInfo(pod, home, self._retries.known(tracked, pod, now))

    # --- places
    # ----------------------------------------------------------------------------------------------

    def _enqueue(self, tracked: Tracked, now: float) -> None:
        pod = tracked.source
        if pod is None or tracked.queued:
            return
        never = (
            Why(Reasons.INVALID, "; ".join(pod.problems))
            if pod.problems
            else self._state.profiles.unknown(pod)
        )
        if never is not None:
            self._state.queue.remove(tracked.pod_id)
            self._state.report(tracked, never.text, now, nodes_help=False)
            return
        tracked.queued = True
        pod_info = self._retries.pod_info(tracked, pod, now)
        if tracked.item is not None and self._retries.again(tracked, pod_info, now):
            return
        if pod.nominated_node:
            self._restore_nomination(tracked, pod)
        item = self._state.queue.add(tracked.pod_id, pod_info, now)
        self._entered.append(item)
        if item.state is _GATED:
            self._report_gated(tracked, item, now)

    def _wake_waiting(self, now: float) -> None:
        """Retry pods that wait for others to come (members of a gang); but not the last that came,
        as it was decided after all others.
        """
        entered = self._entered
        self._entered = []
        if not self._state.queue.listens(WakeEvent.POD_ADDED):
            return
        came = [one for one in entered if one.queued_at == now]  # others waited before, as they are
        if came:
            pod_id = came[-1].pod_id
            pod = came[-1].pod_info.pod
            event = (
                ClusterEvent(WakeEvent.POD_ADDED, pod_id[0], None, pod)
                if len(came) == 1
                else ClusterEvent(WakeEvent.POD_ADDED)
            )
            self._state.queue.wake(event, now, but=came[-1])

    def _report_gated(self, tracked: Tracked, item: QueuedPod, now: float) -> None:
        group = self._state.queue.groups.waits_in(item)
        if group is not None:
            self._report_incomplete(tracked, group, now)
            return
        gated = item.pod_info.pod.gated
        reason = "SchedulingGated" if gated else "Unschedulable"
        tolerations: tuple[Toleration, ...] = ()
        if self._ledger is not None and item.reasons == _UNGIVEN:
            tolerations = self._ledger.ungiven(item.pod_info)
        self._state.report(
            tracked, item.note, now, reason, nodes_help=gated, tolerations=tolerations
        )

    def report_gated(self, now: float) -> None:
        """Other policies may gate pods that wait: tell why."""
        for tracked in list(self._state.tracked.active.values()):
            item = self._state.queue.get(tracked.pod_id)
            if item is not None and item.state is _GATED:
                self._report_gated(tracked, item, now)

    def _report_incomplete(self, tracked: Tracked, group: WaitingGroup, now: float) -> None:
        """Too few members are here by now; those of a group that others stand for are told by what
        becomes of it.
        """
        if group.lead is None:
            text = Why(Reasons.GROUP_INCOMPLETE, group.note).text
            self._state.report(tracked, text, now, nodes_help=False)

    def _restore_nomination(self, tracked: Tracked, pod: Pod) -> None:
        """Keep status.nominatedNodeName as an earlier dispatcher or somebody else has written it."""
        if tracked.nominated_node is None:
            tracked.nominated_node = pod.nominated_node
            nominee = Nominee(
                tracked.pod_id, PodInfo(pod, tracked.home), tracked.home, pod.nominated_node
            )
            self._state.profiles.nominations.put(nominee)


def _released_by_fence(seen: ObservedState, due: NextStep) -> str:
    """The fenced cluster for whose sake alone the step is due; "" if it is due for another reason."""
    if due.step is Step.DELETE_DELEGATE:
        return due.cluster if due.cluster in seen.fenced else ""
    if due.step is not Step.FINISH or seen.source is None or seen.source.terminating:
        return ""
    target = target_of(seen.home, seen.source)
    return target if target in seen.fenced else ""


_Handler = Callable[[Reconciler, Sequence[Tracked], float], None]
_EACH = Reconciler._reconcile_each
_ENQUEUE = Reconciler._enqueue_all
_CONFIRM = Reconciler._confirm_all
