"""How important a pod is in each cluster, remembered no longer than what the cluster tells holds."""

import pytest

from dispatcher.scheduling.fleet import priorities
from dispatcher.scheduling.fleet.fleet import FleetState
from shared.model.crossing import Opening
from shared.model.objects import PriorityClass
from shared.model.pod import Need, Needs
from tests.builders import fleet, pod

NEEDS = Needs(of_policy=(Need("max_priority", "high", "spec.priorityClassName", "is high"),))
URGENT = pod().priority(100).set(needs=NEEDS)


def tell(state: FleetState, cluster: str, value: int, most: int = 1000) -> None:
    rows = (Opening(("a",), ("*",), (), closed=(), max_priority=most),)
    classes = (PriorityClass("high", value),)
    state.set_cluster(cluster, ready=True, synced=True, opens=rows, priority_classes=classes)


def test_a_pod_has_its_own_priority_at_home_and_that_of_each_other_cluster_there() -> None:
    state = fleet(a=["n"], b=["n"], c=["n"])
    for cluster, value in (("a", 5), ("b", 6), ("c", 7)):
        tell(state, cluster, value)
    assert [state.priorities.of(URGENT.placed("a"), cluster) for cluster in "abc"] == [100, 6, 7]


def test_what_a_cluster_tells_anew_counts_at_once() -> None:
    state = fleet(a=["n"], b=["n"])
    tell(state, "b", 6)
    assert state.priorities.of(URGENT.placed("a"), "b") == 6
    tell(state, "b", 8)
    assert state.priorities.of(URGENT.placed("a"), "b") == 8
    tell(state, "b", 8, most=7)
    assert state.priorities.of(URGENT.placed("a"), "b") < 0


def test_pods_that_differ_in_what_tells_their_priority_are_told_apart() -> None:
    state = fleet(a=["n"], b=["n"], c=["n"])
    tell(state, "b", 6)
    asking = [URGENT.placed("a"), URGENT.placed("c"), pod().priority(100).placed("a"), pod().priority(-1).placed("a")]
    found = [state.priorities.of(one, "b") for one in asking]
    assert found[0] == 6
    assert found[1] < 0  # no row lets pods of c in
    assert found[2:] == [0, -1]


def test_of_many_kinds_of_pods_a_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priorities, "_MOST", 10)
    state = fleet(a=["n"], b=["n"])
    for number in range(100):
        state.priorities.of(pod().priority(number).placed("a"), "b")
    assert len(state.priorities._known) <= 10
