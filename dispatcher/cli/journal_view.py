"""The journal of decisions as lines of JSON."""

import sys
from pathlib import Path

from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.journal import LaterVersionError, journal_lines


def print_journal(file: Path) -> None:
    """Each record, oldest first; a file that holds something else is told."""
    printed = False
    try:
        for line in journal_lines(file):
            sys.stdout.buffer.write(line)
            printed = True
        if not printed and file.stat().st_size:
            raise CommandError(f"{file}: holds no record: is it the file of journal.path?")
    except FileNotFoundError:
        raise CommandError(f"{file}: there is no such file; journal.path names it", ExitCode.NOT_FOUND) from None
    except BrokenPipeError:  # the reader has enough
        raise
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None
    except LaterVersionError as error:
        raise CommandError(f"{file}: {error}; use the command of that version") from None
