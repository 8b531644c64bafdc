from tests.builders import pod
from tests.plugins.asking import make


def test_priority_sort_takes_higher_priority_first_then_the_longest_wait() -> None:
    sort = make("PrioritySort")
    queued = [("late", 0, 9.0), ("urgent", 100, 9.5), ("early", 0, 1.0), ("low", -5, 0.0)]
    ordered = sorted(queued, key=lambda one: sort.sort_key(pod(one[0]).priority(one[1]).placed(), one[2]))
    assert [name for name, _, _ in ordered] == ["urgent", "early", "late", "low"]


def test_priority_sort_does_not_split_classes() -> None:
    sort = make("PrioritySort")
    assert sort.class_key(pod("a").priority(1).placed()) == sort.class_key(pod("b").priority(2).placed())
