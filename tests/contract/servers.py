"""The two servers a case runs against: how each is started, and how it is reached."""

import base64
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import DEFAULT_MINOR, release, selected_minor
from localfleet.controlplane.plane import control_plane
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.controlplane.programs import KUBECTL
from tests.real.metrics_server import front_proxy, metrics_server

EMBEDDED, REAL = "embedded", "real"
NODES = 3
RESOLUTION_S = 12  # of metrics-server: pods whose containers started 10 to 12 s ago are shown at once


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server of a Kubernetes minor, with controllers and NODES nodes that play pods.

    `kubectl` is "" where there is none.
    `forget_history` makes every older resourceVersion and continue token too old; the server is away meanwhile.
    """

    name: str
    minor: str
    kubeconfig: Path
    kubectl: str
    forget_history: Callable[[], None]
    measuring: Callable[[Path], AbstractContextManager[object]]  # metrics.k8s.io is served meanwhile

    @property
    def url(self) -> str:
        """Where it answers."""
        return _access(self.kubeconfig.read_text())[0]

    def since(self, minor: str) -> bool:
        """Whether it is of this Kubernetes minor or a newer one."""
        return release(self.minor) >= release(minor)

    def session(self) -> aiohttp.ClientSession:
        """Connections as the administrator, to be made and closed inside an event loop."""
        _, context, headers = _access(self.kubeconfig.read_text())
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), headers=headers)


@lru_cache
def _access(kubeconfig: str) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """(URL, trust and certificate, headers): hundreds of cases ask for the same, and YAML is slowly read."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]).decode())
    if "client-key-data" in user:
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return str(cluster["server"]), context, headers


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)


@contextmanager
def embedded(directory: Path) -> Iterator[Server]:
    """The embedded cluster, as a process of its own."""
    spec = ClusterSpec("contract", nodes=NODES, options=("--metric-resolution-s", "1"))
    with EmbeddedFleet.start([spec], directory) as fleet:
        forget = lambda: fleet.restart("contract")  # noqa: E731
        yield Server(EMBEDDED, DEFAULT_MINOR, fleet.kubeconfig, KUBECTL, forget, lambda _: nullcontext())


@contextmanager
def real(directory: Path) -> Iterator[Server]:
    """A real control plane: etcd, kube-apiserver, kube-controller-manager, and KWOK for the nodes."""
    flags = front_proxy(directory / "front-proxy")
    # Pods that tests bind to a node that is none would be taken away under them, every 20 seconds: 40 s after one of
    # them was first seen there, also those that were bound a moment ago. Nobody else deletes them, by the audit log.
    no_gc = ["--controllers=*,-pod-garbage-collector-controller"]
    with control_plane(
        "contract", nodes=NODES, minor=selected_minor(), api_flags=flags, controller_flags=no_gc
    ) as plane:
        # It makes a real cluster do what the embedded one has built in.
        if version := opt_in.version(selected_minor()):
            policy = opt_in.MANIFEST.read_text().replace("/v1\n", f"/{version}\n")
            plane.kubectl("apply", "-f", "-", stdin=policy)
        kubectl, measuring = str(plane.programs["kubectl"]), partial(metrics_server, plane, resolution_s=RESOLUTION_S)
        yield Server(REAL, plane.spec.minor, plane.kubeconfig, kubectl, plane.forget_history, measuring)
