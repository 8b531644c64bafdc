"""`global-dispatcher journal`: the older file first, a line of JSON for each record."""

from pathlib import Path

from typer.testing import CliRunner

from dispatcher.cli.main import app
from dispatcher.scheduling.framework.value_columns import Each, Table
from dispatcher.service.errors import ExitCode
from dispatcher.service.files.journal import Journal


def test_records_are_printed_oldest_first(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    journal = Journal(path, limit_bytes=1)
    for number in (1, 2):
        journal.write([Table(1, Each([{"n": number, "margin": None}]))])
    journal.close()
    shown = CliRunner().invoke(app, ["journal", str(path)])
    assert (shown.exit_code, shown.stdout) == (0, '{"n":1,"margin":null}\n{"n":2,"margin":null}\n')


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["journal", str(tmp_path / "decisions")])
    assert (shown.exit_code, shown.stdout) == (ExitCode.NOT_FOUND, "")
    assert "there is no such file" in shown.stderr


def test_a_journal_of_a_later_version_names_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    path.write_bytes(b"\xc1GD\x02" + bytes(8))
    shown = CliRunner().invoke(app, ["journal", str(path)])
    assert shown.exit_code == ExitCode.FAILED
    assert "use the command of that version" in shown.stderr


def test_a_file_that_is_no_journal_is_told_and_an_empty_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "east.yaml").write_text("cluster: east\n")
    (tmp_path / "decisions.journal").touch()
    told = CliRunner().invoke(app, ["journal", str(tmp_path / "east.yaml")])
    assert (told.exit_code, "holds no record: is it the file of journal.path?" in told.stderr) == (1, True)
    assert CliRunner().invoke(app, ["journal", str(tmp_path / "decisions.journal")]).exit_code == 0


def test_what_is_damaged_is_told_behind_all_that_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    journal = Journal(path)
    ends = []
    for number in (1, 2, 3):
        journal.write([Table(1, Each([{"n": number}]))])
        ends.append(path.stat().st_size)
    journal.close()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    shown = CliRunner().invoke(app, ["journal", str(path)])
    assert (shown.exit_code, shown.stdout) == (0, '{"n":1}\n{"n":2}\n')
    assert shown.stderr == (
        f"{path}: bytes {ends[1]} to {ends[2] - 1}: no whole batch: a crash left it unfinished, or it is damaged; its "
        "decisions are lost\n"
    )
    data[3] ^= 4  # the first one's format
    path.write_bytes(data)
    shown = CliRunner().invoke(app, ["journal", str(path)])
    assert (shown.exit_code, shown.stdout) == (ExitCode.FAILED, '{"n":2}\n')
    assert f"{path}: bytes 0 to {ends[0] - 1}: a batch of decisions in format 5" in shown.stderr
