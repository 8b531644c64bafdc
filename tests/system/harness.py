"""A whole fleet for one test: clusters, Ray, and `global-dispatcher run` as a process.

The clusters are embedded ones started here, or whatever else keeps to `Fleet`: real control planes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx

from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.system.cluster_api import PATIENCE, ClusterApi, eventually, running_places

HOME = "east"
# A node is lost after 15 s of silence: above the 10 s in which proxy nodes renew their leases.
QUICK_NODES = ("--node-monitor-grace-s", "15", "--heartbeat-s", "3")


def specs(nodes: int = 6, *, cpu: str = "16", memory: str = "64Gi", options: Sequence[str] = ()) -> list[ClusterSpec]:
    """Three clusters, each a region with zones of its own."""
    return [
        ClusterSpec(
            name,
            nodes=nodes,
            cpu=cpu,
            memory=memory,
            pods="250",
            region=name,
            zones=tuple(f"{name}-{letter}" for letter in "abc"),
            seed=seed,
            options=tuple(options),
        )
        for seed, name in enumerate((HOME, "north", "west"))
    ]


class Fleet(Protocol):
    """Running clusters. `kubeconfig` has a context a cluster, for the tests themselves."""

    @property
    def contexts(self) -> list[str]:
        """The clusters' names; one of them is HOME."""

    @property
    def kubeconfig(self) -> Path:
        """With all rights."""

    def server(self, name: str) -> str:
        """The URL of a cluster's API server."""

    def members(self) -> list[dict[str, Any]]:
        """The `clusters` of dispatcher.yaml: how the agents get in, and what they are told."""

    def election(self) -> dict[str, Any]:
        """The `leader_election` of dispatcher.yaml: how the dispatcher gets at its Lease."""

    def kill(self, name: str) -> None:
        """Kill -9 a cluster's API server."""

    def restart(self, name: str) -> None:
        """Start it again on its data."""

    def pause(self, name: str) -> None:
        """Make it hang."""

    def resume(self, name: str) -> None:
        """Let it go on."""

    def stop(self) -> None:
        """End all clusters."""


class Embedded(EmbeddedFleet):
    """Embedded clusters, with credentials that may do everything."""

    def members(self) -> list[dict[str, Any]]:
        """Kubelets are asked often: tests wait for what they say."""
        access = {"kubeconfig": str(self.kubeconfig), "agent": {"kubelet": {"interval_s": 2}}}
        return [{"name": name, "context": name, **access} for name in self.contexts]

    def election(self) -> dict[str, Any]:
        """The Lease is where it is by default: in the first cluster."""
        return {}


class System:
    """Clusters and a dispatcher; a context manager that leaves no process behind.

    `readings`: whether the nodes have kubelets that tell their load (KWOK's do not). `env`: more environment for the
    dispatcher.
    """

    def __init__(
        self,
        directory: Path,
        clusters: list[ClusterSpec] | Fleet,
        config: dict[str, Any] | None = None,
        *,
        readings: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self._env = {**os.environ, **(env or {})}
        self.fleet = Embedded.start(clusters, directory / "fleet") if isinstance(clusters, list) else clusters
        self.apis = {name: ClusterApi(self.fleet.kubeconfig, name) for name in self.fleet.contexts}
        self.port = _free_port()
        self._readings = readings
        self._config = directory / "dispatcher.yaml"
        members = {
            "clusters": self.fleet.members(),
            "leader_election": self.fleet.election(),
            "http": {"port": self.port},
        }
        self._config.write_text(json.dumps({**members, **(config or {})}))
        self._log = (directory / "dispatcher.log").open("ab")
        self.dispatcher = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dispatcher.cli.main", "run", "--config", str(self._config)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=self._env)

    @property
    def home(self) -> ClusterApi:
        """The cluster in which tests submit."""
        return self.apis[HOME]

    @property
    def log(self) -> str:
        """The end of the dispatcher's log."""
        return (self.directory / "dispatcher.log").read_text()[-4000:]

    def get(self, path: str) -> Any:
        """GET from the dispatcher's HTTP API."""
        answer = httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=10, trust_env=False)
        answer.raise_for_status()
        body = answer.json()
        return body.get(path.removeprefix("/v1/"), body)  # lists come as {"pods": [...]}

    def wait_ready(self, timeout_s: float = 60) -> None:
        """Until all clusters are Ready, and every node has a reading where there are any."""
        eventually(self._all_known, timeout_s, lambda: self.log)

    def _all_known(self) -> bool:
        if self.dispatcher.poll() is not None:
            raise RuntimeError(f"the dispatcher ended with {self.dispatcher.returncode}:\n{self.log}")
        if not all(row["ready"] for row in self.get("/v1/clusters")):
            return False
        nodes = self.get("/v1/nodes")
        known = (node["load"]["cpu"]["used"] is not None for node in nodes)
        return bool(nodes) and (not self._readings or all(known))

    def kill_dispatcher(self) -> None:
        """kill -9, and start it anew."""
        self.dispatcher.send_signal(signal.SIGKILL)
        self.dispatcher.wait(timeout=10)
        self.dispatcher = self._start()

    def wait_ended(self, timeout_s: float = 30) -> int:
        """The exit code of a dispatcher that ends by itself; AssertionError when it does not."""
        try:
            return self.dispatcher.wait(PATIENCE * timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the dispatcher goes on:\n{self.log}") from None

    def start_again(self) -> None:
        """As a supervisor does when the dispatcher has ended."""
        self.dispatcher = self._start()

    def explain(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """The explain record of one pod."""
        record: dict[str, Any] = self.get(f"/v1/explain/{namespace}/{name}")
        return record

    def places(self) -> dict[str, list[str]]:
        """Source uid -> clusters in which it runs."""
        return running_places(self.apis, HOME)

    def wait_running(self, count: int, timeout_s: float) -> dict[str, list[str]]:
        """Until exactly `count` pods of the home cluster run, each once."""
        seen: dict[str, list[str]] = {}

        def all_run() -> bool:
            seen.clear()
            seen.update(self.places())
            sources = [pod for pod in self.home.pods() if pod["status"].get("phase") == "Running"]
            return len(sources) == count == len(seen) and all(len(clusters) == 1 for clusters in seen.values())

        eventually(all_run, timeout_s, lambda: f"{len(seen)} of {count} run; log:\n{self.log}", lambda: len(seen))
        return seen

    def close(self) -> None:
        """Stop everything that was started here."""
        self.dispatcher.send_signal(signal.SIGTERM)
        try:
            self.dispatcher.wait(timeout=PATIENCE * 20)
        except subprocess.TimeoutExpired:
            self.dispatcher.kill()
            self.dispatcher.wait(timeout=10)
        for api in self.apis.values():
            api.close()
        self.fleet.stop()
        self._log.close()

    def __enter__(self) -> "System":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def agent_pid(server: str) -> int | None:
    """The process of the agent that is connected to this API server; None while there is none."""
    port = int(server.rsplit(":", 1)[1])
    sockets = _sockets_to(port)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::AgentActor") and sockets & _open_sockets(path.parent):
                return int(path.parent.name)
        except OSError:
            continue
    return None


def _sockets_to(port: int) -> set[str]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if int(row[2].split(":")[1], 16) == port}


def _open_sockets(process: Path) -> set[str]:
    return {str(link.readlink()) for link in (process / "fd").iterdir()}


def pause(seconds: float) -> None:
    """Let the fleet work for a while before the next blow."""
    time.sleep(seconds)
