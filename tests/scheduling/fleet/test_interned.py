"""What nodes had and have no more is forgotten: no change of a node costs all that ever were."""

from collections.abc import Sequence

import numpy as np
import pytest

from dispatcher.scheduling.fleet.interned import GROWTH, LEAST, Interned
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.rules import eligibility
from dispatcher.scheduling.rules.eligibility import TaintMasks, Tolerance
from shared.model.names import ZONE
from shared.model.node import Node, Taint
from shared.model.pod import Toleration
from tests.builders import fleet, node, pod

MOST = GROWTH * LEAST


def marked(at: int, name: str = "n1") -> Node:
    """A node as an autoscaler marks it with the time."""
    return node(name).taint("ToBeDeletedByClusterAutoscaler", str(1_700_000_000 + at)).labels(zone=f"z{at}").build()


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "in one report"])
def test_taints_and_labels_that_are_gone_are_forgotten(together: bool) -> None:
    state = fleet(a=[f"n{at}" for at in range(9)])
    for at in range(10 * MOST):
        told = [marked(at * 10 + one, f"n{one}") for one in range(9 if together else 1)]
        state.put_nodes("a", told)
        state.domain("zone")
    alive = 9 * GROWTH
    assert len(state.taint_sets) <= MOST + alive
    assert len(state.label_values(ZONE)) <= MOST + alive
    assert "z0" not in state.label_values(ZONE)
    assert state.taint_sets[state.taint_set[0]] == told[0].taints
    assert state.label_values(ZONE)[state.label(ZONE)[0]] == told[0].labels[ZONE]


def test_names_of_hosts_that_come_and_go_are_forgotten() -> None:
    state = fleet(a=["n1"])
    for at in range(10 * MOST):
        assert state.label_rows("kubernetes.io/hostname", "n1").tolist() == [0]
        state.put_node("a", node(f"x{at}").build())
        state.remove_node("a", f"x{at}")
    assert len(state.label_values("kubernetes.io/hostname")) <= MOST


def test_labels_that_no_node_has_any_more_cost_no_column() -> None:
    state = fleet(a=["n1", node("n2").labels(zone="x")])
    for at in range(1000):
        state.put_node("a", node("n1").label({f"batch-{at}": "yes"}).build())
        assert state.label_rows(f"batch-{at}", "yes").tolist() == [0]
        assert state.label(f"batch-{at - 1}").tolist() == [-1, -1]
        assert state.label(ZONE).tolist() == [-1, 0]
    assert len(state._labels._columns) <= 256


def test_taints_that_are_gone_are_judged_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    state, masks, placed, judged = fleet(a=["n1", "n2"]), TaintMasks(), pod().placed("a"), list[object]()
    untolerated = eligibility.untolerated

    def judge(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> Taint | None:
        judged.append(taints)
        return untolerated(tolerations, taints)

    monkeypatch.setattr(eligibility, "untolerated", judge)
    assert masks.tolerated(Tolerance.read(placed, view_of(state)), view_of(state)).tolist() == [True, True]
    for at in range(10 * MOST):
        state.put_node("a", marked(at))
    assert masks.tolerated(Tolerance.read(placed, view_of(state)), view_of(state)).tolist() == [False, True]
    assert len(judged) <= MOST + 2
    state.put_node("a", marked(-1, "n2"))
    before = len(judged)
    assert masks.tolerated(Tolerance.read(placed, view_of(state)), view_of(state)).tolist() == [False, False]
    assert len(judged) == before + 1  # the one set that is new


def test_a_code_is_told_of_whenever_it_is_given_to_a_value() -> None:
    values = Interned[str]()
    column = np.array([values.code(f"v{at}") for at in range(LEAST)], dtype=np.int32)
    at = values.position
    column[5] = column[7] = -1
    values.make_room(column)
    assert [values.code("v5"), values.code("new"), values.code("newer")] == [5, 7, LEAST]
    found = values.since(at)
    assert found is not None
    assert found.tolist() == [7, LEAST]  # 5 means what it meant
    assert [values.find("v5"), values.find("v7")] == [5, None]
    assert len({*values}) == len(values)
