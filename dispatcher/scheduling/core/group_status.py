"""What a PodGroup says in its status of how its scheduling stands: told on change only, by way of one
of its members.

Kubernetes' condition is about the first time alone: once as many as have to start together are bound,
it says so for ever. That a group is evicted as a whole is another one.
"""

from typing import NamedTuple

from dispatcher.scheduling.core.booked_groups import BookedSet
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.framework.pod_info import GroupId
from dispatcher.scheduling.queue import QueuedPod
from shared.messages import PREEMPTED, UNSCHEDULABLE, Outcome, ReportGroup
from shared.messages.pod_cache import PodCache, said
from shared.model.group_kinds import POD_GROUPS
from shared.model.pod import Pod

_MOST = 4096  # groups of which it is known what was told; of others it is told again
_MOST_TEXT = 1024  # characters, as of an event


class _Told(NamedTuple):
    scheduled: bool
    message: str
    at: float
    report: str  # the side intent


class GroupStatus:
    """Has the status of PodGroups written; of groups that marks make there is none."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._told: PodCache[GroupId, _Told] = PodCache(_MOST)

    def refused(self, name: GroupId, member: QueuedPod, message: str, now: float) -> None:
        """The group found no place."""
        known = self._told.get(name)
        soon = known is not None and now - known.at < self._state.timing.report_s
        if known is None or not (known.scheduled or soon or known.message == message):
            self._tell(name, member, now, scheduled=False, message=message)

    def started(self, booked: BookedSet, member: QueuedPod, now: float) -> None:
        """Enough of it were bound."""
        known = self._told.get(booked.name)
        if known is None or not known.scheduled:
            self._tell(booked.name, member, now, scheduled=True)

    def _tell(
        self, name: GroupId, member: QueuedPod, now: float, *, scheduled: bool, message: str = ""
    ) -> None:
        message = message[:_MOST_TEXT]
        report = self._send(name.home, member.pod_info.pod, scheduled, UNSCHEDULABLE, message)
        known = self._told.pop(name) if report else None
        if known is not None:
            self._state.side_intents.drop(known.report)
        if report:
            self._told.put(name, _Told(scheduled, message, now, report), said((name, message)))

    def evicted(self, home: str, member: Pod, why: str) -> None:
        """It is evicted as a whole."""
        self._send(home, member, False, PREEMPTED, why[:_MOST_TEXT])

    def _send(self, home: str, member: Pod, scheduled: bool, reason: str, message: str) -> str:
        """The side intent; '' for a group without a status."""
        group = member.group
        if group is None or group.kind != POD_GROUPS or not group.uid:
            return ""
        ref = intents.ref(member)
        intent = ReportGroup("", ref, 0, group.name, group.uid, scheduled, reason, message)
        return self._state.side_intents.send(home, "group", intent, _written)


def _written(answer: Outcome, now: float) -> None:
    """Nothing follows, whatever came of it."""
