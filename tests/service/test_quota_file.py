"""The file that remembers quota in use: never behind the orders that leave, and none at all rather than a wrong one."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dispatcher.scheduling.framework import ClusterInfo
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.unsynced_usage import UnsyncedUsage
from dispatcher.service.files.quota_file import QuotaFile, read_quota
from shared.model.tenant import Share, Tenant

TENANTS = (Tenant("team", ("shop",), {"cpu": Share(absolute=1000)}),)
CLUSTERS = [ClusterInfo("east", ready=True, synced=True), ClusterInfo("west", ready=False, synced=False)]


class Kept:
    """A ledger and its file."""

    def __init__(self, path: Path) -> None:
        self.path, remembered = path, read_quota(path, TENANTS)
        self.ledger = QuotaLedger(TENANTS, UnsyncedUsage(remembered))
        self.file = QuotaFile(path, self.ledger, CLUSTERS, remembered)

    def charge(self, uid: str, cpu: int, now: float) -> None:
        self.ledger.charge(("east", uid), "team", {"cpu": cpu})
        self.file.keep(now)

    def read(self) -> object:
        return read_quota(self.path, TENANTS)


def test_nothing_leaves_that_the_file_does_not_cover_and_a_little_more_is_written_than_is_charged(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path / "deep" / "quota.json")
    kept.charge("1", 80, now=0)
    assert kept.read() == {"east": {"team": {"cpu": 90}}}
    kept.charge("2", 10, now=1)  # covered
    assert kept.read() == {"east": {"team": {"cpu": 90}}}
    kept.charge("3", 1, now=2)
    assert kept.read() == {"east": {"team": {"cpu": 103}}}


def test_after_a_few_seconds_it_is_exact(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "quota.json")
    kept.charge("1", 80, now=0)
    kept.ledger.release(("east", "1"))
    kept.charge("2", 30, now=4)
    assert kept.read() == {"east": {"team": {"cpu": 90}}}
    kept.file.keep(6)
    assert kept.read() == {"east": {"team": {"cpu": 30}}}


def test_it_is_not_written_where_nothing_changed(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "quota.json")
    kept.charge("1", 80, now=0)
    kept.file.keep(6)
    kept.path.unlink()
    kept.file.keep(60)
    assert not kept.path.exists()


def test_another_life_counts_what_a_silent_cluster_charged(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "quota.json")
    kept.charge("1", 800, now=0)
    kept.file.keep(6)
    next_life = Kept(kept.path)
    assert next_life.ledger.unknown("team", [ClusterInfo("east", ready=False, synced=False)]) == ""
    assert next_life.ledger.exceeded("team", {"cpu": 201}, {}) is not None
    assert next_life.ledger.exceeded("team", {"cpu": 200}, {}) is None


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:-9], lambda data: data.replace(b"90", b"10"), lambda data: b"\xff" + data],
    ids=["empty", "torn", "changed", "no text"],
)
def test_a_damaged_file_counts_as_none_and_is_told(
    tmp_path: Path, damage: object, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Kept(tmp_path / "quota.json")
    kept.charge("1", 80, now=0)
    kept.path.write_bytes(damage(kept.path.read_bytes()))  # type: ignore[operator]
    assert kept.read() is None
    assert "cannot be read" in "".join(capsys.readouterr())


def test_a_file_of_other_tenants_means_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "quota.json")
    kept.charge("1", 80, now=0)
    assert read_quota(kept.path, (Tenant("team", ("shop", "lab"), {}),)) is None
    assert read_quota(kept.path, (Tenant("team", ("shop",), {"cpu": Share(absolute=5)}),)) is not None


def test_a_disk_that_fails_costs_the_file_and_leaves_no_old_one_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Kept(tmp_path / "quota.json")
    kept.charge("1", 80, now=0)
    failing = [kept.file.failing]

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dispatcher.service.files.quota_file.os.fsync", full)
    kept.charge("2", 80, now=1)
    failing.append(kept.file.failing)
    assert not kept.path.exists()
    assert "No space left" in "".join(capsys.readouterr())
    monkeypatch.undo()
    kept.charge("3", 80, now=2)
    assert not kept.path.exists()  # not tried at each placement
    kept.file.keep(7)
    assert [*failing, kept.file.failing] == [False, True, False]
    assert kept.read() == {"east": {"team": {"cpu": 240}}}


@pytest.mark.parametrize("old", [False, True], ids=["no old file", "an old file"])
def test_a_disk_that_became_read_only_is_told_once_until_it_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, old: bool
) -> None:
    kept = Kept(tmp_path / "quota.json")
    if old:
        kept.charge("0", 80, now=0)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    unremoved = ["and the old file cannot be taken away"]
    for times in (0, 100):
        with capture_logs() as lines:
            with monkeypatch.context() as broken:
                broken.setattr(Path, "open", read_only)
                broken.setattr(Path, "unlink", read_only)
                for second in (10, 20, 30):
                    kept.charge(str(times + second), 80, now=times + second)
            kept.file.keep(times + 40)
        told = [str(line["event"]).split(":")[0] for line in lines]
        left = unremoved if old or times else []
        assert told == ["the quota in use cannot be written", *left, "the quota in use is written again"]
