"""A pod as the scheduling queue holds it, active pods by turn and class, lines of refused ones, and
what is asked of plugins.
"""

import enum
import heapq
import itertools
from collections import deque
from collections.abc import Hashable, Iterator
from functools import reduce
from operator import attrgetter, or_
from typing import Any, Protocol

import msgspec

from dispatcher.scheduling.framework import PodInfo, QueueSort
from dispatcher.scheduling.framework.class_keys import batch_key
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.pod_info import NO_TURN, QuotaTurn
from shared.model.backoff import Backoff
from shared.model.pod import PodId
from shared.model.reasons import Reason, Reasons, Why
from shared.model.wake_events import NEVER, NODES, WakeEvent

AT_A_TIME = 64  # pods of a line
QUOTA = frozenset((Reasons.QUOTA,))
_age_of = attrgetter("queued_at", "pod_id")
_NO_REASON: frozenset[Reason] = frozenset()


class Gates(Protocol):
    """What the queue asks of the plugins of a pod's profile."""

    def gate(self, pod_info: PodInfo) -> Why | None:
        """Why a pod may not enter the queue (PreEnqueue); None: it may."""
        ...

    def kind_of(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> Hashable:
        """What pods that wait for the same events have in common; equal for equal class keys and
        reasons.
        """
        ...

    def worth_any(self, event: ClusterEvent, kind: Hashable) -> bool:
        """Whether an event may really help any pod of this kind: asked once for all of them, before
        `worth`.
        """
        ...

    def worth(self, event: ClusterEvent, pod_info: PodInfo, reasons: frozenset[Reason]) -> bool:
        """Whether an event of that kind may really help a pod refused for these (queueing hints)."""
        ...

    def refused_alike(self, pod_info: PodInfo) -> bool:
        """Whether what refuses a pod refuses all others with the very same class key, as the fleet
        is now.
        """
        ...

    def quota_alike(self, pod_info: PodInfo) -> bool:
        """Whether a quota that refuses a pod refuses all others of its class."""
        ...

    def waits_for_quota(self, pod_info: PodInfo, *, waits: bool) -> bool:
        """A pod that was refused for quota alone waits, or does so no more. Whether others may have
        waited behind it.
        """
        ...

    def quota_turn(self, pod_info: PodInfo) -> QuotaTurn:
        """Of which quota the pod is charged, and its turn."""
        ...


def helped_by_of(reasons: frozenset[Reason]) -> WakeEvent:
    """Which events may help a pod refused for these."""
    # without a single node there was nothing to refuse it
    return reduce(or_, (reason.helped_by for reason in reasons)) if reasons else NODES


def order_of(
    sort: QueueSort,
    pod_id: PodId,
    pod_info: PodInfo,
    queued_at: float,
    back_at: float | None = None,
) -> tuple[Any, ...]:
    """Where a pod stands among active ones. `back_at`: when one that failed before comes back to be
    tried.
    """
    sorted_by = queued_at if back_at is None else back_at
    try:
        key = (0, *sort.sort_key(pod_info, sorted_by))
    except Exception:  # a broken policy must not stop the queue: such pods come last, oldest first
        key = (1, sorted_by)
    return (key, queued_at, pod_id)


class NoPlugins:
    """Nobody gates, or looks closer at events."""

    def gate(self, pod_info: PodInfo) -> Why | None:
        """Only a pod with scheduling gates may not enter."""
        return Why(Reasons.GATED, ", ".join(pod_info.pod.gates)) if pod_info.pod.gated else None

    def worth(self, event: ClusterEvent, pod_info: PodInfo, reasons: frozenset[Reason]) -> bool:
        """Always."""
        return True

    def kind_of(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> Hashable:
        """The reasons alone."""
        return reasons

    def worth_any(self, event: ClusterEvent, kind: Hashable) -> bool:
        """Always."""
        return True

    def refused_alike(self, pod_info: PodInfo) -> bool:
        """Nobody knows."""
        return False

    def quota_alike(self, pod_info: PodInfo) -> bool:
        """It is part of the class."""
        return True

    def waits_for_quota(self, pod_info: PodInfo, *, waits: bool) -> bool:
        """Nobody waits behind it."""
        return False

    def quota_turn(self, pod_info: PodInfo) -> QuotaTurn:
        """All are charged of one, and borrow nothing."""
        return NO_TURN


class State(enum.Enum):
    """Where a pod waits, or that it was popped."""

    # counted with every move of every pod; Enum's own hash is a call of Python
    __hash__ = object.__hash__
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    WAITING = "waiting"
    POPPED = "popped"


PARKED = (State.UNSCHEDULABLE, State.GATED)


class Cause:
    """Why a pod came into a state, where no event of the fleet (`WakeEvent`, by its name) did it.

    Values are kube-scheduler's labels `event` of scheduler_queue_incoming_pods_total, where it has
    one that means this. Plain strings, not an Enum: they are counted with every move of every pod.
    """

    ADD = "UnschedulablePodAdd"
    UPDATE = "UnschedulablePodUpdate"
    FAILED = "ScheduleAttemptFailure"
    BACKOFF_ENDED = "BackoffComplete"
    FLUSHED = "UnschedulableTimeout"
    ACTIVATED = "ForceActivate"
    HELD = "PermitWait"
    POLICIES = "ProfilesReloaded"
    ALIKE = "AlikePodPlaced"
    SEVERAL = "SeveralEvents"
    MEMBER = "PodGroupMember"  # of its group one came, went, or got a place


class QueuedPod(msgspec.Struct, eq=False):
    """A pod in the queue. `attempts` counts decisions that failed; `ready_at` is the end of its
    back-off.

    `note` says in words why it is gated or waiting.
    """

    pod_id: PodId
    pod_info: PodInfo
    class_key: Hashable
    queued_at: float
    order: tuple[Any, ...]
    attempts: int = 0
    ready_at: float = float("-inf")
    since: float = float("-inf")
    helped_by: WakeEvent = NEVER
    reasons: frozenset[Reason] = _NO_REASON
    kind: Hashable = None  # of what it waits for: `Gates.kind_of`
    note: str = ""
    state: State = State.POPPED
    ticket: int = 0
    policies: int = 0  # under which it was sorted and classified
    claims: bool = False  # it was refused for quota alone, and others may wait behind it
    group: "Group | None" = None  # while it is active: the pods of its turn and class
    # where it waits for an event, or whose pods wait for what becomes of it
    line: "RefusedTogether | None" = None
    # of one that stands for a group of pods that are alike: what such groups have in common
    shape: Hashable = None


def note_gated(gates: Gates, item: QueuedPod, why: Why) -> None:
    """What a pod waits for that may not enter."""
    item.reasons = frozenset((why.reason,))
    item.note = why.text
    item.helped_by = helped_by_of(item.reasons)
    item.kind = gates.kind_of(item.pod_info, item.reasons)


class _OfQuota(msgspec.Struct, frozen=True):
    """What pods have in common that wait for one quota."""

    priority: int


def alike_by(gates: Gates, item: QueuedPod) -> Hashable:
    """What a refused pod has in common with pods that are refused alike (see `parked`); None: there
    are none.
    """
    if item.shape is not None:
        return item.shape if gates.refused_alike(item.pod_info) else None
    if item.reasons == QUOTA and gates.quota_alike(item.pod_info):
        return _OfQuota(item.pod_info.pod.priority)  # who is more important waits for no other
    # The very same key is one template and home (see `ClassKey`); the pods of the line keep it from
    # being used again.
    return id(item.class_key) if gates.refused_alike(item.pod_info) else None


class RefusedTogether(dict[PodId, QueuedPod]):
    """Pods of one class that were refused for the same; the one that was tried longest ago first.

    `alike`: what they have in common that refuses them alike; None: nothing, so all of them are
    tried with each event. `tried`: the pod that is tried for all (of several that are tried
    together the last). `width`: how many are tried together. `failed`: refusals in a row of those
    that were tried, `ready_at`: the end of the line's back-off.
    """

    __slots__ = ("alike", "failed", "ready_at", "tried", "width")

    def __init__(self, alike: Hashable) -> None:
        super().__init__()
        self.alike: Hashable = alike
        self.tried: QueuedPod | None = None
        self.width = 1
        self.failed = 0
        self.ready_at = float("-inf")

    @property
    def is_of_quota(self) -> bool:
        """Whether one quota refuses all of them."""
        return isinstance(self.alike, _OfQuota)

    def due(self, *, more: bool) -> list[QueuedPod]:
        """The pods to be tried, now that an event may help; `more`: the last try did not end in the
        same refusal.
        """
        if self.alike is None:
            return list(self.values())
        if not self or self.is_tried():
            return []
        if more:
            self.width = min(2 * self.width, AT_A_TIME)
            self.failed = 0
            self.ready_at = float("-inf")
        else:
            self.width = 1
        found = (
            heapq.nsmallest(
                self.width, self.values(), key=_age_of
            )  # the oldest pods get what quota there is
            if self.is_of_quota
            else list(itertools.islice(self.values(), self.width))
        )
        self.tried = found[-1]
        for item in found:
            item.ready_at = max(item.ready_at, self.ready_at)
        return found

    def is_tried(self) -> bool:
        """Whether a pod is queued to be tried for all: another event changes nothing until that is
        decided.
        """
        tried = self.tried
        return (
            tried is not None
            and tried.line is self
            and tried.state in (State.ACTIVE, State.BACKOFF)
        )

    def refused_again(self, now: float, pause: Backoff) -> None:
        """The pod that was tried for all is refused for what it was refused for before: so are the
        others.
        """
        self.failed += 1
        self.ready_at = now + pause.after(self.failed)


_Entry = tuple[tuple[Any, ...], int, QueuedPod]  # order, ticket, pod


class Group:
    """The active pods of one turn and class, first in order first. `shown`: the order by which the
    queue knows it.
    """

    __slots__ = ("_entries", "_sorted", "key", "owner", "pods", "shown")

    def __init__(self, key: Hashable, owner: "ActivePods") -> None:
        self.key = key
        self.owner = owner
        self.pods = 0
        self.shown = ()
        # Entries of pods that have left since are void; they are dropped when they come up.
        self._entries: deque[_Entry] = deque()
        self._sorted = True

    def add(self, item: QueuedPod) -> None:
        """One more pod; most come in order."""
        entries = self._entries
        entry = (item.order, item.ticket, item)
        self.pods += 1
        self._sorted = self._sorted and (not entries or entries[-1][0] < item.order)
        entries.append(entry)
        if len(entries) > 2 * self.pods + 64:
            self._entries = deque(one for one in entries if self._has(one))

    def first(self) -> QueuedPod:
        """The first of at least one pod."""
        entries = self._in_order()
        while not self._has(entries[0]):
            entries.popleft()
        return entries[0][2]

    def take(self, most: int) -> list[QueuedPod]:
        """The first pods, `most` at most; they are no pods of the group any more."""
        entries = self._in_order()
        taken = list[QueuedPod]()
        wanted = min(most, self.pods)
        while len(taken) < wanted:
            _, ticket, item = entries.popleft()
            if item.group is self and item.ticket == ticket:  # as `_has`, which costs a call
                item.group = None
                taken.append(item)
        self.pods -= len(taken)
        return taken

    def in_order(self) -> Iterator[QueuedPod]:
        """Its pods; to be used before anything changes."""
        return (entry[2] for entry in self._in_order() if self._has(entry))

    def _in_order(self) -> deque[_Entry]:
        if not self._sorted:
            self._entries = deque(sorted(self._entries))
            self._sorted = True
        return self._entries

    def _has(self, entry: _Entry) -> bool:
        return entry[2].group is self and entry[2].ticket == entry[1]


class ActivePods:
    """The pods that are to be decided, in groups of one turn and class; the group with the first of
    all pods first.
    """

    def __init__(self) -> None:
        # Groups by their first pods: an entry is void once its group is empty, or is shown by
        # another order. Void ones are dropped when they come up.
        self.entries: list[tuple[tuple[Any, ...], int, Group]] = []
        self._numbers = itertools.count()  # no two groups are ever compared
        self._groups: dict[Hashable, Group] = {}
        self._last = Group(
            (), self
        )  # the group of the pod that came last: mostly the next one's, too

    def add(self, item: QueuedPod) -> None:
        """One more."""
        key = (item.order[0], batch_key(item.class_key))
        group = self._last
        if not group.pods or group.key != key:
            found = self._groups.get(key)
            if found is None:
                found = self._groups[key] = Group(key, self)
            group = self._last = found
        item.group = group
        group.add(item)
        if group.pods == 1 or item.order < group.shown:
            self._show(group, item)

    def _show(self, group: Group, item: QueuedPod) -> None:
        group.shown = item.order
        # Pods that change all the time leave void entries behind: never more of them than groups
        # that wait.
        if len(self.entries) > 2 * len(self._groups) + 64:
            self.entries = [
                entry for entry in self.entries if entry[2].pods and entry[0] == entry[2].shown
            ]
            heapq.heapify(self.entries)
        heapq.heappush(self.entries, (item.order, next(self._numbers), group))

    def whose(self, item: QueuedPod) -> str:
        """Nobody's is told apart from others."""
        return ""

    def at(self, now: float) -> None:
        """It is `now`, which makes no difference."""

    def first(self) -> QueuedPod | None:
        """The first of all; None if there is none."""
        while self.entries:
            order, _, group = self.entries[0]
            if not group.pods or order != group.shown:
                heapq.heappop(self.entries)
                continue
            item = group.first()
            if item.order == order:
                return item
            group.shown = item.order
            heapq.heapreplace(self.entries, (item.order, next(self._numbers), group))
        return None

    def take(self, first: QueuedPod, most: int) -> list[QueuedPod]:
        """The `first` of all and the next of its turn and class, `most` at most; they are active no
        more.
        """
        group = first.group
        taken = group.take(most) if group is not None else []
        self._drop_empty(group)
        return taken

    def in_order(self, row: int, most: int) -> Iterator[QueuedPod]:
        """The first, `most` at most, as they would be taken, `row` at a time; to be used before
        anything changes.
        """
        return itertools.islice(self._in_order(row), most)

    def _in_order(self, row: int) -> Iterator[QueuedPod]:
        rest = [(group.first().order, at, group) for at, group in enumerate(self._groups.values())]
        left = [group.in_order() for _, _, group in rest]
        heapq.heapify(rest)
        while rest:
            _, at, group = rest[0]
            yield from itertools.islice(left[at], row)
            following = next(left[at], None)
            if following is None:
                heapq.heappop(rest)
            else:
                left[at] = itertools.chain((following,), left[at])
                heapq.heapreplace(rest, (following.order, at, group))

    def leave(self, item: QueuedPod) -> None:
        """It is active no more."""
        group = item.group
        if group is not None:
            item.group = None
            group.pods = group.pods - 1
        self._drop_empty(group)

    def take_with(self, item: QueuedPod, pods: int) -> None:
        """With one that was taken so many others were that it stands for: nobody takes turns."""

    def share_of(self, item: QueuedPod) -> tuple[str | None, Any]:
        """Whose an active pod is, and the share of the tenant."""
        return None, None

    def put_back(self, item: QueuedPod) -> None:
        """One that was taken and not decided."""
        self.add(item)

    def take_newcomer(self) -> bool:
        """Nobody is new where tenants take no turns."""
        return False

    def settle(self) -> None:
        """A batch is whole: nothing is to be done where tenants take no turns."""

    def _drop_empty(self, group: Group | None) -> None:
        if group is not None and not group.pods:
            del self._groups[group.key]
