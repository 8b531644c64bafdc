"""What the parts of the core share: everything that is known, and the effects that are gathered for
one answer.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.core.refusals import Refusals
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.due_times import DueTimes
from dispatcher.scheduling.delegation.in_flight import (
    ENDED_WITH_SOURCE,
    InFlightIntent,
    IntentKind,
    settled,
)
from dispatcher.scheduling.delegation.orphans import Orphans
from dispatcher.scheduling.delegation.outbox import Outbox
from dispatcher.scheduling.delegation.protocol import NOTHING
from dispatcher.scheduling.delegation.side_intents import RetryPolicy, SideIntents
from dispatcher.scheduling.delegation.step_cache import StepCache
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from dispatcher.scheduling.delegation.tracking import Tracked, fenced_for
from dispatcher.scheduling.delegation.unstarted import UnstartedPods
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.records.log import DecisionLog
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, WAITING, Outcome, ReportUnschedulable
from shared.model.backoff import Backoff
from shared.model.pod import PodId, Toleration
from shared.model.wake_events import WakeEvent

_AT_ONCE = 500  # told in one Tick


class HeldReport(NamedTuple):
    """Why a pod waits, as it is to be told."""

    message: str
    reason: str
    nodes_help: bool
    tolerations: tuple[Toleration, ...] = ()


class HeldReports:
    """What pods wait for by now, where that changed too soon after the last report, and when it may
    be told: later, not never.
    """

    def __init__(self) -> None:
        self._held: dict[PodId, HeldReport] = {}
        self._due: DueTimes[PodId] = DueTimes()

    def hold(self, pod_id: PodId, report: HeldReport, until: float) -> None:
        """In place of one that was held before."""
        self._held[pod_id] = report
        self._due.put(pod_id, until)

    def drop(self, pod_id: PodId) -> None:
        """Another one was told, or nothing is to be told any more."""
        if self._held.pop(pod_id, None) is not None:
            self._due.drop(pod_id)

    def due(self, now: float) -> list[tuple[PodId, HeldReport]]:
        """Take out those that may be told now."""
        return [(pod_id, self._held.pop(pod_id)) for pod_id in self._due.take(now, _AT_ONCE)]


# A report is repeated until it was written: its pod is not offered again for minutes, and its user
# would not see why.
_NOT_WRITTEN = frozenset((UNKNOWN, STALE, REFUSED))
_WRITE_AGAIN = RetryPolicy(Backoff(1.0, 300.0), _NOT_WRITTEN)
# What a pod waits to be given is asked for until it shows.
_GIVE_AGAIN = RetryPolicy(Backoff(1.0, 300.0), _NOT_WRITTEN | {DONE})


def _waits(tracked: Tracked) -> bool:
    return tracked.source is not None and not tracked.source.node


def _still_waits(
    tracked: Tracked, message: str, tolerations: Sequence[Toleration], name: str
) -> bool:
    """Whether the pod waits, also for these, and nothing newer was reported of it than by the side
    intent of that name.
    """
    if tracked.source is not None and tolerations:
        own = tracked.source.tolerations
        if all(one in own for one in tolerations):
            return False
    return _waits(tracked) and tracked.reported == message and tracked.report == name


def _on_written(answer: Outcome, now: float) -> None:
    """Nothing is to be done once a report was written."""


class CoreState:
    """All that one dispatcher knows. The parts of the core hold this, change it, and keep nothing
    of their own that another one needs.
    """

    def __init__(
        self,
        clusters: Sequence[str],
        fleet: FleetState,
        queue: SchedulingQueue,
        profiles: Profiles,
        *,
        boot_epoch: int,
        timing: CoreTiming,
    ) -> None:
        self.clusters = {name: ClusterView(name) for name in clusters}
        self.fleet = fleet
        self.queue = queue
        self.profiles = profiles
        self.timing = timing
        self.outbox = Outbox(boot_epoch, timing.retry, timing.unknown_s)
        self.side_intents = SideIntents(self.outbox, timing.retry)
        self.log = DecisionLog()
        self.refusals = Refusals(
            timing.refused_first_s, timing.refused_longest_s, timing.refused_passing_s
        )
        self.tracked = TrackedPods()
        self.unstarted = UnstartedPods(timing.start_s)
        self.held_reports = HeldReports()
        # when pods may evict others, as no node has come for them until then
        self.waiting_for_nodes: DueTimes[PodId] = DueTimes()
        self.counters: Counter[tuple[str, str]] = Counter()
        self.effects: list[events.Effect] = []
        self.owners: dict[tuple[str, str], PodId] = {}  # by cluster and UID of each delegate
        # tracked pods that may have to do with another cluster than their own
        self.abroad: set[PodId] = set()
        self.dirty: set[PodId] = set()  # something about them changed: looked at before the answer
        self.dirty_backlog: dict[
            PodId, None
        ] = {}  # of a cluster that changed, and many: see `admit_backlog`
        # clusters of which there are some in `dirty_backlog`
        self.backlog_clusters: set[str] = set()
        # something is missing, and time will tell: looked at each Tick
        self.recheck_each_tick: set[PodId] = set()
        self._alarms: list[
            tuple[float, PodId]
        ] = []  # when a pod is due, soonest first; some are over
        self.orphans = Orphans(self.tracked, self.clusters)
        self.steps = StepCache(self.clusters)
        for name in clusters:
            fleet.set_cluster(name, ready=False, synced=False)

    def why(self, tracked: Tracked) -> str:
        """One line of why a pod is where it is."""
        return self.log.summary(tracked.pod_id)

    def touch(self, cluster: str) -> None:
        """All pods that have to do with the cluster are due: its own, and of the others those that
        go abroad; but for those at rest, nearly all of its own. Where these are many, they are due
        by parts, as if some reports were late.
        """
        own = (self.tracked.active.get((cluster, uid)) for uid in self.clusters[cluster].pods)
        found = [one.pod_id for one in own if one is not None and not one.is_settled]
        abroad = [pod_id for pod_id in self.abroad if self.tracked[pod_id].touches(cluster)]
        if len(self.dirty_backlog) + len(found) + len(abroad) <= self.timing.look_at_once:
            self.dirty.update(found, abroad)
            return
        self.dirty_backlog.update(dict.fromkeys([*sorted(abroad, reverse=True), *reversed(found)]))
        self.backlog_clusters.add(cluster)

    def admit_backlog(self) -> None:
        """A part of the pods that are late is due."""
        for _ in range(min(len(self.dirty_backlog), self.timing.look_at_once)):
            self.dirty.add(self.dirty_backlog.popitem()[0])
        if not self.dirty_backlog:
            self.backlog_clusters.clear()

    def track(self, pod_id: PodId) -> Tracked:
        """What is tracked of a pod of ours, from now on."""
        found = self.tracked.get(pod_id)
        if found is None:
            found = self.tracked.active[pod_id] = Tracked(pod_id)
        return found

    def free(self, pod_id: PodId, now: float) -> None:
        """Give a pod's place back, and wake those whom the room or the quota may help."""
        known = self.fleet.occupant(pod_id)
        self.profiles.forget(pod_id)
        home, pod = (
            (known.pod_info.home, known.pod_info.pod) if known is not None else (pod_id[0], None)
        )
        for kind in (WakeEvent.POD_REMOVED, WakeEvent.QUOTA_FREED):
            self.queue.wake(ClusterEvent(kind, home, pod), now)

    def wake_all_for_quota(self, now: float) -> None:
        """Quota is free again, of whomever."""
        self.queue.wake(WakeEvent.QUOTA_FREED, now)

    def seen(self, tracked: Tracked) -> None:
        """A report has shown something else of it: it is due."""
        pod_id = tracked.pod_id
        if tracked.abroad:
            self.abroad.add(pod_id)
        elif self.abroad:
            self.abroad.discard(pod_id)
        self.dirty.add(pod_id)

    def schedule_recheck(self, tracked: Tracked, at: float) -> None:
        """It is due then, whatever happens until then."""
        if tracked.alarm_at != at:
            tracked.alarm_at = at
            heapq.heappush(self._alarms, (at, tracked.pod_id))

    def update_hot(self, now: float) -> None:
        """Bring up to date which nodes are hot, and wake those whom it helps that one is so no
        more.
        """
        if self.fleet.update_hot():
            self.queue.wake(WakeEvent.COOLED, now)

    def take_alarms(self, now: float) -> None:
        """Pods whose alarm is over are due."""
        while self._alarms and self._alarms[0][0] <= now:
            pod_id = heapq.heappop(self._alarms)[1]
            tracked = self.tracked.get(pod_id)
            if tracked is not None and not self.only_waits(tracked, now):
                self.dirty.add(pod_id)

    def only_waits(self, tracked: Tracked, now: float) -> bool:
        """Whether a look at a pod would find nothing to do, if nothing was heard since the last one
        of where it is.
        """
        in_flight = tracked.in_flight
        if in_flight is not None:
            return not self.is_over(tracked, in_flight, now)
        key = self.steps.key_of(tracked, now) if tracked.hold_until == float("-inf") else None
        if key is None or self.steps.get(key) is not NOTHING:
            return False
        self.look_again(tracked, now)
        return True

    def look_again(self, tracked: Tracked, now: float) -> None:
        """It is due when its status may be wanting, or may be written, again, or its end be asked
        for.
        """
        ahead = [
            at for at in (tracked.mirrored_until, tracked.mirror_at, tracked.ask_end_at) if now < at
        ]
        if ahead:
            self.schedule_recheck(tracked, min(ahead))

    def is_over(self, tracked: Tracked, in_flight: InFlightIntent, now: float) -> bool:
        """Whether the intent of a pod has come to its end, or nobody needs its answer any more."""
        source = tracked.source
        if in_flight.withdrawn and in_flight.kind is IntentKind.CREATE:
            # its target is asked whether a delegate is there, for which the claim has to show
            claim = source.claim if source is not None else None
            shows = claim is not None and claim.epoch == in_flight.epoch
            return source is None or shows or self._is_late(tracked, in_flight, now)
        if in_flight.held and source is not None and source.terminating:
            return True
        if in_flight.settling:
            if settled(in_flight, source, tracked.delegates.get(in_flight.cluster)):
                return True
            if self._is_late(tracked, in_flight, now):
                return True
        # Without its source a pod needs no place, so nobody wants what is asked of its home. An
        # order to another cluster must still be seen through, and so must the question whether the
        # source is gone, while there is a delegate for whose sake it is asked.
        if in_flight.via == tracked.pod_id[0]:
            asks = in_flight.kind is IntentKind.CONFIRM_SOURCE
            if (source is not None or not tracked.delegates) if asks else source is None:
                return True
        if (
            source is not None
            and source.terminating
            and in_flight.waits
            and in_flight.kind in ENDED_WITH_SOURCE
        ):
            return True
        if in_flight.via not in fenced_for(self.clusters.get(tracked.pod_id[0])):
            return False
        # It went where nothing runs any more, by an operator's word. But for a deletion that can be
        # answered: it is what a fence asks for.
        return in_flight.kind is not IntentKind.DELETE or not self.clusters[in_flight.via].ready

    def _is_late(self, tracked: Tracked, in_flight: InFlightIntent, now: float) -> bool:
        """Whether a confirmed effect ought to have shown. In a cluster that is not Ready nothing
        shows, and the effect holds: what was bound there takes its room and quota.
        """
        view = self.clusters.get(in_flight.via)
        settle_s = self.timing.settle_s
        ready_since = view.ready_since if view is not None else 0.0
        if in_flight.sent_at < ready_since <= now:
            self.schedule_recheck(tracked, ready_since + settle_s + 1.0)
        return now - max(in_flight.sent_at, ready_since) > settle_s

    def forget(self, pod_id: PodId) -> None:
        """Nothing is left to track of it."""
        known = self.tracked.active.get(pod_id)
        if known is not None and known.report:
            self.side_intents.drop(known.report)
        self.tracked.drop(pod_id)
        self.held_reports.drop(pod_id)
        self.waiting_for_nodes.drop(pod_id)
        self.abroad.discard(pod_id)
        self.log.forget(pod_id)

    def warn(self, text: str, error: Exception | None = None) -> None:
        """Write to the operator's log; with the traceback of a fault of our own."""
        self.effects.append(events.OperatorWarning(text[:500], error))

    def report(
        self,
        tracked: Tracked,
        message: str,
        now: float,
        reason: str = "Unschedulable",
        *,
        nodes_help: bool = True,
        tolerations: tuple[Toleration, ...] = (),
    ) -> None:
        """Tell the user why a pod waits, and which node of its own cluster it is nominated to; not
        the same twice. `nodes_help`: whether it might go to a new node of its cluster; of one that
        is promised a node of another cluster nobody is to make one. `tolerations`: what it waits to
        be given, by its agent.
        """
        source = tracked.source
        if source is None:
            return
        known = source.nominated_node if tracked.nominated_node is None else tracked.nominated_node
        nominee = self._nominee(tracked)
        at_home = nominee is not None and nominee.cluster == tracked.home
        nominated_node = nominee.node if nominee is not None and at_home else ""
        nodes_help = nodes_help and (nominee is None or at_home)
        soon = bool(tracked.reported) and now - tracked.reported_at < self.timing.report_s
        told = (message, nodes_help) == (tracked.reported, tracked.nodes_help)
        if nominated_node == known and told:
            self.held_reports.drop(tracked.pod_id)
            return
        if nominated_node == known and soon:
            again_at = tracked.reported_at + self.timing.report_s
            self.held_reports.hold(
                tracked.pod_id, HeldReport(message, reason, nodes_help, tolerations), again_at
            )
            return
        self.held_reports.drop(tracked.pod_id)
        tracked.reported = message
        tracked.nodes_help = nodes_help
        # with tolerations nothing is told yet: what is found of the pod then must not wait
        tracked.reported_at = float("-inf") if tolerations else now
        tracked.nominated_node = nominated_node
        nominated = nominated_node if nominated_node != known else None
        fields = ("", intents.ref(source), 0, message, reason, nominated, nodes_help, tolerations)
        if tracked.report:
            self.side_intents.drop(tracked.report)
        wanted = partial(_still_waits, tracked, message, tolerations)
        tracked.report = self.side_intents.send(
            tracked.pod_id[0],
            "report",
            ReportUnschedulable(*fields),
            _on_written,
            _GIVE_AGAIN if tolerations else _WRITE_AGAIN,
            wanted,
        )

    def tell_held(self, now: float) -> None:
        """Report what changed too soon after a report, of pods that still wait."""
        for pod_id, held in self.held_reports.due(now):
            tracked = self.tracked.active.get(pod_id)
            if tracked is not None and tracked.reported and _waits(tracked):
                self.report(
                    tracked,
                    held.message,
                    now,
                    held.reason,
                    nodes_help=held.nodes_help,
                    tolerations=held.tolerations,
                )

    def stop_waiting(self, now: float) -> None:
        """Pods whose node has had its time are tried again."""
        for pod_id in self.waiting_for_nodes.take(now, _AT_ONCE):
            self.queue.activate(pod_id, now)

    def report_waiting(self, tracked: Tracked, message: str, reason: str = WAITING) -> None:
        """Report what a pod that has its place waits for, or (another `reason`) what else there is
        to say of that.
        """
        if tracked.source is not None:
            epoch = self.outbox.next_epoch()
            ref = intents.ref(tracked.source)
            self.outbox.post(
                tracked.home, ReportUnschedulable(f"{epoch}.report", ref, epoch, message, reason)
            )

    def _nominee(self, tracked: Tracked) -> Nominee | None:
        """What node the pod is promised; status.nominatedNodeName shows one of its own cluster."""
        nominations = self.profiles.nominations
        return nominations.of(tracked.pod_id) if len(nominations) else None
