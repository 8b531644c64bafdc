"""Where pods of the scheduling queue wait; of a group that is decided as a whole (`waiting_groups`)
which member stands for it, and where the others wait.
"""

import itertools
from collections import defaultdict, deque

from dispatcher.scheduling.fair_order import active_pods_of
from dispatcher.scheduling.framework import PodInfo, QueueSort
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.pod_info import GroupId, as_one, group_id
from dispatcher.scheduling.queued import (
    PARKED,
    QUOTA,
    Cause,
    Gates,
    QueuedPod,
    RefusedTogether,
    State,
)
from dispatcher.scheduling.retried import RefusedPods, RetriedPods
from dispatcher.scheduling.waiting_groups import WaitingGroup, WaitingGroups
from dispatcher.scheduling.waking import ParkedPods, Waking
from shared.model.pod import PodId
from shared.model.wake_events import WakeEvent

_NEVER = float("-inf")
# Enum look-ups are slow
_ACTIVE = State.ACTIVE
_BACKOFF = State.BACKOFF
_UNSCHEDULABLE = State.UNSCHEDULABLE
_GATED = State.GATED
_POPPED = State.POPPED


class QueuedGroups:
    """Which pods wait in which state, and which of them stand for groups."""

    def __init__(self, sort: QueueSort, gates: Gates) -> None:
        self._gates = gates
        self._pods: dict[PodId, QueuedPod] = {}
        self._counts = dict.fromkeys(State, 0)
        # pods into a state, by what moved them
        self.incoming: defaultdict[tuple[State, str], int] = defaultdict(int)
        self._active = active_pods_of(sort)
        self._retried = RetriedPods(self._active.whose)
        self._parked = ParkedPods()
        self.listens = self._parked.listens
        self._unflushed = RefusedPods()
        self.waking = Waking(self._parked)
        self.groups = WaitingGroups()
        # nobody is tried for these any more: the next `flush` sees to it
        self._left: deque[RefusedTogether] = deque()
        # quota that pods wait for no more: by whose, the event that wakes others who do
        self._given_up: dict[tuple[str, str], ClusterEvent] = {}
        self._tickets = itertools.count(1)

    def _leave(self, item: QueuedPod) -> None:
        if item.state is not _POPPED:
            self._counts[item.state] -= 1
        if item.group is not None:
            self._active.leave(item)
            self._retried.leave((item,))
        elif item.state in PARKED:
            self._parked.leave(item)

    def _move(self, item: QueuedPod, state: State, cause: str) -> None:
        self._leave(item)
        item.state = state
        item.ticket = next(self._tickets)
        self._counts[state] += 1
        self.incoming[state, cause] += 1
        if state is _ACTIVE:
            self._active.add(item)
        elif state is _BACKOFF:
            self._retried.back_off(item)
        elif state in PARKED:
            if item.line is not None:
                self._left.append(item.line)
            item.line = self._parked.line_of(item, None)
            item.line[item.pod_id] = item
            if state is _UNSCHEDULABLE:
                self._unflushed.add(item)
                self._unflushed.forget_void(len(self._pods))

    def _note_left(self, item: QueuedPod) -> None:
        """The pod is not tried for its line any more: the others must not wait for it."""
        if item.line is not None and item.state not in PARKED:
            self._left.append(item.line)
            item.line = None

    def _give_up_quota(self, item: QueuedPod) -> None:
        """The pod waits for quota no more, if it did: those behind it may go."""
        if item.claims:
            item.claims = False
            if self._gates.waits_for_quota(item.pod_info, waits=False):
                home = item.pod_id[0]
                pod = item.pod_info.pod
                self._given_up[home, pod.namespace] = ClusterEvent(WakeEvent.QUOTA_FREED, home, pod)

    def _drop(self, pod_id: PodId) -> None:
        if (item := self._pods.pop(pod_id, None)) is not None:
            self._leave(item)
            item.state = _POPPED
            self._leave_group(item)

    # --- groups

    def is_lead(self, item: QueuedPod) -> bool:
        """Whether a popped pod stands for a group: all of it is to be taken (`take_group`)."""
        group = self.groups.waits_in(item)
        return group is not None and group.lead is item

    def take_group(self, lead: QueuedPod) -> list[QueuedPod]:
        """Take out the members that wait with a popped one, oldest first, itself among them."""
        taken = self.groups.take(lead)
        for item in taken:
            if item is not lead:
                del self._pods[item.pod_id]
                self._leave(item)
                item.state = _POPPED
                item.attempts = lead.attempts
        if len(taken) > 1:
            self._active.take_with(lead, len(taken) - 1)
        return taken

    def member_placed(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """A member of a group has a place, as far as is known now."""
        if (group := self.groups.place(pod_id, pod_info)) is not None:
            self._lead(group, Cause.MEMBER)

    def member_displaced(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """It has none, or is gone."""
        if (group := self.groups.displace(pod_id, pod_info)) is not None:
            self._lead(group, Cause.MEMBER)

    def group_starts(self, name: GroupId, *, starting: bool) -> None:
        """Members of the group are on their way to their places from now on, or have come to their
        end.
        """
        if (group := self.groups.get(name)) is not None:
            group.starting = starting
            self._lead(group, Cause.MEMBER)

    def waiting_with(self, item: QueuedPod) -> PodInfo:
        """What waits for quota with a pod: who stands for a group, for as many as have to start."""
        starting = self.groups.starting_with(item)
        return item.pod_info if len(starting) == 1 else as_one([one.pod_info for one in starting])

    def _waits_until(self, item: QueuedPod, now: float, cause: str) -> float:
        """Until when it is not tried as others wait for quota. Who was refused for quota alone
        waits with these anyway, or has waited.
        """
        if now >= self._parked.quota_at or cause == Cause.ACTIVATED:
            return now
        has_waited = item.reasons == QUOTA or (cause == Cause.BACKOFF_ENDED and not item.attempts)
        if has_waited and self.groups.waits_in(item) is None:
            return now
        return self._parked.waits_behind(item, self.waiting_with(item), self._gates, now)

    def _follows(self, item: QueuedPod) -> bool:
        """Whether a popped pod is of a group, and does not stand for it."""
        return group_id(item.pod_info) is not None and not self.is_lead(item)

    def _waits_with_group(self, item: QueuedPod, cause: str) -> bool:
        """Whether a pod that is to be decided waits with its group: another stands for it, or too
        few are here.
        """
        if item.pod_info.pod.group is None or self.is_lead(item):
            return False
        group = self.groups.enter(item)
        if group is None:
            return False
        self._note_left(item)
        self._stand_back(item, cause)
        self._lead(group, cause, came=True)
        return True

    def _stand_back(self, item: QueuedPod, cause: str) -> None:
        """A member waits without being tried: for quota, too, it waits no more by itself."""
        self._give_up_quota(item)
        self._leave(item)
        item.state = _GATED
        item.ticket = next(self._tickets)
        self._counts[_GATED] += 1
        self.incoming[_GATED, cause] += 1

    def _leave_group(self, item: QueuedPod) -> None:
        if item.pod_info.pod.group is None:
            return
        if (group := self.groups.leave(item)) is not None:
            self._lead(group, Cause.MEMBER)

    def _lead(self, group: WaitingGroup, cause: str, *, came: bool = False) -> None:
        """See to it that one member stands for a group that is whole, and none for another. Who
        came may help one that found no place.
        """
        lead = group.lead
        if group.starting or not group.is_whole:
            self.groups.short.add(group.group_id)
            if lead is not None and lead.state is not _POPPED:
                group.lead = None
                self._note_left(lead)
                self._give_up_quota(lead)
                self._stand_back(lead, cause)
        elif lead is None and group.members:
            lead = group.lead = next(iter(group.members.values()))
            lead.attempts = group.attempts
            lead.ready_at = max(group.ready_at, self._waits_until(lead, _NEVER, cause))
            self._move(lead, _ACTIVE if lead.ready_at == _NEVER else _BACKOFF, cause)
        elif lead is not None and came and lead.state is _UNSCHEDULABLE:
            self._move(lead, _BACKOFF, cause)
