"""Side intents: which answers are heeded when one was sent again."""

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.outbox import Outbox
from dispatcher.scheduling.delegation.side_intents import SideIntents
from shared.messages import DONE, UNKNOWN, Evict, Outcome, PodRef
from shared.model.backoff import Backoff


def test_an_answer_to_an_earlier_attempt_ends_nothing() -> None:
    backoff, told = Backoff(1.0, 10.0), list[str]()
    side_intents = SideIntents(Outbox(1, backoff), backoff)
    pod = PodRef("default", "p", "uid-p")
    intent = Evict("", pod, 0, "n1", priority=5)
    name = side_intents.send("a", "evict", intent, lambda answer, now: told.append(answer.verdict))

    def answered(attempt: int, verdict: str) -> bool:
        return side_intents.answered(Outcome(f"{name}.{attempt}", pod.uid, 1, verdict), 0.0)

    assert answered(1, UNKNOWN)
    side_intents.resend({"a": ClusterView("a", silent=False)}, 60.0)
    assert not answered(1, DONE)
    assert told == []
    assert answered(2, DONE)
    assert told == [DONE]
