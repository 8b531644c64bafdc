"""Log lines that a peer can cause as often as it likes."""

import logging
import traceback
from collections.abc import Callable
from time import monotonic
from typing import Any

import structlog
from aiohttp.http_exceptions import HttpProcessingError

from shared.model.token_buckets import TokenBuckets

log = structlog.get_logger("gateway")

EVERY_S = 60.0
_LONGEST = 200  # characters of what a peer wrote


class SparingLog:
    """Writes `most` lines of a kind at once, and as many each EVERY_S: no peer fills a disk or
    hides what others do.

    Example, with `most` 1: of 3,000 refusals of one agent in the first minute the first is written;
    the first of the next minute says `left_out=2999`.
    """

    def __init__(self, most: int = 1, clock: Callable[[], float] = monotonic) -> None:
        self._lines = TokenBuckets(most, most / EVERY_S)
        self._clock = clock

    def warning(self, text: str, kind: str = "", **about: Any) -> None:
        """A line. Text and `kind` together tell kinds apart: a closed list, or names out of
        verified certificates.
        """
        self._write(log.warning, text, kind, about)

    def info(self, text: str, kind: str = "", **about: Any) -> None:
        """As `warning`."""
        self._write(log.info, text, kind, about)

    def _write(
        self, write: Callable[..., Any], text: str, kind: str, about: dict[str, Any]
    ) -> None:
        if (left_out := self._lines.admit(self._clock(), (text, kind))) is not None:
            write(text, **about, **({"left_out": left_out} if left_out else {}))


class LastingLog:
    """Writes what is wrong when that begins, changes and is over (`over`, if any): each problem, of
    which there are few, and that it is over, `most` times at once, and as often each EVERY_S.

    A change that comes sooner is written later, if it still holds when `tell` is called: so a
    condition that comes and goes costs few lines a minute, and one that stays is never left unsaid.
    """

    def __init__(
        self,
        wrong: str,
        over: str = "",
        most: int = 5,
        clock: Callable[[], float] = monotonic,
        **about: str,
    ) -> None:
        """`about` stands in each line."""
        self._wrong = wrong
        self._over = over
        self._clock = clock
        self._about = about
        self._lines = TokenBuckets(most, most / EVERY_S)
        self._told = ""

    def tell(self, problem: str) -> None:
        """What is wrong now, '' if nothing is: as often as it is known."""
        if problem == self._told or self._lines.admit(self._clock(), problem) is None:
            return
        self._told = problem
        if problem:
            log.error(self._wrong, **self._about, problem=problem)
        elif self._over:
            log.info(self._over, **self._about)


class HttpFaults(logging.Handler):
    """What the HTTP server logs of requests that it cannot read or answer, sparingly."""

    def __init__(self, sparing: SparingLog) -> None:
        super().__init__()
        self._sparing = sparing

    def emit(self, record: logging.LogRecord) -> None:
        """One line; its kind is that of the exception. A fault of ours has its traceback, and its
        place is its kind.
        """
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, HttpProcessingError):
            said = f"{type(error).__name__}: {error}" if error else record.getMessage()
            self._sparing.warning(
                "a request cannot be read", type(error).__name__, problem=shortened(said)
            )
            return
        *_, place = traceback.extract_tb(error.__traceback__) or [None]
        kind = (
            f"{type(error).__name__} {place.filename}:{place.lineno}"
            if place
            else type(error).__name__
        )
        self._sparing.warning("a request failed", kind, exc_info=error)


def http_logger(sparing: SparingLog) -> logging.Logger:
    """For an aiohttp server."""
    made = logging.Logger("http requests", logging.WARNING)
    made.addHandler(HttpFaults(sparing))
    return made


def shortened(text: str) -> str:
    """What a peer wrote, for a log line."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
