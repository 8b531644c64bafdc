"""Nodes that can be loaded and measured: each a network namespace with a /proc of its own and a real node_exporter."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from localfleet.controlplane.process import Component
from tests.controlplane.realnode_host import Cable, run
from tests.real import node_proc
from tests.system.ray_fleet import free_ports

EXPORTER_PORT = 9100
CORES = 0.25  # of each node: also a busy machine has that much left for whoever wants all
MEMORY = 32 * 2**30
RATE = 1_000_000  # bytes a second: what its cable carries
_START_S = 60.0
_COLLECTORS = ("cpu", "meminfo", "netdev", "netdev.netlink")
_CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: node-exporter
    static_configs:
{targets}
"""


def unavailable() -> str:
    """One line that says why there can be no such nodes here; empty when there can."""
    if missing := [name for name in ("ip", "tc", "unshare", "nsenter") if shutil.which(name) is None]:
        return f"no measured nodes: {', '.join(missing)} not installed"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"no measured nodes: {tried.stderr.strip()}" if tried.returncode else ""


class MeasuredNode:
    """One of them; `close` ends its processes, and with the last of them its namespace."""

    def __init__(self, name: str, folder: Path, programs: Mapping[str, list[str]]) -> None:
        self.name, self._folder, self._programs = name, folder, programs
        (folder / "proc").mkdir(parents=True)
        self._components: list[Component] = []
        holder = self._begin("namespace", ["unshare", "--net", "sleep", "infinity"])
        self._namespace = f"/proc/{holder.pid}/ns/net"
        holder.wait_until(self._is_own, "in a namespace of its own", _START_S)
        self.cable = Cable.lay(self._namespace)
        limit = ("root", "tbf", "rate", f"{RATE * 8}bit", "burst", "64kb", "latency", "100ms")
        run(*self._inside, "tc", "qdisc", "add", "dev", "eth0", *limit)
        words = [sys.executable, "-S", str(node_proc.__file__), self._namespace, str(folder / "proc")]
        proc = self._begin("proc", [*words, str(CORES), str(MEMORY)])
        proc.wait_until((folder / "proc" / "meminfo").exists, "written", _START_S)
        self.exporter = self._begin("exporter", [*self._inside, *self._exporter()])

    @property
    def _inside(self) -> list[str]:
        return ["nsenter", f"--net={self._namespace}"]

    def _is_own(self) -> bool:
        return os.stat(self._namespace).st_ino != os.stat("/proc/self/ns/net").st_ino

    def _exporter(self) -> list[str]:
        listen = f"--web.listen-address={self.cable.node}:{EXPORTER_PORT}"
        collectors = ("--collector.disable-defaults", *(f"--collector.{name}" for name in _COLLECTORS))
        return [
            *self._programs["prometheus-node-exporter"],
            *(listen, f"--path.procfs={self._folder / 'proc'}", *collectors),
        ]

    def _begin(self, name: str, words: Sequence[str]) -> Component:
        component = Component(name, list(words), self._folder / f"{name}.log")
        self._components.append(component)
        component.start()
        return component

    @contextmanager
    def computing(self, percent: int = 200) -> Iterator[None]:
        """stress-ng wants so much of a core, of which the node has `CORES`."""
        workers = -(-percent // 100)
        load = ("--cpu", str(workers), "--cpu-load", str(percent // workers))
        words = [*self._inside, *self._programs["stress-ng"], *load, "--temp-path", str(self._folder)]
        yield from self._for_a_while("stress-ng", words)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """iperf3 fills its cable, towards the machine."""
        (port,) = free_ports(1)
        iperf, at = self._programs["iperf3"], ("-p", str(port))
        server = self._begin("iperf3-server", [*iperf, "-s", "-B", self.cable.machine, *at, "--forceflush"])
        server.wait_until(lambda: "listening" in server.tail(), "listening", _START_S)
        words = [*self._inside, *iperf, "-c", self.cable.machine, *at, "-t", "3600"]
        try:
            yield from self._for_a_while("iperf3", words)
        finally:
            server.kill()

    @contextmanager
    def without_exporter(self) -> Iterator[None]:
        """Its node_exporter is dead."""
        self.exporter.kill()
        try:
            yield
        finally:
            self.exporter.start()

    @contextmanager
    def without_link(self) -> Iterator[None]:
        """Its cable is dead."""
        run("ip", "link", "set", self.cable.link, "down")
        try:
            yield
        finally:
            run("ip", "link", "set", self.cable.link, "up")

    def close(self) -> None:
        """End all of it."""
        for component in reversed(self._components):
            component.kill()
        self.cable.cut()

    def _for_a_while(self, name: str, words: Sequence[str]) -> Iterator[None]:
        component = self._begin(name, words)
        try:
            yield
        finally:
            component.kill()


class Scraping:
    """A real Prometheus that scrapes such nodes every second."""

    def __init__(self, folder: Path, program: Sequence[str], nodes: Sequence[MeasuredNode]) -> None:
        folder.mkdir()
        targets = "".join(
            f"      - {{targets: ['{node.cable.node}:{EXPORTER_PORT}'], labels: {{node: {node.name}}}}}\n"
            for node in nodes
        )
        config = folder / "prometheus.yml"
        config.write_text(_CONFIG.format(targets=targets))
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        places = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}")
        listen = f"--web.listen-address=127.0.0.1:{port}"
        self._component = Component("prometheus", [*program, *places, listen], folder / "prometheus.log")
        self._component.start()

    @contextmanager
    def dead(self) -> Iterator[None]:
        """Killed, and started again afterwards."""
        self._component.kill()
        try:
            yield
        finally:
            self._component.start()

    def close(self) -> None:
        """End it."""
        self._component.kill()
