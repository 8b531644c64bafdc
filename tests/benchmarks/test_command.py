"""The command that measures: what it is asked for and does not have, and a file that it cannot keep figures in."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks.catalogue import Bench
from benchmarks.report import results
from benchmarks.report.rows import Row


def told(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command.app, list(words))
    return done.exit_code, done.stderr


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would be measured or written: nothing is here."""
    found: list[str] = []

    def one(share: int) -> list[Row]:
        found.append(f"a part of {share}")
        return []

    monkeypatch.setattr(command, "_write_page", lambda: found.append("the page"))
    monkeypatch.setattr(command, "append", lambda *_: found.append("rows"))
    monkeypatch.setattr("benchmarks.catalogue.ALL", (Bench("one", one, 1),))
    return found


@pytest.mark.parametrize("only", ["nonsense", "", ","])
def test_a_word_that_no_benchmark_has_is_an_error_and_leaves_the_page_alone(only: str, measured: list[str]) -> None:
    code, said = told("run", "--only", only)
    assert (code, measured) == (2, [])
    assert f"--only {only}: no benchmark's or figure's name holds it" in said


@pytest.mark.parametrize("words", [("run", "mixed"), ("list", "mixed"), ("table", "mixed")])
def test_a_word_is_for_history_alone(words: tuple[str, str], measured: list[str]) -> None:
    assert told(*words) == (2, "mixed: a word is for history; --only mixed chooses benchmarks\n")
    assert not measured


@pytest.mark.parametrize("words", [("run",), ("table",), ("history", "fleet")])
def test_a_results_file_that_cannot_be_read_is_told_of_before_anything_is_measured(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[str]
) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"name":"cut')
    monkeypatch.setattr(command, "read", lambda: results.read(file))
    monkeypatch.setattr(command, "check", lambda: results.check(file))
    code, said = told(*words)
    assert (code, measured) == (2, [])
    assert said.splitlines()[-1].startswith(f"{file}: line 1: ")


def test_a_results_file_that_cannot_be_written_is_told_of_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "none" / "results.jsonl"
    with pytest.raises(results.ResultsError, match="No such file or directory; --no-keep measures without it"):
        results.check(file)
    with pytest.raises(results.ResultsError, match="Is a directory"):
        results.check(tmp_path)
