"""Failures of a command as people see them: one line on stderr that says what to do, and an exit
code.
"""

import enum


class ExitCode(enum.IntEnum):
    """What the shell gets."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4


class CommandError(Exception):
    """A command cannot do its work; the text is one line, with the fix."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code
