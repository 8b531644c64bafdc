"""Which PodDisruptionBudgets of the fleet speak against the eviction of a pod.

Whoever writes budgets may write very many, and such that cover all pods of the namespace. So what a
pod costs does not rest on how many cover it (see `selector_index`), and only budgets of namespaces
whose pods are looked at are read.
"""

from collections.abc import Mapping, Sequence

from dispatcher.scheduling.framework.fleet_view import Objects
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.rules.selector_index import Planes, SelectorIndex, bits, less, planes
from shared.model.objects import PodDisruptionBudget

# What budgets allow still, by cluster and namespace: those that were asked for more than that, and
# planes of the rest.
Left = dict[tuple[str, str], tuple[int, Planes]]


class Budgets:
    """The fleet's PodDisruptionBudgets. Those of a pod's home cluster count for it, and of the one
    where it runs.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._of: dict[tuple[str, str], _Guard | None] = {}

    def _in(self, cluster: str, namespace: str) -> "_Guard | None":
        if (cluster, namespace) not in self._of:
            self._of[cluster, namespace] = self._guard(cluster, namespace)
        return self._of[cluster, namespace]

    def _guard(self, cluster: str, namespace: str) -> "_Guard | None":
        found = self._objects.derived(cluster, _allowing, PodDisruptionBudget, namespace=namespace)
        if found is None:
            return None
        selecting = self._objects.derived(
            cluster, _selecting, (PodDisruptionBudget, "selector"), namespace=namespace
        )
        return _Guard(selecting, found)

    def take(self, victim: Victim, left: Left) -> str:
        """Take one more pod; a budget (namespace/name) that had nothing left, "" if all had."""
        pod = victim.pod_info.pod
        violated = ""
        for cluster in sorted({victim.pod_info.home, victim.cluster}):
            guard = self._in(cluster, pod.namespace)
            if guard is None:
                continue
            # Any may cover a pod whose labels are not told.
            selecting = guard.all if pod.labels_cut else guard.index.matching(pod.labels)
            covering = selecting & ~guard.allowance.disrupted.get(pod.name, 0)
            if not covering:
                continue
            spent, rest = left.get((cluster, pod.namespace), (0, guard.allowance.allowed))
            rest, over = less(rest, covering & ~spent)
            left[cluster, pod.namespace] = spent | over, rest
            against = covering & (spent | over)
            if against and not violated:
                violated = guard.allowance.keys[(against & -against).bit_length() - 1]
        return violated


class _Allowance:
    """What the budgets of a namespace allow, and the pods that they count as disrupted already."""

    def __init__(self, budgets: Sequence[PodDisruptionBudget]) -> None:
        self.keys = [one.key for one in budgets]
        self.allowed = planes([max(one.allowed, 0) for one in budgets])
        disrupted: dict[str, list[int]] = {}
        for at, one in enumerate(budgets):
            for name in one.disrupted:
                disrupted.setdefault(name, []).append(at)
        self.disrupted = {name: bits(places, len(budgets)) for name, places in disrupted.items()}


Found = Mapping[str, PodDisruptionBudget]  # those of a namespace


def _covering(found: Found) -> list[PodDisruptionBudget]:
    """Those that cover any pods, in the order of their names. An empty selector covers all of the
    namespace.
    """
    return sorted(
        (one for one in found.values() if one.selector is not None), key=lambda one: one.name
    )


def _selecting(found: Found) -> SelectorIndex:
    """Which of them cover a pod; it stays as it is while only their status changes."""
    return SelectorIndex([one.selector for one in _covering(found) if one.selector is not None])


def _allowing(found: Found) -> _Allowance | None:
    """What they allow; None without budgets."""
    budgets = _covering(found)
    return _Allowance(budgets) if budgets else None


class _Guard:
    """The budgets of a namespace: which cover a pod, and what they allow."""

    def __init__(self, index: SelectorIndex, allowance: _Allowance) -> None:
        self.index = index
        self.allowance = allowance
        self.all = (1 << len(allowance.keys)) - 1
