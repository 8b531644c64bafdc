"""Which PodDisruptionBudgets of the fleet speak against the eviction of a pod."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from dispatcher.model.objects import PodDisruptionBudget
from dispatcher.scheduling.framework.fleet_view import Objects
from dispatcher.scheduling.framework.lifecycle import Victim

_Sought = tuple[str, tuple[str, str] | None]
Left = dict[tuple[str, str], int]  # what budgets allow still, by cluster and namespace/name


class Budgets:
    """The fleet's PodDisruptionBudgets. Those of a pod's home cluster count for it, and of the one where it runs."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._of: dict[str, dict[_Sought, list[PodDisruptionBudget]]] = {}

    def _in(self, cluster: str) -> Mapping[_Sought, Sequence[PodDisruptionBudget]]:
        """Of a cluster by namespace and one label that its pods must have, of these the one that fewest budgets want;
        None for those without any such label.
        """
        if cluster not in self._of:
            found = self._of[cluster] = {}
            kept = list(self._objects.of(cluster, PodDisruptionBudget).values())
            wanting: Counter[_Sought] = Counter((one.namespace, label) for one in kept for label in _labels(one))
            for budget in kept:
                sought: list[_Sought] = [(budget.namespace, label) for label in _labels(budget)]
                rarest = min(sought, key=wanting.__getitem__, default=(budget.namespace, None))
                found.setdefault(rarest, []).append(budget)
        return self._of[cluster]

    def take(self, victim: Victim, left: Left) -> str:
        """Take one more pod; a budget (namespace/name) that had nothing left, "" if all had."""
        pod, violated = victim.placed.pod, ""
        for cluster in sorted({victim.placed.home, victim.cluster}):
            budgets = self._in(cluster)
            for label in (None, *pod.labels.items()) if budgets else ():
                for budget in budgets.get((pod.namespace, label), ()):
                    if _covers(budget, victim):
                        key = (cluster, budget.key)
                        left[key] = left.get(key, budget.allowed) - 1
                        violated = violated or (budget.key if left[key] < 0 else "")
        return violated


def _labels(budget: PodDisruptionBudget) -> Collection[tuple[str, str]]:
    return budget.selector.match_labels.items() if budget.selector is not None else ()


def _covers(budget: PodDisruptionBudget, victim: Victim) -> bool:
    pod, selector = victim.placed.pod, budget.selector
    if not pod.labels or pod.name in budget.disrupted or selector is None:
        return False
    return bool(selector.match_labels or selector.match_expressions) and selector.matches(pod.labels)
