"""A place must hold without the pods that are only promised theirs: they may never come.

Fewer pods never take room, ports or volumes away, so this is a matter of rules about other pods
alone: affinity to a nominee, and spread that a nominee evens out. Source: kube-scheduler's
RunFilterPluginsWithNominatedPods, second pass.
"""

from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.fleet.nodes import rank_of
from dispatcher.scheduling.fleet.nominations import Nominations
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.place_finder import NoPlace, PlaceFinder
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import Explainers
from shared.model.pod import Pod, PodId
from shared.model.reasons import Why


def leans_on_pods(pod: Pod) -> bool:
    """Whether more pods can make a node feasible for it."""
    near = pod.pod_affinity is not None and bool(pod.pod_affinity.required)
    return near or any(rule.hard for rule in pod.spread)


class BesideNominees(PlaceFinder):
    """The class of a pod, while rooms are held for nominated pods: a nominee goes where it was
    nominated, and no place is taken that rests on pods which may never come.
    """

    def __init__(self, eq_class: EquivalenceClass, nominations: Nominations) -> None:
        self._class = eq_class
        self._nominations = nominations

    def prepare(self, pod_info: PodInfo) -> Why | None:
        """As the class."""
        return self._class.prepare(pod_info)

    def answer_of(self, plugin: str) -> object:
        """As the class."""
        return self._class.answer_of(plugin)

    def explainers(self) -> Explainers:
        """As the class."""
        return self._class.explainers()

    def booked(self, row: int) -> None:
        """As the class."""
        self._class.booked(row)

    def select(self, pod_id: PodId, pod_info: PodInfo) -> Decision | NoPlace:
        """The place that was promised, if the pod fits there now; else the best one that holds
        without nominees.
        """
        found = self._nominated(pod_id, pod_info) or self._class.select(pod_id, pod_info)
        if isinstance(found, NoPlace):
            return found
        alone = holds_alone(found, pod_id, pod_info, self._class, self._nominations)
        return self._no_place(pod_info) if alone is None else alone

    def _nominated(self, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        nominee = self._nominations.of(pod_id)
        row = self._class.fleet.row_of(nominee.cluster, nominee.node) if nominee else None
        return None if row is None else self._class.select_on(row, pod_id, pod_info)

    def _no_place(self, pod_info: PodInfo) -> NoPlace:
        """Why there is no place without nominees."""
        with self._nominations.without_all():
            self._class.refresh(pod_info)
            context = self._class.context()
        self._class.refresh(pod_info)
        return NoPlace(context, self._class.rows.refusal_codes[: self._class.fleet.n])


def holds_alone(
    decision: Decision,
    pod_id: PodId,
    pod_info: PodInfo,
    eq_class: EquivalenceClass,
    nominations: Nominations,
) -> Decision | None:
    """The decision, if its place holds without nominees; else the best that does, None for none.

    `eq_class` is the pod's class, up to date, and is so again in the end.
    """
    if not nominations.any_placed or not leans_on_pods(pod_info.pod):
        return decision
    rows = range(eq_class.fleet.n)
    found = {
        row: one for row in rows if (one := eq_class.select_on(row, pod_id, pod_info)) is not None
    }
    with nominations.without_all():
        eq_class.refresh(pod_info)
        there = [] if eq_class.refusal is not None else [*found]
        alone = {row for row in there if eq_class.select_on(row, pod_id, pod_info) is not None}
    eq_class.refresh(pod_info)
    if decision.row in alone:
        return decision
    best = min(
        alone,
        key=lambda row: (-found[row].score, rank_of(*eq_class.fleet.name_of(row))),
        default=None,
    )
    return None if best is None else found[best]
