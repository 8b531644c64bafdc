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

    def put(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """A pod is somewhere; one whose labels are told is none of these."""
        if pod_info.pod.labels_cut:
            homes = self._pods.setdefault(pod_info.pod.namespace, {})
            homes.setdefault(pod_info.home, {})[pod_id] = pod_info.pod

    def drop(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """The inverse of `put`; one that was not entered is none of these."""
        namespace = pod_info.pod.namespace
        home = pod_info.home
        homes = self._pods.get(namespace, {})
        if homes.get(home, {}).pop(pod_id, None) is None or homes[home]:
            return
        del homes[home]
        if not homes:
            del self._pods[namespace]

    def spread_by(self, pod_info: PodInfo, *, default: bool = False) -> str:
        """Which of them the hard constraints of a pod may count, in words; '' if none. `default`:
        its profile has hard constraints for pods without any.
        """
        spread = pod_info.pod.spread
        if self._pods and (any(rule.hard for rule in spread) or (default and not spread)):
            for home, pods in self._pods.get(pod_info.pod.namespace, {}).items():
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
