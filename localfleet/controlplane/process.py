"""One component of a control plane as a process: its command, its log, its end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from localfleet.controlplane.guard import GUARD

TAIL_LINES = 30
_STOP_S = 5.0
_POLL_S = 0.02


class ComponentFailedError(RuntimeError):
    """A component that ended or did not become ready; the text names it and carries the end of its
    log.
    """


class Component:
    """A process in a group of its own that writes to one log file, across restarts."""

    def __init__(
        self, name: str, command: list[str], log: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = command
        self.log = log
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process; 0 when there is none."""
        return (
            self._process.pid if self._process is not None and self._process.poll() is None else 0
        )

    def start(self) -> None:
        """Start it; at once back. ComponentFailedError if it already runs."""
        if self.pid:
            raise ComponentFailedError(f"{self.name} already runs as process {self.pid}")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a command of ours
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_clean_environment(), **self._environment},
                start_new_session=True,
            )
        GUARD.add(self._process.pid)

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until `ready`; ComponentFailedError when it takes too long or the process ends
        before.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            asked = time.monotonic()
            if ready():
                return
            if not self.pid:
                raise ComponentFailedError(
                    f"{self.name} ended with {self._code()} before {what}\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise ComponentFailedError(
                    f"{self.name}: not {what} after {timeout_s:.0f} s\n{self.tail()}"
                )
            # A question that is dear (5,000 nodes) must not starve what it waits for.
            time.sleep(max(_POLL_S, 4 * (time.monotonic() - asked)))

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, if it lives."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill -9, and wait until the kernel has taken it away."""
        self.signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """Ask it to end, make sure that it does."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.kill()

    def cpu_seconds(self) -> float:
        """User and system time of the running process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        # Fields 14 and 15 of proc(5), counted after the two that rpartition took away.
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The end of the log."""
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.log} ---", *text[-lines:]])

    def ended(self) -> str:
        """How it ended, with the end of its log, if it was started and ended by itself; "" if not."""
        if self._process is None or self._process.poll() is None:
            return ""
        return f"{self.name} ended with {self._code()}\n{self.tail()}"

    def _reap(self) -> None:
        process = self._process
        self._process = None
        if process is not None:
            process.wait()
            GUARD.remove(process.pid)

    def _code(self) -> str:
        return f"code {self._process.poll()}" if self._process is not None else "no start"


def _clean_environment() -> dict[str, str]:
    """Nothing of the caller's that would change a component: no proxies, no other cluster, no HOME
    to write into.
    """
    kept = ("PATH", "LANG", "TZ", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ}
