"""Under which name an executor stands for its Lease: its predecessor's, once that has certainly ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from agents.runtime import executor_identity
from agents.runtime.executor_identity import lasting_identity

PRINT = """
import sys
from pathlib import Path
from agents.runtime.executor_identity import lasting_identity
print(lasting_identity("east", Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


class Process:
    """An executor's process that says its name, and lives until it is killed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", PRINT, str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.identity = self._process.stdout.readline().strip()

    def kill(self) -> str:
        self._process.kill()
        self._process.communicate()
        return self.identity


def test_who_begins_where_another_was_killed_has_its_name_and_who_begins_beside_it_has_not(tmp_path: Path) -> None:
    first = Process(tmp_path)
    beside = Process(tmp_path)
    assert first.identity
    assert beside.kill() != first.identity
    assert Process(tmp_path).kill() != first.identity  # it still lives
    first.kill()
    assert Process(tmp_path).kill() == first.identity


def test_a_name_from_another_machine_or_another_start_of_it_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "east").write_text("pod-of-another-machine_0a1b2c3d_1")
    assert "another-machine" not in lasting_identity("east", tmp_path)
    monkeypatch.setattr(executor_identity, "_BOOT", tmp_path / "none")
    (tmp_path / "west").write_text("_1")
    assert lasting_identity("west", tmp_path) not in ("", "_1")


def test_where_no_file_can_be_kept_each_has_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    names = {lasting_identity("east", tmp_path / "file" / "folder") for _ in range(2)}
    assert len(names) == 2
