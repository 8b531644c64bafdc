"""The decision journal: every record as it was told, bounded files, and a broken disk that stops nothing."""

import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import Buffer

from dispatcher.scheduling.framework.value_columns import Each, Fields, Picked, Table
from dispatcher.service.files.journal import MARK, Journal, Unread, journal_lines, lines_of, older


def table(*numbers: int) -> Table:
    return Table(len(numbers), Each([{"n": number} for number in numbers]))


def write(path: Path, *tables: Table) -> None:
    journal = Journal(path)
    journal.write(tables)
    journal.close()


def read(path: Path, unread: list[Unread] | None = None) -> list[Any]:
    with path.open("rb") as file:
        return [json.loads(line)["n"] for line in lines_of(file, unread)]


def test_records_are_appended_across_lives(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "decisions.journal"
    write(path, table(1, 2), table(3))
    write(path, table(4))
    assert read(path) == [1, 2, 3, 4]


def test_at_its_limit_it_begins_anew_and_keeps_one_old_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    write(path, table(0))
    journal = Journal(path, limit_bytes=2 * path.stat().st_size)
    for number in range(1, 7):
        journal.write([table(number)])
    assert read(path) == [6]
    assert read(path.with_name("decisions.journal.1")) == [4, 5]


def test_what_a_crash_left_unfinished_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    write(path, table(1, 2))
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        write(path, table(3))
        assert read(path) == [3]
    path.write_bytes(whole + whole[:-1])
    assert read(path) == [1, 2]


def test_a_flipped_bit_costs_the_records_of_its_own_frame_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    write(path, table(1))
    begin = path.stat().st_size
    write(path, table(2))
    end = path.stat().st_size
    write(path, table(3), table(4))
    whole = path.read_bytes()
    for bit in range(8 * begin, 8 * end):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        unread: list[Unread] = []
        assert read(path, unread) == [1, 3, 4], f"bit {bit % 8} of byte {bit // 8}"
        assert [one[:3] for one in unread] == [(str(path), begin, end)], f"bit {bit % 8} of byte {bit // 8}"


def test_nothing_is_told_of_a_whole_file_and_the_bytes_of_a_torn_end_are(tmp_path: Path) -> None:
    path, unread = tmp_path / "decisions.journal", list[Unread]()
    path.write_bytes(b'{"n":1}\n')
    write(path, table(2), table(3))
    assert (read(path, unread), unread) == ([1, 2, 3], [])
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + MARK + b"\x01\x00\n\x00")
    assert read(path, unread) == [1, 2, 3]
    assert [(one.begin, one.end, one.form) for one in unread] == [(size, size + 7, None)]
    assert "a crash left it unfinished, or it is damaged" in str(unread[0])


def test_what_is_of_another_format_is_not_guessed_at_and_hides_nothing(tmp_path: Path) -> None:
    path, unread = tmp_path / "decisions.journal", list[Unread]()
    write(path, table(1), table(2))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes().replace(MARK + b"\x01", MARK + b"\x02") + MARK)
    write(path, table(3))
    assert read(path, unread) == [3]
    assert [(one.begin, one.end, one.form) for one in unread] == [(0, size, 2), (size, size + len(MARK), None)]


def test_the_file_before_is_named_where_it_is_damaged(tmp_path: Path) -> None:
    path, unread = tmp_path / "decisions.journal", list[Unread]()
    write(path, table(2))
    older(path).write_bytes(path.read_bytes()[:-1])
    assert [*journal_lines(path, unread)] == [b'{"n":2}\n']
    assert [one.file for one in unread] == [str(older(path))]


