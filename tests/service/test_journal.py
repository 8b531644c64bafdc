"""The decision journal: whole lines, bounded files, and a broken disk that stops nothing."""

import json
from pathlib import Path

import pytest

from dispatcher.service.journal import Journal


def lines(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_records_are_appended_across_lives(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "decisions.jsonl"
    for number in (1, 2):
        journal = Journal(path)
        journal.write([{"n": number}])
        journal.close()
    assert lines(path) == [1, 2]


def test_at_its_limit_it_begins_anew_and_keeps_one_old_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    journal = Journal(path, limit_bytes=20)
    for number in range(7):
        journal.write([{"n": number}])
    assert lines(path) == [6]
    assert lines(path.with_name("decisions.jsonl.1")) == [4, 5]


def test_a_disk_that_fails_closes_the_journal_and_nothing_else() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    journal = Journal(full)
    journal.write([{"n": 1}])
    journal.write([{"n": 2}])
