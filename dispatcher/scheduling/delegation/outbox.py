"""What is in the air: at most one intent per pod, sent in batches per cluster, sent again until its effect is known."""

from collections.abc import Iterable, Mapping

import msgspec

from dispatcher.model.backoff import Backoff
from dispatcher.model.messages import AnyIntent, Outcome
from dispatcher.model.pod import PodId
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.flights import Flight, Move, Stage, move_for
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import SendIntents


class Outbox:
    """Flights by intent id, and the batches to send. Epochs only grow; `boot_epoch` is above all of earlier lives."""

    def __init__(self, boot_epoch: int, backoff: Backoff) -> None:
        self._epoch = boot_epoch
        self._backoff = backoff
        self._flights: dict[str, Tracked] = {}
        self._waiting: dict[PodId, Tracked] = {}
        self._settling: dict[PodId, Tracked] = {}
        self._batches: dict[str, list[AnyIntent]] = {}

    def next_epoch(self) -> int:
        """A number never used before."""
        self._epoch += 1
        return self._epoch

    def post(self, cluster: str, intent: AnyIntent) -> None:
        """Send without waiting for the answer (messages to people)."""
        self._batches.setdefault(cluster, []).append(intent)

    def fly(self, tracked: Tracked, flight: Flight) -> None:
        """Send the pod's next intent; it replaces an earlier flight of the same pod."""
        self.drop(tracked)
        tracked.flight = flight
        self._flights[flight.intent.id] = tracked
        self.post(flight.via, flight.intent)

    def drop(self, tracked: Tracked) -> None:
        """Stop waiting for the pod's flight; a late answer to it is ignored."""
        if tracked.flight is not None:
            self._flights.pop(tracked.flight.intent.id, None)
            self._waiting.pop(tracked.pod_id, None)
            self._settling.pop(tracked.pod_id, None)
            tracked.flight = None

    def landed(self, outcome: Outcome, now: float) -> tuple[Tracked, Flight, Move] | None:
        """The flight an outcome belongs to and what its verdict leads to; None for one that nobody waits for."""
        tracked = self._flights.get(outcome.id)
        if tracked is None or tracked.flight is None:
            return None
        flight = tracked.flight
        move = move_for(flight.stage, outcome.verdict)
        if move is Move.SETTLE:
            flight.settling, flight.sent_at = True, now
            self._settling[tracked.pod_id] = tracked
        elif move is Move.AGAIN:
            self._again(tracked, flight, now)
        return tracked, flight, move

    def unanswered(self, intent_ids: Iterable[str], now: float) -> None:
        """The call that carried these failed: each will be sent again."""
        for intent_id in intent_ids:
            tracked = self._flights.get(intent_id)
            if tracked is not None and tracked.flight is not None:
                self._again(tracked, tracked.flight, now)

    def unsent(self, intent_ids: Iterable[str], now: float) -> list[tuple[Tracked, Flight]]:
        """The call that carried these was never begun: first orders to make a delegate are returned, others wait."""
        undone = []
        for intent_id in intent_ids:
            tracked = self._flights.get(intent_id)
            if tracked is None or tracked.flight is None:
                continue
            if tracked.flight.stage is Stage.CREATE and tracked.flight.attempts == 1:
                undone.append((tracked, tracked.flight))
            else:
                self._again(tracked, tracked.flight, now)
        return undone

    def _again(self, tracked: Tracked, flight: Flight, now: float) -> None:
        flight.again_at = now + self._backoff.after(flight.attempts)
        self._waiting[tracked.pod_id] = tracked

    def resend(self, clusters: Mapping[str, ClusterView], now: float) -> None:
        """Send what is due again, where the agent answers; the id changes, the idempotency key does not."""
        for pod_id in sorted(self._waiting):
            tracked = self._waiting[pod_id]
            flight = tracked.flight
            if flight is None or flight.again_at > now or clusters[flight.via].silent:
                continue
            del self._waiting[pod_id]
            self._flights.pop(flight.intent.id, None)
            flight.attempts += 1
            flight.intent = msgspec.structs.replace(
                flight.intent, id=f"{flight.epoch}.{flight.stage.value}.{flight.attempts}"
            )
            flight.sent_at, flight.again_at = now, float("inf")
            self._flights[flight.intent.id] = tracked
            self.post(flight.via, flight.intent)

    def settling(self) -> list[Tracked]:
        """Pods whose confirmed effect has not shown in the watch yet."""
        return list(self._settling.values())

    def take(self) -> list[SendIntents]:
        """What is to be sent now, by cluster; the outbox is empty afterwards."""
        sent = [SendIntents(cluster, tuple(intents)) for cluster, intents in sorted(self._batches.items())]
        self._batches = {}
        return sent

    def counts(self) -> dict[str, int]:
        """Flights by stage."""
        stages = [tracked.flight.stage for tracked in self._flights.values() if tracked.flight is not None]
        return {stage.value: stages.count(stage) for stage in Stage}
