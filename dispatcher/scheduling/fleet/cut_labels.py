"""Pods that are somewhere and whose labels are not told: whether a selector means one of them, nobody knows."""

from collections.abc import Iterator, Mapping
from itertools import chain

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import LabelsOf, is_among
from shared.model.pod import Pod, PodAffinityTerm, PodId


class CutLabels:
    """These pods by namespace and cluster of submission, entered and taken out as all pods are."""

    def __init__(self, labels_of: LabelsOf) -> None:
        self._labels_of = labels_of
        self._pods: dict[str, dict[str, dict[PodId, Pod]]] = {}

    def put(self, pod_id: PodId, placed: PodInfo) -> None:
        """A pod is somewhere; one whose labels are told is none of these."""
        if placed.pod.labels_cut:
            homes = self._pods.setdefault(placed.pod.namespace, {})
            homes.setdefault(placed.home, {})[pod_id] = placed.pod

    def drop(self, pod_id: PodId, placed: PodInfo) -> None:
        """The inverse of `put`; one that was not entered is none of these."""
        namespace = placed.pod.namespace
        home = placed.home
        homes = self._pods.get(namespace, {})
        if homes.get(home, {}).pop(pod_id, None) is None or homes[home]:
            return
        del homes[home]
        if not homes:
            del self._pods[namespace]

    def meant_by(self, placed: PodInfo, *, spreads: bool = False) -> str:
        """Which of them the required terms and hard constraints of a pod may count, in words; '' if none. `spreads`:
        its profile has hard constraints for pods without any.
        """
        if not self._pods:
            return ""
        pod = placed.pod
        if any(rule.hard for rule in pod.spread) or (spreads and not pod.spread):
            for home, pods in self._pods.get(pod.namespace, {}).items():
                return _named(home, pods)
        for term in _required(pod):
            for namespace in self._pods if term.namespace_selector is not None else dict.fromkeys(term.namespaces):
                for home, pods in self._pods.get(namespace, {}).items():
                    if is_among(term, placed, home, namespace, self._labels_of):
                        return _named(home, pods)
        return ""


def _named(home: str, pods: Mapping[PodId, Pod]) -> str:
    return f"{next(iter(pods.values())).key} of cluster {home}"


def _required(pod: Pod) -> Iterator[PodAffinityTerm]:
    sides = (pod.pod_affinity, pod.pod_anti_affinity)
    return chain.from_iterable(side.required for side in sides if side is not None)
