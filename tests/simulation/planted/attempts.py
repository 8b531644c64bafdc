"""Absence, claims, attempts, and who is obeyed."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tests.simulation.planted import stories
from tests.simulation.planted.scripted import Hint
from tests.simulation.planted.table import Patches, plant


@plant("what is not seen in a Ready cluster is gone", hint=Hint(stories.unseen_delegate))
def absence_is_believed(patches: Patches) -> None:
    _unseen_is_absent(patches, lambda seen, target: target in seen.reachable)


@plant("what an observer says was deleted is gone", hint=Hint(stories.told_a_lie))
def observers_believed(patches: Patches) -> None:
    from dispatcher.scheduling.delegation.tracking import Tracked

    real = Tracked._seen

    def seen(self: Any, cluster: str, pod: Any, *, seen_deleted: bool) -> None:
        real(self, cluster, pod, seen_deleted=seen_deleted)
        if pod is None and seen_deleted:
            self.confirm_gone(cluster)

    patches.set(Tracked, "_seen", seen)


@plant("what is not seen is gone, even in a cluster that is out of reach", "servers", "links", "dispatchers")
def absence_needs_no_cluster(patches: Patches) -> None:
    _unseen_is_absent(patches, lambda seen, target: True)


def _unseen_is_absent(patches: Patches, when: Callable[[Any, str], bool]) -> None:
    import dispatcher.scheduling.core.reconciler as module
    from dispatcher.scheduling.delegation.protocol import target_of

    core: Any = module
    real = core.observed_state

    def observed_state(tracked: Any, *args: Any, **more: Any) -> Any:
        seen = real(tracked, *args, **more)
        target = target_of(seen.home, seen.source) if seen.source is not None else ""
        if not target or target in seen.delegates or not when(seen, target):
            return seen
        return replace(seen, absent=seen.absent | {target}, reachable=seen.reachable | {target})

    patches.set(core, "observed_state", observed_state)


@plant("a claim is not taken back when the target refuses", hint=Hint(stories.refused_by_the_best))
def never_unclaim(patches: Patches) -> None:
    from agents.executor.intents import procedures
    from shared.kube.verdicts import outcome
    from shared.messages import DONE, Unclaim

    def nothing(intent: Any, local: Any, now: Any) -> Any:
        yield from ()
        return outcome(intent, DONE)

    patches.item(procedures.PROCEDURES, Unclaim, nothing)


@plant("a claim for another cluster is written over", hint=Hint(stories.forgotten_claim))
def claims_unchecked(patches: Patches) -> None:
    from agents.executor.intents import claim

    patches.set(claim, "_taken", lambda *_: None)


@plant("an old attempt is as good as a new one", hint=Hint(stories.late_copies))
def no_attempt_fence(patches: Patches) -> None:
    from agents.executor.trust.epoch_guard import EpochGuard

    patches.set(EpochGuard, "outdated", lambda self, uid, dispatcher_epoch, epoch: "")


@plant("an order that was carried out is carried out again", hint=Hint(stories.drained_and_late_copies))
def made_again(patches: Patches) -> None:
    from agents.executor.intents import procedures
    from shared.messages import REFUSED, STALE, CreateDelegate

    patches.item(procedures._ENDS, CreateDelegate, (REFUSED, STALE))


@plant("an answer that is not known counts as a no, and nobody looks before saying so", hint=Hint(stories.reply_lost))
def unknown_means_no(patches: Patches) -> None:
    from agents.executor.intents import delegate
    from shared.kube.http import Response

    def refused(intent: Any, no: Any, local: Any) -> Any:
        yield from ()
        return no

    patches.set(Response, "unknown", property(lambda self: False))
    # The second defence: no refusal before the API server has shown that there is no delegate.
    patches.set(delegate, "_refused", refused)


@plant("a call that failed did nothing", hint=Hint(stories.answer_lost))
def unanswered_means_undone(patches: Patches) -> None:
    from dispatcher.scheduling import events
    from dispatcher.scheduling.core import SchedulerCore
    from shared.kube.verdicts import outcome
    from shared.messages import STALE

    real = SchedulerCore.handle

    def handle(self: Any, event: Any, now: float) -> Any:
        if isinstance(event, events.Unanswered):
            waiting = [self.outbox._by_intent_id.get(one) for one in event.intent_ids]
            undone = [outcome(one.in_flight.intent, STALE, "no answer") for one in waiting if one and one.in_flight]
            event = events.Answered(event.cluster, tuple(undone))
        return real(self, event, now)

    patches.set(SchedulerCore, "handle", handle)


@plant("that a dispatcher has claimed proves that there is no delegate", hint=Hint(stories.claim_and_no_answer))
def every_claim_is_untouched(patches: Patches) -> None:
    import dispatcher.scheduling.core.reconciler as module

    core: Any = module
    real = core.observed_state
    patches.set(core, "observed_state", lambda *args, **more: replace(real(*args, **more), untouched=True))


@plant("a claim for a lost cluster is never taken back", hint=Hint(stories.lost_before_it_was_asked))
def no_claim_is_untouched(patches: Patches) -> None:
    import dispatcher.scheduling.core.reconciler as module

    core: Any = module
    real = core.observed_state
    patches.set(core, "observed_state", lambda *args, **more: replace(real(*args, **more), untouched=False))
    from dispatcher.scheduling.core.outcomes import Outcomes

    create = Outcomes._create

    def always(self: Any, tracked: Any, claimed: Any, outcome: Any, now: float) -> None:
        claimed.fresh = False
        create(self, tracked, claimed, outcome, now)

    patches.set(Outcomes, "_create", always)


@plant("orders are answered stale without a look", hint=Hint(stories.server_away_at_the_second_order))
def stale_without_a_look(patches: Patches) -> None:
    from agents.executor.intents import procedures
    from agents.runtime import executor_loop
    from shared.kube.verdicts import outcome
    from shared.messages import STALE

    def stale(intent: Any, why: str, local: Any) -> Any:
        yield from ()
        return outcome(intent, STALE, why)

    patches.set(procedures, "overtaken", stale)
    patches.set(executor_loop, "UNKNOWN", STALE)


@plant("that an attempt was undone is forgotten", hint=Hint(stories.late_copies))
def no_tombstones(patches: Patches) -> None:
    from agents.executor.trust.epoch_guard import EpochGuard

    patches.set(EpochGuard, "invalidate", lambda self, uid, dispatcher_epoch, epoch, why="": None)


@plant("a cluster that refuses a pod is asked again at once", hint=Hint(stories.refused_by_the_best))
def refusals_forgotten(patches: Patches) -> None:
    from dispatcher.scheduling.core.refusals import Refusals

    patches.set(Refusals, "note", lambda self, *args: None)
