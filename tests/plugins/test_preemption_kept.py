"""What preemption keeps from one pod to the next, and when it is found out anew."""

from typing import ClassVar

import msgspec
import numpy as np

from dispatcher.scheduling.framework import Codes, Depends, Filter, FleetView, PodInfo, Rows
from shared.model.objects import Namespace
from shared.model.reasons import Reasons
from shared.model.refusal import ClusterRefusal
from tests.builders import fleet, node, pod, put
from tests.plugins.preempting import Low, budget, by_room, full, names, refused, scheduler


class OfNamespace(Filter[bool]):
    """Refuses every node while the namespace has no label."""

    name: ClassVar[str] = "OfNamespace"
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(self) -> None:
        self.asked = 0

    def class_key(self, pod_info: PodInfo) -> None:
        return None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> bool:
        self.asked += 1
        return bool(fleet.objects.of("a", Namespace)["default"].labels)

    def filter(self, state: bool, fleet: FleetView, rows: Rows) -> Codes:
        code = 0 if state else fleet.reasons.code(Reasons.INSUFFICIENT, "kindness")
        return np.full(len(fleet.nodes.live[rows]), code, dtype=np.uint16)


def test_what_a_filter_looked_at_is_kept_for_the_next_trial_until_it_changes() -> None:
    fussy, state = OfNamespace(), full(n1=[Low("a", cpu=4)], n2=[Low("b", cpu=4)], n3=[Low("c", cpu=4)])
    state.kept.put("a", Namespace("default", {"kind": "yes"}))
    one = by_room(state, fussy)

    def ask(number: int) -> tuple[list[str], int]:
        before, what = fussy.asked, pod(f"urgent{number}").cpu(4).priority(100)
        return names(refused(one, what).victims), fussy.asked - before

    assert ask(1)[0] == ["a"]
    assert ask(2) == (["b"], 0)
    state.kept.put("a", Namespace("default", {}))
    state.now += 10.0
    assert ask(3)[0] == []
    state.kept.put("a", Namespace("default", {"kind": "again"}))
    state.now += 10.0
    assert ask(4)[0] == ["c"]


def test_a_pod_is_not_told_that_nothing_helps_because_a_less_important_one_of_its_class_was() -> None:
    one = scheduler(full(n1=[Low("a", 5, cpu=4)]))
    assert refused(one, pod("low").cpu(4).priority(1)).nominated is None
    assert refused(one, pod("high").cpu(4).priority(100)).nominated == ("a", "n1")


def test_what_nodes_would_cost_a_less_important_pod_of_its_class_is_not_what_they_cost_a_pod() -> None:
    one = scheduler(full(n1=[Low("a", 60, cpu=4)], n2=[Low("b", 50, cpu=3), Low("c", 1, cpu=1)]))
    assert refused(one, pod("low").cpu(2).priority(10)).nominated is None
    assert refused(one, pod("high").cpu(2).priority(100)).nominated == ("a", "n2")


def test_a_pod_has_others_evicted_where_one_of_its_class_was_refused_and_it_was_not() -> None:
    state = fleet(a=[], b=[node("n1").cpu(4)])
    put(state, pod("low").cpu(4), "b", "n1")
    one, first, second = scheduler(state), pod("first").cpu(4).priority(9), pod("second").cpu(4).priority(9)
    barred = msgspec.structs.replace(first.placed(), refused=(ClusterRefusal("b", "no", 0.0, 0.0, over=True),))
    assert "no eviction there" in one.schedule(barred, ("a", "first")).message  # type: ignore[union-attr]
    assert refused(one, second).nominated == ("b", "n1")


def test_who_is_evicted_goes_by_the_budgets_of_now() -> None:
    state = full(n1=[Low("guarded", 1, cpu=4, app="db")], n2=[Low("free", 5, cpu=4)])
    budget(state, "db", 0)
    one = scheduler(state)
    assert names(refused(one, pod("first").cpu(4).priority(9)).victims) == ["free"]
    one.nominations.drop(("a", "uid-first"))
    budget(state, "db", 1)
    assert names(refused(one, pod("second").cpu(4).priority(9)).victims) == ["guarded"]
