"""docs/benchmarks.md and the results file do not drift apart."""

import re
from dataclasses import replace

import pytest

from benchmarks.catalogue import ALL, minutes
from benchmarks.end_to_end.contestants import THEM
from benchmarks.fleet.case import DECODED
from benchmarks.report import document
from benchmarks.report.anchors import ANCHORS
from benchmarks.report.document import GOALS, PAGE, put, tables
from benchmarks.report.meanings import MEANINGS, OF_BENCHMARKS
from benchmarks.report.results import Result, read
from benchmarks.workloads.cases import CASES
from tests.benchmarks.results import LOADED, QUIET, RATE, result


def test_the_page_holds_the_tables_of_the_committed_results() -> None:
    page = PAGE.read_text()
    assert put(page, tables(read())) == page, "run: .venv/bin/python -m benchmarks table --write"


def test_the_page_says_how_long_all_of_them_take() -> None:
    (told,) = re.findall(r"# all: about (\d+) minutes", PAGE.read_text())
    assert int(told) == pytest.approx(minutes(list(ALL), share=1), rel=0.1)


def test_without_results_every_goal_is_not_measured() -> None:
    text = tables([])
    assert text.count("not measured") == sum(len(goal.figures) for goal in GOALS)
    assert "Nothing is measured yet" in text


def test_a_goal_shows_its_figure_whether_it_is_met_and_on_what_machine() -> None:
    row = replace(RATE, name="decide_one_template", value=150_000.0, target=100_000)
    text = tables([Result(row, QUIET)])
    assert "| 150,000/s (met) |" in text
    assert "commit abc" in text
    assert "150,000/s (met) (loaded)" in tables([Result(row, LOADED)])
    assert "(**not met**)" in tables([Result(replace(row, value=1.0), QUIET)])


def test_a_case_shows_the_core_and_both_contestants() -> None:
    name = "SchedulingPodAffinity"
    rate = replace(RATE, name=f"bound_{name}", beside=THEM, unit="pods/s", baseline=30.0, pods=2000)
    cpu = replace(RATE, name=f"bound_cpu_{name}", beside=THEM, unit="ms", baseline=22.5)
    core = replace(RATE, name=f"perf_{name}", baseline=11.0)
    text = tables([result(core, QUIET, 12_345.0), result(rate, QUIET, 174.0), result(cpu, QUIET, 2.75)])
    assert f"| {name} | 5k | 5k | 12,345 | 11 | 35 |" in text
    assert f"| {name} | 5k | 2k | 174 / 30 | 2.75 / 22.50 | - / - |" in text


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="must both be there"):
        put("# Benchmarks\n", "tables")


def test_every_goal_and_anchor_names_a_figure_that_a_benchmark_makes() -> None:
    cases = {f"{kind}_{case.name}" for case in CASES for kind in ("perf", "bound")}
    assert {name for name in ANCHORS if name.startswith(("perf_", "bound_"))} <= cases
    made = {f"perf_{case.name}" for case in CASES}
    assert {key[0] for goal in GOALS for key in goal.figures if key[0].startswith("perf_")} <= made
    assert made <= {bench.name for bench in ALL}
    assert document.PAGE.name == "benchmarks.md"


def test_every_figure_of_mixed_work_is_shown_with_what_it_is() -> None:
    shown = re.findall(r"^\| ((?:mixed|fleet|fail_over|decide_small)_\w+) \| ", PAGE.read_text(), re.MULTILINE)
    assert shown == [name for name in MEANINGS if name in shown]
    assert OF_BENCHMARKS.keys() <= {bench.name for bench in ALL}


def test_mixed_work_is_shown_with_its_target_and_what_it_was_measured_beside() -> None:
    row = replace(RATE, name="mixed_x", unit="bound/s", value=9000.0, target=20_000, baseline=18_000, beside="one")
    text = tables([Result(row, QUIET)])
    assert (
        f"| mixed_x | {row.counts} | 5k | {row.pods // 1000}k | 9,000/s (**not met**) | >= 20,000/s | 18,000/s (one) |"
        in text
    )
    low = replace(row, name="fleet_x", unit="ms", value=3.0, target=10, baseline=None, beside="")
    assert "| 3 ms (met) | <= 10 ms | - |" in tables([Result(low, QUIET)])


def test_mixed_work_without_a_target_and_goals_are_not_among_it() -> None:
    row = replace(RATE, name="fleet_x", target=10)
    goal = replace(row, name="fleet_until_it_decides", nodes=500_000, beside=DECODED)
    shown = tables([Result(row, QUIET), Result(replace(row, name="fleet_y", target=None), QUIET), Result(goal, QUIET)])
    assert "| fleet_x |" in shown
    assert "| fleet_y |" not in shown
    assert "| fleet_until_it_decides |" not in shown
