"""A Ray head and its nodes, and agents, as processes with the commands that the charts give their containers.

Each stands for a pod: its address is one of 127.0.0.0/8, its ports are free ones of this machine.
"""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from localfleet.controlplane.ports import Port, reserve
from tests.system.cluster_api import PATIENCE, eventually

TOKEN = "ab" * 32
HEAD_IP, AGENT_IP = "127.0.0.2", "127.0.0.3"
NODE_PORTS = (
    "node_manager",
    "object_manager",
    "dashboard_agent_grpc",
    "dashboard_agent_listen",
    "runtime_env_agent",
    "metrics_export",
)
DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"
_KEPT: list[Port] = []
# The ports of each node's workers: below those of `free_ports`, each run in an order of its own.
_WORKERS = itertools.cycle(random.sample(range(10_000, 19_950, 50), 199))


def environment(**more: str) -> dict[str, str]:
    """What the containers are given, and a home without kubeconfig."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "KUBE"))}
    fixed = {
        "HOME": "/nonexistent",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        **dict(re.findall(r"\b(RAY_\w+)=(\w+)", DOCKERFILE.read_text())),
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return {**kept, **fixed, **more}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that no other test of this machine gets until this run ends."""
    ports = reserve(count)
    _KEPT.extend(ports)
    return [port.number for port in ports]


def node_ports() -> dict[str, int]:
    """Every port of a Ray node, as agent.yaml has them."""
    start = next(_WORKERS)
    return {
        **dict(zip(NODE_PORTS, free_ports(len(NODE_PORTS)), strict=True)),
        "min_worker": start,
        "max_worker": start + 49,
    }


class Process:
    """A command with a log; a context manager that leaves nothing of its session behind."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=dict(env), start_new_session=True
            )

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def tail(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-4000:]

    def terminate(self, timeout_s: float = 30) -> int:
        """SIGTERM, and the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float) -> int:
        """The exit code; AssertionError with the end of the log when it does not end."""
        try:
            return self._process.wait(PATIENCE * timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {PATIENCE * timeout_s:.0f} s:\n{self.tail()}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.code is None:
            with suppress(AssertionError):
                self.terminate(20)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Head(Process):
    """`ray start --head` at HEAD_IP. `resources`: what its node offers."""

    def __init__(
        self,
        folder: Path,
        ray_folder: Path,
        port: int,
        resources: Mapping[str, int] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.address = f"{HEAD_IP}:{port}"
        words = ["--head", f"--port={port}", "--include-dashboard=false", *_words(HEAD_IP, ray_folder, resources)]
        super().__init__(["ray", "start", *words], folder / "head.log", env or environment())

    def wait_ready(self) -> None:
        """Until it has started."""
        eventually(lambda: "block forever" in self.tail() or self.code is not None, 60, self.tail)
        assert self.code is None, self.tail()


class Node(Process):
    """`ray start` of a node at `ip` that joins the head at `address` and offers `resources`."""

    def __init__(
        self,
        log: Path,
        ray_folder: Path,
        address: str,
        ip: str,
        resources: Mapping[str, int],
        env: Mapping[str, str] | None = None,
    ) -> None:
        words = ["ray", "start", f"--address={address}", *_words(ip, ray_folder, resources)]
        super().__init__(words, log, env or environment())


def loads_ray(pid: int) -> bool:
    """Whether Ray's library is in a process."""
    return "_raylet" in Path(f"/proc/{pid}/maps").read_text()


def _words(ip: str, ray_folder: Path, resources: Mapping[str, int] | None) -> list[str]:
    """What `ray start` is told of any node."""
    ports = {f"{name.replace('_', '-')}-port": number for name, number in node_ports().items()}
    options = {"node-ip-address": ip, "num-cpus": 0, **ports}
    options |= {"object-store-memory": 80_000_000, "temp-dir": str(ray_folder)}
    options |= {"resources": json.dumps(resources)} if resources else {}
    return ["--block", *(f"--{key}={value}" for key, value in options.items())]


class JoinedAgent(Process):
    """`global-dispatcher agent` at an address of its own."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], env: Mapping[str, str] | None = None, ip: str = AGENT_IP
    ) -> None:
        (self.health,) = free_ports(1)
        file = folder / "agent.yaml"
        file.write_text(yaml.safe_dump({**settings, "health": {"port": self.health}}))
        command = [sys.executable, "-m", "dispatcher.cli.main", "agent", "--config", str(file), "--node-ip", ip]
        super().__init__(command, folder / f"agent-{self.health}.log", env or environment())

    def ready(self) -> bool:
        """What the readiness probe sees."""
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        return httpx.get(f"http://127.0.0.1:{self.health}/readyz", timeout=5, trust_env=False).status_code == 200

    def wait_ready(self) -> None:
        """Until the probe is green."""
        eventually(self.ready, 90, self.tail)
