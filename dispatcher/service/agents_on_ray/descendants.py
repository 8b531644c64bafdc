"""The processes below this one, so that what outlives its parent can be ended: by pid, and ours
alone (Linux).
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_KILLED_S = 2.0  # the kernel ends a killed process at once, unless it hangs in a disk


class Process(NamedTuple):
    """A process; `born` tells it from a later one with the same pid."""

    pid: int
    born: int


def descendants(mentioning: str) -> list[Process]:
    """The living processes below this one whose command line mentions a text, and all those below
    them.
    """
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        found = _stat(int(entry.name))
        if found is not None:
            process, parent = found
            children.setdefault(parent, []).append(process)
    roots = [one for one in _below(os.getpid(), children) if mentioning in _command(one.pid)]
    return list(
        dict.fromkeys([*roots, *(one for root in roots for one in _below(root.pid, children))])
    )


def program(process: Process) -> str:
    """The name of its program, '' when it has ended."""
    return os.path.basename(_command(process.pid).split("\0", 1)[0])


def _below(pid: int, children: dict[int, list[Process]]) -> list[Process]:
    below = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            below.append(child)
            waiting.append(child.pid)
    return below


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def end(processes: Iterable[Process], patience_s: float) -> None:
    """Wait until these have ended; kill those that have not after `patience_s`, and see that they
    are gone.
    """
    for process in _left(list(processes), patience_s):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    _left(list(processes), _KILLED_S)


def _left(processes: list[Process], patience_s: float) -> list[Process]:
    until = time.monotonic() + patience_s
    while (
        left := [process for process in processes if lives(process)]
    ) and time.monotonic() < until:
        time.sleep(0.02)
    return left


def lives(process: Process) -> bool:
    """Whether it still runs; a zombie does not."""
    found = _stat(process.pid)
    return found is not None and found[0] == process


def _stat(pid: int) -> tuple[Process, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, parent, *fields = text.rpartition(")")[2].split()
    return None if state == "Z" else (Process(pid, int(fields[17])), int(parent))
