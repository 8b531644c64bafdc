"""What the scheduling queue does about groups that are decided as a whole (`waiting_groups`): which
member stands for its group, and where the others wait.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence

from dispatcher.scheduling.fair_order import FairPods
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_info import GroupId, as_one, group_id
from dispatcher.scheduling.queued import QUOTA, ActivePods, Cause, Gates, QueuedPod, State
from dispatcher.scheduling.waiting_groups import WaitingGroup, WaitingGroups
from dispatcher.scheduling.waking import ParkedPods
from shared.model.pod import PodId
from shared.model.reasons import Reason

# Of groups of one namespace that found no place about so many are tried again each second: a try
# takes half a millisecond or more. 5,000 of them, no two alike, have a turn each minute; those of
# other namespaces do not wait for them.
_GROUPS_PER_S = 80
_NEVER = float("-inf")
# Enum look-ups are slow
_ACTIVE = State.ACTIVE
_BACKOFF = State.BACKOFF
_UNSCHEDULABLE = State.UNSCHEDULABLE
_GATED = State.GATED
_POPPED = State.POPPED


class QueuedGroups(ABC):
    """The part of the queue that knows groups."""

    _pods: dict[PodId, QueuedPod]
    _counts: dict[State, int]
    _active: ActivePods | FairPods
    incoming: defaultdict[tuple[State, str], int]
    _tickets: Iterator[int]
    groups: WaitingGroups
    _gates: Gates
    _parked: ParkedPods

    @abstractmethod
    def unschedulable_all(
        self,
        items: Sequence[QueuedPod],
        reasons: frozenset[Reason],
        now: float,
        *,
        alone: bool = False,
    ) -> None:
        """Popped pods found no place."""

    @abstractmethod
    def _move(self, item: QueuedPod, state: State, cause: str) -> None: ...

    @abstractmethod
    def _leave(self, item: QueuedPod) -> None: ...

    @abstractmethod
    def _note_left(self, item: QueuedPod) -> None: ...

    @abstractmethod
    def _give_up_quota(self, item: QueuedPod) -> None: ...

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

    def group_refused(
        self,
        items: Sequence[QueuedPod],
        lead: QueuedPod,
        reasons: frozenset[Reason],
        now: float,
        *,
        alone: bool = False,
    ) -> None:
        """Popped members found no place: from now on `lead`, one of them, waits for an event on
        behalf of all, after one back-off. What refused them holds for groups like theirs unless
        `alone`.
        """
        group = None
        for item in items:
            group = self.groups.enter(item)
            if item is not lead:
                self._give_up_quota(item)
                self._pods[item.pod_id] = item
                self._stand_back(item, Cause.FAILED)
        if group is not None:
            group.lead = lead
            alike = {id(item.class_key) for item in items}
            alone = alone or len(alike) > 1 or bool(group.placed)
            lead.shape = None if alone else group.shape
        self.unschedulable_all([lead], reasons, now, alone=lead.shape is None)
        if group is not None:
            others = min(self._counts[_BACKOFF], self.groups.beside(group))
            lead.ready_at = group.ready_at = max(lead.ready_at, now + others / _GROUPS_PER_S)
            self._lead(group, Cause.FAILED)

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
