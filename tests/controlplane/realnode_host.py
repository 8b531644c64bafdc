"""What a machine must have and allow for a real node, and what of the machine the node borrows: a cable, a cgroup.

`python -m tests.controlplane.realnode_host` installs the Debian packages that are missing. The fixture does so itself
where the variable CI is set; elsewhere a test run installs nothing.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.realnode_image import BUSYBOX
from tests.controlplane.realnode_init import CGROUPS, allow_children

UNAVAILABLE = "no real node"
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
# Program or file -> the Debian package that has it.
_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "bridge": "containernetworking-plugins",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "nft": "nftables",  # kube-proxy's
}
_CGROUP = "global-dispatcher-node-"
LEAF = "host"
_TRIAL = """
mount -t tmpfs trial /mnt
mkdir /mnt/lower /mnt/upper /mnt/work /mnt/all
mount -t overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work trial /mnt/all
"""
# The namespaces of a node of its own.
UNSHARE = ("unshare", "--mount", "--net", "--cgroup", "--pid", "--fork", "--mount-proc")
_END_S = 60.0
_POLL_S = 0.05


def unavailable() -> str:
    """One line that says why no real node can run here; empty when it can. Installs packages where CI is set."""
    if os.getuid() != 0:
        return f"{UNAVAILABLE}: containers need root"
    if _missing() and os.environ.get("CI"):
        install()
    if missing := _missing():
        return f"{UNAVAILABLE}: {', '.join(missing)} not installed (python -m tests.controlplane.realnode_host does it)"
    return _forbidden()


def install() -> None:
    """apt-get install of what is missing, with a line before it; a failure shows as what is still missing."""
    missing = _missing()
    if not missing or shutil.which("apt-get") is None:
        return
    print(f"installing {' '.join(missing)} for a real node ...", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", *words], capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            print(f"apt-get {words[0]}: {done.stderr.strip()}", file=sys.stderr, flush=True)


def cni_folder() -> Path:
    """Where the CNI plugins are."""
    return next((folder for folder in CNI_FOLDERS if (folder / "bridge").exists()), CNI_FOLDERS[0])


def _missing() -> list[str]:
    there = {"bridge": (cni_folder() / "bridge").exists(), "busybox": _static_busybox()}
    return sorted({package for name, package in _PACKAGES.items() if not there.get(name, shutil.which(name))})


def _static_busybox() -> bool:
    # A program that names its loader is not static.
    return BUSYBOX.exists() and b"/ld-linux" not in BUSYBOX.read_bytes()


def _forbidden() -> str:
    """The machine's no to what containers are made of: namespaces, mounts in them, overlays, cgroups."""
    done = subprocess.run([*UNSHARE, "sh", "-ec", _TRIAL], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"{UNAVAILABLE}: this machine forbids containers ({done.stderr.strip().splitlines()[-1]})"
    if not any(os.access(path, os.W_OK) and not _read_only(path) for path in _hierarchies()):
        return f"{UNAVAILABLE}: this machine forbids containers (cgroups cannot be written)"
    return ""


def _read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _hierarchies() -> list[Path]:
    """The mounted cgroup hierarchies: one with v2, one a controller with v1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return sorted(path.parent for path in CGROUPS.glob("*/cgroup.procs"))


def run(*command: str) -> str:
    """The output of a command; RuntimeError with its words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Cable:
    """A pair of virtual Ethernet ends: `link` on the machine, eth0 in the node. Goes with the node's namespace."""

    number: int

    @classmethod
    def lay(cls, namespace: str) -> "Cable":
        """The first free cable, plugged into a network namespace (a path); RuntimeError when none is free."""
        for number in range(64):
            with suppress(RuntimeError):
                return cls(number)._lay(namespace)
        raise RuntimeError("no free cable for a node: see `ip link`, all of gdnode0 to gdnode63 are in use")

    @property
    def link(self) -> str:
        """The machine's end."""
        return f"gdnode{self.number}"

    @property
    def machine(self) -> str:
        """The address of the machine's end."""
        return f"10.213.{self.number}.1"

    @property
    def node(self) -> str:
        """The node's address: its InternalIP."""
        return f"10.213.{self.number}.2"

    @property
    def pods(self) -> str:
        """The node's pods' addresses."""
        return f"10.214.{self.number}.0/24"

    def _lay(self, namespace: str) -> "Cable":
        inside = ["nsenter", f"--net={namespace}", "ip"]
        # A taken name fails here, before anything is changed.
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", f"{self.link}n")
        try:
            run("ip", "address", "add", f"{self.machine}/30", "dev", self.link)
            run("ip", "link", "set", f"{self.link}n", "netns", namespace, "name", "eth0")
            run("ip", "link", "set", self.link, "up")
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "address", "add", f"{self.node}/30", "dev", "eth0")
            run(*inside, "link", "set", "eth0", "up")
            run(*inside, "route", "add", "default", "via", self.machine)
            run("ip", "route", "add", self.pods, "via", self.node)
        except RuntimeError:
            self.cut()
            raise
        return self

    def cut(self) -> None:
        """Remove both ends and their routes."""
        subprocess.run(["ip", "link", "delete", self.link], capture_output=True, check=False)


class ControlGroup:
    """A cgroup in every hierarchy, the root of all that the node has; `remove` when its processes are gone.

    The node's own programs go to a leaf of it: with cgroups v2 a cgroup with children has no processes itself.
    """

    def __init__(self) -> None:
        sweep()
        self.name = f"{_CGROUP}{os.getpid()}-{time.monotonic_ns()}"
        for hierarchy, root in self.roots():
            allow_children(hierarchy)
            root.mkdir()
            _fill_cpuset(root)
            (root / LEAF).mkdir()
            _fill_cpuset(root / LEAF)

    def roots(self) -> list[tuple[Path, Path]]:
        """Each hierarchy with the node's root in it."""
        return [(hierarchy, hierarchy / self.name) for hierarchy in _hierarchies()]

    def joined(self, command: Sequence[str], leaf: str = "") -> list[str]:
        """The command, started in the node's root or in a leaf of it."""
        joins = [f"echo $$ >{root / leaf}/cgroup.procs" for _, root in self.roots()]
        return ["sh", "-ec", "\n".join([*joins, 'exec "$@"']), "sh", *command]

    def remove(self) -> None:
        """Wait until no process is left in it, and remove it; OSError when one stays."""
        deadline = time.monotonic() + _END_S
        while True:
            try:
                for _, root in self.roots():
                    _remove_tree(root)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)


def _fill_cpuset(path: Path) -> None:
    """With v1 a new cpuset is empty, and nothing can live in it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (path / name).exists() and not (path / "cgroup.controllers").exists():
            (path / name).write_text((path.parent / name).read_text())


def sweep() -> None:
    """Remove what runs that were killed have left."""
    for hierarchy in _hierarchies():
        for path in hierarchy.glob(f"{_CGROUP}*"):
            owner = path.name.removeprefix(_CGROUP).split("-")[0]
            if not Path("/proc", owner).exists():
                with suppress(OSError):
                    _remove_tree(path)


def _remove_tree(path: Path) -> None:
    for folder, _, _ in os.walk(path, topdown=False):
        os.rmdir(folder)


if __name__ == "__main__":
    install()
    reason = unavailable()
    print(reason or "a real node can run here")
    sys.exit(bool(reason))
