"""Files that the dispatcher writes: what keeps it from that is told before it runs."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dispatcher.cli.main import app
from dispatcher.config.document import Document
from dispatcher.config.written import written_notes

FILE = Document("dispatcher.yaml")


def told(journal: Path | str = "", ledger: Path | str = "") -> list[str]:
    return [f"{one.key}: {one.text}" for one in written_notes(str(journal), str(ledger), FILE)]


def test_a_file_or_a_folder_that_can_be_made_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "quota.json").touch()
    assert told(tmp_path / "deep" / "er" / "decisions.journal", tmp_path / "quota.json") == []
    assert told() == []


def test_what_is_a_folder_or_below_a_file_is_told_with_what_follows(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    journal, ledger = told(tmp_path, tmp_path / "file" / "quota.json")
    assert journal == f"journal.path: {tmp_path} cannot be written here: it is a folder; no decisions are kept"
    assert f"{tmp_path / 'file'} is no folder; after a restart tenants with quota wait" in ledger


def test_a_folder_that_is_read_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (journal,) = told(tmp_path / "decisions.journal")
    assert f"{tmp_path} is read-only, or not this user's" in journal


def test_a_ledger_is_replaced_so_its_folder_counts_and_a_journal_is_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "decisions.journal", tmp_path / "quota.json"
    for file in files:
        file.touch()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    (ledger,) = told(*files)
    assert f"quota.ledger: {files[1]} cannot be written here: {tmp_path} is read-only" in ledger
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) == tmp_path)
    (journal,) = told(*files)
    assert f"journal.path: {files[0]} cannot be written here: {files[0]} is read-only" in journal


def test_config_check_notes_it_and_calls_the_file_good(tmp_path: Path) -> None:
    file = tmp_path / "dispatcher.yaml"
    file.write_text(
        "clusters: [{name: west, agent: {key_file: gone.pem}}]\nray: {address: 'ray.example.invalid:1'}\n"
        "leader_election: {enabled: false}\njournal: {path: .}\n"
    )
    shown = CliRunner().invoke(app, ["config", "check", str(file)])
    assert shown.exit_code == 0, shown.stderr
    assert f"note: {file}:4: journal.path: " in shown.stdout
