"""Process 1 of a real node's own namespaces: makes its mounts, then collects orphans until it is killed.

All that it mounts is in the node's mount namespace and goes with it. When it dies, the kernel kills every process of
its PID namespace: containerd, the kubelet, all containers. Started by file, so it imports the standard library alone.

    realnode_init.py FOLDER LEAF HIERARCHY=ROOT ...
        FOLDER is the node's own; FOLDER/ready appears when all is done. ROOT is the node's part of a cgroup hierarchy,
        which the node sees as the whole; LEAF, a cgroup in it, is where this process goes.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

# What a kubelet wants of the kernel (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go). It would set it
# for the whole machine; where it reads it so, it sets nothing.
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}

CGROUPS = Path("/sys/fs/cgroup")
_V1 = CGROUPS / "memory" / "cgroup.procs"


def main() -> None:
    """Mount, say so, collect orphans."""
    folder, leaf, hierarchies = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    # containerd, its shims and CNI write to /run, whatever else they are told.
    _mount("-t", "tmpfs", "node-run", "/run")
    log = folder / "log"
    log.mkdir()
    _mount("--bind", str(log), "/var/log")
    for name, value in SYSCTLS.items():
        _pretend(folder, name, value)
    for pair in hierarchies:
        hierarchy, _, root = pair.partition("=")
        _mount("--bind", root, hierarchy)
        Path(hierarchy, leaf, "cgroup.procs").write_text("1")
        allow_children(Path(hierarchy))
    (folder / "ready").touch()
    while True:
        # ECHILD while there is nobody to wait for: then sleep until somebody ends.
        signal.sigtimedwait({signal.SIGCHLD}, 1.0)
        _collect()


def allow_children(path: Path) -> None:
    """With cgroups v2: let children of a cgroup, which then has no processes itself, use what it may use.

    A v2 hierarchy beside those of v1 only follows: there nothing is limited or counted by it.
    """
    if (path / "cgroup.controllers").exists() and not _V1.exists():
        for controller in (path / "cgroup.controllers").read_text().split():
            with suppress(OSError):
                (path / "cgroup.subtree_control").write_text(f"+{controller}")


def _collect() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _pretend(folder: Path, name: str, value: int) -> None:
    real = Path("/proc/sys") / name
    if real.exists():
        shown = folder / name.replace("/", ".")
        shown.write_text(f"{value}\n")
        _mount("--bind", str(shown), str(real))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    main()
