"""Starts embedded clusters as processes, one each, and looks after them: for the demo and for
tests. Synchronous.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from localfleet.embedded import kubeconfig

_READY_S = 120.0
_STOP_S = 3.0
_TAIL_LINES = 20
_HALT_POLL_S = 0.002


class FleetError(RuntimeError):
    """A cluster that did not come up; the text names it and carries the end of its log."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster: `nodes` equal nodes of `cpu`, `memory` and `pods`, and more by `shapes` (as
    --node-shape).

    `options` are further command line options of `python -m localfleet.embedded`.
    """

    name: str
    nodes: int = 10
    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    region: str = "local"
    zones: tuple[str, ...] = ("a", "b", "c")
    shapes: tuple[str, ...] = ()
    nodes_csv: Path | None = None
    nodes_part: tuple[int, int] = (1, 1)
    seed: int = 0
    options: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """The command line, without what the fleet adds."""
        part, parts = self.nodes_part
        table = (
            ["--nodes-csv", str(self.nodes_csv), "--nodes-part", f"{part}/{parts}"]
            if self.nodes_csv
            else []
        )
        basic = {
            "--name": self.name,
            "--nodes": str(self.nodes),
            "--cpu": self.cpu,
            "--memory": self.memory,
            "--pods": self.pods,
            "--region": self.region,
            "--zones": ",".join(self.zones),
            "--seed": str(self.seed),
        }
        return [
            *(word for pair in basic.items() for word in pair),
            *self._shape_words(),
            *table,
            *self.options,
        ]

    def _shape_words(self) -> list[str]:
        return [word for shape in self.shapes for word in ("--node-shape", shape)]


@dataclass(slots=True)
class _Member:
    spec: ClusterSpec
    directory: Path
    process: subprocess.Popen[bytes] | None = None
    server: str = ""
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.directory.parent / f"{self.spec.name}.log"

    def launch(self) -> None:
        """Begin to start the process; `wait_ready` waits for it."""
        command = [sys.executable, "-m", "localfleet.embedded", *self.spec.arguments()]
        command += ["--state-dir", str(self.directory), "--exit-with-parent"]
        with self.log.open("ab") as log:
            # A process group of its own: Ctrl-C is for the parent, and should the parent die while
            # this one is stopped, the kernel wakes and hangs up the orphaned group.
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and options
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                process_group=0,
            )

    def wait_ready(self, deadline: float) -> None:
        """Wait for the line of readiness; `deadline` on the monotonic clock."""
        process = self.process
        assert process is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        while not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise FleetError(
                f"cluster {self.spec.name} is not ready after {_READY_S:.0f} s\n{self.tail()}"
            )
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            raise FleetError(
                f"cluster {self.spec.name} ended with code {code} before it was "
                f"ready\n{self.tail()}"
            )
        self.server = json.loads(line)["server"]

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it lives."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def halt(self) -> None:
        """Stop the process and see it stopped: only a group that has stopped by then is woken when
        its parent dies.
        """
        self.signal(signal.SIGSTOP)
        process = self.process
        while process is not None and process.poll() is None:
            if os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is not None:
                return
            time.sleep(_HALT_POLL_S)

    def reap(self, timeout_s: float) -> int | None:
        """Wait for the end of the process, and make sure of it; its exit code."""
        process = self.process
        self.process = None
        if process is None:
            return None
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return process.returncode

    def tail(self) -> str:
        """The end of the log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.log} ---", *lines[-_TAIL_LINES:]])


class EmbeddedFleet:
    """Running clusters. Use as a context manager, or call `stop`; they end with this process in any
    case.
    """

    def __init__(self, members: Sequence[_Member], directory: Path) -> None:
        self._members = {member.spec.name: member for member in members}
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.reader_kubeconfig = kubeconfig.of_reader(self.kubeconfig)

    @classmethod
    def start(cls, specs: Sequence[ClusterSpec], directory: Path) -> Self:
        """Start one process a cluster, all at once, and wait until every one answers.

        State lies in `directory`/NAME, logs in `directory`/NAME.log, and `directory`/kubeconfig has
        a context a cluster, as has kubeconfig-reader, for users who may only look. Raises
        FleetError, with none left running, when one does not come up.
        """
        names = [spec.name for spec in specs]
        if not names or len(set(names)) != len(names):
            raise FleetError(
                "cluster names must differ, and there must be one at least: "
                f"{', '.join(names) or 'none'}"
            )
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        fleet = cls(
            [_Member(spec, directory.absolute() / spec.name) for spec in specs],
            directory.absolute(),
        )
        try:
            fleet._bring_up(list(fleet._members.values()))
        except BaseException:
            fleet.stop()
            raise
        for path in (fleet.kubeconfig, fleet.reader_kubeconfig):
            configs = [
                kubeconfig.read(member.directory / path.name) for member in fleet._members.values()
            ]
            kubeconfig.write(path, kubeconfig.merged(configs))
        return fleet

    @property
    def contexts(self) -> list[str]:
        """The kubeconfig contexts: the clusters' names, in the order of the specs."""
        return list(self._members)

    def server(self, name: str) -> str:
        """The URL of a cluster's API server; it stays the same over restarts."""
        return self._members[name].server

    def pid(self, name: str) -> int | None:
        """The process of a cluster, None when it does not run."""
        process = self._members[name].process
        return None if process is None or process.poll() is not None else process.pid

    def log(self, name: str) -> Path:
        """Where a cluster writes its log."""
        return self._members[name].log

    def kill(self, name: str) -> None:
        """End a cluster as a crash would: SIGKILL."""
        self._members[name].signal(signal.SIGKILL)
        self._members[name].reap(_STOP_S)

    def terminate(self, name: str) -> int | None:
        """End a cluster in good order; its exit code, -9 when it had to be killed, None when it did
        not run.
        """
        member = self._members[name]
        member.signal(signal.SIGCONT)
        member.signal(signal.SIGTERM)
        return member.reap(_STOP_S)

    def restart(self, name: str) -> None:
        """Start a cluster again on its state, at the same address, and wait until it answers. A
        live one is ended.
        """
        self.terminate(name)
        self._bring_up([self._members[name]])

    def pause(self, name: str) -> None:
        """Make a cluster hang: SIGSTOP. It has stopped when this returns."""
        self._members[name].halt()

    def resume(self, name: str) -> None:
        """Let a hanging cluster go on: SIGCONT."""
        self._members[name].signal(signal.SIGCONT)

    def stop(self) -> None:
        """End all clusters, and only them."""
        for member in self._members.values():
            member.signal(signal.SIGCONT)
            member.signal(signal.SIGTERM)
        for member in self._members.values():
            member.reap(_STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @staticmethod
    def _bring_up(members: Sequence[_Member]) -> None:
        deadline = time.monotonic() + _READY_S
        for member in members:
            member.launch()
        for member in members:
            member.wait_ready(deadline)


def _environment() -> dict[str, str]:
    # The child must find these packages also when the parent found them by its working directory
    # alone.
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root}
