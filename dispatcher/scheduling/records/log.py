"""The latest decision or refusal of each pod, for explain and the HTTP API."""

from collections import OrderedDict
from collections.abc import Iterable

from dispatcher.model.pod import PodId
from dispatcher.scheduling.records.decision import Decision, Unschedulable


class DecisionLog:
    """The latest decision or refusal of each pod, of the last `limit` pods."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._by_pod: OrderedDict[PodId, Decision | Unschedulable] = OrderedDict()

    def add(self, result: Decision | Unschedulable) -> None:
        """Keep a result, in place of an older one of the same pod."""
        by_pod, pod_id = self._by_pod, result.pod_id
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

    def find(self, pod_id: PodId) -> Decision | Unschedulable | None:
        """The latest result of a pod."""
        return self._by_pod.get(pod_id)

    def summary(self, pod_id: PodId) -> str:
        """One line of why for a pod, empty if nothing is known."""
        found = self._by_pod.get(pod_id)
        return found.summary() if found else ""
