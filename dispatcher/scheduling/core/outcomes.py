"""Applies the outcomes that agents report: the next intent of the protocol, a place given back, or
a learnt fact.

What a verdict leads to is the table in `delegation.in_flight`; here it is carried out.
"""

import sys
from collections.abc import Callable, Iterable

from dispatcher.scheduling import events
from dispatcher.scheduling.core import called_services
from dispatcher.scheduling.core.deciding import Deciding
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.in_flight import (
    BINDING,
    InFlightIntent,
    IntentKind,
    Transition,
)
from dispatcher.scheduling.delegation.tracking import ConfirmedEnd, Tracked
from dispatcher.scheduling.framework import PodInfo
from shared.messages import BOUND, DONE, OF_CLUSTER, REFUSED, STALE, Outcome

# Enum attributes are slow to look up
_LATER = Transition.LATER
_UPDATE = Transition.UPDATE
_QUESTIONS = frozenset((IntentKind.CONFIRM, IntentKind.CONFIRM_SOURCE))
_MOST_LEFT = 1024  # characters of what a pod leaves behind, as long as an event


class Outcomes:
    """Moves intents on by what agents answer."""

    def __init__(self, state: CoreState, deciding: Deciding) -> None:
        self._state = state
        self._deciding = deciding
        self._moves: dict[Transition, Callable[[Tracked, InFlightIntent, Outcome, float], None]] = {
            Transition.SETTLE: self._settle,
            Transition.CREATE: self._create,
            Transition.UPDATE: self._update,
            Transition.ABSENT: self._learn_absence,
            Transition.ENDED: self._learn_end,
            Transition.MADE: self._made,
            Transition.PROXY: self._bind_proxy,
            Transition.UNCLAIM: self._take_back,
            Transition.GIVE_BACK: self._give_back,
            Transition.DROP: self._look_later,
            Transition.LATER: self._look_later,
        }

    def answered_all(self, event: events.Answered, now: float) -> None:
        """Take the outcomes of a batch in. Their pods are due, but for those of which a look would
        find nothing to do before the watch shows something, or an answer comes.
        """
        state = self._state
        holds = self._deciding.binding.holds
        for outcome in event.outcomes:
            state.counters["outcomes", outcome.verdict] += 1
            found = state.outbox.answered(outcome, now)
            if found is None:  # nothing of a pod waited for it
                state.side_intents.answered(outcome, now)
                continue
            tracked, in_flight, transition = found
            if transition is not _UPDATE:  # half of a step, whose other half may be refused again
                tracked.refusals = tracked.refusals + 1 if transition is _LATER else 0
            if outcome.requests:
                self._learn_size(tracked, in_flight, outcome, now)
            move = self._moves.get(transition)
            if move is not None:
                move(tracked, in_flight, outcome, now)
            if holds(tracked.pod_id) or not state.only_waits(tracked, now):
                state.dirty.add(tracked.pod_id)

    def unanswered(self, event: events.Unanswered, now: float) -> None:
        """The call failed: what happened to its intents is unknown until the cluster's truth is
        seen again.
        """
        self._wait_for_answers(event.intent_ids, now)
        self._state.side_intents.unanswered(event.intent_ids, now)

    def _wait_for_answers(self, intent_ids: Iterable[str], now: float) -> None:
        for tracked in self._state.outbox.unanswered(intent_ids, now):
            tracked.refusals += 1
            tracked.hold_until = now + self._state.timing.refused.after(tracked.refusals)
            self._state.dirty.add(tracked.pod_id)

    def unsent(self, event: events.Unsent, now: float) -> None:
        """The call that carried these was never begun: what nothing can have come of is taken back."""
        self._state.side_intents.unanswered(event.intent_ids, now)
        for tracked, in_flight in self._state.outbox.unsent(event.intent_ids, now):
            if not in_flight.fresh:
                self._wait_for_answers((in_flight.intent.id,), now)
                continue
            self._unclaim(tracked, in_flight, now)
            self._lost(tracked, "its agent is away", now)

    def doubted(self, tracked: Tracked, in_flight: InFlightIntent, now: float) -> None:
        """It is not known for long whether a delegate was created: go on as with a claim that
        somebody else has made. The API server there is asked; where it has none, and its executor
        will make none, the claim is taken back, and the cluster passed over for a while. Where it
        does not say, the pod waits: it might run twice.
        """
        claim = tracked.source.claim if tracked.source is not None else None
        if (
            in_flight.kind is not IntentKind.CREATE
            or claim is None
            or claim.epoch != in_flight.epoch
        ):
            # a claim that does not show is not asked about: the pod would seem to be claimed by
            # nobody
            return
        why = (
            f"it is not known for {self._state.timing.unknown_s:g} s whether the pod was created "
            "there"
        )
        words = f"{why}: {in_flight.words or 'its agent did not answer'}"
        intent = in_flight.intent
        unsaid = Outcome(
            intent.id, intent.pod.uid, in_flight.epoch, REFUSED, words, scope=OF_CLUSTER
        )
        self._deciding.retries.note_refused(tracked, in_flight, unsaid, now)
        self._state.outbox.drop(tracked)
        tracked.decided = 0
        self._state.dirty.add(tracked.pod_id)
        self._lost(tracked, words, now)

    def _lost(self, tracked: Tracked, words: str, now: float) -> None:
        """A pod lost its place: so do those that were to start with it."""
        source = tracked.source
        if source is not None and source.group is not None:
            self._deciding.booked.lost(tracked.pod_id, words, now)
            self._state.queue.member_displaced(tracked.pod_id, PodInfo(source, tracked.home))

    def _settle(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """It holds, shown by the watch or not."""
        if in_flight.kind in BINDING:
            self._deciding.binding.bound(tracked.pod_id)
            self._deciding.booked.bound(tracked.pod_id, now)
        elif in_flight.kind is IntentKind.UNCLAIM:
            tracked.claimed_at = float("-inf")
            tracked.given_up = max(tracked.given_up, in_flight.epoch)

    def _bind_proxy(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        if in_flight.joint and not in_flight.made:
            self._deciding.booked.bound(
                tracked.pod_id, now
            )  # an older executor leaves none unbound
        why = self._state.why(tracked)
        place = (in_flight.cluster, in_flight.node)
        epoch = in_flight.epoch
        self._state.outbox.send(
            tracked, intents.bind_proxy(tracked.home, in_flight.intent.pod, place, epoch, why, now)
        )

    def _take_back(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        self._deciding.retries.note_refused(tracked, in_flight, outcome, now)
        self._unclaim(tracked, in_flight, now)
        self._lost(tracked, tracked.refused, now)

    def _give_back(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        self._deciding.retries.note_refused(tracked, in_flight, outcome, now)
        self._state.outbox.drop(tracked)
        self._state.free(tracked.pod_id, now)
        self._state.dirty.add(tracked.pod_id)  # it may show in a place already
        self._hold_if_claimed(tracked, now)
        self._lost(tracked, tracked.refused, now)

    def _look_later(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        verdict = outcome.verdict
        if verdict == STALE and in_flight.kind in _QUESTIONS:
            tracked.confirm_there(in_flight.cluster)
        self._state.outbox.drop(tracked)
        timing = self._state.timing
        if in_flight.kind is IntentKind.MIRROR:
            tracked.mirror_at = timing.next_mirror(tracked.mirror_at, now)
            if verdict == DONE:  # a newer status is written as soon as its pace allows
                tracked.mirrored = in_flight.status
                tracked.generation = in_flight.generation or tracked.generation
                tracked.mirrored_until = now + timing.retry.first_s
                return
        pause = (
            timing.retry.most_s if in_flight.kind is IntentKind.CONFIRM else timing.retry.first_s
        )
        tracked.hold_until = now + (
            timing.refused.after(tracked.refusals) if tracked.refusals else pause
        )

    def _create(
        self, tracked: Tracked, claimed: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """Claimed: go on with the delegate, unless the source ends meanwhile, or its cluster is
        lost before one can have been begun there.
        """
        tracked.claimed_at = now
        # One text for all replicas.
        tracked.left_behind = sys.intern(outcome.left_behind[:_MOST_LEFT])
        tracked.decided = claimed.epoch
        if tracked.source is not None and tracked.source.terminating:
            self._state.outbox.drop(tracked)
            return
        target = claimed.cluster
        home = self._state.clusters[tracked.home]
        untouched = claimed.fresh and not outcome.message
        tracked.untouched = claimed.epoch if untouched else 0
        away = untouched and not self._state.clusters[target].ready
        if target in home.fenced or away or (claimed.withdrawn and untouched):
            self._unclaim(tracked, claimed, now)
            self._lost(tracked, f"cluster {target} is away", now)
            return
        tracked.forget_gone(target)  # from here on a delegate may exist there, seen or not
        at_most = self._at_most(tracked, claimed)
        services = called_services.follow(self._state, tracked, target)
        created = intents.create(
            (home.name, home.uid), claimed, outcome, at_most, now, services=services
        )
        created.fresh = untouched
        if claimed.withdrawn:
            tracked.decided = 0
            created.withdrawn = True
            self._state.outbox.hold(tracked, created)
        elif not self._deciding.booked.holds_back(tracked, created, now):
            tracked.untouched = 0
            self._state.outbox.send(tracked, created)

    def _made(
        self, tracked: Tracked, created: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """The delegate is there, unbound: it is bound once those of its group are there, unless the
        source ends meanwhile.
        """
        if tracked.source is None or tracked.source.terminating:
            self._state.outbox.drop(tracked)
            return
        bind = intents.bind_made(created, outcome.delegate_uid, now)
        if not self._deciding.booked.holds_back(tracked, bind, now):
            self._state.outbox.send(tracked, bind)

    def _update(
        self, tracked: Tracked, signed: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """Signed: go on with the delegate, if it is there and goes on."""
        delegate = tracked.delegates.get(signed.cluster)
        self._state.outbox.drop(tracked)
        if (
            delegate is not None
            and delegate.source is not None
            and not (delegate.terminating or delegate.terminal)
        ):
            self._state.outbox.send(tracked, intents.update(signed, outcome, delegate.source, now))

    def _learn_size(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """A delegate is bound, and larger than it was asked to be: it takes that much until the
        watch shows it.
        """
        source = tracked.source
        if outcome.verdict != BOUND or source is None:
            return
        self._state.refusals.note_size(
            tracked.pod_id, source, in_flight.cluster, outcome.requests, now
        )
        pod_info = PodInfo(source, tracked.home, self._deciding.retries.known(tracked, source, now))
        self._state.profiles.restore(tracked.pod_id, pod_info, in_flight.cluster, in_flight.node)

    def _at_most(self, tracked: Tracked, claimed: InFlightIntent) -> dict[str, int]:
        """What was booked for a pod that must not be bound larger than that; {} for any other."""
        booked = self._state.fleet.occupant(tracked.pod_id)
        if booked is None or booked.cluster != claimed.cluster:
            return {}
        held = self._state.profiles.of(booked.pod_info).holds_to_size(booked.pod_info)
        return (
            {name: amount for name, amount in booked.pod_info.pod.requests.items() if amount}
            if held
            else {}
        )

    def _unclaim(self, tracked: Tracked, in_flight: InFlightIntent, now: float) -> None:
        place = (in_flight.cluster, in_flight.node)
        self._state.outbox.send(
            tracked,
            intents.unclaim(tracked.home, in_flight.intent.pod, place, in_flight.epoch, now),
        )

    def _learn_absence(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """An API server has said that a delegate, or a source, is not there."""
        self._state.outbox.drop(tracked)
        if in_flight.kind is IntentKind.CONFIRM:
            tracked.confirm_gone(in_flight.cluster)
            tracked.disproved = {**tracked.disproved, in_flight.cluster: in_flight.epoch}
            claim = tracked.source.claim if tracked.source is not None else None
            if (
                claim is not None and claim.epoch > in_flight.epoch
            ):  # attempts begin lower than they once did: no haste
                tracked.hold_until = now + self._state.timing.retry.most_s
        elif tracked.home in tracked.said_gone:  # and was seen to be deleted
            tracked.orphaned_at = None
            tracked.confirm_gone(tracked.home)
        elif tracked.orphaned_at is None:
            tracked.orphaned_at = now
            self._state.orphans.suspect(tracked.pod_id)
        elif now - tracked.orphaned_at >= self._state.timing.orphan_s:
            tracked.confirm_gone(tracked.home)

    def _learn_end(
        self, tracked: Tracked, in_flight: InFlightIntent, outcome: Outcome, now: float
    ) -> None:
        """An API server has said how a delegate ends, if it does; an older executor does not tell
        how.
        """
        self._state.outbox.drop(tracked)
        end = ConfirmedEnd(outcome.delegate_uid, outcome.end) if outcome.end else None
        if not tracked.confirm_end(in_flight.cluster, end):
            tracked.ask_end_at = now + self._state.timing.refused.after(tracked.doubts)

    def _hold_if_claimed(self, tracked: Tracked, now: float) -> None:
        # Unclaimed pods pause in the queue; one that the watch still shows as claimed would be
        # resumed at once.
        if tracked.source is not None and tracked.source.claim is not None:
            tracked.hold_until = now + self._state.timing.retry.first_s
