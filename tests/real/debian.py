"""Debian's Prometheus, node_exporter, stress-ng and iperf3: unpacked beside the other programs and not installed, since
some of these packages would start services.

`python -m tests.real.debian` fetches them. A test run does so itself where the variable CI is set.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from localfleet.controlplane.binaries import cache_directory

# Program -> its package, and those of the libraries that a bare machine does not have.
_LIBRARIES = (
    *("libapparmor1", "libbsd0", "libdrm2", "libegl1", "libexpat1", "libffi8", "libgbm1", "libgles2", "libglvnd0"),
    *("libipsec-mb1", "libjpeg62-turbo", "libjudydebian1", "libkmod2", "libmd0", "libsctp1", "libwayland-server0"),
    "libxxhash0",
)
PACKAGES: dict[str, tuple[str, ...]] = {
    "prometheus": ("prometheus",),
    "promtool": ("prometheus",),
    "prometheus-node-exporter": ("prometheus-node-exporter",),
    "stress-ng": ("stress-ng", *_LIBRARIES),
    "iperf3": ("iperf3", "libiperf0", "libsctp1"),
}


def needed(*names: str) -> dict[str, list[str]]:
    """How to start each of these programs. Where one is missing the test is skipped, or fails where CI is set."""
    ci = bool(os.environ.get("CI"))
    if ci and missing(*names):
        fetch(*names)
    if gone := missing(*names):
        reason = f"{', '.join(gone)} not there (python -m tests.real.debian fetches them)"
        (pytest.fail if ci else pytest.skip)(reason)
    return {name: _command(name) for name in names}


def missing(*names: str) -> list[str]:
    """Those of the programs that are not there, or do not start."""
    return sorted(name for name in names if not _starts(name))


def fetch(*names: str) -> None:
    """apt-get download and unpack, with a line before it; a failure shows as what is still missing."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    packages = sorted({package for name in names for package in PACKAGES[name]})
    print(f"fetching {' '.join(names)} ...", file=sys.stderr, flush=True)
    if not _ran(["apt-get", "download", *packages], folder):
        _ran(["apt-get", "update", "-q"], folder)
        _ran(["apt-get", "download", *packages], folder)
    for package in folder.glob("*.deb"):
        _ran(["dpkg", "-x", str(package), str(folder)], folder)
        package.unlink()


def _folder() -> Path:
    return cache_directory().parent / "debian"


def _command(name: str) -> list[str]:
    """The installed program, else the unpacked one with its libraries."""
    if (installed := shutil.which(name)) is not None:
        return [installed]
    libraries = ":".join(str(path) for path in sorted((_folder() / "usr" / "lib").glob("*-linux-gnu")))
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(_folder() / "usr" / "bin" / name)]


def _starts(name: str) -> bool:
    try:
        done = subprocess.run([*_command(name), "--version"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _ran(words: Sequence[str], folder: Path) -> bool:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        print(f"{' '.join(words[:2])}: {done.stderr.strip()}", file=sys.stderr, flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    fetch(*PACKAGES)
    left = missing(*PACKAGES)
    sys.exit(f"not fetched: {', '.join(left)}" if left else 0)
