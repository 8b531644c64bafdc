"""What is sent to each agent about the other clusters: what their proxy nodes show, and which
budgets to keep.
"""

from collections.abc import Iterable
from functools import partial

from dispatcher.scheduling import events
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation.proxy_nodes import peers
from dispatcher.scheduling.delegation.shadows import BudgetIndex, ShadowBudgets, why_uncounted
from dispatcher.scheduling.delegation.tracking import Tracked
from shared.messages import encode_part
from shared.model.objects import PodDisruptionBudget


class PeerUpdates:
    """Everything is sent every few seconds; what budgets ask for, as soon as it has changed."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._shadows = ShadowBudgets()
        self._at = float("-inf")
        self._indexes: dict[str, BudgetIndex] = {}  # by cluster, of budgets at the version below
        self._indexed_version = -1

    def send_to_all(self) -> None:
        """Send to all agents at the next Tick: a cluster became Ready, or is so no more."""
        self._at = float("-inf")

    def tick(self, now: float) -> None:
        """Send what is due."""
        state = self._state
        timing = self._state.timing
        due = self._shadows.look(state.clusters, state.tracked, self._budgets, now)
        if now - self._at >= timing.peers_s:
            self._at = now
            due = list(state.clusters)
        shown = peers(state.clusters, state.fleet, now, timing.cluster_lost_s) if due else ()
        encoded = tuple(map(encode_part, shown))
        places = {peer.cluster: at for at, peer in enumerate(shown)}
        for name in due:
            if state.clusters[name].executor_answers:
                at = places.get(name, len(shown))
                others = shown[:at] + shown[at + 1 :]
                sent = encoded[:at] + encoded[at + 1 :]
                network = state.clusters[name].network
                state.effects.append(
                    events.SendPeers(name, others, self._shadows.of(name), sent, network)
                )

    def uncounted_budgets(self, tracked: Tracked) -> str:
        """Why not all budgets that may select a remote pod are kept where it runs; '' if they are."""
        if tracked.source is None or not tracked.delegates:
            return ""
        return why_uncounted(tracked.source, self._index(tracked.home))

    def _index(self, cluster: str) -> BudgetIndex:
        """Cached until budgets change: a list of all pods asks for each of them."""
        version = self._state.fleet.kept.versions[PodDisruptionBudget.__name__]
        if version != self._indexed_version:
            self._indexed_version = version
            self._indexes = {}
        if cluster not in self._indexes:
            self._indexes[cluster] = BudgetIndex(partial(self._budgets, cluster))
        return self._indexes[cluster]

    def _budgets(self, cluster: str, namespace: str) -> Iterable[PodDisruptionBudget]:
        return self._state.fleet.kept.in_namespace(cluster, PodDisruptionBudget, namespace).values()
