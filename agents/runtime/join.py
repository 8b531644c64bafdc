"""The agent of a cluster as a process of its own: `python -m agents.runtime.join --config FILE`.

It starts a Ray node that offers the cluster's resource, joins it to the fleet's Ray head, makes the cluster's actor on
it with the settings of this file, and stays as long as node, head and actor are there. What Ray does may hang for
minutes when the head is gone, so it happens in a thread that the main thread only watches.

Exit codes: 0 stopped by a signal, 1 lost (to be started again), 2 wrong configuration.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import structlog
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.runtime.logs import configure_logging
from agents.runtime.settings import AgentSettings

LOG = structlog.get_logger("join")
STOPPED, LOST, WRONG = 0, 1, 2
MAX_FILE = 2**20
ROUND_S = 2.0  # between two looks at node, head and actor
ANSWER_S = 10.0  # for one answer of the actor
FAREWELL_S = 8.0  # for the agent to end in good order, and for its Ray node
_HANGS = "Ray does not answer"


class Ports(BaseModel):
    """Every port that this Ray node listens on: other nodes must reach it there, both ways."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_manager: int = Field(default=6380, ge=1024, le=65_535)
    object_manager: int = Field(default=6381, ge=1024, le=65_535)
    dashboard_agent_grpc: int = Field(default=6382, ge=1024, le=65_535)
    dashboard_agent_listen: int = Field(default=6383, ge=1024, le=65_535)
    runtime_env_agent: int = Field(default=6384, ge=1024, le=65_535)
    metrics_export: int = Field(default=6385, ge=1024, le=65_535)
    min_worker: int = Field(default=10_100, ge=1024, le=65_535, description="First port of Ray's processes.")
    max_worker: int = Field(default=10_149, ge=1024, le=65_535, description="Last port of Ray's processes.")


class RayNodeSettings(BaseModel):
    """The Ray node. Times are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = Field(pattern=r"^[^:/\s]+:[0-9]{1,5}$", description="host:port of the fleet's Ray head.")
    node_ip: str = Field(default="", description="Address at which other nodes reach this one; empty: found by Ray.")
    object_store_mib: int = Field(default=80, ge=75, le=1_048_576, description="MiB of shared memory.")
    temp_dir: str = Field(default="", description="Folder for Ray's files, one a node; empty: Ray's choice.")
    wait_s: float = Field(default=300.0, gt=0, description="How long to wait for the head at the start.")
    join_s: float = Field(default=90.0, gt=0, description="How long joining may take until the actor first answers.")
    lost_s: float = Field(default=30.0, gt=0, description="Node, head or actor silent for that long: give up.")
    ports: Ports = Field(default_factory=Ports)


class HealthSettings(BaseModel):
    """Where /livez and /readyz are served."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=7481, ge=0, le=65_535, description="Port; 0: any free one.")


