"""Events that wait are written of each namespace in turn, and of too many whoever has most loses some."""

from agents.executor.context.event_queue import EventQueue
from shared.kube.http import Request


def event(namespace: str, number: int) -> Request:
    return Request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", b"%d" % number)


def queue_of(*events: Request, most: int = 100) -> EventQueue:
    queue = EventQueue(most)
    for one in events:
        queue.append(one)
    return queue


def told(queue: EventQueue) -> list[str]:
    """All that wait, in their order, as namespace and number."""
    taken = [queue.popleft() for _ in range(len(queue))]
    return [f"{one.path.split('/')[5]}{int(one.body)}" for one in taken]


def test_namespaces_take_turns_however_many_one_has() -> None:
    queue = queue_of(*(event("evil", at) for at in range(4)), event("good", 0), event("good", 1), event("calm", 0))
    assert told(queue) == ["evil0", "good0", "calm0", "evil1", "good1", "evil2", "evil3"]


def test_of_too_many_the_namespace_that_has_most_loses_its_oldest() -> None:
    queue = queue_of(event("good", 0), *(event("evil", at) for at in range(9)), event("good", 1), most=4)
    assert sorted(told(queue)) == ["evil7", "evil8", "good0", "good1"]


def test_those_that_are_put_back_come_before_the_others_of_their_namespace() -> None:
    queue = queue_of(*(event("evil", at) for at in range(3)), event("good", 0))
    first = [queue.popleft() for _ in range(3)]
    queue.extendleft(reversed(first))
    assert len(queue) == len(list(queue)) == 4
    assert sorted(told(queue)[:2]) == ["evil0", "good0"]


def test_none_waits_once_all_are_written_or_given_up() -> None:
    queue = queue_of(event("good", 0))
    queue.clear()
    assert (len(queue), bool(queue), told(queue)) == (0, False, [])
