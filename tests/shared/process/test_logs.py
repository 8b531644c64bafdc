"""Where the agent of a dispatcher of one's own machine writes its log."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from dispatcher.config.sections import ClusterSection
from dispatcher.service.agents_on_ray.started_agents import agent_with_log
from dispatcher.service.files.logs import configure_logging as configure_dispatcher_logging
from shared.process.logs import FILES, Lines, configure_logging, log_path


@pytest.fixture(autouse=True)
def _configured() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_go_to_the_file_with_their_cluster_and_later_lives_append(tmp_path: Path) -> None:
    file = tmp_path / "made" / "west.log"
    for event in ("one", "two"):
        configure_logging("info", str(file))
        with structlog.contextvars.bound_contextvars(cluster="west"):
            structlog.get_logger("agent").info(event)
            structlog.get_logger("agent").debug("too fine")
    told = [(line["event"], line["level"], line["cluster"]) for line in lines(file)]
    assert told == [("one", "info", "west"), ("two", "info", "west")]


def test_a_file_that_cannot_be_written_is_told_on_stderr_and_stops_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("no folder")
    configure_logging("info", str(tmp_path / "taken" / "west.log"))
    structlog.get_logger("agent").info("still heard")
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert events == ["the log file cannot be written", "still heard"]


@pytest.mark.parametrize("configure", [configure_logging, configure_dispatcher_logging], ids=["agent", "dispatcher"])
@pytest.mark.parametrize("gone", ["a full disk", "a pipe that nobody reads"])
def test_a_stderr_that_takes_nothing_stops_nobody(
    configure: Callable[[str], None], gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    stream = os.fdopen(writes if gone == "a pipe that nobody reads" else os.open("/dev/full", os.O_WRONLY), "w")
    monkeypatch.setattr(sys, "stderr", stream)
    configure("info")
    for event in ("one", "two"):
        structlog.get_logger("agent").error(event)
    with suppress(OSError):
        stream.close()


def test_a_full_file_is_moved_aside_and_few_are_kept(tmp_path: Path) -> None:
    log = Lines(tmp_path / "west.log", limit=1000)
    for number in range(200):
        log.info(f"line {number:04} {'x' * 80}")
    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept == ["west.log", *(f"west.log.{at}" for at in range(1, FILES))]
    assert all(file.stat().st_size <= 1000 for file in tmp_path.iterdir())
    assert (tmp_path / "west.log").read_text().splitlines()[-1].startswith("line 0199")


def test_an_agent_that_the_dispatcher_makes_logs_to_the_state_folder_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert agent_with_log(ClusterSection(name="west")).log_file == str(log_path("west"))
    assert log_path("west") == tmp_path / "global-dispatcher" / "logs" / "west.log"
    assert agent_with_log(ClusterSection(name="west", agent={"log_file": "/x.log"})).log_file == "/x.log"
