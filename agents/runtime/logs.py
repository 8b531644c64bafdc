"""Logging of an agent process: JSON lines on stderr, one per change of state, each with its cluster."""

import logging
import sys

import structlog


def configure_logging(level: str) -> None:
    """Set up structlog for the whole process, from `level` (debug, info, warning, error) up; stdout stays free."""
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
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
