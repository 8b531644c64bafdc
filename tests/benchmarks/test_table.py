"""The table for people, at the widths of terminals."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from benchmarks.catalogue import ALL, chosen, minutes
from benchmarks.report.anchors import ANCHORS, SOURCES
from benchmarks.report.machine import Machine, python_build
from benchmarks.report.rows import Row
from benchmarks.report.table import heading, show
from benchmarks.workloads.cases import CASES
from tests.benchmarks.results import LOADED, QUIET, RATE, TIME

ROWS = [
    TIME,
    *(replace(RATE, name=f"perf_{case.name}", value=123_456.7, target=100_000, baseline=123.4) for case in CASES),
    *(replace(RATE, name=f"bound_{case.name}", unit="pods/s", beside="kube-scheduler") for case in CASES),
    replace(RATE, name="bound_cpu_SchedulingBasic", unit="ms", beside="kube-scheduler", counts="CPU"),
]


def shown(rows: list[Row], width: int) -> list[str]:
    text = StringIO()
    show(rows, Console(file=text, width=width, highlight=False))
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("width", [120, 200])
def test_every_figure_stands_whole_on_one_line(width: int) -> None:
    lines = shown(ROWS, width)
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    for case in CASES:
        line = next(line for line in lines if line.split()[:1] == [case.name])
        assert "123,457/s" in line
        assert "100,000 met" in line


def test_a_missed_target_is_told_in_capitals() -> None:
    assert any("10,000 NOT" in line for line in shown([replace(RATE, value=1.0)], 120))


@pytest.mark.parametrize("width", [120, 200])
def test_what_is_counted_and_whose_the_others_are_is_told(width: int) -> None:
    text = "\n".join(shown(ROWS, width))
    assert "one run" in text
    assert "kube-scheduler" in text
    assert "a plain Python loop" in text
    assert "kubernetes/kubernetes" in text


@pytest.mark.parametrize(("name", "ratio"), [("bound_SchedulingBasic", "25"), ("perf_SchedulingBasic", "*")])
def test_an_anchor_is_put_beside_the_figure_with_a_ratio_only_where_both_count_the_same(name: str, ratio: str) -> None:
    line = next(line for line in shown([replace(RATE, name=name)], 120) if line.startswith("SchedulingBasic"))
    assert line.split()[-2:] == ["810", ratio]


def test_a_letter_says_whose_a_baseline_is() -> None:
    rivals = [replace(RATE, name="bind_rate_beside", baseline=value, beside=who) for value, who in ((3, "x"), (4, "y"))]
    lines = shown(rivals, 120)
    assert ["3 a" in line for line in lines if line.startswith("bind")] == [True, False]
    assert ["4 b" in line for line in lines if line.startswith("bind")] == [False, True]
    assert {"  a: x", "  b: y"} <= set(lines)


def test_every_anchor_has_a_source_that_says_what_it_counts() -> None:
    assert {anchor.source for anchor in ANCHORS.values()} == set(SOURCES)
    assert all(source.counts and source.where for source in SOURCES.values())


@pytest.mark.parametrize(("machine", "said"), [(QUIET, False), (LOADED, True)])
def test_the_heading_warns_of_a_loaded_machine(machine: Machine, said: bool) -> None:
    assert ("LOADED" in heading(machine)) is said


def test_the_heading_says_which_python() -> None:
    assert "Python 3.11.7" in heading(QUIET)


@pytest.mark.parametrize(
    ("configured", "prefix", "build"),
    [
        ("'--enable-shared' '--enable-optimizations' '--with-lto'", "/usr/local", "optimised build"),
        ("'--enable-shared' '--without-ensurepip'", "/usr", "the distribution's build"),
        ("'--enable-shared'", "/opt/python", "plain build"),
        (None, "/opt/python", "plain build"),
    ],
)
def test_a_row_says_how_its_python_was_built(configured: str | None, prefix: str, build: str) -> None:
    assert python_build(configured, prefix) == build


def test_a_benchmark_is_chosen_by_a_figure_that_it_makes_where_none_is_named_so() -> None:
    assert [bench.name for bench in chosen("mixed_50_tenants_churn,fleet_rss")] == ["fleet_of_agents", "mixed_tenants"]
    assert [bench.name for bench in chosen("one_template")] == ["one_template"]


def test_benchmarks_are_chosen_by_a_part_of_their_name_and_add_up_to_an_estimate() -> None:
    assert len({bench.name for bench in ALL}) == len(ALL)
    few = chosen("perf_Scheduling")
    assert {bench.name for bench in few} == {f"perf_{case.name}" for case in CASES if case.name.startswith("Sched")}
    assert minutes(few, 10) < minutes(few, 1) < minutes(chosen(None), 1)
