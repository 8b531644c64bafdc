"""Logging of an agent process: JSON lines, one per change of state, each with its cluster; on
stderr or in a file.
"""

import logging
import os
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog

# of a log file, before it is moved aside, and how many there are at most
FILE_BYTES = 16 * 1024 * 1024
FILES = 4


def state_folder() -> Path:
    """Where processes of this user keep what outlives them."""
    return (
        Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        / "global-dispatcher"
    )


def log_path(cluster: str) -> Path:
    """Where the agent of a cluster writes its log if the dispatcher has made it."""
    return state_folder() / "logs" / f"{cluster}.log"


class Lines:
    """A structlog logger that writes lines to a file, which is rotated by size. A full disk stops
    nobody.
    """

    def __init__(self, path: Path, limit: int = FILE_BYTES) -> None:
        self._handler = RotatingFileHandler(
            path, maxBytes=limit, backupCount=FILES - 1, encoding="utf-8"
        )

    def msg(self, line: str) -> None:
        """Append a line."""
        self._handler.handle(logging.LogRecord("agent", logging.INFO, "", 0, line, None, None))

    debug = info = warning = error = critical = exception = msg


class Stderr:
    """A structlog logger that prints lines to stderr. A full disk behind it, or a reader that is
    gone, stops nobody.
    """

    def __init__(self) -> None:
        self._printed = structlog.PrintLogger(sys.stderr)

    def msg(self, line: str) -> None:
        """Print a line, if that can be done."""
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._printed.msg(line)

    debug = info = warning = error = critical = exception = msg


def configure_logging(level: str, file: str = "") -> None:
    """Set up structlog for the whole process, from `level` (debug, info, warning, error) up; stdout
    stays free.

    `file`: where the lines go, empty or where it cannot be written: stderr.
    """
    lines, problem = _lines(file)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=False,
    )
    if problem:
        structlog.get_logger("logs").warning(
            "the log file cannot be written", file=file, problem=problem
        )


def _lines(file: str) -> tuple[Lines | Stderr, str]:
    if not file:
        return Stderr(), ""
    try:
        path = Path(file).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Lines(path), ""
    except OSError as error:
        return Stderr(), error.strerror or str(error)
