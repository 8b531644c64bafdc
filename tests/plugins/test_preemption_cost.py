"""What DefaultPreemption need not look at: nodes that cannot win, filters asked before, pods that only take room."""

from collections.abc import Sequence

import numpy as np
import pytest

from dispatcher.scheduling.cycle.cycle import Unschedulable
from dispatcher.scheduling.fleet.trial import FleetTrial
from dispatcher.scheduling.framework import Codes, FleetView, Rows
from dispatcher.scheduling.framework.lifecycle import Victim
from tests.builders import pod
from tests.plugins.preempting import Low, by_room, full, names, refused, scheduler, urgent
from tests.scheduling.tiny_plugins import Ready


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of nodes that trials look at, as they do."""
    rows, lower = list[int](), FleetTrial.lower

    def noting(self: FleetTrial, row: int) -> Sequence[Victim]:
        rows.append(row)
        return lower(self, row)

    monkeypatch.setattr(FleetTrial, "lower", noting)
    return rows


def test_nodes_that_cannot_be_better_are_not_tried(tried: list[int]) -> None:
    """Of a hundred full nodes a few are looked at, and the choice is that of all of them."""
    nodes = {f"n{at:02}": [Low(f"a{at}", 5, 100.0 + at, cpu=2), Low(f"b{at}", 5, 50.0, cpu=2)] for at in range(100)}
    result = refused(scheduler(full(**nodes)), urgent().cpu(2))
    assert (result.nominated, names(result.victims)) == (("a", "n99"), ["a99"])
    assert tried == [99]


def test_filters_that_rest_on_nodes_alone_are_asked_about_a_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    told = Ready.filter

    def noted(self: Ready, state: object, fleet: FleetView, rows: Rows) -> Codes:
        asked.extend(np.arange(fleet.n)[rows].tolist())
        return told(self, state, fleet, rows)

    one = scheduler(full(n1=[Low("a"), Low("b"), Low("c"), Low("d")]))
    assert isinstance(one.schedule(pod("other").cpu(64).placed(), ("a", "other")), Unschedulable)
    monkeypatch.setattr(Ready, "filter", noted)
    assert names(refused(one, urgent().cpu(3)).victims) == ["b", "c", "d"]
    assert asked.count(0) <= 2  # by the class, and by the trial, which looks five times


def test_where_only_room_is_missing_no_pod_is_moved_to_find_the_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(self: FleetTrial, victims: Sequence[Victim]) -> None:
        raise AssertionError([victim.pod_info.pod.name for victim in victims])

    state = full(n1=[Low("a", 9, cpu=2), Low("b", 5), Low("c", 3)])
    one = by_room(state)
    monkeypatch.setattr(FleetTrial, "suppose_gone", moved)
    assert names(refused(one, urgent().cpu(1)).victims) == ["c"]
    bulky = by_room(full(n1=[Low("bulky", 9, cpu=3), Low("slim", 5)]))
    assert names(refused(bulky, urgent().cpu(2)).victims) == ["bulky"]
    monkeypatch.undo()
    one.nominations.drop(("a", "uid-urgent"))
    assert names(refused(one, urgent().cpu(2).port(80)).victims) == ["b", "c"]


def test_nodes_where_all_lower_pods_are_too_few_are_not_tried(tried: list[int]) -> None:
    """A node that an equal pod has taken for the most part has one lower pod left, which frees too little."""
    state = full(n1=[Low("equal", 100, cpu=2), Low("left", cpu=2)], n2=[Low("a"), Low("b"), Low("c"), Low("d")])
    result = refused(by_room(state), urgent().cpu(4))
    assert (result.nominated, names(result.victims)) == (("a", "n2"), ["a", "b", "c", "d"])
    assert tried == [1]
    state = full(n1=[Low("equal", 100, cpu=2), Low("left", cpu=2)])
    assert "1 Insufficient cpu" in refused(by_room(state), urgent().cpu(4)).message.split("preemption:")[1]
