"""A core that follows the fleet while another dispatcher leads, and then leads with what it knows.

While it follows, reports are folded and pods hold their places in the fleet; nothing is due, asked
or told. When it takes over, each agent is asked for what has changed since its last report, and
until each has answered or is silent nothing follows from anything. Then the core is what one that
began now would be after full reports of the same moment:

- of a cluster that has not reported since, all is forgotten: the leader before may have heard more
  of it, ordered pods there and renewed its leases;
- what is known of each pod is what reports show now; that something was seen to go counts no more;
- clusters are Ready, or missed, since this moment, and none has answered yet.
"""

from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.core.reconciler import Reconciler
from dispatcher.scheduling.core.reports import Reports
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation.orphans import Orphans
from dispatcher.scheduling.delegation.tracking import Tracked

NEVER = float("-inf")


class Follower:
    """Takes all events in while `on`. Not on: the core leads."""

    def __init__(self, state: CoreState, reports: Reports, reconciler: Reconciler) -> None:
        self.on = False
        self._state = state
        self._reports = reports
        self._reconciler = reconciler
        self._takes_over = False
        self._reported: set[str] = set()  # since it takes over

    def take_over(self, boot_epoch: int) -> None:
        """This dispatcher leads: begin as soon as each cluster has reported anew, or is silent."""
        self._reports.finish_all()  # the events that would go on with it were another service's
        self._state.outbox.begin(boot_epoch)
        self._takes_over = True
        self._reported.clear()
        for view in self._state.clusters.values():
            view.heard = False

    def handle(self, event: events.Event, now: float) -> list[events.Effect]:
        """Take in what is reported; all else means nothing before there are orders."""
        state = self._state
        reports = self._reports
        if isinstance(event, events.ClusterChanged):
            reports.changed(event, now)
            self._note(event.changes.cluster)
        elif isinstance(event, events.FoldOn):
            reports.fold_on(event, now)
            self._note(event.cluster)
        elif isinstance(event, events.ClusterSilent):
            reports.silent(event, now)
        elif isinstance(event, events.Tick):
            state.update_hot(now)
        self._reconciler.occupy_due(now)
        if (
            self._takes_over
            and not reports.folding
            and all(view.heard for view in state.clusters.values())
        ):
            self._lead(now)
            self._reconciler.reconcile_due(now)
        effects = state.effects
        state.effects = []
        return [*effects, *state.outbox.take()]

    def _note(self, cluster: str) -> None:
        view = self._state.clusters[cluster]
        if cluster not in self._reports.folding and view.synced and not view.silent:
            self._reported.add(cluster)

    def _lead(self, now: float) -> None:
        state = self._state
        self.on = self._takes_over = False
        for name in state.clusters.keys() - self._reported:
            self._reports.forget(name)
        for view in state.clusters.values():
            _begin_anew(view, now)
        for known in list(state.tracked.values()):
            pod_id = known.pod_id
            tracked = state.tracked[pod_id] = Tracked(pod_id, known.source, known.delegates)
            if tracked.forgotten:
                state.free(pod_id, now)
                state.forget(pod_id)
            else:
                state.seen(tracked)
        state.recheck_each_tick.clear()
        state.orphans = Orphans(state.tracked, state.clusters)


def _begin_anew(view: ClusterView, now: float) -> None:
    view.answered_at = NEVER
    view.ready_since = now if view.ready else float("inf")
    view.not_ready_since = float("inf") if view.ready else now
