"""DefaultPreemption spares pods whose PodDisruptionBudget allows no eviction, whatever number of budgets there is."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest

from dispatcher.scheduling.framework import Codes, Depends, Filter, FleetView, PodInfo, Rows
from dispatcher.scheduling.rules import budgets as budgets_module
from dispatcher.scheduling.rules import selector_index
from shared.model.labels import NOT_EXISTS, NOT_IN, LabelSelector, Requirement
from shared.model.objects import PodDisruptionBudget
from tests.builders import pod, put, selector
from tests.plugins.preempting import Low, budget, by_room, full, names, refused, scheduler, urgent


def test_fewest_budgets_violated_goes_before_everything_else() -> None:
    state = full(n1=[Low("cheap", 0, cpu=4, app="guarded")], n2=[Low("dear", 50, cpu=4)])
    budget(state, "guarded", 0)
    assert refused(scheduler(state), urgent()).nominated == ("a", "n2")


@pytest.mark.parametrize("of", [selector(app="db"), LabelSelector({}, (Requirement("app", "In", ("db",)),))])
def test_who_is_guarded_by_a_budget_is_spared_before_others(of: LabelSelector) -> None:
    state = full(n1=[Low("guarded", 1, app="db", cpu=2), Low("free", 5, cpu=2)])
    state.kept.put("a", PodDisruptionBudget("default", "guard", of, 0))
    assert names(refused(scheduler(state), urgent().cpu(2)).victims) == ["free"]


@pytest.mark.parametrize(
    ("allowed", "disrupted", "want"),
    [(0, (), ["f1", "f2"]), (1, (), ["d1", "f2"]), (2, (), ["d1", "d2"]), (0, ("d1", "d2"), ["d1", "d2"])],
    ids=["nothing left", "one more", "enough", "counted as disrupted already"],
)
def test_a_budget_allows_so_many_evictions_and_no_more(
    allowed: int, disrupted: tuple[str, ...], want: list[str]
) -> None:
    lows = [Low("d1", 2, app="db"), Low("d2", 1, app="db"), Low("f1", 9), Low("f2", 8)]
    state = full(n1=lows)
    budget(state, "db", allowed, *disrupted)
    assert sorted(names(refused(scheduler(state), urgent().cpu(2)).victims)) == sorted(want)


@pytest.mark.parametrize("labels", [{"app": "x"}, {}], ids=["labels", "no labels"])
@pytest.mark.parametrize(
    ("of", "guarded"),
    [
        (selector(), True),
        (LabelSelector({}, (Requirement("tier", NOT_EXISTS),)), True),
        (selector(app="y"), False),
        (None, False),
    ],
    ids=["empty", "labels that must lack", "others", "null"],
)
def test_a_budget_guards_all_that_it_selects(
    of: LabelSelector | None, guarded: bool, labels: Mapping[str, str]
) -> None:
    state = full(n1=[], n2=[])
    put(state, pod("here").cpu(4).priority(0).labels(**labels).set(started=2000.0), "a", "n1")
    put(state, pod("there").namespace("other").cpu(4).priority(0).set(started=1000.0), "a", "n2")
    state.kept.put("a", PodDisruptionBudget("default", "all", of, 0))
    assert names(refused(scheduler(state), urgent()).victims) == (["there"] if guarded else ["here"])


@pytest.mark.parametrize("kind", ["own label", "own label of one app", "all others"])
def test_what_budgets_cost_does_not_rest_on_how_many_there_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many want the label that a pod has, or cover every pod that there is: none is asked about a pod."""
    state = full(n1=[])
    for at in range(4):
        put(state, pod(f"p{at}").cpu(1).priority(1).labels(managed="helm", app=f"app-{at}"), "a", "n1")
    for at in range(50):
        wanted = {
            "own label": selector(app=f"app-{at}"),
            "own label of one app": selector(managed="helm", app=f"app-{at}"),
            "all others": LabelSelector({}, (Requirement("app", NOT_IN, (f"app-{at}",)),)),
        }[kind]
        state.kept.put("a", PodDisruptionBudget("default", f"b{at}", wanted, 0))
    one = scheduler(state)
    asked: list[Mapping[str, str]] = []

    def noting(_: LabelSelector, labels: Mapping[str, str]) -> bool:
        asked.append(labels)
        return True

    monkeypatch.setattr(LabelSelector, "matches", noting)
    assert refused(one, urgent()).nominated == ("a", "n1")
    assert len(asked) == 0


def test_budgets_of_namespaces_without_victims_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    state = full(n1=[Low("a", app="x"), Low("b", app="x"), Low("c"), Low("d")])
    budget(state, "x", 0)
    for at in range(50):
        state.kept.put("a", PodDisruptionBudget(f"other-{at % 5}", f"b{at}", selector(app="x"), 0))
    read: list[int] = []

    def noting(some: Sequence[LabelSelector]) -> selector_index.SelectorIndex:
        read.append(len(some))
        return selector_index.SelectorIndex(some)

    monkeypatch.setattr(budgets_module, "SelectorIndex", noting)
    assert refused(scheduler(state), urgent()).nominated == ("a", "n1")
    assert read == [1]


class Lenient(Filter):
    """Refuses no node; notes how many it is asked about at a time."""

    name: ClassVar[str] = "Lenient"
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self) -> None:
        self.asked: list[int] = []

    def class_key(self, pod_info: PodInfo) -> None:
        return None

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        self.asked.append(len(fleet.nodes.live[rows]))
        return np.zeros(self.asked[-1], dtype=np.uint16)


def test_nodes_of_which_all_have_guarded_pods_are_asked_about_together() -> None:
    lenient, state = Lenient(), full(**{f"n{at}": [Low(f"p{at}", cpu=4, app="x")] for at in range(16)})
    budget(state, "x", 0)
    one = by_room(state, lenient)
    assert refused(one, urgent()).nominated == ("a", "n0")
    assert len([count for count in lenient.asked if count == 1]) <= 2
