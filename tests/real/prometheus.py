"""A real Prometheus and real node_exporters: Debian's, unpacked beside the other programs and not installed, since the
packages would start them as services.

`python -m tests.real.prometheus` fetches them. A test run does so itself where the variable CI is set.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from localfleet.controlplane.binaries import cache_directory
from tests.system.ray_fleet import free_ports

PACKAGES = {"prometheus": "prometheus", "prometheus-node-exporter": "prometheus-node-exporter"}  # program -> package
_CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: node-exporter
    static_configs:
{targets}
"""


def programs() -> dict[str, Path]:
    """The programs that are there; fetched before where the variable CI is set."""
    if len(found := _there()) < len(PACKAGES) and os.environ.get("CI"):
        fetch()
        found = _there()
    return found


def fetch() -> None:
    """apt-get download and unpack, with a line before it; a failure shows as what is still missing."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"fetching {' '.join(PACKAGES.values())} ...", file=sys.stderr, flush=True)
    if not _ran(["apt-get", "download", *PACKAGES.values()], folder):
        _ran(["apt-get", "update", "-q"], folder)
        _ran(["apt-get", "download", *PACKAGES.values()], folder)
    for package in folder.glob("*.deb"):
        _ran(["dpkg", "-x", str(package), str(folder)], folder)


def _folder() -> Path:
    return cache_directory().parent / "debian"


def _there() -> dict[str, Path]:
    unpacked = {name: _folder() / "usr" / "bin" / name for name in PACKAGES}
    found = {name: Path(path) for name in PACKAGES if (path := shutil.which(name)) is not None}
    return {name: path for name, path in unpacked.items() if path.exists()} | found


def _ran(words: Sequence[str], folder: Path) -> bool:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        print(f"{' '.join(words[:2])}: {done.stderr.strip()}", file=sys.stderr, flush=True)
    return done.returncode == 0


@dataclass
class Server:
    """A process of ours that serves HTTP on loopback."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self, path: str) -> bool:
        """Whether it answers with 200."""
        try:
            return httpx.get(self.url + path, trust_env=False, timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait()


@dataclass
class Monitoring:
    """node_exporters by the name of the node that each stands for, and a Prometheus that scrapes them every second."""

    folder: Path
    programs: Mapping[str, Path]
    exporters: dict[str, Server] = field(default_factory=dict)
    prometheus: Server | None = None

    def start(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """`labels` of each node's exporter; it is reached at another address of loopback each."""
        for name in labels:
            (port,) = free_ports(1)
            words = [str(self.programs["prometheus-node-exporter"]), f"--web.listen-address=127.0.0.1:{port}"]
            self.exporters[name] = Server(port, self._spawn(name, words))
        targets = "".join(
            f"      - {{targets: ['127.0.0.1:{self.exporters[name].port}'], labels: {_yaml(own)}}}\n"
            for name, own in labels.items()
        )
        (self.folder / "prometheus.yml").write_text(_CONFIG.format(targets=targets))
        (port,) = free_ports(1)
        words = [
            str(self.programs["prometheus"]),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self.prometheus = Server(port, self._spawn("prometheus", words))

    def stop(self) -> None:
        """End all processes."""
        for server in (*self.exporters.values(), *([self.prometheus] if self.prometheus else [])):
            server.kill()

    def _spawn(self, name: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)


def _yaml(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in labels.items()) + "}"


if __name__ == "__main__":
    fetch()
    missing = PACKAGES.keys() - _there().keys()
    sys.exit(f"not fetched: {', '.join(sorted(missing))}" if missing else 0)
