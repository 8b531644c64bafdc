"""Intents beside the one flight of a pod: evictions, what must be done before a bind, and reports. Sent until answered.

An answer UNKNOWN, or none, means the same intent again after a pause. Any other verdict ends the errand, and whoever
sent it is told.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from dispatcher.model.backoff import Backoff
from dispatcher.model.messages import UNKNOWN, AnyIntent, Outcome
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.outbox import Outbox

Done = Callable[[str, str, float], None]  # (verdict, message, now)


@dataclass(frozen=True, slots=True)
class Insistence:
    """For how long an errand goes on: with these verdicts, with these pauses, and while somebody wants it."""

    backoff: Backoff
    verdicts: frozenset[str] = frozenset((UNKNOWN,))
    wanted: Callable[[], bool] = lambda: True


@dataclass(slots=True)
class _Errand:
    cluster: str
    intent: AnyIntent
    done: Done
    insistence: Insistence
    attempts: int = 1
    again_at: float = float("inf")


class Errands:
    """What is sent and not answered yet, by its name: an intent's id is that and the number of the attempt."""

    def __init__(self, outbox: Outbox, backoff: Backoff) -> None:
        self._outbox, self._insistence = outbox, Insistence(backoff)
        self._sent: dict[str, _Errand] = {}
        self._failed: dict[str, _Errand] = {}  # those of them to be sent again

    def __len__(self) -> int:
        return len(self._sent)

    def send(self, cluster: str, kind: str, intent: AnyIntent, done: Done, insistence: Insistence | None = None) -> str:
        """Send an intent, with an id and an epoch of its own; returns its name, by which `drop` knows it."""
        epoch = self._outbox.next_epoch()
        name = f"{epoch}.{kind}"
        intent = msgspec.structs.replace(intent, id=f"{name}.1", epoch=epoch)
        self._sent[name] = _Errand(cluster, intent, done, insistence or self._insistence)
        self._outbox.post(cluster, intent)
        return name

    def drop(self, name: str) -> None:
        """Nobody waits for it any more."""
        self._sent.pop(name, None)
        self._failed.pop(name, None)

    def answered(self, outcome: Outcome, now: float) -> bool:
        """Whether an outcome belongs to an errand; who sent it is told unless it goes on."""
        name, errand = self._find(outcome.id)
        if errand is None:
            return False
        if outcome.verdict in errand.insistence.verdicts:
            self._fail(name, errand, now)
        else:
            self.drop(name)
            errand.done(outcome.verdict, outcome.message, now)
        return True

    def unanswered(self, intent_ids: Iterable[str], now: float) -> None:
        """The call that carried these failed."""
        for intent_id in intent_ids:
            name, errand = self._find(intent_id)
            if errand is not None:
                self._fail(name, errand, now)

    def resend(self, clusters: Mapping[str, ClusterView], now: float) -> None:
        """Send again what is due, where the agent answers."""
        for name, errand in list(self._failed.items()):
            if not errand.insistence.wanted():
                self.drop(name)
            elif errand.again_at <= now and not clusters[errand.cluster].silent:
                del self._failed[name]
                errand.attempts += 1
                errand.intent = msgspec.structs.replace(errand.intent, id=f"{name}.{errand.attempts}")
                self._outbox.post(errand.cluster, errand.intent)

    def _find(self, intent_id: str) -> tuple[str, _Errand | None]:
        """An answer to an earlier attempt is nobody's."""
        name = intent_id.rpartition(".")[0]
        errand = self._sent.get(name)
        return name, errand if errand is not None and errand.intent.id == intent_id else None

    def _fail(self, name: str, errand: _Errand, now: float) -> None:
        errand.again_at = now + errand.insistence.backoff.after(errand.attempts)
        self._failed[name] = errand
