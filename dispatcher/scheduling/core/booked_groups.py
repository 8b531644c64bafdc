"""Members of a group that got their places together, on their way: all of them are bound, or none is.

A *booked set* goes through the steps of the protocol as one. A step is not due for any member before
each has got through the one before:

1. Permit and PreBind;
2. claims, of those that go to another cluster;
3. their delegates are created, and left unbound;
4. binds: of delegates there, and of those that stay at home.

If one does not get through the steps before the binds (refused, stale, its cluster is lost, it is
deleted and the others are too few, `timing.group_s` is over), all are given back: claims are taken
off, unbound delegates deleted, and the group is decided again as a whole. Groups never wait for each
other's room: it is booked for all members in one step (`Deciding`), and what waits here does so for a
stated time. Whoever leads next finds claims that it did not make, and takes them back
(`delegation.protocol`, rule 4). After the binds have been sent there is no way back: a bind that
fails leaves its group short, as with kube-scheduler, and the member is decided again in the domain of
the others.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate, islice

import msgspec

from dispatcher.scheduling.core.binding_cycle import BindingCycle
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.in_flight import InFlightIntent, IntentKind
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.framework.pod_info import GroupId
from dispatcher.scheduling.queue import QueuedPod
from shared.model.pod import Group, PodId
from shared.model.reasons import Reasons, Why
from shared.model.wake_events import WakeEvent

_MOST_TOLD = 256  # members of a group that are told again each time when others come
GIVEN_BACK = "groups_given_back"  # a counter, by the step that one did not get through
_COUNTED_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)  # ends of buckets


class Step(enum.Enum):
    """What all members of a set have to get through next."""

    __hash__ = object.__hash__
    PREPARE = "prepare"
    CLAIM = "claim"
    CREATE = "create"
    BIND = "bind"  # no way back


class BookedSet(msgspec.Struct, eq=False):
    """Members that got places together. `left`: those that are not through `step` yet.

    `needed`: so many of them have to start, with the others of the group; `bound` have. `until`: all are given
    back if the binds are not sent by then. `whole_at`: when the last pod that the group needed came.
    """

    name: GroupId
    group: Group
    members: dict[PodId, QueuedPod]
    left: set[PodId]
    needed: int
    until: float
    whole_at: float
    bound: int = 0
    step: Step = Step.PREPARE

    @property
    def has_enough(self) -> bool:
        """Whether enough are on their way still, or bound."""
        return len(self.members) + self.bound >= self.needed

    @property
    def words(self) -> str:
        """What those wait for that are through."""
        return (
            f"pod group {self.group.name}: {len(self.left)} of {len(self.members)} pods are not "
            f"through step {self.step.value} yet"
        )


class StartTimes:
    """How long groups took from their last needed pod to their last bind: a histogram."""

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()  # end of the bucket -> groups, not cumulated
        self.total_s = 0.0
        self.groups = 0

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus has them: end of a bucket -> groups up to that."""
        ends = [*_COUNTED_S, float("inf")]
        counts = accumulate(self.counts[end] for end in ends)
        names = [*(f"{end:g}" for end in _COUNTED_S), "+Inf"]
        return list(zip(names, map(float, counts), strict=True))

    def note(self, took_s: float) -> None:
        """One more."""
        self.groups += 1
        self.total_s += took_s
        end = next((one for one in _COUNTED_S if took_s <= one), float("inf"))
        self.counts[end] += 1


