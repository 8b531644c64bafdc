"""The journal of decisions as lines of JSON."""

import sys
from pathlib import Path

from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.files.journal import Unread, journal_lines


def print_journal(file: Path) -> None:
    """Each record, oldest first; at the end what could not be read, and where it is."""
    printed = False
    unread = list[Unread]()
    try:
        for line in journal_lines(file, unread):
            sys.stdout.buffer.write(line)
            printed = True
        empty = not file.stat().st_size
    except FileNotFoundError:
        raise CommandError(
            f"{file}: there is no such file; journal.path names it", ExitCode.NOT_FOUND
        ) from None
    except BrokenPipeError:  # the reader has enough
        raise
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None
    if unread:
        sys.stdout.flush()
        sys.stderr.write("".join(f"{one}\n" for one in unread))
    if any(one.form is not None for one in unread):
        raise CommandError(
            f"{file}: not all of it is shown: if a later version wrote what is of another format, "
            "use the command of "
            "that version; else it is damaged"
        )
    if not (printed or empty):
        raise CommandError(f"{file}: holds no record: is it the file of journal.path?")
