"""Pods that are somewhere and whose labels are not told: whether a selector means one of them,
nobody knows.
"""

from collections.abc import Iterable, Mapping

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import LabelsOf, PodSet
from shared.model.pod import Pod, PodId


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

    def spread_by(self, placed: PodInfo, *, default: bool = False) -> str:
        """Which of them the hard constraints of a pod may count, in words; '' if none. `default`:
        its profile has hard constraints for pods without any.
        """
        spread = placed.pod.spread
        if self._pods and (any(rule.hard for rule in spread) or (default and not spread)):
            for home, pods in self._pods.get(placed.pod.namespace, {}).items():
                return _named(home, pods)
        return ""

    def among(self, sets: Iterable[PodSet]) -> str:
        """Which of them is in any of these sets, in words; '' if none."""
        if not self._pods:
            return ""
        for one in sets:
            for namespace in self._pods if one.namespaces is None else sorted(one.namespaces):
                for home, pods in self._pods.get(namespace, {}).items():
                    if one.matches(next(iter(pods.values())), home, self._labels_of):
                        return _named(home, pods)
        return ""


def _named(home: str, pods: Mapping[PodId, Pod]) -> str:
    return f"{next(iter(pods.values())).key} of cluster {home}"
