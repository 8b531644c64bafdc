"""The latest decision or refusal of each pod, for explain and the HTTP API."""

import itertools
from collections import OrderedDict
from typing import Any

from dispatcher.model.pod import PodId
from dispatcher.scheduling.records.decision import Decision, Unschedulable


class DecisionLog:
    """The latest decision or refusal of each pod, of the last `limit` pods."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._by_pod: OrderedDict[PodId, Decision | Unschedulable] = OrderedDict()
        self._by_name: dict[tuple[str, str], dict[PodId, None]] = {}

    def add(self, result: Decision | Unschedulable) -> None:
        """Keep a result, in place of an older one of the same pod."""
        self._drop(result.pod_id)
        self._by_pod[result.pod_id] = result
        self._by_name.setdefault(_name(result), {})[result.pod_id] = None
        while len(self._by_pod) > self._limit:
            self._drop(next(iter(self._by_pod)))

    def _drop(self, pod_id: PodId) -> None:
        old = self._by_pod.pop(pod_id, None)
        if old is None:
            return
        named = self._by_name[_name(old)]
        del named[pod_id]
        if not named:
            del self._by_name[_name(old)]

    def find(self, pod_id: PodId) -> Decision | Unschedulable | None:
        """The latest result of a pod."""
        return self._by_pod.get(pod_id)

    def get(self, namespace: str, name: str, cluster: str | None = None) -> Decision | Unschedulable | None:
        """The latest result of a pod by name, submitted in `cluster` (None: in any)."""
        named = self._by_name.get((namespace, name), {})
        ids = [pod_id for pod_id in named if cluster in (None, pod_id[0])]
        return self._by_pod[ids[-1]] if ids else None

    def latest(self, count: int = 100) -> list[Decision | Unschedulable]:
        """The last `count` results, newest first."""
        return list(itertools.islice(reversed(self._by_pod.values()), count))

    def record(self, pod_id: PodId) -> dict[str, Any] | None:
        """The explain record of a pod, None if nothing is known."""
        found = self._by_pod.get(pod_id)
        return found.record() if found else None

    def summary(self, pod_id: PodId) -> str:
        """One line of why for a pod, empty if nothing is known."""
        found = self._by_pod.get(pod_id)
        return found.summary() if found else ""


def _name(result: Decision | Unschedulable) -> tuple[str, str]:
    return result.placed.pod.namespace, result.placed.pod.name
