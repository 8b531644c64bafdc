"""The command that measures: what it is asked for and does not have."""

import pytest
from typer.testing import CliRunner

from benchmarks import __main__ as command


def test_a_word_that_no_benchmark_has_is_an_error_and_leaves_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(command, "_write_page", lambda: written.append("the page"))
    done = CliRunner().invoke(command.app, ["run", "--only", "nonsense"])
    assert (done.exit_code, written) == (2, [])
    assert "--only nonsense: no benchmark's or figure's name holds it" in done.stderr
