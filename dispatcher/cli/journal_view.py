"""The journal of decisions as lines of JSON."""

import sys
from pathlib import Path

from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.journal import lines_of, older


def print_journal(file: Path) -> None:
    """Each record, oldest first."""
    try:
        for one in (older(file), file) if older(file).exists() else (file,):
            for line in lines_of(one):
                sys.stdout.buffer.write(line)
    except FileNotFoundError:
        raise CommandError(f"{file}: there is no such file; journal.path names it", ExitCode.NOT_FOUND) from None
    except BrokenPipeError:  # the reader has enough
        raise
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None
    except ValueError as error:
        raise CommandError(f"{file}: {error}; use the command of that version") from None
