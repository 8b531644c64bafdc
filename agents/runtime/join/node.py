"""The Ray node of a cluster's agent: a child process that offers the cluster's resource and nothing else."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import structlog

from agents.runtime.join.health import Beat
from agents.runtime.join.settings import JoinSettings, RayNodeSettings, WrongConfiguration
from shared.process.ray_security import insecure, misnamed

LOG = structlog.get_logger("join")
FAREWELL_S = 8.0  # for the Ray node to end in good order


def prepare_environment(address: str, node_ip: str = "") -> None:
    """What Ray reads of the environment, before it is imported; WrongConfiguration without a token, or without TLS
    where the head at `address` is not on loopback, or with a certificate that is not of `node_ip`.
    """
    if not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")):
        raise WrongConfiguration(
            "RAY_AUTH_TOKEN: is not set: whoever joins a fleet proves it with the fleet's Ray token (a Secret)"
        )
    os.environ["RAY_AUTH_MODE"] = "token"
    if problem := insecure(address, os.environ) or misnamed(node_ip, os.environ):
        raise WrongConfiguration(f"{problem}; or dial in, by a section `gateway` (docs/connectivity.md)")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"  # the actor is stopped first: nothing is left to drain
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own 15 would starve the agent on a busy machine


def node_options(settings: JoinSettings) -> list[str]:
    """Those of `ray start` for this node: no room for anything but the cluster's actor, every port fixed."""
    from agents.runtime.called_actor import resource_name

    ray = settings.node
    options: dict[str, object] = {
        "address": ray.address,
        "num-cpus": 0,
        "resources": json.dumps({resource_name(settings.cluster): 1}),
        "object-store-memory": ray.object_store_mib * 1024 * 1024,
    }
    options |= {f"{name.replace('_', '-')}-port": port for name, port in ray.ports.model_dump().items()}
    options |= {"node-ip-address": ray.node_ip} if ray.node_ip else {}
    options |= {"temp-dir": ray.temp_dir} if ray.temp_dir else {}
    words = [f"--{name}={value}" for name, value in options.items()]
    # The output of the agent goes where ours goes, not into files that nobody reads.
    return ["--no-redirect-output", *words]


def head_answers(ray: RayNodeSettings, stop: threading.Event, beat: Beat) -> bool:
    """Wait for the head, and `beat` meanwhile; False if `stop` or the end of the patience comes first."""
    host, _, port = ray.address.rpartition(":")
    until = time.monotonic() + ray.wait_s
    told = ""
    while not stop.is_set():
        beat()
        try:
            with socket.create_connection((host, int(port)), 3.0):
                return True
        except OSError as error:
            problem = str(error.strerror or error)
        if problem != told:
            LOG.warning("waiting for the Ray head", address=ray.address, problem=problem)
            told = problem
        if time.monotonic() > until:
            LOG.error("leaving", problem=f"no Ray head at {ray.address} within {ray.wait_s:g} s: {problem}")
            return False
        stop.wait(1.0)
    return False


@contextmanager
def ray_node(options: Iterable[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A Ray node as a child of this process, by these options of `ray start`; its greetings are not for our log."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *options]
    node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # noqa: S603 - our own words
    try:
        yield node
    finally:
        node.terminate()
        try:
            node.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()
