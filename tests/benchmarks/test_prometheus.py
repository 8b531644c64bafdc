"""The benchmark of one Prometheus of many nodes; and that an agent asks it once a measure, however many nodes."""

import asyncio

import pytest

from agents.runtime.readings import wanted_measures
from benchmarks.fleet import phases
from benchmarks.fleet.load import node_name
from benchmarks.prometheus import case
from benchmarks.prometheus.case import measure, rounds_of, settings_of
from benchmarks.prometheus.server import serving

NODES, ROUNDS = 5_000, 2


def test_a_round_asks_each_query_once_and_brings_the_readings_of_all_nodes() -> None:
    with serving([node_name(number) for number in range(NODES)]) as server:
        found = asyncio.run(rounds_of(server, NODES, ROUNDS))
        measures = wanted_measures(settings_of(server))
    assert found.readings == NODES
    assert set(found.asked.values()) == {ROUNDS}
    assert len([query for query in found.asked if "timestamp(" not in query]) == len(measures)
    assert len([query for query in found.asked if "timestamp(" in query]) == 1


def test_a_small_fleet_gives_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "LOOK_S", 0.2)
    monkeypatch.setattr(case, "INTERVAL_S", 0.2)
    rows = {row.name.removeprefix("prometheus_"): row for row in asyncio.run(measure(20, 2, 0.2, turns=1))}
    hangs = {f"hangs_{quantile}{kind}" for quantile in ("p50", "p99") for kind in ("", "_ratio")}
    assert rows.keys() == {"questions", "agent_cpu", "fold_cpu", *hangs}
    assert rows["questions"].met
    assert all(row.value > 0 for row in rows.values())
