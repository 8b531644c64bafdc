"""Groups of pods that start together, as they wait: how many members are here, and which one of
them stands for all in the queue.

The members of a group are decided together, so one that waits, its *lead*, is queued for all: it is
active, backs off, or waits for an event as a pod by itself does. What wakes it wakes its group once.
The others wait to be taken with it. A group of which fewer than `min_count` members are known, those
that have a place among them, has no lead: no event looks at it, until a member comes.

Rules are kube-scheduler's: PreEnqueue of GangScheduling counts all pods of the group that are known.
A pod that has scheduling gates of its own does not count here, as it cannot be placed. All is O(1)
for each pod that comes or goes; what is known of a group ends with its last pod.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import islice

import msgspec

from dispatcher.scheduling.framework.pod_info import GroupId, PodInfo, group_id
from dispatcher.scheduling.queued import QueuedPod
from shared.model.pod import Group, PodId


class WaitingGroup(msgspec.Struct, eq=False):
    """One group. `group`: as the member that came last has told it.

    `members`: those that wait, in the order in which they came. `placed`: those that have a place.
    `attempts`, `ready_at`: how often it failed as a whole, and the end of its back-off. `starting`:
    members with places are on their way, and may be given back: no other joins them before.
    """

    group_id: GroupId
    group: Group
    members: dict[PodId, QueuedPod] = {}
    placed: set[PodId] = set()
    lead: QueuedPod | None = None
    attempts: int = 0
    ready_at: float = float("-inf")
    starting: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether enough members are known for it to be decided."""
        return len(self.members) + len(self.placed) >= self.group.min_count

    @property
    def is_met(self) -> bool:
        """Whether as many members have a place as have to start together: others join them."""
        return len(self.placed) >= self.group.min_count

    @property
    def beside_lead(self) -> list[QueuedPod]:
        """Members that wait for their lead, or for members to come: none of them is parked."""
        return [item for item in self.members.values() if item is not self.lead]

    @property
    def shape(self) -> Hashable:
        """What groups of pods of one class have in common that find a place, or none, alike."""
        group = self.group
        return len(self.members), group.min_count, group.within

    def failed(self, lead: QueuedPod) -> None:
        """It was decided in vain: all back off as its lead does."""
        self.attempts = lead.attempts
        self.ready_at = lead.ready_at

    @property
    def note(self) -> str:
        """What its members wait for, while it is not whole."""
        if self.starting:
            return f"{self.group.name}: others of it are about to start"
        here = len(self.members) + len(self.placed)
        return f"{self.group.name}: {here} of min {self.group.min_count} pods are here"


class WaitingGroups:
    """All groups with a member that waits or has a place."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, WaitingGroup] = {}
        self._in_namespace = Counter[tuple[str, str]]()  # groups, by home and namespace
        self.short: set[GroupId] = set()  # of late: for what they were promised, see the core

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[WaitingGroup]:
        return iter(self._groups.values())

    def beside(self, group: WaitingGroup) -> int:
        """How many groups there are of its namespace, itself among them."""
        return self._in_namespace[_namespace_of(group)]

    def get(self, name: GroupId | None) -> WaitingGroup | None:
        """None for one without pods."""
        return None if name is None else self._groups.get(name)

    def of(self, pod_info: PodInfo) -> WaitingGroup | None:
        """The group of a pod; None for a pod that is placed by itself."""
        if pod_info.pod.group is None:
            return None
        return self.get(group_id(pod_info))

    def waits_in(self, item: QueuedPod) -> WaitingGroup | None:
        """The group in which this very pod waits."""
        group = self.of(item.pod_info)
        return group if group is not None and group.members.get(item.pod_id) is item else None

    def enter(self, item: QueuedPod) -> WaitingGroup | None:
        """A member waits from now on; None for a pod that is placed by itself."""
        group = self._made(item.pod_info)
        if group is None:
            return None
        group.placed.discard(item.pod_id)
        group.members[item.pod_id] = item
        group.attempts = max(group.attempts, item.attempts)
        group.ready_at = max(group.ready_at, item.ready_at)
        return group

    def leave(self, item: QueuedPod) -> WaitingGroup | None:
        """This very pod waits no more; None if it did not."""
        group = self.waits_in(item)
        if group is None:
            return None
        del group.members[item.pod_id]
        if group.lead is item:
            group.lead = None
        self._tidy(group)
        return group

    def starting_with(self, item: QueuedPod) -> list[QueuedPod]:
        """The pod, and as many others of its group that wait as have to have a place before any has."""
        group = self.waits_in(item)
        needed = 1 if group is None else group.group.min_count - len(group.placed)
        if group is None or needed <= 1:
            return [item]
        others = (one for one in group.members.values() if one is not item)
        return [item, *islice(others, needed - 1)]

    def take(self, lead: QueuedPod) -> list[QueuedPod]:
        """Take out the members that wait, oldest first, to be decided together."""
        group = self.waits_in(lead)
        if group is None:
            return [lead]
        taken = sorted(group.members.values(), key=lambda item: (item.queued_at, item.pod_id))
        group.members = {}
        group.lead = None
        self._tidy(group)
        return taken

    def place(self, pod_id: PodId, pod_info: PodInfo) -> WaitingGroup | None:
        """A member has a place: one was booked for it, or its cluster shows it there."""
        group = self._made(pod_info)
        if group is not None:
            group.placed.add(pod_id)
        return group

    def displace(self, pod_id: PodId, pod_info: PodInfo) -> WaitingGroup | None:
        """It has none any more; None if it had none."""
        group = self.of(pod_info)
        if group is None or pod_id not in group.placed:
            return None
        group.placed.discard(pod_id)
        self._tidy(group)
        return group

    def counts(self) -> dict[str, int]:
        """How many groups wait for members, wait for a place, and have one (`placed`)."""
        found = {"incomplete": 0, "waiting": 0, "placed": 0}
        for group in self._groups.values():
            if group.is_met:
                found["placed"] += 1
            elif group.members:
                found["waiting" if group.is_whole else "incomplete"] += 1
        return found

    def _made(self, pod_info: PodInfo) -> WaitingGroup | None:
        told = pod_info.pod.group
        name = group_id(pod_info)
        if told is None or name is None:
            return None
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = WaitingGroup(name, told)
            self._in_namespace[_namespace_of(group)] += 1
        group.group = told
        return group

    def _tidy(self, group: WaitingGroup) -> None:
        if group.members or group.placed or self._groups.pop(group.group_id, None) is None:
            return
        namespace = _namespace_of(group)
        self._in_namespace[namespace] -= 1
        if not self._in_namespace[namespace]:
            del self._in_namespace[namespace]


def _namespace_of(group: WaitingGroup) -> tuple[str, str]:
    return group.group_id.home, group.group_id.namespace
