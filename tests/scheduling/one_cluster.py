"""A core of one cluster, `a`, on the default profile, and an agent that binds what it is told to."""

from collections.abc import Sequence

import msgspec

from dispatcher.scheduling import events
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import BOUND, AnyIntent, Bind, Changes, Outcome
from shared.model.pod import RUNNING, Pod
from tests.laws.cores import make_core


class OneCluster:
    """`pods`: those that are there, by name; a pod's UID is `uid-` and its name. Nothing is reported yet."""

    def __init__(self, ledger: QuotaLedger | None = None) -> None:
        self.core, self.now, self.revision = make_core(["a"], ledger=ledger), 100.0, 0
        self.pods: dict[str, Pod] = {}

    def report(self, *, full: bool = False, **what: object) -> None:
        """The cluster shows something else."""
        self.revision += 1
        changes = Changes("a", "uid-a", "life", self.revision - 1, self.revision, full, **what)  # type: ignore[arg-type]
        self.take(self.core.handle(events.ClusterChanged(changes), self.now))

    def submit(self, *pods: Pod) -> None:
        """They come, together."""
        self.pods |= {one.name: one for one in pods}
        self.report(pods=pods)

    def tick(self, seconds: float = 1.0) -> None:
        """Time passes."""
        self.now += seconds
        self.take(self.core.handle(events.Tick(), self.now))

    def take(self, effects: Sequence[events.Effect]) -> None:
        """What the core orders is done."""
        for effect in effects:
            for intent in effect.intents if isinstance(effect, events.SendIntents) else ():
                self.obey(intent)

    def obey(self, intent: AnyIntent) -> None:
        """Of all orders that there are, a pod is bound."""
        if isinstance(intent, Bind):
            self.bind(intent)

    def bind(self, intent: Bind) -> None:
        """As is told, and shown."""
        self.answer(intent, BOUND)
        if (there := self.pods.get(intent.pod.name)) is not None:
            self.pods[there.name] = msgspec.structs.replace(there, node=intent.node, phase=RUNNING)
            self.report(pods=(self.pods[there.name],))

    def answer(self, intent: AnyIntent, verdict: str, **what: str) -> None:
        """What became of an order."""
        answer = Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, **what)  # type: ignore[arg-type]
        self.take(self.core.handle(events.Answered("a", (answer,)), self.now))
