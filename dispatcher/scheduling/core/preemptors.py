"""Pods for which others are to be evicted in another cluster than their own: confirmed first, and
so many a second.

What is known of a pod is what its cluster's observer tells, which may be captured, and whoever
believes in a pod of the highest priority that is not there, or that needs less, empties all
clusters for it. So the executor of its cluster is asked, which reads the pod at its API server and
signs that it waits for a place in that very cluster, with what priority, and what it requests.
Until then its nomination holds the room, and nobody is evicted. One that is not confirmed loses it,
and asks again after a while. The orders to evict carry what of it would cross: the other cluster's
executor evicts nobody for a pod that it would refuse.

Evictions abroad are paced for each cluster of submission, so that neither a mistake there nor a
whole cluster that was captured empties the others at once. Worked example: at 0.5 a second 50 pods
may be evicted at once; where one pod more needed 11 on its node, and 60 were, nobody is for 20 s,
and then one pod each 2 s. Of those that wait the most important is next, and of equally important
ones each namespace in turn.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework.lifecycle import Victim
from shared.messages import DONE, ConfirmNoSource, Outcome
from shared.model.bounds import NO_PRIORITY
from shared.model.crossing import class_named
from shared.model.pod import PodId
from shared.model.resources import Resources, format_quantity
from shared.model.token_buckets import Allowance, TokenBuckets
from shared.model.wake_events import WakeEvent
from shared.security.signatures import plain_keys, read_preemptor

# counters, by cluster of submission
UNCONFIRMED = "preemption_unconfirmed"
HELD = "preemption_held"
_AT_ONCE_S = 100.0  # what may be evicted in so many seconds may be evicted at once
_LONGEST_S = 600.0  # that evictions which were too many at once hold up others
_AGAIN_S = 60.0  # until a pod that was not confirmed is asked for again
_MOST_REFUSED = 1024  # pods of which it is known that they were not confirmed
_MOST_TURNS = 1024  # namespaces of which it is known when they last had a turn
_WARN_S = 60.0
_NAMED = 3  # resources in one message
_MOST_HELD = 16 * 2**20  # bytes of manifests of one cluster's pods that wait for their turn

Victims = Sequence[Victim]  # all in one cluster
Evict = Callable[[Victims, PodId, float, bytes], None]


class _Confirmed(NamedTuple):
    victims: Victims
    manifest: (
        bytes  # of the delegate that the pod would have there; an older executor does not say it
    )


class Preemptors:
    """Has victims in other clusters evicted once it may be; `evict` orders it.

    That a pod was not confirmed is kept twice for a minute, as each keeps something else away.
    `_refused_at`, by pod: its home is asked about it no more, whichever cluster the pod would
    preempt in next. What is not so about a pod is so nowhere, and one that is not there would else
    be asked about for one cluster after the other. `Refusals.note_unconfirmed`, by template and
    cluster: no victims are looked for in that cluster, for this pod or another replica, so that
    they may preempt at home meanwhile.
    """

    def __init__(self, state: CoreState, evict: Evict) -> None:
        self._state = state
        self._evict = evict
        self._refused_at: dict[PodId, float] = {}
        self._confirmed: dict[str, dict[PodId, _Confirmed]] = {}  # by home: those whose turn comes
        self._turns: dict[
            tuple[str, str], int
        ] = {}  # by home and namespace, the number of its last one
        self._paces: dict[str, Allowance] = {}
        self._open_at: dict[str, float] = {}
        self._warnings = TokenBuckets(1, 1 / _WARN_S)

    def ask(self, preemptor: PodId, victims: Victims, now: float) -> None:
        """Have these evicted for a pod that is nominated to their node, if its own cluster confirms
        it.
        """
        tracked = self._state.tracked.get(preemptor)
        if tracked is None or tracked.source is None:
            return
        if now - self._refused_at.get(preemptor, float("-inf")) < _AGAIN_S:
            self._state.profiles.nominations.drop(
                preemptor
            )  # as things were before: nobody need be woken
            return
        intent = ConfirmNoSource("", intents.ref(tracked.source), 0, preempts=victims[0].cluster)
        done = partial(self._answered, preemptor, victims)

        def wanted(name: str) -> bool:
            return bool(self._standing(preemptor, victims))

        self._state.side_intents.send(tracked.home, "preemptor", intent, done, wanted=wanted)

    def tick(self, now: float) -> None:
        """Time has passed: others have their turn."""
        for home in list(self._confirmed):
            self._take_turns(home, now)

    def _answered(self, preemptor: PodId, victims: Victims, answer: Outcome, now: float) -> None:
        nominee = self._state.profiles.nominations.of(preemptor)
        if nominee is None or not self._standing(preemptor, victims):
            return  # the answer is about a nomination that is no more
        why = self._objection(nominee, victims[0].cluster, answer)
        if why:
            self._refuse(nominee, victims[0].cluster, why, now)
            return
        home = preemptor[0]
        others = self._confirmed.setdefault(home, {})
        others[preemptor] = _Confirmed(victims, answer.manifest)
        self._take_turns(home, now)
        held = self._confirmed.get(home, {})
        while sum(len(one.manifest) for one in held.values()) > _MOST_HELD:
            least = self._least(held)
            del held[least]
            self._take_back(least, now)
        if preemptor in held:
            self._tell_held(preemptor, victims, now)

    def _objection(self, nominee: Nominee, target: str, answer: Outcome) -> str:
        """Why the answer does not confirm the pod; '' if it does."""
        if answer.verdict != DONE:
            return answer.message or answer.verdict
        home, uid = nominee.pod_id
        view = self._state.clusters[home]
        signed = read_preemptor(plain_keys(view.keys), answer.record)
        if signed is None:
            return "it has signed nothing (upgrade its agent), or with an unknown key"
        source = signed.source
        asked = answer.id.startswith(
            f"{source.epoch}."
        )  # else it is the answer to an earlier question
        if not asked or (source.cluster_uid, source.uid, signed.target) != (view.uid, uid, target):
            return "what it has signed is the answer to another question"
        told = class_named(nominee.pod_info.pod.needs)
        if told is not None and signed.priority_class != told.word:
            return (
                f"at its API server the pod has PriorityClass {signed.priority_class!r}, not "
                f"{told.word!r}"
            )
        if signed.priority < nominee.pod_info.pod.priority:
            return f"at its API server the pod has priority {signed.priority}"
        return _overstated(nominee.pod_info.pod.requests, signed.requests)

    def _refuse(self, nominee: Nominee, target: str, why: str, now: float) -> None:
        state = self._state
        home = nominee.pod_id[0]
        if len(self._refused_at) >= _MOST_REFUSED:
            self._refused_at.clear()
        self._refused_at[nominee.pod_id] = now
        state.counters[UNCONFIRMED, home] += 1
        text = (
            f"no pod of cluster {target} is evicted for it: the executor of cluster {home} does "
            "not confirm that it "
            f"waits for a place there with priority {nominee.pod_info.pod.priority}: {why}"
        )
        if self._warnings.admit(now, (UNCONFIRMED, home)) is not None:
            key = nominee.pod_info.pod.key
            state.warn(
                f"pod {key} of cluster {home}: {text}. If that stays, find out who speaks there "
                "as its agent"
            )
        tracked = state.tracked.get(nominee.pod_id)
        if tracked is not None:
            state.report_waiting(tracked, text)
        state.refusals.note_unconfirmed(
            nominee.pod_id, nominee.pod_info.pod, target, why, now, _AGAIN_S
        )
        self._take_back(nominee.pod_id, now)

    def _take_back(self, preemptor: PodId, now: float) -> None:
        """The room is nobody's any more; the pod is tried again when something changes, or after a
        while.
        """
        if self._state.profiles.nominations.drop(preemptor) is not None:
            self._state.queue.wake(WakeEvent.POD_REMOVED, now)

    def _take_turns(self, home: str, now: float) -> None:
        held = self._confirmed[home].items()
        confirmed = {
            one: was._replace(victims=left)
            for one, was in held
            if (left := self._standing(one, was.victims))
        }
        while confirmed and now >= self._open_at.get(home, float("-inf")):
            preemptor = max(confirmed, key=self._next)
            was = confirmed.pop(preemptor)
            victims = self._standing(preemptor, was.victims)
            if victims:
                self._note_turn(self._lane(preemptor))
                self._open_at[home] = now + self._pace(home).take(now, len(victims))
                self._evict(victims, preemptor, now, was.manifest)
        self._confirmed[home] = confirmed
        if not confirmed:
            del self._confirmed[home]

    def _least(self, held: dict[PodId, _Confirmed]) -> PodId:
        """Who gives way: of the least important one of the namespace that holds most, and of these
        who came last.
        """
        taken = Counter[tuple[str, str]]()
        for one, confirmed in held.items():
            taken[self._lane(one)] += len(confirmed.manifest)
        return min(reversed(held), key=lambda one: (self._importance(one), -taken[self._lane(one)]))

    def _importance(self, preemptor: PodId) -> int:
        nominee = self._state.profiles.nominations.of(preemptor)
        return nominee.pod_info.pod.priority if nominee is not None else NO_PRIORITY

    def _lane(self, preemptor: PodId) -> tuple[str, str]:
        nominee = self._state.profiles.nominations.of(preemptor)
        return preemptor[0], nominee.pod_info.pod.namespace if nominee is not None else ""

    def _next(self, preemptor: PodId) -> tuple[int, int]:
        return self._importance(preemptor), -self._turns.get(self._lane(preemptor), -1)

    def _note_turn(self, lane: tuple[str, str]) -> None:
        number = 1 + max(self._turns.values(), default=0)
        if len(self._turns) >= _MOST_TURNS:
            self._turns.clear()
        self._turns[lane] = number

    def _pace(self, home: str) -> Allowance:
        per_s = self._state.timing.evictions_abroad_per_s
        return self._paces.setdefault(home, Allowance(_AT_ONCE_S * per_s, per_s, _LONGEST_S))

    def _standing(self, preemptor: PodId, victims: Victims) -> Victims:
        """Those whose leaving the pod still waits for."""
        nominee = self._state.profiles.nominations.of(preemptor)
        return (
            [one for one in victims if one.pod_id in nominee.victims] if nominee is not None else ()
        )

    def _tell_held(self, preemptor: PodId, victims: Victims, now: float) -> None:
        state = self._state
        home = preemptor[0]
        state.counters[HELD, home] += 1
        per_s = state.timing.evictions_abroad_per_s
        pace = (
            f"{_AT_ONCE_S * per_s:g} at once, then {per_s:g} a second "
            "(timing.evictions_abroad_per_s)"
        )
        text = (
            f"so many pods in other clusters have been evicted for pods of cluster {home} that "
            f"others wait: {pace}"
        )
        if self._warnings.admit(now, (HELD, home)) is not None:
            state.warn(
                f"{text}. If they are not meant, find out who makes pods of such priority there"
            )
        tracked = state.tracked.get(preemptor)
        if tracked is not None:
            state.report_waiting(
                tracked,
                f"{len(victims)} pods of cluster {victims[0].cluster} are not evicted yet: {text}",
            )


def _overstated(told: Resources, signed: Resources | None) -> str:
    """Which of the requests that were told of a pod are more than it has; '' if none is."""
    if signed is None:
        return "it has not signed what the pod requests (upgrade its agent)"
    more = sorted(name for name, amount in told.items() if amount > signed.get(name, 0))
    if not more:
        return ""
    words = [f"{name} {_shown(name, signed)}, not {_shown(name, told)}" for name in more[:_NAMED]]
    return f"at its API server the pod requests {'; '.join(words)}"


def _shown(name: str, amounts: Resources) -> str:
    return format_quantity(name, amounts.get(name, 0))