class JoinSettings(AgentSettings):
    """agent.yaml: the agent's settings and those of its Ray node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ray: RayNodeSettings
    health: HealthSettings = Field(default_factory=HealthSettings)

    @property
    def agent(self) -> AgentSettings:
        """What the actor is told."""
        return AgentSettings.model_validate(self.model_dump(exclude={"ray", "health"}))


class WrongConfiguration(ValueError):  # noqa: N818 - reads as what happened
    """What is wrong with the file or the environment; a line each."""


def read_settings(path: Path) -> JoinSettings:
    """The settings of a file; WrongConfiguration names file, key and problem."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE + 1)
        if len(raw) > MAX_FILE:
            raise WrongConfiguration(f"{path}: is larger than {MAX_FILE} bytes")
        return JoinSettings.model_validate(yaml.safe_load(raw) or {})
    except OSError as error:
        raise WrongConfiguration(f"{path}: cannot be read: {error.strerror or error}") from None
    except yaml.YAMLError as error:
        raise WrongConfiguration(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        lines = [f"{path}: {'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in found]
        raise WrongConfiguration("\n".join(lines)) from None


def prepare_environment() -> None:
    """What Ray reads of the environment, before it is imported; WrongConfiguration without a token."""
    if not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")):
        raise WrongConfiguration(
            "RAY_AUTH_TOKEN: is not set: whoever joins a fleet proves it with the fleet's Ray token (a Secret)"
        )
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"  # the actor is stopped first: nothing is left to drain
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own 15 would starve the agent on a busy machine


def node_command(settings: JoinSettings) -> list[str]:
    """`ray start` for this node: no room for anything but the cluster's actor, every port fixed."""
    from agents.runtime.actor import resource_name

    ray = settings.ray
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
    return [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--no-redirect-output", *words]


class Membership:
    """Keeps the cluster's actor on our node, in a thread of its own. `problem` is '' while all is well."""

    def __init__(self, settings: JoinSettings) -> None:
        self.problem = "has not joined yet"
        self.joined = False
        self.last_good = time.monotonic()
        self._settings = settings
        self._actor: Any = None

    def start(self) -> None:
        """Begin; nobody waits for this thread, for Ray may hold it for ever."""
        self.last_good = time.monotonic()
        threading.Thread(target=self._run, name="membership", daemon=True).start()

    def overdue(self) -> str:
        """Why this member has to give up; '' while it need not."""
        patience = self._settings.ray.lost_s if self.joined else self._settings.ray.join_s
        return f"{self.problem or _HANGS} (for {self._silent():.0f} s)" if self._silent() > patience else ""

    def unwell(self) -> str:
        """What is wrong now; '' if the last round was good and not long ago."""
        return self.problem or (_HANGS if self._silent() > ROUND_S + ANSWER_S else "")

    def _silent(self) -> float:
        return time.monotonic() - self.last_good

    def leave(self) -> None:
        """Let the agent end in good order, for at most FAREWELL_S."""
        if self._actor is None:
            return
        farewell = threading.Thread(target=self._stop_actor, daemon=True)
        farewell.start()
        farewell.join(FAREWELL_S)

    def _stop_actor(self) -> None:
        import ray

        with suppress(Exception):  # it ends with its node in any case
            ray.get(self._actor.stop.remote(), timeout=FAREWELL_S)

    def _run(self) -> None:
        structlog.contextvars.bind_contextvars(cluster=self._settings.cluster)
        while True:
            try:
                self._look()
            except Exception as error:  # whatever Ray raises is a reason to try again until the patience ends
                lines = str(error).strip().splitlines() or [repr(error)]
                self._say(f"{type(error).__name__}: {lines[0][:300]}")
            else:
                self.last_good, self.joined = time.monotonic(), True
                self._say("")
            time.sleep(ROUND_S)

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            LOG.info("the agent is at work") if not problem else LOG.warning("not a working member", problem=problem)
        self.problem = problem

    def _look(self) -> None:
        """One round; raises what is wrong."""
        import ray

        if not ray.is_initialized():
            self._attach()
        if not self._listed():
            raise RuntimeError("the head does not list this node among the living")
        if self._actor is None:
            self._actor = self._take_over()
        try:
            ray.get(self._actor.hello.remote(), timeout=ANSWER_S)
        except ray.exceptions.ActorDiedError:
            self._actor = None
            raise

    def _attach(self) -> None:
        import ray

        from agents.runtime.actor import NAMESPACE

        ours = {"_node_ip_address": self._settings.ray.node_ip} if self._settings.ray.node_ip else {}
        ray.init(
            address=self._settings.ray.address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
            **ours,
        )

    def _listed(self) -> bool:
        import ray

        me = ray.get_runtime_context().get_node_id()
        return any(node["NodeID"] == me and node["Alive"] for node in ray.nodes())

    def _take_over(self) -> Any:
        """The actor, made by us: one that another has made here does not know this file, so it goes."""
        import ray

        from agents.runtime.actor import NAMESPACE, actor_name, create_actor

        with suppress(ValueError):  # there is none
            ray.kill(ray.get_actor(actor_name(self._settings.cluster), namespace=NAMESPACE))
        actor = create_actor(self._settings.agent)
        if actor._actor_id.job_id.hex() != ray.get_runtime_context().get_job_id():
            raise RuntimeError("another has made the actor of this cluster meanwhile: it is replaced")
        return actor


def stay(settings: JoinSettings, stop: threading.Event) -> int:
    """Join, and stay until `stop` or until something is lost; returns the exit code."""
    membership = Membership(settings)
    with _health(membership, settings.health):
        if _head_answers(settings.ray, stop):
            return _be_member(settings, membership, stop)
    return STOPPED if stop.is_set() else LOST


def _be_member(settings: JoinSettings, membership: Membership, stop: threading.Event) -> int:
    handlers = False
    with _ray_node(settings) as node:
        membership.start()
        while not stop.wait(0.5):
            ended = node.poll()
            why = f"the Ray node ended with {ended}" if ended is not None else membership.overdue()
            if why:
                LOG.error("leaving", problem=why)
                return LOST
            if membership.joined and not handlers:
                handlers = listen_to_signals(stop)  # Ray has put its own in their place
        LOG.info("stopping")
        membership.leave()
    return STOPPED


def listen_to_signals(stop: threading.Event) -> bool:
    """SIGINT and SIGTERM set `stop`; main thread only."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return True


def _head_answers(ray: RayNodeSettings, stop: threading.Event) -> bool:
    """Wait for the head; False if `stop` or the end of the patience comes first."""
    host, _, port = ray.address.rpartition(":")
    until, told = time.monotonic() + ray.wait_s, ""
    while not stop.is_set():
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
def _ray_node(settings: JoinSettings) -> Iterator[subprocess.Popen[bytes]]:
    """The Ray node as a child of this process; its greetings are not for our log."""
    command = node_command(settings)
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


@contextmanager
def _health(membership: Membership, settings: HealthSettings) -> Iterator[None]:
    """GET /livez: this process runs. GET /readyz: the actor answered in the last round."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in {"/livez", "/readyz"}:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            problem = membership.unwell() if self.path == "/readyz" else ""
            self.send_response(HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK)
            self.end_headers()
            self.wfile.write((problem or "ok").encode("utf-8", "replace"))

        def log_message(self, format: str, *args: object) -> None:
            """Probes are not worth a line."""

    server = ThreadingHTTPServer((settings.host, settings.port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    LOG.info("serving", address=f"http://{settings.host}:{server.server_address[1]}")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def main(arguments: Sequence[str] | None = None) -> int:
    """The process; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m agents.runtime.join", description="Join a cluster's agent to a fleet."
    )
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="agent.yaml")
    parser.add_argument("--node-ip", default="", metavar="IP", help="instead of ray.node_ip")
    given = parser.parse_args(arguments)
    try:
        settings = read_settings(given.config)
        prepare_environment()
    except WrongConfiguration as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return WRONG
    if given.node_ip:
        settings = settings.model_copy(update={"ray": settings.ray.model_copy(update={"node_ip": given.node_ip})})
    configure_logging(settings.log_level)
    stop = threading.Event()
    listen_to_signals(stop)
    with structlog.contextvars.bound_contextvars(cluster=settings.cluster):
        return stay(settings, stop)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # Ray's own exit handlers wait for a head that may be gone
