"""When, on what machine, and of which commit a run of the benchmarks was: written into every row of
it.
"""

import os
import platform
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

QUIET_LOAD = 1.5


@dataclass(frozen=True)
class Machine:
    """`load` is the load average of the minute before the run; `commit` ends in + where files were
    changed since; `python` is the version and, in newer rows, how it was built.
    """

    date: str
    commit: str
    cores: int
    cpu: str
    load: float
    python: str
    command: str

    @property
    def loaded(self) -> bool:
        """Whether others used the machine: figures are worse than they need be."""
        return self.load > QUIET_LOAD


def this_machine() -> Machine:
    """As it is now, before the first benchmark."""
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=_commit(),
        cores=len(os.sched_getaffinity(0)),
        cpu=_cpu(Path("/proc/cpuinfo").read_text()),
        load=round(os.getloadavg()[0], 2),
        python=f"{platform.python_version()}, "
        f"{python_build(sysconfig.get_config_var('CONFIG_ARGS'), sys.base_prefix)}",
        command=" ".join(["python -m benchmarks", *sys.argv[1:]]),
    )


def python_build(configured: str | None, prefix: str) -> str:
    """How an interpreter was built, by the arguments of its `configure` and where it is installed.
    A build that was optimised by a profile (PGO), as those of Docker Hub's images and of
    distributions are, is some 10 to 20 % faster.
    """
    if "--enable-optimizations" in (configured or ""):
        return "optimised build"
    return "the distribution's build" if prefix == "/usr" else "plain build"


def _commit() -> str:
    commit = _git("rev-parse", "--short=12", "HEAD")
    return (
        f"{commit}+" if commit and _git("status", "--porcelain", "--untracked-files=no") else commit
    )


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (
        OSError,
        subprocess.CalledProcessError,
    ):  # no git, or no clone: the rows say nothing of a commit
        return ""


def _cpu(cpuinfo: str) -> str:
    named = (
        line.partition(":")[2].strip()
        for line in cpuinfo.splitlines()
        if line.startswith("model name")
    )
    return next(named, platform.machine())