class BookedGroups:
    """All booked sets on their way."""

    def __init__(self, state: CoreState, binding: BindingCycle) -> None:
        self._state = state
        self._binding = binding
        self._sets: dict[PodId, BookedSet] = {}
        self.times = StartTimes()
        self.on_started: Callable[[BookedSet, QueuedPod, float], None] | None = None

    def __len__(self) -> int:
        return len({id(one) for one in self._sets.values()})

    def begin(self, name: GroupId, members: Iterable[QueuedPod], placed: int, now: float) -> None:
        """Places were booked for these; `placed` others of the group had theirs."""
        by_id = {item.pod_id: item for item in members}
        group = next(iter(by_id.values())).pod_info.pod.group
        if group is None:
            raise ValueError(f"pods of {name.name} are of no group")
        needed = max(0, group.min_count - placed)
        came = sorted(item.queued_at for item in by_id.values())
        booked = BookedSet(
            name,
            group,
            by_id,
            set(by_id),
            needed,
            now + self._state.timing.group_s,
            came[min(max(needed, 1), len(came)) - 1],
        )
        for pod_id in by_id:
            self._sets[pod_id] = booked
        self._state.queue.group_starts(name, starting=True)

    def of(self, pod_id: PodId) -> BookedSet | None:
        """The set of a member on its way."""
        return self._sets.get(pod_id)

    # --- members get on
    # ----------------------------------------------------------------------------------------------

    def holds_back(self, tracked: Tracked, in_flight: InFlightIntent, now: float) -> bool:
        """Whether the pod's next order waits for others of its set; then it is sent by and by."""
        booked = self._sets.get(tracked.pod_id)
        if booked is None or booked.step is Step.BIND:
            return False
        in_flight.joint = True
        self._state.outbox.hold(tracked, in_flight)
        self._through(booked, tracked.pod_id, now)
        return True

    def bound(self, pod_id: PodId, now: float) -> None:
        """A member was bound: by its last order, or sooner, as by an older executor."""
        booked = self._sets.get(pod_id)
        if booked is None or pod_id not in booked.members:
            return
        if pod_id in booked.left or booked.step is not Step.BIND:
            booked.bound += 1
            if booked.bound == booked.needed:
                self._started(booked, booked.members[pod_id], now)
        if booked.step is not Step.BIND:
            self._leave(booked, pod_id)
            if not booked.members:
                self._state.queue.group_starts(booked.name, starting=False)
        self._through(booked, pod_id, now)

    def _started(self, booked: BookedSet, member: QueuedPod, now: float) -> None:
        self.times.note(now - booked.whole_at)
        if self.on_started is not None:
            self.on_started(booked, member, now)

    def _through(self, booked: BookedSet, pod_id: PodId, now: float) -> None:
        booked.left.discard(pod_id)
        while not booked.left and booked.members:
            if booked.step is Step.BIND:
                self._end(booked)
                return
            self._advance(booked, now)

    def _advance(self, booked: BookedSet, now: float) -> None:
        """All are through a step: send what was held for the next one."""
        tracked = self._state.tracked.get_all(booked.members)
        abroad = [one for one in tracked if _kind(one) in (IntentKind.CLAIM, IntentKind.CREATE)]
        if booked.step is Step.PREPARE and abroad:
            booked.step = Step.CLAIM
        elif booked.step is Step.CLAIM:
            booked.step = Step.CREATE
        else:
            booked.step = Step.BIND
            self._state.queue.group_starts(booked.name, starting=False)
        going = tracked if booked.step is Step.BIND else abroad
        booked.left = {one.pod_id for one in going}
        for one in going:
            if one.in_flight is not None and not one.in_flight.held:
                booked.left.discard(one.pod_id)  # an older executor has bound it already
            self._state.outbox.release(one, now)
            if booked.step is Step.CREATE:
                one.untouched = 0

    # --- all are given back
    # ----------------------------------------------------------------------------------------------

    def lost(self, pod_id: PodId, words: str, now: float) -> None:
        """A member has lost its place (`words` say why, and it is told them by who took it): before
        the binds the others lose theirs, too.
        """
        booked = self._sets.get(pod_id)
        if booked is None:
            return
        item = booked.members[pod_id]
        self._leave(booked, pod_id)
        self._state.queue.member_displaced(pod_id, item.pod_info)
        if booked.step is Step.BIND:
            self._through(booked, pod_id, now)
            return
        self._give_back(booked, f"pod {item.pod_info.pod.key}: {words}", now)

    def gone(self, pod_id: PodId, now: float) -> None:
        """A member is gone, or going: the others go on if they are enough."""
        booked = self._sets.get(pod_id)
        if booked is None:
            return
        key = booked.members[pod_id].pod_info.pod.key
        self._leave(booked, pod_id)
        if not booked.members:
            self._state.queue.group_starts(booked.name, starting=False)
        elif booked.step is Step.BIND or booked.has_enough:
            self._through(booked, pod_id, now)
        else:
            self._give_back(booked, f"pod {key} is gone, and the others are too few", now)

    def tick(self, now: float) -> None:
        """Time has passed: who does not wait for anything any more has left, and who waits too long
        is given back.
        """
        self._see_to_short_groups(now)
        for booked in list({id(one): one for one in self._sets.values()}.values()):
            for pod_id in list(booked.members):
                tracked = self._state.tracked.get(pod_id)
                source = tracked.source if tracked is not None else None
                if tracked is None or source is None or source.terminating:
                    self.gone(pod_id, now)
                elif source.node:
                    self.bound(pod_id, now)
                elif tracked.in_flight is None and not self._binding.holds(pod_id):
                    self.lost(pod_id, "it has no place any more", now)
            if booked.members and booked.step is not Step.BIND and now >= booked.until:
                self._give_back(booked, self._late(booked), now)

    def _see_to_short_groups(self, now: float) -> None:
        """Groups that have got, or lost, members of late and are too few to start: these are told
        how many are here, and hold no room that evictions have made.
        """
        state = self._state
        groups = state.queue.groups
        nominations = state.profiles.nominations
        names = groups.short
        groups.short = set()
        dropped = False
        for group in filter(None, map(groups.get, names)):
            if group.starting or group.is_whole:
                continue
            for pod_id in group.members if len(nominations) else ():
                dropped = nominations.drop(pod_id) is not None or dropped
            text = Why(Reasons.GROUP_INCOMPLETE, group.note).text
            for tracked in state.tracked.get_all(list(islice(group.members, _MOST_TOLD))):
                state.report(tracked, text, now, nodes_help=False)
        if dropped:
            state.queue.wake(WakeEvent.POD_REMOVED, now)

    def _late(self, booked: BookedSet) -> str:
        one = min(booked.left)
        tracked = self._state.tracked.get(one)
        in_flight = tracked.in_flight if tracked is not None else None
        where = f" in cluster {in_flight.via}" if in_flight is not None else ""
        return (
            f"{len(booked.left)} of {len(booked.members)} pods, "
            f"{booked.members[one].pod_info.pod.key} first, did not get through step "
            f"{booked.step.value}{where} within {self._state.timing.group_s:g} s"
        )

    def _give_back(self, booked: BookedSet, why: str, now: float) -> None:
        self._state.counters[GIVEN_BACK, booked.step.value] += 1
        members = dict(booked.members)
        self._end(booked)
        words = f"pod group {booked.group.name} was given back as a whole: {why}"
        for pod_id, item in members.items():
            self._state.queue.member_displaced(pod_id, item.pod_info)
            tracked = self._state.tracked.get(pod_id)
            if tracked is None:
                continue
            tracked.given_back = words
            self._withdraw(tracked, now)
        self._state.queue.group_starts(booked.name, starting=False)

    def _withdraw(self, tracked: Tracked, now: float) -> None:
        """Undo what was begun for one member. It is queued again once nothing of it is left."""
        state = self._state
        in_flight = tracked.in_flight
        state.dirty.add(tracked.pod_id)
        if in_flight is None:
            self._binding.cancel(tracked.pod_id, now)
            state.queue.remove(tracked.pod_id)
            return
        if in_flight.kind is IntentKind.CLAIM:
            state.free(tracked.pod_id, now)
            if in_flight.held:
                state.outbox.drop(tracked)
            in_flight.withdrawn = True  # unclaimed as soon as it is known that it was claimed
        elif in_flight.kind is not IntentKind.CREATE:
            state.outbox.drop(tracked)
            state.free(tracked.pod_id, now)
        elif in_flight.held and tracked.untouched == in_flight.epoch:
            state.free(tracked.pod_id, now)
            self.unclaim(tracked, in_flight, now)
        else:
            tracked.decided = 0  # as a claim of another dispatcher: its target is asked first
            in_flight.withdrawn = True
            in_flight.sent_at = now
            state.outbox.stop(tracked)

    def unclaim(self, tracked: Tracked, in_flight: InFlightIntent, now: float) -> None:
        """Nothing can have been begun elsewhere for this claim: it is taken off."""
        place = (in_flight.cluster, in_flight.node)
        ref = in_flight.intent.pod
        self._state.outbox.send(
            tracked, intents.unclaim(tracked.home, ref, place, in_flight.epoch, now)
        )

    def _leave(self, booked: BookedSet, pod_id: PodId) -> None:
        self._sets.pop(pod_id, None)
        booked.members.pop(pod_id, None)
        booked.left.discard(pod_id)

    def _end(self, booked: BookedSet) -> None:
        for pod_id in list(booked.members):
            self._leave(booked, pod_id)


def _kind(tracked: Tracked) -> IntentKind | None:
    return tracked.in_flight.kind if tracked.in_flight is not None else None
