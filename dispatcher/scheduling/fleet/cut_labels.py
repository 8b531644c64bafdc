"""Pods that are somewhere and whose labels are not told: whether a selector means one of them, nobody knows."""

from collections.abc import Iterator
from itertools import chain

from dispatcher.model.pod import Pod, PodAffinityTerm, PodId
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.pod_sets import LabelsOf, is_among

_Place = tuple[str, str]  # cluster of submission, namespace


class CutLabels:
    """These pods by where they were submitted, entered and taken out as all pods are."""

    def __init__(self, labels_of: LabelsOf) -> None:
        self._labels_of = labels_of
        self._pods: dict[_Place, dict[PodId, Pod]] = {}

    def put(self, pod_id: PodId, placed: Placed) -> None:
        """A pod is somewhere; one whose labels are told is none of these."""
        if placed.pod.labels_cut:
            self._pods.setdefault((placed.home, placed.pod.namespace), {})[pod_id] = placed.pod

    def drop(self, pod_id: PodId, placed: Placed) -> None:
        """The inverse of `put`; one that was not entered is none of these."""
        place = placed.home, placed.pod.namespace
        if placed.pod.labels_cut and place in self._pods:
            self._pods[place].pop(pod_id, None)
            if not self._pods[place]:
                del self._pods[place]

    def meant_by(self, placed: Placed, *, spreads: bool = False) -> str:
        """Which of them the required terms and hard constraints of a pod may count, in words; '' if none. `spreads`:
        its profile has hard constraints for pods without any.
        """
        for home, namespace in self._pods:
            if self._may_count(placed, home, namespace, spreads=spreads):
                pod = next(iter(self._pods[home, namespace].values()))
                return f"{pod.key} of cluster {home}"
        return ""

    def _may_count(self, placed: Placed, home: str, namespace: str, *, spreads: bool) -> bool:
        pod = placed.pod
        if namespace == pod.namespace and (any(rule.hard for rule in pod.spread) or (spreads and not pod.spread)):
            return True
        return any(is_among(term, placed, home, namespace, self._labels_of) for term in _required(pod))


def _required(pod: Pod) -> Iterator[PodAffinityTerm]:
    sides = (pod.pod_affinity, pod.pod_anti_affinity)
    return chain.from_iterable(side.required for side in sides if side is not None)
