"""A real Prometheus and real node_exporters as processes (`tests.real.debian`)."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.system.ray_fleet import free_ports

PROGRAMS = ("prometheus", "prometheus-node-exporter")
_CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: tests
    static_configs:
{targets}
"""


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
    programs: Mapping[str, list[str]]
    exporters: dict[str, Server] = field(default_factory=dict)
    prometheus: Server | None = None

    def start(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """`labels` of each node's exporter; it is reached at another address of loopback each."""
        for name in labels:
            (port,) = free_ports(1)
            words = [*self.programs["prometheus-node-exporter"], f"--web.listen-address=127.0.0.1:{port}"]
            self.exporters[name] = Server(port, self._spawn(name, words))
        self.scrape([(f"127.0.0.1:{self.exporters[name].port}", own) for name, own in labels.items()])

    def scrape(self, targets: Sequence[tuple[str, Mapping[str, str]]]) -> Server:
        """A Prometheus of these addresses, with labels for what comes of each."""
        lines = "".join(f"      - {{targets: ['{address}'], labels: {_yaml(own)}}}\n" for address, own in targets)
        (self.folder / "prometheus.yml").write_text(_CONFIG.format(targets=lines))
        (port,) = free_ports(1)
        words = [
            *self.programs["prometheus"],
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self.prometheus = Server(port, self._spawn("prometheus", words))
        return self.prometheus

    def stop(self) -> None:
        """End all processes."""
        for server in (*self.exporters.values(), *([self.prometheus] if self.prometheus else [])):
            server.kill()

    def _spawn(self, name: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)


def _yaml(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in labels.items()) + "}"
