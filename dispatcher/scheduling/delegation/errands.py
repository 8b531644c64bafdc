"""Intents beside the one flight of a pod: evictions, and what must be done before a bind. Sent until answered.

An answer UNKNOWN, or none, means the same intent again after a pause. Any other verdict ends the errand, and whoever
sent it is told.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from dispatcher.model.messages import UNKNOWN, AnyIntent, Outcome
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.backoff import Backoff
from dispatcher.scheduling.delegation.outbox import Outbox

Done = Callable[[str, str, float], None]  # (verdict, message, now)


@dataclass(slots=True)
class _Errand:
    cluster: str
    kind: str
    intent: AnyIntent
    done: Done
    attempts: int = 1
    again_at: float = float("inf")


class Errands:
    """What is sent and not answered yet, by intent id."""

    def __init__(self, outbox: Outbox, backoff: Backoff) -> None:
        self._outbox, self._backoff = outbox, backoff
        self._sent: dict[str, _Errand] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def send(self, cluster: str, kind: str, intent: AnyIntent, done: Done) -> str:
        """Send an intent, with an id and an epoch of its own; returns the id, by which `drop` knows it."""
        epoch = self._outbox.next_epoch()
        errand = _Errand(cluster, kind, msgspec.structs.replace(intent, id=f"{epoch}.{kind}.1", epoch=epoch), done)
        self._sent[errand.intent.id] = errand
        self._outbox.post(cluster, errand.intent)
        return f"{epoch}.{kind}"

    def drop(self, name: str) -> None:
        """Nobody waits for it any more."""
        for sent in [one for one in self._sent if one.startswith(f"{name}.")]:
            del self._sent[sent]

    def answered(self, outcome: Outcome, now: float) -> bool:
        """Whether an outcome belongs to an errand; who sent it is told unless it goes on."""
        errand = self._sent.get(outcome.id)
        if errand is None:
            return False
        if outcome.verdict == UNKNOWN:
            errand.again_at = now + self._backoff.after(errand.attempts)
        else:
            del self._sent[outcome.id]
            errand.done(outcome.verdict, outcome.message, now)
        return True

    def unanswered(self, intent_ids: Iterable[str], now: float) -> None:
        """The call that carried these failed."""
        for intent_id in intent_ids:
            errand = self._sent.get(intent_id)
            if errand is not None:
                errand.again_at = now + self._backoff.after(errand.attempts)

    def resend(self, clusters: Mapping[str, ClusterView], now: float) -> None:
        """Send again what is due, where the agent answers."""
        for intent_id, errand in list(self._sent.items()):
            if errand.again_at > now or clusters[errand.cluster].silent:
                continue
            del self._sent[intent_id]
            errand.attempts += 1
            errand.again_at = float("inf")
            name = f"{errand.intent.epoch}.{errand.kind}.{errand.attempts}"
            errand.intent = msgspec.structs.replace(errand.intent, id=name)
            self._sent[name] = errand
            self._outbox.post(errand.cluster, errand.intent)
