"""The command: trace files in any number, errors that say what to do, JSON in the form that is promised."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.closed_loop.__main__ import app
from benchmarks.closed_loop.policies import POLICIES
from benchmarks.closed_loop.traces import SAMPLES, TraceFileError, generated, read_traces

SMALL = "--nodes", "6", "--pods", "60", "--seeds", "1", "--shortest-s", "120", "--longest-s", "180"


def written(path: Path, rows: int, value: int = 10) -> Path:
    text = "\n".join(",".join([str(value)] * SAMPLES) for _ in range(rows)) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def test_rows_of_all_files_are_read_packed_or_not(tmp_path: Path) -> None:
    found = read_traces([written(tmp_path / "a.csv.gz", 2, 10), written(tmp_path / "b.csv", 3, 20)])
    assert found.shape == (5, SAMPLES)
    assert found[:, 0].tolist() == [10, 10, 20, 20, 20]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("1,2,3\n", "line 1 has 3 numbers"),
        (",".join(["101"] * SAMPLES), "not all numbers are within 0..100"),
        (",".join(["x"] * SAMPLES), "could not convert string to float"),
        (",".join(["nan"] * SAMPLES), "not all numbers are within 0..100"),
    ],
    ids=["empty", "too short", "above 100", "no number", "not a number"],
)
def test_a_file_that_cannot_be_used_says_why_and_what_the_form_is(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text(text)
    with pytest.raises(TraceFileError, match=f"day.csv: {says}.*288 numbers 0..100.*PlanetLab set of Beloglazov"):
        read_traces([path])


def test_a_file_that_is_no_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "day.csv.gz"
    path.write_text("1,2,3")
    with pytest.raises(TraceFileError, match=r"day\.csv\.gz"):
        read_traces([path])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "https://github.com/beloglazov/planetlab-workload-traces"),
        (["none.csv.gz"], "none.csv.gz"),
        (["none.csv.gz", "--generated"], "either files or --generated"),
        (["--generated", "--policies", "mine"], "choose among requests, seed"),
        (["--generated", "--shortest-s", "90"], "--longest-s (60) must not be less than --shortest-s (90)"),
        (["--generated", "--profile", "none.yaml", *SMALL], "none.yaml"),
    ],
    ids=["no file", "a missing file", "both", "an unknown policy", "an empty interval", "a missing profile"],
)
def test_the_command_says_what_is_wrong(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.system
def test_json_has_policies_by_name_with_their_figures(tmp_path: Path) -> None:
    files = [str(written(tmp_path / f"{day}.csv.gz", 5, day)) for day in (10, 20, 30)]
    result = CliRunner().invoke(app, [*files, *SMALL, "-o", "json"])
    found = json.loads(result.stdout)
    assert list(found["policies"]) == list(POLICIES)
    for figures in found["policies"].values():
        assert list(figures) == ["hot_minutes", "overload", "p99", "deviation", "unserved", "moves"]
    assert found["world"]["trace"] == "10.csv.gz 20.csv.gz 30.csv.gz"


@pytest.mark.system
def test_the_table_names_every_policy_and_the_goal() -> None:
    result = CliRunner().invoke(app, ["--generated", *SMALL])
    assert result.exit_code == 0
    assert all(name in result.stdout for name in POLICIES)
    assert "goal for ours" in result.stdout
    assert "trace generated" in result.stdout


def test_generated_traces_are_as_busy_as_planetlabs() -> None:
    found = generated(np.random.default_rng(3), 2000)
    assert found.mean() == pytest.approx(12, abs=2)
    assert np.median(found.mean(axis=1)) == pytest.approx(8, abs=2)
    assert found.min() >= 0
    assert found.max() <= 99
