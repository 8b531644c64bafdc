"""Delegates on their nodes that are still Pending: since when, and when each is to be looked at."""

from dispatcher.scheduling.delegation.due_times import DueTimes
from shared.model.pod import PENDING, Pod, PodId

AGAIN_S = 30.0  # one that has not started is looked at again after so long
_AT_ONCE = 100  # statuses that are read in one Tick


class UnstartedPods:
    """By source pod. `told`: where those are that have waited for `start_s` (0: none is looked at),
    and for what.
    """

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.told: dict[PodId, tuple[str, str]] = {}
        self._asked: dict[PodId, int] = {}
        self._since: dict[PodId, float] = {}
        self._due: DueTimes[PodId] = DueTimes()

    def see(self, pod_id: PodId, delegate: Pod | None, now: float) -> None:
        """A delegate was reported; None: it is gone."""
        waits = (
            delegate is not None
            and delegate.phase == PENDING
            and delegate.node
            and not delegate.terminating
        )
        if not waits:
            self.started(pod_id)
        elif pod_id not in self._since and self.start_s:
            self._since[pod_id] = now
            self._due.put(pod_id, now + self.start_s)

    def started(self, pod_id: PodId) -> None:
        """It has, or is on its way out."""
        if self._since.pop(pod_id, None) is not None:
            self._due.drop(pod_id)
            self.told.pop(pod_id, None)
            self._asked.pop(pod_id, None)

    def asked(self, pod_id: PodId) -> None:
        """It was told to go."""
        self._asked[pod_id] = self._asked.get(pod_id, 0) + 1

    def due(self, now: float) -> list[PodId]:
        """Those to look at now, first those told to go least often, so that ones that cannot go
        keep none back; each is due again later.
        """
        found = self._due.take(now, _AT_ONCE)
        for pod_id in found:
            self._due.put(pod_id, now + AGAIN_S)
        return sorted(found, key=lambda pod_id: self._asked.get(pod_id, 0))
