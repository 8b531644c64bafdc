"""The results file: what is written is read, and what a quiet machine gave goes before what a loaded one gave."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.report.history import show_history
from benchmarks.report.machine import Machine, this_machine
from benchmarks.report.results import RESULTS, Result, ResultsError, append, latest, read
from tests.benchmarks.results import LOADED, QUIET, RATE, TIME, result


def test_what_is_appended_is_read_again_in_order(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append([RATE], QUIET, path)
    append([TIME, RATE], LOADED, path)
    assert read(path) == [Result(RATE, QUIET), Result(TIME, LOADED), Result(RATE, LOADED)]


def test_a_figure_may_be_a_number_of_numpys(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append([replace(RATE, value=np.float64(RATE.value))], QUIET, path)
    assert read(path) == [Result(RATE, QUIET)]


def test_a_line_says_for_itself_that_its_machine_was_loaded(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append([RATE], QUIET, path)
    append([RATE], LOADED, path)
    assert ['"loaded":true' in line for line in path.read_text().splitlines()] == [False, True]


def test_a_line_that_is_no_figure_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append([RATE], QUIET, path)
    with path.open("a") as file:
        file.write('{"name": "half"}\n')
    with pytest.raises(ResultsError, match=r"results\.jsonl: line 2: .*`nodes`"):
        read(path)


def test_no_file_is_no_history(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("machines", "wanted"),
    [
        pytest.param([QUIET, QUIET], 1, id="the last quiet one"),
        pytest.param([QUIET, LOADED], 0, id="a quiet one before a later loaded one"),
        pytest.param([LOADED, QUIET], 1, id="a quiet one after a loaded one"),
        pytest.param([LOADED, LOADED], 1, id="the last where all were loaded"),
    ],
)
def test_the_latest_figure_is_the_last_of_a_quiet_machine(machines: list[Machine], wanted: int) -> None:
    results = [result(RATE, machine, float(at)) for at, machine in enumerate(machines)]
    assert latest(results) == {RATE.key: results[wanted]}


def test_a_figure_that_is_put_beside_something_else_today_replaces_the_one_of_before() -> None:
    tuesday = replace(LOADED, date="2026-02-03T00:00:00Z")
    before, now = replace(RATE, beside="a loop"), replace(RATE, beside="one template")
    results = [result(before, QUIET, 1.0), result(now, tuesday, 2.0)]
    assert latest(results) == {now.key: results[1]}


def test_figures_of_one_run_that_differ_in_what_they_are_put_beside_all_stay() -> None:
    one, other = replace(RATE, beside="kube-scheduler"), replace(RATE, beside="kube-scheduler, all nodes scored")
    assert len(latest([result(one, QUIET, 1.0), result(other, QUIET, 2.0)])) == 2


def test_history_shows_a_figure_over_time_and_marks_loaded_runs() -> None:
    text = StringIO()
    results = [result(RATE, QUIET, 11_111.0), result(RATE, LOADED, 7_777.0), result(TIME, QUIET, 1.0)]
    assert show_history(results, "SchedulingBasic", Console(file=text, width=160))
    lines = text.getvalue().splitlines()
    first, second = (next(line for line in lines if value in line) for value in ("11,111/s", "7,777/s"))
    assert lines.index(first) < lines.index(second)
    assert "loaded" in second
    assert "loaded" not in first
    assert "openb_time" not in text.getvalue()


def test_history_of_a_figure_that_nobody_measured_is_none() -> None:
    assert not show_history([result(RATE, QUIET, 1.0)], "no such figure", Console(file=StringIO()))


def test_the_committed_results_can_all_be_read() -> None:
    assert all(one.machine.date for one in read(RESULTS))


def test_this_machine_says_what_it_is() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.cpu
    assert machine.date.endswith("Z")
