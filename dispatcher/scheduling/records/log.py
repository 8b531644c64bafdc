"""The latest decision or refusal of each pod, for explain and the HTTP API.

A record holds its pod, and a pod may be a megabyte: what is kept of pods that are gone are names.
"""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import Pod, PodId


class DecisionLog:
    """The latest decision or refusal of each pod, of the last `limit` pods."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._by_pod: OrderedDict[PodId, Decision | Unschedulable] = OrderedDict()

    def add(self, result: Decision | Unschedulable) -> None:
        """Keep a result, in place of an older one of the same pod."""
        by_pod = self._by_pod
        pod_id = result.pod_id
        if isinstance(result, Unschedulable) and result.victims:
            result = msgspec.structs.replace(result, victims=tuple(map(_named, result.victims)))
        if pod_id in by_pod:
            by_pod.move_to_end(pod_id)
        by_pod[pod_id] = result
        if len(by_pod) > self._limit:
            by_pod.popitem(last=False)

    def add_all(self, results: Iterable[Decision]) -> None:
        """Keep each, in order."""
        by_pod = self._by_pod
        for result in results:
            by_pod.pop(result.pod_id, None)
            by_pod[result.pod_id] = result
        while len(by_pod) > self._limit:
            by_pod.popitem(last=False)

    def forget(self, pod_id: PodId) -> None:
        """The pod is gone: nobody can ask for it any more."""
        self._by_pod.pop(pod_id, None)

    def find(self, pod_id: PodId) -> Decision | Unschedulable | None:
        """The latest result of a pod."""
        return self._by_pod.get(pod_id)

    def summary(self, pod_id: PodId) -> str:
        """One line of why for a pod, empty if nothing is known."""
        found = self._by_pod.get(pod_id)
        return found.summary() if found else ""


def _named(victim: Victim) -> Victim:
    """A victim as a record tells of it: soon it is gone."""
    pod = victim.pod_info.pod
    named = PodInfo(Pod(pod.uid, pod.namespace, pod.name), victim.pod_info.home)
    return Victim(victim.pod_id, named, victim.cluster, victim.node)
