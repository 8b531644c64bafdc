"""Side intents: evictions, what PreBind needs done, and reports. Sent again until an agent answers.

They are independent of the one in-flight intent of a pod (`outbox`), so they never hold up a bind.

An answer UNKNOWN, or none, means the same intent again after a pause. Any other verdict ends
the side intent, and calls back whoever sent it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.due_times import AT_ONCE, DueTimes
from dispatcher.scheduling.delegation.outbox import Outbox
from shared.messages import UNKNOWN, AnyIntent, Outcome
from shared.model.backoff import Backoff

Done = Callable[[Outcome, float], None]  # (answer, now)
Wanted = Callable[[str], bool]  # (name)


class RetryPolicy(NamedTuple):
    """When a side intent is sent again: after these verdicts, with this back-off."""

    backoff: Backoff
    verdicts: frozenset[str] = frozenset((UNKNOWN,))


class _SideIntent(msgspec.Struct, eq=False):
    cluster: str
    intent: AnyIntent
    done: Done
    retry_policy: RetryPolicy
    wanted: Wanted | None
    attempts: int = 1


class SideIntents:
    """What is sent and not answered yet, by its name: an intent's id is that and the number of the
    attempt.
    """

    def __init__(self, outbox: Outbox, backoff: Backoff) -> None:
        self._outbox = outbox
        self._retry_policy = RetryPolicy(backoff)
        self._sent: dict[str, _SideIntent] = {}
        # By cluster, (epoch, name) of those that are to be sent again.
        self._again: defaultdict[str, DueTimes[tuple[int, str]]] = defaultdict(DueTimes)

    def __len__(self) -> int:
        return len(self._sent)

    def send(
        self,
        cluster: str,
        kind: str,
        intent: AnyIntent,
        done: Done,
        retry_policy: RetryPolicy | None = None,
        wanted: Wanted | None = None,
    ) -> str:
        """Send an intent, with an id and an epoch of its own; returns its name, by which `drop`
        knows it.

        It is sent again only while it is `wanted`.
        """
        epoch = self._outbox.next_epoch()
        name = f"{epoch}.{kind}"
        intent = msgspec.structs.replace(intent, id=f"{name}.1", epoch=epoch)
        self._sent[name] = _SideIntent(
            cluster, intent, done, retry_policy or self._retry_policy, wanted
        )
        self._outbox.post(cluster, intent)
        return name

    def drop(self, name: str) -> None:
        """Nobody waits for it any more."""
        side_intent = self._sent.pop(name, None)
        if side_intent is not None:
            self._drop_again(name, side_intent)

    def answered(self, outcome: Outcome, now: float) -> bool:
        """Whether an outcome belongs to a side intent; its sender is called back unless it is sent
        again.
        """
        name, side_intent = self._find(outcome.id)
        if side_intent is None:
            return False
        if outcome.verdict in side_intent.retry_policy.verdicts:
            self._fail(name, side_intent, now)
        else:
            del self._sent[name]
            self._drop_again(name, side_intent)
            side_intent.done(outcome, now)
        return True

    def unanswered(self, intent_ids: Iterable[str], now: float) -> None:
        """The call that carried these failed."""
        for intent_id in intent_ids:
            name, side_intent = self._find(intent_id)
            if side_intent is not None:
                self._fail(name, side_intent, now)

    def resend(self, clusters: Mapping[str, ClusterView], now: float) -> None:
        """Send again what is due, where the agent answers."""
        for cluster, again in self._again.items():
            if not (len(again) and clusters[cluster].takes_orders):
                continue
            for _, name in again.take(now, AT_ONCE):
                side_intent = self._sent[name]
                if side_intent.wanted is not None and not side_intent.wanted(name):
                    del self._sent[name]
                    continue
                side_intent.attempts += 1
                side_intent.intent = msgspec.structs.replace(
                    side_intent.intent, id=f"{name}.{side_intent.attempts}"
                )
                self._outbox.post(cluster, side_intent.intent)

    def _find(self, intent_id: str) -> tuple[str, _SideIntent | None]:
        """An answer to an earlier attempt is nobody's."""
        name = intent_id.rpartition(".")[0]
        side_intent = self._sent.get(name)
        return (
            name,
            side_intent if side_intent is not None and side_intent.intent.id == intent_id else None,
        )

    def _fail(self, name: str, side_intent: _SideIntent, now: float) -> None:
        at = now + side_intent.retry_policy.backoff.after(side_intent.attempts)
        self._again[side_intent.cluster].put((side_intent.intent.epoch, name), at)

    def _drop_again(self, name: str, side_intent: _SideIntent) -> None:
        again = self._again.get(side_intent.cluster)
        if again is not None:
            again.drop((side_intent.intent.epoch, name))
