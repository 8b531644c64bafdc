"""The door of the core: each event to its handler, and a Tick to all that time makes due.

`handle(event, now)` is the only way in. Reports are folded into the fleet and into what is tracked
of each of our pods; a Tick, or a Decide, decides queued pods; outcomes move intents on. Truth is
what the agents report: after a crash the core starts empty and comes to the same state from full
reports. Until every cluster was heard of once nothing is decided, since the room and quota in use
would be unknown.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import MOST_MEMORY, credible
from dispatcher.scheduling.core.deciding import Deciding
from dispatcher.scheduling.core.follower import Follower
from dispatcher.scheduling.core.lower_priority import lower_priority
from dispatcher.scheduling.core.outcomes import Outcomes
from dispatcher.scheduling.core.peer_updates import PeerUpdates
from dispatcher.scheduling.core.rebalancing import Mode, Rebalancing
from dispatcher.scheduling.core.reclaiming import Reclaiming
from dispatcher.scheduling.core.reconciler import Reconciler
from dispatcher.scheduling.core.reports import Reports
from dispatcher.scheduling.core.starts import Starts
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.delegation import misconfigured
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from shared.model import names
from shared.model.probe_address import published


class SchedulerCore:
    """Folds events into state and answers with effects; `clusters` are all clusters that are
    expected to report.
    """

    def __init__(  # noqa: PLR0913 - what a driver sets beside the parts has defaults
        self,
        clusters: Sequence[str],
        fleet: FleetState,
        queue: SchedulingQueue,
        scheduler: Scheduler | Profiles,
        *,
        boot_epoch: int,
        timing: CoreTiming | None = None,
        rebalancing: tuple[RebalancingRules, Mode] = (RebalancingRules(), Mode.OFF),
        ledger: QuotaLedger | None = None,
    ) -> None:
        profiles = scheduler if isinstance(scheduler, Profiles) else Profiles([scheduler])
        timing = timing or CoreTiming()
        state = self._state = CoreState(
            clusters, fleet, queue, profiles, boot_epoch=boot_epoch, timing=timing
        )
        self.clusters = state.clusters
        self.tracked = state.tracked
        self.timing = timing
        self.counters = state.counters
        self.fleet = fleet
        self.queue = queue
        self.log = state.log
        self.outbox = state.outbox
        self.refusals = state.refusals
        self._deciding = Deciding(state)
        self.binding = self._deciding.binding
        self.booked = self._deciding.booked
        self.rebalancing = Rebalancing(state, self._deciding.evictions, *rebalancing)
        self.reclaiming = (
            None if ledger is None else Reclaiming(state, self._deciding.evictions, ledger)
        )
        self._starts = Starts(state)
        self.unstarted = state.unstarted
        self._outcomes = Outcomes(state, self._deciding)
        self._peer_updates = PeerUpdates(state)
        self.lower_priority = partial(lower_priority, state)
        self.uncounted_budgets = self._peer_updates.uncounted_budgets
        self._reconciler = Reconciler(state, self._deciding, ledger)
        reports = self._reports = Reports(
            state, self._deciding.retries, self._deciding.evictions, self._peer_updates
        )
        self._follower = Follower(state, reports, self._reconciler)
        self._strangers_at = float("-inf")
        self._open = False
        self._handlers: dict[type[events.Event], Callable[[Any, float], None]] = {
            events.ClusterChanged: reports.changed,
            events.FoldOn: reports.fold_on,
            events.ClusterSilent: reports.silent,
            events.Answered: self._outcomes.answered_all,
            events.Unanswered: self._outcomes.unanswered,
            events.Unsent: self._outcomes.unsent,
            events.PeersAcknowledged: self._peers_acknowledged,
            events.PeersRefused: self._peers_refused,
            events.Tick: self._tick,
            events.Decide: self._decide,
        }

    def handle(self, event: events.Event, now: float) -> list[events.Effect]:
        """Take one event in; answer what shall be done now, intents grouped by cluster and in
        order.

        Raises GapError for a report that does not continue what is known: ask that agent for a full
        one.
        """
        self.fleet.now = now
        if self._follower.on:
            return self._follower.handle(event, now)
        self._handlers[type(event)](event, now)
        self._reconciler.reconcile_due(now)
        effects = self._state.effects
        self._state.effects = []
        return [*effects, *self.outbox.take()]

    @property
    def profiles(self) -> Profiles:
        """Those that decide."""
        return self._state.profiles

    @property
    def compared(self) -> Mapping[tuple[str, str, str], int]:
        """(canary's profile, profile it stands for, what came of it) -> decisions:
        `cycle.canaries`.
        """
        return self.profiles.canaries.compared

    def use(self, profiles: Profiles) -> None:
        """From now on these decide; they have taken over from the others."""
        self._state.profiles = profiles
        self._deciding.follow_profiles()

    def report_gated(self, now: float) -> None:
        """Tell why pods may not enter the queue, where other policies hold from now on."""
        self._reconciler.report_gated(now)

    def pin(
        self,
        cluster: str,
        uid: str,
        key: str = "",
        network: str = names.OWN_NETWORK,
        most_memory: int = MOST_MEMORY,
    ) -> None:
        """A cluster is the one whose kube-system namespace has this UID, and no other name is ("":
        not known). Its public keys are this one, and those that follow from it ("": those that its
        agent tells). `network`: the pod network that it is part of. `most_memory`: bytes that what
        it reports may take.
        """
        view = self.clusters[cluster]
        view.pinned_uid = uid
        view.pinned_key = key
        view.network = network
        view.most_memory = most_memory

    def follow(self) -> None:
        """Another dispatcher leads: only fold reports, until `take_over`. To be called before any
        event.
        """
        self._follower.on = True

    def take_over(self, boot_epoch: int) -> None:
        """Lead with what is known, once each cluster has reported what has changed since or is
        silent.
        """
        self._follower.take_over(boot_epoch)

    @property
    def open(self) -> bool:
        """Whether decisions are taken: it leads, and every cluster was heard of once. Then it stays
        so.
        """
        if not self._open:
            self._open = not self._follower.on and all(
                view.heard for view in self.clusters.values()
            )
        return self._open

    @property
    def folding(self) -> Collection[str]:
        """Clusters of which a part of a report, or of what follows from it, is still to be taken
        in: a `FoldOn` goes on with it.
        """
        return {*self._reports.folding, *self._state.backlog_clusters}

    @property
    def waking(self) -> bool:
        """Whether pods that wait are still to be asked about for what has happened: a `Decide` goes
        on with it.
        """
        return self.open and self.queue.waking.is_left

    # --- events
    # ----------------------------------------------------------------------------------------------

    def _peers_acknowledged(self, event: events.PeersAcknowledged, now: float) -> None:
        view = self.clusters[event.cluster]
        view.answered_at, view.probe = now, published(event.probe)
        view.pod_address = published(event.pod_address)
        view.reaches = credible(event.reaches, self.clusters.keys() - {event.cluster})
        self.fleet.links.take(event.cluster, event.links, now)
        self._reports.note_follows(event.cluster, event.follows, now)
        self._reports.note_refusal(event.cluster, now, refuses=event.refuses)

    def _peers_refused(self, event: events.PeersRefused, now: float) -> None:
        self._reports.note_refusal(event.cluster, now, refuses=True)

    def _decide(self, event: events.Decide, now: float) -> None:
        if self.open:
            self._deciding.decide(event, now)
        self._state.effects += [
            events.OperatorWarning(text) for text in self._state.profiles.take_troubles()
        ]

    def _tick(self, event: events.Tick, now: float) -> None:
        """Time has passed: send again, tell, decide, look for what is odd."""
        state = self._state
        state.fleet.links.expire(now)
        state.update_hot(now)
        state.dirty |= state.recheck_each_tick
        state.take_alarms(now)
        state.admit_backlog()
        late = map(state.tracked.active.get, state.outbox.overdue(now, state.timing.settle_s))
        state.dirty.update(
            [one.pod_id for one in late if one is not None and one.in_flight is not None]
        )
        for tracked, in_flight in state.outbox.doubted(state.tracked.active, now):
            state.report_waiting(tracked, in_flight.doubt)
            self._outcomes.doubted(tracked, in_flight, now)
        state.outbox.resend(state.clusters, now)
        state.side_intents.resend(state.clusters, now)
        self._reconciler.reconcile_due(now)
        self._peer_updates.tick(now)
        self._deciding.retries.time_passed(now)
        self._deciding.booked.tick(now)
        state.queue.flush(now)
        state.stop_waiting(now)
        if self.open:
            self._deciding.evictions.preemptors.tick(now)
            self._starts.tick(now)
            self.rebalancing.tick(now)
            if self.reclaiming is not None:
                self.reclaiming.tick(now)
        if event.budget is not None:
            self._decide(events.Decide(event.budget), now)
        state.tell_held(now)
        state.effects += [
            events.OperatorWarning(text) for text in state.orphans.excess(now).values()
        ]
        if now - self._strangers_at >= state.timing.strangers_s:
            self._strangers_at = now
            state.tracked.compact_all()
            abroad = (state.tracked[pod_id] for pod_id in state.abroad)
            warnings = [one.text for one in misconfigured.unconfigured_of(abroad, state.clusters)]
            warnings += [one.text for one in misconfigured.shared_keys_of(state.clusters)]
            state.effects += [events.OperatorWarning(text) for text in warnings]
