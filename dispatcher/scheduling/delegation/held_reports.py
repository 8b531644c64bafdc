"""What pods wait for by now, where that changed too soon after the last report: it is told later,
not never.
"""

from typing import NamedTuple

from dispatcher.scheduling.delegation.due_times import DueTimes
from shared.model.pod import PodId

_AT_ONCE = 500  # told in one Tick


class HeldReport(NamedTuple):
    """Why a pod waits, as it is to be told."""

    message: str
    reason: str
    nodes_help: bool


class HeldReports:
    """The last of each pod, and when it may be told."""

    def __init__(self) -> None:
        self._held: dict[PodId, HeldReport] = {}
        self._due: DueTimes[PodId] = DueTimes()

    def hold(self, pod_id: PodId, report: HeldReport, until: float) -> None:
        """In place of one that was held before."""
        self._held[pod_id] = report
        self._due.put(pod_id, until)

    def drop(self, pod_id: PodId) -> None:
        """Another one was told, or nothing is to be told any more."""
        if self._held.pop(pod_id, None) is not None:
            self._due.drop(pod_id)

    def due(self, now: float) -> list[tuple[PodId, HeldReport]]:
        """Take out those that may be told now."""
        return [(pod_id, self._held.pop(pod_id)) for pod_id in self._due.take(now, _AT_ONCE)]
