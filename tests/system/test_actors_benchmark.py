"""The benchmark of gateway actors, with few clusters: it tells what their processes take."""

import pytest

from benchmarks.fleet import beside_actors, phases
from benchmarks.fleet.beside_actors import fleet_through_gateway_actors


def test_memory_and_cpu_of_the_actors_are_told_for_each_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "LOOK_S", 0.2)
    monkeypatch.setattr(beside_actors, "_SETTLED_S", 0.1)
    rows = {row.name.removeprefix("gateways_"): row for row in fleet_through_gateway_actors(50)}
    figures = ("idle_cpu", "changes_cpu", "rss", "pss")
    assert [*rows] == [f"{actors}_actors_{figure}" for actors in (1, 2) for figure in figures]
    assert {row.nodes for row in rows.values()} == {400}  # of two clusters
    for actors in (1, 2):
        rss, pss = (rows[f"{actors}_actors_{name}"] for name in ("rss", "pss"))
        assert 10 * 1024 < pss.value < rss.value
        assert (rss.unit, rows[f"{actors}_actors_changes_cpu"].unit) == ("KiB", "ms a s")
    assert rows["2_actors_rss"].value > 1.5 * rows["1_actors_rss"].value
