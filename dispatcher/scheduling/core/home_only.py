"""Namespaces that no other cluster has: their pods stay at home, and the first that is placed says
so in an event.
"""

from collections.abc import Iterable

from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.records.decision import Decision
from shared.messages import HOME_ONLY
from shared.model import names
from shared.model.crossing import makes
from shared.model.objects import Namespace

AGAIN_S = 3600.0  # API servers keep an event for as long
_MOST_KEPT = 4096  # namespaces


class HomeOnly:
    """Remembers of which namespaces it was told."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._told: dict[tuple[str, str], float] = {}  # by cluster and namespace

    def placed(self, decisions: Iterable[Decision], now: float) -> None:
        """Pods got their places."""
        if len(self._state.clusters) < 2:
            return
        at_home = [one for one in decisions if one.cluster == one.pod_id[0]]
        leaving = [one for one in at_home if one.placed.pod.annotations.get(names.STAY) != "true"]
        for (home, namespace), one in {
            (one.cluster, one.placed.pod.namespace): one for one in leaving
        }.items():
            told_at = self._told.get((home, namespace), -AGAIN_S)
            if now - told_at >= AGAIN_S and self._is_alone(home, namespace):
                self._remember((home, namespace), now)
                text = (
                    f'namespace "{namespace}" is in no other cluster, so its pods stay in cluster '
                    f"{home}: create it where they may run, or list it there in "
                    "`executor.namespaces.create`, or say that they stay with annotation "
                    f'{names.STAY}: "true"'
                )
                self._state.report_waiting(self._state.tracked.active[one.pod_id], text, HOME_ONLY)

    def _is_alone(self, home: str, namespace: str) -> bool:
        """Whether none of the clusters that show their namespaces has it or makes it, and some do."""
        known = False
        for name, other in self._state.clusters.items():
            shown = self._state.fleet.kept.of(name, Namespace) if name != home else {}
            if namespace in shown or (shown and makes(namespace, other.opens)):
                return False
            known = known or bool(shown)
        return known and not Namespace(namespace).system

    def _remember(self, whose: tuple[str, str], now: float) -> None:
        self._told.pop(whose, None)
        self._told[whose] = now
        if len(self._told) > _MOST_KEPT:
            del self._told[next(iter(self._told))]
