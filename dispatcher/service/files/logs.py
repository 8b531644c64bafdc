"""Logging: structlog to stderr, key=value on a terminal, JSON lines otherwise."""

import logging
import sys

import structlog

from shared.process.logs import Stderr

LEVELS = ("debug", "info", "warning", "error")


def configure_logging(level: str = "info", form: str = "auto") -> None:
    """Set up structlog for the whole process; `level` is one of LEVELS, `form` is auto, text or
    json.
    """
    terminal = sys.stderr.isatty() if form == "auto" else form == "text"
    renderer = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if terminal
        else structlog.processors.JSONRenderer()
    )
    lines = Stderr()
    chain = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        *([] if terminal else [structlog.processors.format_exc_info]),
        renderer,
    ]
    structlog.configure(
        processors=chain,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=False,
    )
