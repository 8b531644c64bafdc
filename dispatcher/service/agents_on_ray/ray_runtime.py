"""Ray beside the dispatcher: started on this machine or joined at an address, and left without a
trace.

A local Ray lives in a folder of its own with a token of its own, so it neither meets nor leaves
anything of another. Its processes end with the dispatcher's, also when that is killed: Ray's own
reaper sees to it within seconds.
"""

import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from dispatcher.service.agents_on_ray.descendants import Process, descendants, end, lives, program
from dispatcher.service.errors import CommandError
from shared.process.ray_names import NAMESPACE, resource_name
from shared.process.ray_security import insecure, insecure_nodes

log = structlog.get_logger("ray")

_LOOPBACK = "127.0.0.1"
_PROBE_S = 3.0
_END_S = 1.0
_VITAL = ("gcs_server", "raylet")  # without one of these Ray does not come back


@dataclass(frozen=True)
class RayOptions:
    """`address` empty: start Ray here, with `num_cpus` and `object_store_bytes`; else join the
    cluster at host:port.
    """

    address: str = ""
    num_cpus: int = 1
    object_store_bytes: int = 80_000_000


class RayRuntime:
    """A started or joined Ray; `stop` leaves it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._vital: dict[str, Process] = {}

    @classmethod
    def start(cls, clusters: Sequence[str], options: RayOptions | None = None) -> "RayRuntime":
        """Start or join; CommandError in one line when Ray cannot be had. A Ray started here offers
        every cluster.
        """
        wanted = options or RayOptions()
        runtime = cls(None if wanted.address else Path(tempfile.mkdtemp(prefix="gd-ray-")))
        try:
            runtime._init(clusters, wanted)
        except BaseException as error:
            runtime.stop()
            if isinstance(error, CommandError) or not isinstance(error, Exception):
                raise
            said = " ".join(str(error).split()) or repr(
                error
            )  # of two versions, each stands in a line of its own
            raise CommandError(f"Ray cannot start: {said[:300]}") from None
        return runtime

    def _init(self, clusters: Sequence[str], options: RayOptions) -> None:
        _prepare_environment(local=not options.address)
        import ray

        quiet = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR"}
        if options.address:
            if problem := insecure(options.address, os.environ):
                raise CommandError(
                    f"{problem}; or let agents dial in, `via: gateway` (docs/connectivity.md)"
                )
            _probe(options)
            ray.init(address=options.address, **quiet)
            living = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
            if problem := insecure_nodes(living, os.environ):
                raise CommandError(
                    f"{problem}; or start Ray with --node-ip-address=127.0.0.1, if all of it is "
                    "here"
                )
            for name in clusters:
                if not any(
                    node["Alive"] and node["Resources"].get(resource_name(name))
                    for node in ray.nodes()
                ):
                    log.warning(
                        "no Ray node has a place for the agent of a cluster yet", **_place(name)
                    )
            return
        ray.init(
            "local",
            resources={resource_name(name): 1 for name in clusters},
            include_dashboard=False,
            num_cpus=options.num_cpus,
            object_store_memory=options.object_store_bytes,
            _temp_dir=str(self._folder),
            **quiet,
        )
        started = {program(process): process for process in descendants(str(self._folder))}
        self._vital = {name: started[name] for name in _VITAL if name in started}

    def ended(self) -> str:
        """Which vital part of the Ray that was started here has ended, '' while it lives.

        A Ray that was joined ends this process by itself, a minute after its head has gone.
        """
        return next((name for name, process in self._vital.items() if not lives(process)), "")

    @property
    def host(self) -> str:
        """Where this process is reached from all nodes of its Ray."""
        if self._folder is not None:
            return _LOOPBACK
        import ray

        found: str = ray.util.get_node_ip_address()
        return found

    def stop(self) -> None:
        """Leave Ray; a Ray that was started here ends, and its folder goes."""
        import ray

        # A Ray that is stopped while it starts leaves agents behind that never learn of it.
        started = descendants(str(self._folder)) if self._folder is not None else []
        ray.shutdown()
        if self._folder is not None:
            end(started, _END_S)
            _remove(self._folder)


def _prepare_environment(*, local: bool) -> None:
    """Ray reads these once, when it is imported: later is too late for a token (Ray then takes one
    from ~/.ray).
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray prints the death of a worker on the driver's standard output, where our JSON goes: skip
    # every such line.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
    # Ray's workers run at nice 15: on a busy machine the agents would starve beside whatever they
    # look after.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Ray's log monitor looks for files ten times a second, of lines for a driver that does not want
    # them
    if local:
        os.environ.setdefault("RAY_LOG_MONITOR_MANY_FILES_THRESHOLD", "0")
        os.environ.setdefault("LOG_NAME_UPDATE_INTERVAL_S", "inf")
    if local and "ray" not in sys.modules and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _remove(folder: Path) -> None:
    """Ray's last process may still be writing into it for a moment."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def _place(cluster: str) -> dict[str, str]:
    """What to do where none has one."""
    offer = json.dumps({resource_name(cluster): 1})
    return {
        "cluster": cluster,
        "fix": f"start a node that offers it: ray start --resources='{offer}'",
    }


def _probe(options: RayOptions) -> None:
    """Ray retries a dead address for minutes without a word, so see first whether anything listens."""
    address = options.address
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _PROBE_S):
            return
    except ValueError:
        raise CommandError(
            f"ray.address {address!r} is not HOST:PORT, such as ray-head:6379"
        ) from None
    except OSError as error:
        raise CommandError(
            f"nothing listens at ray.address {address}: {error.strerror or error}"
        ) from None