@pytest.mark.parametrize("torn", [b"", b'{"n":7,"x'], ids=["ended", "torn"])
def test_lines_of_an_earlier_version_are_read_before_what_is_written_after_them(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(b'{"n":1}\n{"n":2}\n' + torn)
    write(path, table(3))
    assert read(path) == [1, 2, 3]


def test_an_empty_journal_has_no_records(tmp_path: Path) -> None:
    write(tmp_path / "decisions.journal")
    assert read(tmp_path / "decisions.journal") == []


def test_a_disk_that_fails_costs_records_and_nothing_else() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    journal = Journal(full)
    journal.write([table(1)])
    journal.write([table(2)])


@pytest.mark.parametrize("broken", ["a file in place of its folder", "a folder in its place"])
def test_a_journal_that_cannot_be_opened_costs_records_alone_and_is_tried_again(tmp_path: Path, broken: str) -> None:
    path, now = tmp_path / "deep" / "decisions.journal", [0.0]
    if broken == "a folder in its place":
        path.mkdir(parents=True)
    else:
        path.parent.touch()
    with capture_logs() as lines:
        journal = Journal(path, clock=lambda: now[0])
        failing = [journal.failing]
        journal.write([table(1, 2)])
        path.rmdir() if path.is_dir() else path.parent.unlink()
        journal.write([table(3)])  # not at each batch
        failing.append(journal.failing)
        now[0] = 60.0
        journal.write([table(4)])
    assert [*failing, journal.failing] == [True, True, False]
    assert read(path) == [4]
    assert [line["event"] for line in lines] == [
        "decisions are missing in the journal: its file cannot be written",
        "decisions go to the journal again",
    ]
    assert "journal.path" in lines[0]["fix"]
    assert lines[1]["missing"] == 3


def test_a_disk_that_was_full_is_told_once_and_written_to_again(tmp_path: Path) -> None:
    path, now = tmp_path / "decisions.journal", [0.0]
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    path.symlink_to(full)
    with capture_logs() as lines:
        journal = Journal(path, clock=lambda: now[0])
        for minute in range(3):
            now[0] = minute * 60.0
            journal.write([table(minute)])
        path.unlink()
        now[0] = 180.0
        journal.write([table(3)])
    assert read(path) == [3]
    assert [line["log_level"] for line in lines] == ["error", "warning"]


class OnFullQuota(io.FileIO):
    """A file of a network file system that tells at the close, too, what it could not keep."""

    def write(self, data: Buffer) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    def close(self) -> None:
        tell = not self.closed
        super().close()
        if tell:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")


class ByParts(io.FileIO):
    """A file that takes a few bytes at a time, as one on a disk that gets full does."""

    def write(self, data: Buffer) -> int:
        return super().write(memoryview(data)[:7])


def test_what_a_disk_takes_by_parts_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "decisions.journal"
    with monkeypatch.context() as slow:
        slow.setattr(Path, "open", lambda self, *_, **__: ByParts(self, "ab"))
        write(path, table(1, 2), table(3))
    assert read(path) == [1, 2, 3]


def test_a_file_that_cannot_even_be_closed_costs_records_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "decisions.journal", [0.0]
    with monkeypatch.context() as full:
        full.setattr(Path, "open", lambda self, *_, **__: OnFullQuota(self, "ab"))
        journal = Journal(path, clock=lambda: now[0])
        journal.write([table(1)])
        journal.write([table(2)])
        assert journal.failing
    now[0] = 60.0
    with capture_logs() as lines:
        journal.write([table(3)])
    assert read(path) == [3]
    assert [line["missing"] for line in lines] == [2]


def test_nothing_is_missed_where_the_journal_begins_anew_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    write(older(path), table(1, 2))
    write(path, table(3))
    lines = journal_lines(path)
    found = [next(lines)]
    path.replace(older(path))
    write(path, table(4))
    assert [json.loads(line)["n"] for line in (*found, *lines)] == [1, 2, 3]


def test_a_batch_that_cannot_be_written_costs_no_other_and_raises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    journal = Journal(path)
    journal.write([table(1), Table(1, Each([{"n": 2**70}]))])
    journal.write([table(3)])
    assert read(path) == [1, 3]


def test_a_batch_whose_columns_differ_in_length_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    unread: list[Unread] = []
    write(path, table(1), Table(2, Fields(["n", "m"], [Each([1, 2]), Each([1])])), table(3))
    assert read(path, unread) == [1, 3]
    assert ["cannot be made out" in one.why for one in unread] == [True]


def test_a_batch_whose_column_picks_a_value_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "decisions.journal"
    unread: list[Unread] = []
    picked = Picked([{"n": 7}], Each([5]))
    write(path, table(1), Table(1, picked), table(3))
    assert read(path, unread) == [1, 3]
    assert ["cannot be made out" in one.why for one in unread] == [True]
