"""The scheduling queue: pods that wait for a decision, in which order, and what wakes those that
found no place.

A pod is active (to be decided, in the order of the QueueSort plugin), backing off (until a time),
unschedulable (until an event that may help, or for `flush_s` at most), gated (a PreEnqueue plugin
does not let it in) or waiting (it has a place, which something still holds up). Order rests on no
hash and no clock.

What is promised of the order of pods that are active:
    1. A smaller sort key is decided first. Pods of equal key are one *turn* (PrioritySort: equal
       priority, queued in the same second, or come back then to be tried again).
    2. In a turn, pods of one class are decided in the order in which they were queued (then by id).
    3. In a turn, the oldest pod is decided first, together with at most `IN_A_ROW` - 1 of the next
       pods of its class; then the pod that is the oldest now, with others of its class, and so on.
       So between two looks at the oldest pod fewer than `IN_A_ROW` younger ones pass it, and these
       are of its own turn.
    4. Of pods that failed before, and are of one priority and tenant, those of at most `RETRIED`
       classes are active; others back off until then.
    5. Where tenants share (`fair_order`), they take turns; 1 to 3 hold of the pods of one tenant.
    6. All whom an event may help are woken, without another event; where these are many, part by
       part (`waking`). Pods of two tenants that can go to another cluster alone may be of one class
       here; for quota they wait by tenant.
"""

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

from dispatcher.scheduling.fair_order import active_pods_of
from dispatcher.scheduling.framework import PodInfo, QueueSort
from dispatcher.scheduling.framework.class_keys import batch_key
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queued import (
    PARKED,
    QUOTA,
    Cause,
    Gates,
    NoPlugins,
    QueuedPod,
    RefusedTogether,
    State,
    alike_by,
    helped_by_of,
    note_gated,
    order_of,
)
from dispatcher.scheduling.queued_groups import QueuedGroups
from dispatcher.scheduling.retried import RetriedPods
from dispatcher.scheduling.waking import ToActivate
from shared.model.backoff import Backoff
from shared.model.pod import PodId
from shared.model.reasons import Reason
from shared.model.wake_events import WakeEvent

__all__ = ["QueuedPod", "SchedulingQueue", "WakeEvent"]

# pods; with that many of a class, what a class costs to bring up to date is shared by enough of
# them
IN_A_ROW = 256
# Of groups of one namespace that found no place about so many are tried again each second: a try
# takes half a millisecond or more. 5,000 of them, no two alike, have a turn each minute; those of
# other namespaces do not wait for them.
_GROUPS_PER_S = 80
_FLUSHED = 1000  # lines, and pods, at a time; the next flush goes on with the others
# Enum look-ups are slow
_ACTIVE = State.ACTIVE
_BACKOFF = State.BACKOFF
_UNSCHEDULABLE = State.UNSCHEDULABLE
_GATED = State.GATED
_WAITING = State.WAITING
_POPPED = State.POPPED


