"""Who told the readings of a node: kept beside them, and as it was when a decision was taken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.readings import SourceSets
from dispatcher.scheduling.framework import PluginUse, Profile
from dispatcher.scheduling.records.decision import Decision
from shared.model.node import Reading
from tests.builders import fleet, node, pod

TOLD = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.sampled_from(["kubelet", "prometheus"]))
BOTH = {"cpu": "prometheus", "memory": "kubelet"}


@given(st.lists(st.tuples(st.integers(0, 2), TOLD)))
def test_each_row_has_for_each_signal_who_told_it_last(told: list[tuple[int, dict[str, str]]]) -> None:
    state, want = fleet(a=["n0", "n1", "n2"]), [dict[str, str]() for _ in range(3)]
    for row, sources in told:
        state.put_reading("a", Reading.of(f"n{row}", dict.fromkeys(sources, (0.5, 0.0)), sources))
        want[row] |= sources
    rows = [state.row_of("a", f"n{row}") for row in range(3)]
    assert [dict(state.sources_of(row)) for row in rows if row is not None] == want
    assert len({frozenset(one.items()) for one in state.source_sets}) == len(state.source_sets)


def test_sources_without_end_cost_no_memory_without_end() -> None:
    sets, code = SourceSets(), 0
    for number in range(SourceSets.MAX_SETS + 10):
        code = sets.code(code, {"cpu": f"{number:04d}" + 200 * "x"})
    assert len(sets.sets) == SourceSets.MAX_SETS
    assert dict(sets.sets[code]) == {}
    assert max(len(one["cpu"]) for one in sets.sets[1:]) <= SourceSets.MAX_NAME


def a_fleet() -> FleetState:
    state = fleet(a=[node("n1").cpu(64)])
    state.put_reading("a", Reading.of("n1", {"cpu": (0.25, 1.0), "memory": (0.5, 2.0)}, BOTH))
    return state


def decided(state: FleetState, pods: int) -> list[Decision]:
    uses = ("NodeResourcesFit", "LiveCPU", "LiveNetwork", "LiveHeadroom")
    plugins = Profile(
        "global-dispatcher",
        tuple(PluginUse(name, 1.0, {"signals": ["memory", "cpu"]} if name == uses[-1] else {}) for name in uses),
    )
    one = Scheduler(plugins, build(plugins, PluginContext()), state)
    results = one.schedule_class([(("a", f"u{at}"), pod(f"p{at}").cpu(1).placed()) for at in range(pods)])
    placed = [one for one in results if isinstance(one, Decision)]
    assert len(placed) == pods
    return placed


@pytest.mark.parametrize("pods", [1, 40], ids=["alone", "in a batch"])
def test_a_record_says_which_readings_each_term_read_and_who_told_them(pods: int) -> None:
    state = a_fleet()
    decisions = decided(state, pods)
    state.put_reading("a", Reading.of("n1", {"cpu": (0.9, 0.0)}, {"cpu": "file"}))  # later, and of no concern
    for decision in decisions:
        record = json.loads(json.dumps(decision.record()))
        assert {name: row.get("signals") for name, row in record["scores"].items()} == {
            "NodeResourcesFit": None,
            "LiveCPU": ["cpu"],
            "LiveNetwork": ["network"],
            "LiveHeadroom": ["memory", "cpu"],
        }
        assert record["readings"] == {
            "cpu": {"used": 0.25, "mean": 0.25, "age_s": 1.0, "source": "prometheus"},
            "memory": {"used": 0.5, "mean": 0.5, "age_s": 2.0, "source": "kubelet"},
            "network": "unknown",
        }
    assert state.sources_of(0) == {"cpu": "file", "memory": "kubelet"}


def test_another_node_in_the_same_row_has_sources_of_its_own() -> None:
    state = a_fleet()
    state.remove_node("a", "n1")
    state.put_node("a", node("n2").build())
    assert dict(state.sources_of(0)) == {}
