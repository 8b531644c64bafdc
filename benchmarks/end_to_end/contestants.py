"""The two schedulers as processes: kube-scheduler, and the dispatcher with its agent, each as it
comes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from benchmarks.end_to_end.processes import family
from localfleet.controlplane.plane import ControlPlane
from localfleet.controlplane.process import Component

US, THEM = "global-dispatcher", "kube-scheduler"
# The user that the agent is; what it may do is granted by RBAC.
AGENT = "bench-agent"
_STOP_S = 30.0


class Contestant(Protocol):
    """A scheduler as processes. `metrics_url` answers Prometheus' text once it serves; empty: not
    asked for.
    """

    pods_of: str
    metrics_url: str

    def start(self) -> None:
        """Begin; at once back."""

    def pids(self) -> list[int]:
        """All processes of it that live."""

    def stop(self) -> None:
        """End all of them."""


class KubeScheduler:
    """kube-scheduler, with its client's limits out of the way and no more logging than it has by
    default.
    """

    pods_of = "default-scheduler"

    def __init__(
        self, plane: ControlPlane, config: Mapping[str, Any], flags: Sequence[str] = ()
    ) -> None:
        spec = replace(
            plane.spec, scheduler_config=config, scheduler_verbosity=0, scheduler_flags=flags
        )
        layout = replace(plane.layout, spec=spec)
        self.metrics_url = f"https://127.0.0.1:{layout.ports['kube-scheduler']}/metrics"
        self._process = Component(
            "kube-scheduler",
            layout.command("kube-scheduler"),
            plane.directory / "kube-scheduler.log",
        )

    def start(self) -> None:
        """Begin."""
        self._process.start()

    def pids(self) -> list[int]:
        """The one process."""
        return [self._process.pid]

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()


class Dispatcher:
    """`global-dispatcher run` with its Ray and its agent, as it comes; RBAC judges its user as any
    other.
    """

    pods_of = "global-dispatcher"

    def __init__(
        self,
        *planes: ControlPlane,
        port: int = 0,
        agent: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """`agent`: settings of each agent. `more`: sections of dispatcher.yaml."""
        self.metrics_url = f"http://127.0.0.1:{port}/metrics" if port else ""
        folder = planes[0].directory
        self._log = folder / "dispatcher.log"
        clusters = [
            {
                "name": plane.name,
                "context": plane.name,
                "kubeconfig": str(plane.kubeconfig_as(AGENT)),
                "agent": agent or {},
            }
            for plane in planes
        ]
        self._config = folder / "dispatcher.json"
        self._config.write_text(json.dumps({"clusters": clusters, "http": {"port": port}, **more}))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin."""
        command = [
            sys.executable,
            "-m",
            "dispatcher.cli.main",
            "run",
            "--config",
            str(self._config),
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def pids(self) -> list[int]:
        """The dispatcher and all that is below it: Ray's processes and the agent."""
        assert self._process is not None
        return family(self._process.pid)

    def stop(self) -> None:
        """SIGTERM: it ends what it has started."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        below = self.pids()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            for pid in below:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


def grant(plane: ControlPlane) -> None:
    """The agent's user may do what it does; by RBAC, as kube-scheduler's."""
    plane.admin.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": AGENT},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": AGENT}],
        },
    )
