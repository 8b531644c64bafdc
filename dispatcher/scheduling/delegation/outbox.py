"""Intents on their way to the agents: at most one per pod, in batches per cluster, sent until the
effect is known.

It decides when an intent is sent again, not what follows from an answer (`in_flight`), and it does
no I/O.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

import msgspec

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.due_times import AT_ONCE, DueTimes
from dispatcher.scheduling.delegation.in_flight import (
    LET_GO,
    TRANSITIONS,
    InFlightIntent,
    IntentKind,
    Transition,
)
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import SendIntents
from shared.messages import AnyIntent, Outcome
from shared.model.backoff import Backoff
from shared.model.pod import PodId

# Enum attributes are slow to look up
_SETTLE = Transition.SETTLE
_AGAIN = Transition.AGAIN
_LATER = Transition.LATER


class Outbox:
    """In-flight intents by id, and the batches to send. Epochs only grow; `boot_epoch` is above all
    earlier ones.
    """

    def __init__(self, boot_epoch: int, backoff: Backoff, told_after_s: float = 60.0) -> None:
        self._epoch = boot_epoch
        self._told_after_s = told_after_s
        self._backoff = backoff
        self._by_intent_id: dict[str, Tracked] = {}
        self._waiting: dict[PodId, Tracked] = {}  # to be sent again
        # Those that wait, by the cluster that they go to.
        self._again: defaultdict[str, DueTimes[PodId]] = defaultdict(DueTimes)
        self._settling: list[tuple[float, PodId]] = []  # since when, oldest first; some are over
        self._doubted: list[
            tuple[float, float, PodId]
        ] = []  # when to tell, since when, whose; some are over
        self._batches: defaultdict[str, list[AnyIntent]] = defaultdict(list)

    def begin(self, boot_epoch: int) -> None:
        """A leader term begins: epochs are above this one."""
        self._epoch = boot_epoch

    def next_epoch(self) -> int:
        """A number never used before."""
        self._epoch += 1
        return self._epoch

    def post(self, cluster: str, intent: AnyIntent) -> None:
        """Send without waiting for the answer (messages to people)."""
        self._batches[cluster].append(intent)

    def send(self, tracked: Tracked, in_flight: InFlightIntent) -> None:
        """Send the pod's next intent; it replaces an earlier one of the same pod."""
        if tracked.in_flight is not None:
            self.drop(tracked)
        tracked.in_flight = in_flight
        self._by_intent_id[in_flight.intent.id] = tracked
        self._batches[in_flight.via].append(in_flight.intent)

    def hold(self, tracked: Tracked, in_flight: InFlightIntent) -> None:
        """The pod's next intent is not sent before its `release`; it replaces an earlier one."""
        if tracked.in_flight is not None:
            self.drop(tracked)
        in_flight.held = True
        tracked.in_flight = in_flight

    def release(self, tracked: Tracked, now: float) -> None:
        """Send what was held."""
        in_flight = tracked.in_flight
        if in_flight is not None and in_flight.held:
            in_flight.held = False
            in_flight.sent_at = now
            self.send(tracked, in_flight)

    def stop(self, tracked: Tracked) -> None:
        """The pod's intent is not sent again, and no answer is waited for; it still stands for the
        pod.
        """
        in_flight = tracked.in_flight
        if in_flight is not None:
            self.drop(tracked)
            in_flight.again_at = float("inf")
            tracked.in_flight = in_flight

    def next_epochs(self, count: int) -> range:
        """So many of them."""
        first = self._epoch + 1
        self._epoch = self._epoch + count
        return range(first, self._epoch + 1)

    def send_all(self, pods: Sequence[Tracked], in_flight: Sequence[InFlightIntent]) -> None:
        """`send` each of these, all by way of one cluster."""
        for tracked, one in zip(pods, in_flight, strict=True):
            if tracked.in_flight is not None:
                self.drop(tracked)
            tracked.in_flight = one
        sent = [one.intent for one in in_flight]
        self._by_intent_id.update(zip([one.id for one in sent], pods, strict=True))
        self._batches[in_flight[0].via].extend(sent)

    def drop(self, tracked: Tracked) -> None:
        """Stop waiting for the pod's intent; a late answer to it is ignored."""
        if tracked.in_flight is not None:
            self._by_intent_id.pop(tracked.in_flight.intent.id, None)
            if self._waiting.pop(tracked.pod_id, None) is not None:
                self._again[tracked.in_flight.via].drop(tracked.pod_id)
            tracked.in_flight = None

    def drop_all(self, pods: Iterable[Tracked]) -> None:
        """`drop` the intent of each."""
        by_id = self._by_intent_id
        waiting = self._waiting
        for tracked in pods:
            if tracked.in_flight is not None:
                by_id.pop(tracked.in_flight.intent.id, None)
                if waiting and waiting.pop(tracked.pod_id, None) is not None:
                    self._again[tracked.in_flight.via].drop(tracked.pod_id)
                tracked.in_flight = None
        if not by_id:
            self._settling.clear()  # all are over

    def answered(
        self, outcome: Outcome, now: float
    ) -> tuple[Tracked, InFlightIntent, Transition] | None:
        """The intent that an outcome belongs to and what its verdict leads to; None if nobody waits
        for it.
        """
        tracked = self._by_intent_id.get(outcome.id)
        if tracked is None or tracked.in_flight is None:
            return None
        in_flight = tracked.in_flight
        otherwise = _LATER if in_flight.kind in LET_GO else _AGAIN
        transition = TRANSITIONS.get((in_flight.kind, outcome.verdict), otherwise)
        if transition is _SETTLE:
            in_flight.settling = True
            in_flight.sent_at = now
            heapq.heappush(self._settling, (now, tracked.pod_id))
        elif transition is _AGAIN:
            self._retry_later(tracked, in_flight, now, outcome.message)
        return tracked, in_flight, transition

    def unanswered(self, intent_ids: Iterable[str], now: float) -> list[Tracked]:
        """The call that carried these failed: each will be sent again, but for those that are let
        go as if their answer was UNKNOWN, whose pods are returned.
        """
        let_go = []
        for intent_id in intent_ids:
            tracked = self._by_intent_id.get(intent_id)
            if tracked is None or tracked.in_flight is None:
                continue
            if tracked.in_flight.kind in LET_GO:
                self.drop(tracked)
                let_go.append(tracked)
            else:
                self._retry_later(tracked, tracked.in_flight, now)
        return let_go

    def unsent(self, intent_ids: Iterable[str], now: float) -> list[tuple[Tracked, InFlightIntent]]:
        """The call that carried these was never begun: first intents to create a delegate are
        returned, and those that need not be seen through; others wait.
        """
        undone = []
        for intent_id in intent_ids:
            tracked = self._by_intent_id.get(intent_id)
            if tracked is None or tracked.in_flight is None:
                continue
            kind = tracked.in_flight.kind
            first = kind is IntentKind.CREATE and tracked.in_flight.attempts == 1
            if first or kind in LET_GO:
                undone.append((tracked, tracked.in_flight))
            else:
                self._retry_later(tracked, tracked.in_flight, now)
        return undone

    def _retry_later(
        self, tracked: Tracked, in_flight: InFlightIntent, now: float, words: str = ""
    ) -> None:
        if in_flight.doubted_at > now:
            in_flight.doubted_at = now
            heapq.heappush(self._doubted, (now + self._told_after_s, now, tracked.pod_id))
        in_flight.words = words
        in_flight.again_at = now + self._backoff.after(in_flight.attempts)
        self._waiting[tracked.pod_id] = tracked
        self._again[in_flight.via].put(tracked.pod_id, in_flight.again_at)

    def resend(self, clusters: Mapping[str, ClusterView], now: float) -> None:
        """Send what is due again, where the agent answers; the id changes, the idempotency key does
        not.
        """
        due = [
            (pod_id, self._waiting.pop(pod_id))
            for cluster, again in self._again.items()
            if len(again) and clusters[cluster].takes_orders
            for pod_id in again.take(now, AT_ONCE)
        ]
        for _, tracked in sorted(due, key=itemgetter(0)):
            in_flight = tracked.in_flight
            if in_flight is None:
                continue
            self._by_intent_id.pop(in_flight.intent.id, None)
            in_flight.attempts += 1
            in_flight.intent = msgspec.structs.replace(
                in_flight.intent,
                id=f"{in_flight.epoch}.{in_flight.kind.value}.{in_flight.attempts}",
            )
            in_flight.sent_at = now
            in_flight.again_at = float("inf")
            self._by_intent_id[in_flight.intent.id] = tracked
            self.post(in_flight.via, in_flight.intent)

    def overdue(self, now: float, settle_s: float) -> list[PodId]:
        """Pods whose effect was confirmed more than `settle_s` ago and may not have shown in the
        watch; each once.
        """
        found = []
        while self._settling and now - self._settling[0][0] > settle_s:
            found.append(heapq.heappop(self._settling)[1])
        return found

    def doubted(
        self, pods: Mapping[PodId, Tracked], now: float
    ) -> list[tuple[Tracked, InFlightIntent]]:
        """Of which nobody has known for `told_after_s` what came of their intents; again after
        twice as long.
        """
        found = []
        while self._doubted and self._doubted[0][0] <= now:
            _, since, pod_id = heapq.heappop(self._doubted)
            tracked = pods.get(pod_id)
            in_flight = tracked.in_flight if tracked is not None else None
            if tracked is not None and in_flight is not None and in_flight.doubted_at == since:
                found.append((tracked, in_flight))
                heapq.heappush(self._doubted, (now + (now - since), since, pod_id))
        return found

    def take(self) -> list[SendIntents]:
        """What is to be sent now, by cluster; the outbox is empty afterwards."""
        sent = [
            SendIntents(cluster, tuple(intents))
            for cluster, intents in sorted(self._batches.items())
        ]
        self._batches.clear()
        return sent

    def counts(self) -> dict[str, int]:
        """How many are in flight, by kind."""
        kinds = [
            tracked.in_flight.kind
            for tracked in self._by_intent_id.values()
            if tracked.in_flight is not None
        ]
        return {kind.value: kinds.count(kind) for kind in IntentKind}
