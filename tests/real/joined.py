"""Agents as processes of their own that join a Ray head, and dispatchers beside it, as the charts deploy them."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.real.fleet import CLUSTERS, RealFleet
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import Head, JoinedAgent, Process, environment, free_ports, node_ports


class Dispatcher(Process):
    """`global-dispatcher run` beside the head; of the clusters it knows the names alone. `election` says more of it."""

    def __init__(
        self, folder: Path, head: Head, lease: Path, election: Mapping[str, Any] | None = None, name: str = "dispatcher"
    ) -> None:
        (self.port,) = free_ports(1)
        config = folder / f"{name}.yaml"
        config.write_text(
            json.dumps(
                {
                    "clusters": [{"name": cluster} for cluster in CLUSTERS],
                    "leader_election": {"kubeconfig": str(lease), **(election or {})},
                    "http": {"port": self.port},
                }
            )
        )
        command = [sys.executable, "-m", "dispatcher.cli.main", "run", "--config", str(config)]
        super().__init__(command, folder / f"{name}.log", environment(GLOBAL_DISPATCHER_RAY__ADDRESS=head.address))

    def get(self, path: str) -> Any:
        """Of its HTTP API."""
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=10, trust_env=False).json()

    def all_ready(self) -> bool:
        """Whether it leads, and all clusters are well as it sees them."""
        rows = self.get("/v1/clusters").get("clusters", [])  # one that stands by shows none
        return [row["ready"] for row in rows] == [True] * len(CLUSTERS)

    def kill(self) -> None:
        """kill -9."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def joined(fleet: RealFleet, folder: Path) -> Iterator[Head]:
    """A Ray head and the agent of each plane."""
    with ExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-")))
        head = stack.enter_context(Head(folder, short, free_ports(1)[0]))
        head.wait_ready()
        agents = [
            Container(stack, folder, member, head, f"127.0.0.{3 + at}") for at, member in enumerate(fleet.members())
        ]
        eventually(lambda: all(agent.ready() for agent in agents), 90, lambda: "\n".join(map(Container.tail, agents)))
        yield head


class Container:
    """An agent that a kubelet would start again when it ends: on a starved machine Ray gives up joining."""

    def __init__(self, stack: ExitStack, folder: Path, member: Mapping[str, Any], head: Head, ip: str) -> None:
        self._stack, self._folder, self._ip = stack, folder / member["name"], ip
        self._folder.mkdir()
        access = {"cluster": member["name"], "context": member["context"], "kubeconfig": member["kubeconfig"]}
        self._settings = {**access, **member["agent"]}
        self._ray = {"address": head.address}
        self._agent = self._start()

    def _start(self) -> JoinedAgent:
        short = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-"))
        settings = {**self._settings, "ray": {**self._ray, "ports": node_ports(), "temp_dir": short}}
        return self._stack.enter_context(JoinedAgent(self._folder, settings, ip=self._ip))

    def ready(self) -> bool:
        """What the readiness probe sees."""
        if self._agent.code is not None:
            self._agent = self._start()
        return self._agent.ready()

    def tail(self) -> str:
        """The end of its log."""
        return self._agent.tail()
