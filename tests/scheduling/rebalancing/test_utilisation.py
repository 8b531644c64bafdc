"""What nodes carry, what of it pods make, and what that costs: the worked examples of the documents."""

import numpy as np
import pytest

from dispatcher.scheduling.rebalancing.utilisation import coming, cost, in_node, measured, uses_on
from shared.model.owner_use import OwnerUse
from tests.builders import fleet, node, pod, put, reading

SIGNALS = ("cpu", "memory", "network")


def test_the_pods_of_a_node_make_what_it_carries_by_their_requests() -> None:
    state = fleet(a=[node("n1").cpu(4).memory("8Gi")])
    for name, cpu, memory in (("one", 1, "1Gi"), ("two", 1, "1Gi"), ("big", 2, "2Gi")):
        put(state, pod(name).cpu(cpu).memory(memory).on("n1"), "a", "n1")
    found = uses_on(state, 0, np.asarray([0.8, 0.4, 0.6]), SIGNALS)
    assert found["a", "uid-one"] == pytest.approx([0.2, 0.1, 0.15])
    assert found["a", "uid-big"] == pytest.approx([0.4, 0.2, 0.3])
    assert sum(found.values()) == pytest.approx([0.8, 0.4, 0.6])


def test_a_pod_whose_like_are_known_to_use_more_makes_more_of_its_node_than_its_neighbours() -> None:
    state = fleet(a=[node("n1").cpu(4).memory("8Gi")])
    for name, owner in (("burner", "burn"), ("quiet", "idle")):
        made = pod(name).cpu(1).memory("1Gi").set(owner=f"StatefulSet/{owner}/uid")
        put(state, made.on("n1", "Running"), "a", "n1")
    before = uses_on(state, 0, np.asarray([0.8]), ("cpu",))
    assert before["a", "uid-burner"] == pytest.approx(before["a", "uid-quiet"])
    uses = [("StatefulSet/burn", 3000.0), ("StatefulSet/idle", 200.0)]
    state.uses.put("a", [OwnerUse("default", owner, cpu, 2.0**30, 1e4) for owner, cpu in uses])
    found = uses_on(state, 0, np.asarray([0.8]), ("cpu",))
    assert found["a", "uid-burner"] > 5 * found["a", "uid-quiet"]
    assert sum(found.values()) == pytest.approx([0.8])


def test_a_pod_whose_load_is_not_in_the_mean_yet_makes_nothing_of_it_and_is_expected_to_come() -> None:
    state = fleet(a=[node("n1").cpu(4)])
    put(state, pod("old").cpu(1).on("n1"), "a", "n1")
    state.put_reading("a", reading("n1", cpu=0.5))
    state.place(("a", "uid-new"), pod("new").cpu(1).placed(), "a", "n1", assumed=True)
    assert set(uses_on(state, 0, np.asarray([0.5]), ("cpu",))) == {("a", "uid-old")}
    assert coming(state, ("cpu",))[0, 0] == pytest.approx(0.25)


def test_a_pod_takes_a_smaller_share_of_a_larger_node() -> None:
    state = fleet(a=[node("n1").cpu(4), node("n2").cpu(8)])
    rows = state.row_of("a", "n1"), state.row_of("a", "n2")
    assert in_node(state, np.asarray([0.4]), rows[0] or 0, rows[1] or 0, ("cpu",)) == pytest.approx([0.2])


def test_what_is_old_or_was_never_told_is_not_known() -> None:
    state = fleet(a=["n1", "n2"])
    state.put_reading("a", reading("n1", cpu=0.5, memory=0.5, age=10))
    state.put_reading("a", reading("n2", cpu=0.5, age=200))
    found = measured(state, (*SIGNALS, "gpu"))
    assert found[:2, 0].tolist() == [0.5, 0.5]
    assert np.isnan(found[2:]).all()
    assert np.isnan(found[0, 1])


@pytest.mark.parametrize(
    ("utilisation", "points"), [(0.0, 0.0), (0.9, 75.75), (0.675, 36.88), (1.0, 100.0), (1.7, 100.0)]
)
def test_an_idle_node_costs_nothing_and_a_full_one_a_hundred_points(utilisation: float, points: float) -> None:
    assert cost(np.asarray([utilisation]), ("cpu",)) == pytest.approx(points, abs=0.01)
    assert cost(np.full(3, utilisation), SIGNALS) == pytest.approx(points, abs=0.01)
