"""What each agent is told of the other clusters: what their proxy nodes shall show, and which budgets to keep."""

from collections.abc import Iterable

from dispatcher.model.objects import PodDisruptionBudget
from dispatcher.scheduling import events
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation.peers import peers_of
from dispatcher.scheduling.delegation.shadows import ShadowBudgets


class Telling:
    """Every few seconds all is told anew; what budgets ask for, as soon as it is something else."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._shadows = ShadowBudgets()
        self._at = float("-inf")

    def tell_peers(self) -> None:
        """All agents are told anew at the next Tick: a cluster became Ready, or is so no more."""
        self._at = float("-inf")

    def tick(self, now: float) -> None:
        """Say what is due to whom."""
        state, timing = self._state, self._state.timing
        due = self._shadows.look(state.clusters, state.tracked, self._budgets, now)
        if now - self._at >= timing.peers_s:
            self._at, due = now, list(state.clusters)
        for name in due:
            if not state.clusters[name].silent:
                peers = peers_of(name, state.clusters, state.fleet, now, timing.cluster_lost_s)
                state.effects.append(events.SendPeers(name, peers, self._shadows.of(name)))

    def _budgets(self, cluster: str) -> Iterable[PodDisruptionBudget]:
        return self._state.fleet.kept.of(cluster, PodDisruptionBudget).values()
