"""Absence, claims, attempts, and who is obeyed."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.simulation.planted.table import Patches, plant


@plant("what is not seen in a Ready cluster is gone", "dispatchers", "watches")
def absence_is_believed(patches: Patches) -> None:
    _unseen_is_absent(patches, lambda seen, target: target in seen.reachable)


@plant("what is not seen is gone, even in a cluster that is out of reach", "servers", "links", "dispatchers")
def absence_needs_no_cluster(patches: Patches) -> None:
    _unseen_is_absent(patches, lambda seen, target: True)


def _unseen_is_absent(patches: Patches, when: Callable[[Any, str], bool]) -> None:
    import dispatcher.scheduling.core as module
    from dispatcher.scheduling.delegation.protocol import target_of

    core: Any = module
    real = core.situation

    def situation(tracked: Any, *args: Any, **more: Any) -> Any:
        seen = real(tracked, *args, **more)
        target = target_of(seen.home, seen.source) if seen.source is not None else ""
        if not target or target in seen.delegates or not when(seen, target):
            return seen
        return replace(seen, absent=seen.absent | {target}, reachable=seen.reachable | {target})

    patches.set(core, "situation", situation)


@plant("a claim is not taken back when the target refuses", "refusals", "nodes")
def never_unclaim(patches: Patches) -> None:
    from agents.executor import procedures
    from agents.executor.answer import outcome
    from dispatcher.model.messages import DONE, Unclaim

    def nothing(intent: Any, local: Any, now: Any) -> Any:
        yield from ()
        return outcome(intent, DONE)

    patches.item(procedures.PROCEDURES, Unclaim, nothing)


@plant("a claim for another cluster is written over", "links", "rivals", "dispatchers")
def claims_unchecked(patches: Patches) -> None:
    from agents.executor import claim

    patches.set(claim, "_taken", lambda *_: None)


@plant("each term of a dispatcher has the epoch of the first", "dispatchers")
def epochs_begin_anew(patches: Patches) -> None:
    from dispatcher.runtime.leadership import Leadership

    real = Leadership._begin
    patches.set(Leadership, "_begin", lambda self, epoch: real(self, 1))


@plant("whoever has led once goes on, and whoever speaks is obeyed", "rivals")
def no_dispatcher_fence(patches: Patches) -> None:
    from agents.executor.fence import Fence
    from dispatcher.runtime.leader import Elector

    patches.set(Fence, "superseded", lambda self, dispatcher, epoch: "")
    patches.set(Elector, "valid", lambda self: self._renewed_at > 0)
    patches.set(Elector, "_lost", lambda self: "")

    async def hold(self: Any) -> str:
        await asyncio.Event().wait()
        return ""

    patches.set(Elector, "hold", hold)


@plant("a Lease that another holds is taken", "rivals")
def lease_taken_from_its_holder(patches: Patches) -> None:
    from dispatcher.runtime.leader import Elector

    patches.set(Elector, "_anothers", lambda self, found: False)


@plant("marks are believed whoever has signed them", "hostile")
def signatures_unread(patches: Patches) -> None:
    from dispatcher.model import signatures

    patches.set(signatures, "is_claim_of", lambda keys, mark: True)
    patches.set(signatures, "is_proof_of", lambda keys, uid, claim, proof: True)


@plant("an old attempt is as good as a new one", "links")
def no_attempt_fence(patches: Patches) -> None:
    from agents.executor.fence import Fence

    patches.set(Fence, "outdated", lambda self, uid, dispatcher_epoch, epoch: "")


@plant("an answer that is not known counts as a no", "wire")
def unknown_means_no(patches: Patches) -> None:
    from agents.executor import delegate
    from agents.executor.http import Response

    def refused(intent: Any, no: Any, local: Any) -> Any:
        yield from ()  # and nobody looks what is there
        return no

    patches.set(Response, "unknown", property(lambda self: False))
    patches.set(delegate, "_refused", refused)


@plant("a call that failed did nothing", "links", "agents")
def unanswered_means_undone(patches: Patches) -> None:
    from dispatcher.scheduling.delegation.outbox import Outbox

    def unanswered(self: Any, intent_ids: Any, now: float) -> None:
        for intent_id in intent_ids:
            tracked = self._flights.get(intent_id)
            if tracked is not None:
                self.drop(tracked)

    patches.set(Outbox, "unanswered", unanswered)
