"""Ends what a test run has started when the run itself ends, however it ends.

One guard process a run reads "+PID" and "-PID" lines; at the end of its input (the run is gone,
kill -9 included) it kills the process groups that are left. The kernel's parent-death signal would
not do: it fires when the *thread* that started a process ends, and planes are started by threads.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress


class Guard:
    """The way to the run's guard process, which starts with the first pid that is entrusted to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        """Entrust a process group, by its leader's pid."""
        self._tell(f"+{group}\n")

    def remove(self, group: int) -> None:
        """The group has ended and been waited for: its number may soon be another's."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the guard; it kills what is left."""
        with self._lock:
            process = self._process
            self._process = None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait()

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._process is None:
                # A session of its own: Ctrl-C and kills of the run's group do not reach it.
                self._process = subprocess.Popen(  # noqa: S603 - this very file
                    [sys.executable, "-S", __file__], stdin=subprocess.PIPE, start_new_session=True
                )
                atexit.register(self.close)
            assert self._process.stdin is not None  # noqa: S101
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


GUARD = Guard()


def watch_over() -> None:
    """The guard process."""
    groups: set[int] = set()
    for line in sys.stdin:
        change = line[0]
        group = int(line[1:])
        (groups.add if change == "+" else groups.discard)(group)
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    watch_over()