class SchedulingQueue(QueuedGroups):
    """Holds every pod that waits. `classify` names the class of a pod: equal names are decided
    together.

    Back-off starts at `first_s` and doubles to `longest_s`; after a refusal for quota alone it ends
    for all at once, after 100 ms, or later where many are refused so. All operations are O(log n),
    `wake` and `wake_rest` per pod they wake and class whose hint they ask for.
    """

    def __init__(
        self,
        sort: QueueSort,
        classify: Callable[[PodInfo], Hashable],
        *,
        gates: Gates | None = None,
        first_s: float = 1.0,
        longest_s: float = 10.0,
        flush_s: float = 300.0,
    ) -> None:
        self._sort = sort
        self._classify = classify
        super().__init__(sort, gates or NoPlugins())
        self._pause = Backoff(first_s, longest_s)
        self._flush_s = flush_s
        self._policies = 0

    # --- in and out

    def add(self, pod_id: PodId, pod_info: PodInfo, now: float) -> QueuedPod:
        """Enter a pod, or its new version: one that changed is tried again, one that did not keeps
        its place.

        A pod that has a place already goes on waiting for it, whatever changes about it.
        """
        known = self._pods.get(pod_id)
        if known is not None and (known.pod_info == pod_info or known.state is _WAITING):
            return known
        queued_at = known.queued_at if known else now
        order = order_of(self._sort, pod_id, pod_info, queued_at)
        item = QueuedPod(
            pod_id, pod_info, self._classify(pod_info), queued_at, order, policies=self._policies
        )
        if known is not None:
            item.attempts = known.attempts
            item.ready_at = known.ready_at
            self._note_left(known)
            self._give_up_quota(known)
            self._drop(pod_id)
        self._pods[pod_id] = item
        self._ready(item, now, Cause.ADD if known is None else Cause.UPDATE)
        return item

    def add_all(self, pods: Iterable[tuple[PodId, PodInfo]], now: float) -> list[QueuedPod]:
        """`add` each of them; those that are new and not gated are counted together."""
        known = self._pods
        gate = self._gates.gate
        tickets = self._tickets
        policies = self._policies
        items = list[QueuedPod]()
        entered = 0
        try:
            for pod_id, pod_info in pods:
                singly = pod_info.pod.group is not None or now < self._parked.quota_at
                if singly or pod_id in known or gate(pod_info) is not None:
                    items.append(self.add(pod_id, pod_info, now))
                    continue
                order, class_key = (
                    order_of(self._sort, pod_id, pod_info, now),
                    self._classify(pod_info),
                )
                item = QueuedPod(
                    pod_id,
                    pod_info,
                    class_key,
                    now,
                    order,
                    state=_ACTIVE,
                    ticket=next(tickets),
                    policies=policies,
                )
                known[pod_id] = item
                self._counts[_ACTIVE] += 1
                entered += 1
                # counted before: a QueueSort's keys may refuse to be compared
                self._active.add(item)
                items.append(item)
        finally:
            if entered:
                self.incoming[_ACTIVE, Cause.ADD] += entered
        return items

    def remove(self, pod_id: PodId) -> None:
        """Take a pod out for good, wherever it waits; unknown pods are ignored."""
        if (item := self._pods.get(pod_id)) is not None:
            self._note_left(item)
            self._give_up_quota(item)
            self._drop(pod_id)

    def remove_all(self, pod_ids: Collection[PodId]) -> None:
        """`remove` each."""
        for pod_id in () if self._pods.keys().isdisjoint(pod_ids) else pod_ids:
            self.remove(pod_id)

    def get(self, pod_id: PodId) -> QueuedPod | None:
        """The waiting pod, None if it does not wait here."""
        return self._pods.get(pod_id)

    def counts(self) -> dict[str, int]:
        """How many pods wait in each state."""
        return {state.value: count for state, count in self._counts.items() if state is not _POPPED}

    def parked(self) -> Iterator[tuple[QueuedPod, int]]:
        """Of each class that was refused for the same, or is gated: a pod, and how many there are."""
        return self._parked.counts()

    def in_order(self, most: int) -> list[QueuedPod]:
        """The first pods that are to be decided, if each finds a place, no round ends among them
        and nothing else happens; where tenants share copies. Takes as long as to decide of so many whose turn it is.
        """
        return list(self._active.in_order(IN_A_ROW, most))

    def share_of(self, item: QueuedPod) -> tuple[str | None, Any]:
        """Whose pod it is where tenants share, and the share of the tenant."""
        return self._active.share_of(item)

    def refused(self) -> Iterator[tuple[RefusedTogether, frozenset[Reason]]]:
        """The lines of pods that wait for an event, and what the first of each was refused for."""
        return self._parked.refused()

    def state_of(self, pod_id: PodId) -> str | None:
        """active, backoff, unschedulable, gated or waiting; None if the pod does not wait here."""
        item = self._pods.get(pod_id)
        if item is None:
            return None
        group = self.groups.waits_in(item)
        stands = item if group is None or group.lead is None else group.lead
        return (_ACTIVE if stands.state is _POPPED else stands.state).value

    # --- deciding

    def pop(self, now: float) -> QueuedPod | None:
        """Take out the first pod to be decided, None if there is none."""
        item = self._first(now)
        taken = None if item is None else self._take(item, 1)[0]
        self._active.settle()
        return taken

    def pop_class(self, now: float, limit: int) -> list[QueuedPod]:
        """Take out the first pod and others of its class, `limit` at most, in order: see the
        module.

        They are of its turn, or there is nobody else in between. One that stands for a group is
        alone: the turn may be another's when its group has a place.
        """
        batch = list[QueuedPod]()
        item = self._first(now)
        if item is not None and self.is_lead(item):
            limit = 1
        key = None if item is None else batch_key(item.class_key)
        while (
            item is not None
            and len(batch) < limit
            and (not batch or batch_key(item.class_key) == key)
        ):
            batch += self._take(item, min(limit - len(batch), IN_A_ROW))
            item = self._first(now)
        self._active.settle()
        return batch

    def take_newcomer(self) -> bool:
        """Whether the first pod of a tenant was popped while others wait: it waits for none of
        them.
        """
        return self._active.take_newcomer()

    def _take(self, first: QueuedPod, most: int) -> list[QueuedPod]:
        taken = self._active.take(first, most)
        pods = self._pods
        for item in taken:
            del pods[item.pod_id]
            item.state = _POPPED
            if item.line is not None:
                self._parked.popped(item)
        self._counts[_ACTIVE] -= len(taken)
        self._retried.leave(taken)
        return taken

    def put_back(self, items: Sequence[QueuedPod]) -> None:
        """Popped pods, of which none was decided, are active again where they were."""
        for item in items:
            self._pods[item.pod_id] = item
            item.state, item.ticket = _ACTIVE, next(self._tickets)
            self._active.put_back(item)
            self._retried.enter(item)
        self._counts[_ACTIVE] += len(items)

    def _first(self, now: float) -> QueuedPod | None:
        self._active.at(now)
        for item in self._retried.due(now):
            self._try(item, now, Cause.BACKOFF_ENDED)
        if self._active.first() is None:
            self.wake_rest(now)
        self.waking.renew()
        return self._active.first()

    def unschedulable(self, item: QueuedPod, reasons: frozenset[Reason], now: float) -> None:
        """A popped pod found no place for `reasons`, which say nothing of other pods: it waits for
        an event.
        """
        self.unschedulable_all([item], reasons, now, alone=True)

    def unschedulable_all(
        self,
        items: Sequence[QueuedPod],
        reasons: frozenset[Reason],
        now: float,
        *,
        alone: bool = False,
    ) -> None:
        """`unschedulable` of pods that were popped together; their refusal holds for pods like them
        unless `alone`.
        """
        helped_by = helped_by_of(reasons)
        line = None
        attempts = 0
        parked = 0
        pods = self._pods
        unflushed = self._unflushed
        tickets = self._tickets
        class_key = items[0].class_key
        pause = self._pause if alone else self._pause_of(items[0], reasons, now)
        self._note_claims(items, for_quota=reasons == QUOTA)
        for item in items:
            if item.attempts != attempts or line is None:
                attempts = item.attempts
                ready_at = now + pause.after(attempts + 1)
            was_first = item.line
            before = item.reasons
            # as `retry`
            item.attempts = attempts + 1
            item.ready_at = ready_at
            item.reasons = reasons
            item.helped_by = helped_by
            item.since = now
            if item.class_key is not class_key or line is None:
                kind = self._gates.kind_of(item.pod_info, reasons)
            item.kind = kind
            if item.policies != self._policies or self._follows(item):
                self._return(item, _UNSCHEDULABLE, Cause.FAILED)
                continue
            parked += 1
            pod_id = item.pod_id
            self._drop(pod_id)
            if line is None or item.class_key is not class_key:
                alike = None if alone else alike_by(self._gates, item)
                line = self._parked.line_of(item, alike)
                class_key = item.class_key
            line[pod_id] = pods[pod_id] = item
            item.line, item.state, item.ticket = line, _UNSCHEDULABLE, next(tickets)
            self._counts[_UNSCHEDULABLE] += 1
            unflushed.add(item)
            if was_first is not None and was_first.alike is not None:
                if before == reasons and was_first.alike == line.alike:
                    was_first.refused_again(now, pause)
                else:
                    self._left.append(was_first)
            if (group := self.groups.waits_in(item)) is not None:
                group.failed(item)
        self.incoming[_UNSCHEDULABLE, Cause.FAILED] += parked
        unflushed.forget_void(len(pods))

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

    def _pause_of(self, item: QueuedPod, reasons: frozenset[Reason], now: float) -> Backoff:
        """The pauses of a pod that was refused for `reasons`, and of those that were refused alike."""
        if reasons != QUOTA or item.shape is not None or not self._gates.quota_alike(item.pod_info):
            return self._pause
        turn = self._gates.quota_turn(item.pod_info)
        return self._parked.quota_pause(turn, now, self._pause.most_s)

    def _note_claims(self, items: Sequence[QueuedPod], *, for_quota: bool) -> None:
        """These were refused, for quota alone or for something else."""
        for item in items:
            if for_quota:
                item.claims = True
                self._gates.waits_for_quota(self.waiting_with(item), waits=True)
            elif item.claims:
                self._give_up_quota(item)

    def retry(self, item: QueuedPod, now: float, pod_info: PodInfo | None = None) -> None:
        """A popped pod had a place that came to nothing: it is decided anew, as `pod_info`, after
        its back-off.
        """
        self._give_up_quota(item)
        if pod_info is not None:
            item.pod_info = pod_info
            self._renew(item)
        item.attempts += 1
        item.ready_at = now + self._pause.after(item.attempts)
        if (group := self.groups.waits_in(item)) is not None:
            group.failed(item)
        self._return(item, _BACKOFF, Cause.FAILED)

    def anew(
        self, item: QueuedPod, pod_info: PodInfo, now: float, cause: str = Cause.UPDATE
    ) -> None:
        """A popped pod is to be decided again at once by what is known of it now; its age stands,
        nothing failed.
        """
        self._drop(item.pod_id)
        self._give_up_quota(item)
        item.pod_info = pod_info
        self._renew(item)
        self._pods[item.pod_id] = item
        self._ready(item, now, cause)

    def hold(self, item: QueuedPod, note: str) -> None:
        """A popped pod has a place, but something holds it up: nothing here moves it on."""
        item.note = note
        self._give_up_quota(item)
        self._return(item, _WAITING, Cause.HELD)

    def _return(self, item: QueuedPod, state: State, cause: str) -> None:
        self._drop(item.pod_id)
        if item.policies != self._policies:
            self._renew(item)
        self._pods[item.pod_id] = item
        if state is _WAITING or not self._waits_with_group(item, cause):
            self._move(item, state, cause)

    def _renew(self, item: QueuedPod) -> None:
        """Sort and classify a pod that is in no heap by the policies of today."""
        item.order = order_of(self._sort, item.pod_id, item.pod_info, item.queued_at)
        class_key = self._classify(item.pod_info)
        if class_key is not item.class_key:
            self._note_left(item)
        item.class_key = class_key
        item.policies = self._policies

    def update(self, item: QueuedPod, pod_info: PodInfo) -> None:
        """What is known of a popped pod is this now."""
        item.pod_info = pod_info
        self._renew(item)

    # --- waking

    def wake(
        self, kind: WakeEvent | ClusterEvent, now: float, *, but: QueuedPod | None = None
    ) -> None:
        """Pods that it may help, `but` the one that did it, are decided again, after what is left
        of their back-off.
        """
        event = kind if isinstance(kind, ClusterEvent) else ClusterEvent(kind)
        self._wake(self.waking.on_event(event, but, self._gates), now)

    def wake_rest(self, now: float) -> None:
        """A turn of decisions begins: part of the pods that events have left for it are woken."""
        for whose in list(self._given_up):
            self.wake(self._given_up.pop(whose), now)
        self._wake(self.waking.rest(self._gates), now)

    def _wake(self, found: Iterable[ToActivate], now: float) -> None:
        for line, due, cause in found:
            for item in due:
                self._ready(item, now, cause)
            if due and line.alike is not None:
                if due[-1].state is _GATED:
                    self._left.append(line)
                else:
                    due[-1].line = line

    def go_on(self, items: Iterable[QueuedPod], now: float) -> None:
        """These popped pods have a place: others that were refused as they were may have one, too."""
        for item in items:
            if item.line is not None and item.state not in PARKED:
                line = item.line
                item.line = None
                self._wake([ToActivate.next_of(line)], now)

    def activate(self, pod_id: PodId, now: float, *, at_once: bool = False) -> None:
        """Try an unschedulable pod again, after what is left of its back-off, or `at_once`; others
        are left alone.
        """
        item = self._pods.get(pod_id)
        if item is not None and (group := self.groups.waits_in(item)) is not None:
            item = group.lead
        waits = (_UNSCHEDULABLE, _BACKOFF) if at_once else (_UNSCHEDULABLE,)
        if item is not None and item.state in waits:
            item.ready_at = min(item.ready_at, now) if at_once else item.ready_at
            self._ready(item, now, Cause.ACTIVATED)

    def flush(self, now: float) -> None:
        """Time passed: back-offs end; what waits for `flush_s`, or for a first in line that is
        gone, is tried again.
        """
        self._first(now)
        for _ in range(min(len(self._left), _FLUSHED)):
            self._wake([ToActivate.next_of(self._left.popleft())], now)
        for item in itertools.islice(self._unflushed.refused_before(now - self._flush_s), _FLUSHED):
            self._ready(item, now, Cause.FLUSHED)

    def take_policies(
        self,
        sort: QueueSort,
        classify: Callable[[PodInfo], Hashable],
        now: float,
        *,
        gates: Gates | None = None,
    ) -> None:
        """Other policies hold from now on: all that waits for a decision is sorted, classified and
        tried anew.
        """
        self._sort = sort
        self._classify = classify
        self._gates = gates or self._gates
        self._policies += 1
        self.waking.forget()
        items = [one for one in self._pods.values() if one.state is not _WAITING]
        for item in items:
            if item.state is _ACTIVE:
                self._leave(item)
                item.state = _POPPED
        self._active = active_pods_of(sort)
        self._retried = RetriedPods(self._active.whose)
        for item in items:
            self.anew(item, item.pod_info, now, Cause.POLICIES)

    # --- states

    def _ready(self, item: QueuedPod, now: float, cause: str) -> None:
        was_gated = item.state is _GATED
        why = self._gates.gate(item.pod_info)
        if why is not None:
            self._give_up_quota(item)
            self._leave_group(item)
            self._leave(item)
            # what wakes it is written over: it must have left its old group first
            item.state = _POPPED
            note_gated(self._gates, item, why)
            self._move(item, _GATED, cause)
            self.incoming[_GATED, cause] -= was_gated  # it stays where it was
        elif not self._waits_with_group(item, cause):
            self._try(item, now, cause)

    def _try(self, item: QueuedPod, now: float, cause: str) -> None:
        """Make it active, or let it wait until it may be."""
        if (at := self._waits_until(item, now, cause)) > now:
            item.ready_at = max(item.ready_at, at)
            item.order = order_of(self._sort, item.pod_id, item.pod_info, item.queued_at, at)
            self._move(item, _BACKOFF, cause)
        elif not item.attempts:
            self._move(item, _ACTIVE, cause)
        elif self._retried.may_be_tried(item, now):
            self._leave(item)
            item.state, item.order = (
                _POPPED,
                order_of(self._sort, item.pod_id, item.pod_info, item.queued_at, now),
            )
            self._move(item, _ACTIVE, cause)
            self._retried.enter(item)
        else:
            self._move(item, _BACKOFF, cause)
