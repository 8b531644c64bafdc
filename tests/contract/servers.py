"""The two servers a case runs against: how each is started, and how it is reached."""

import base64
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import DEFAULT_MINOR, selected_minor
from localfleet.controlplane.plane import control_plane
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.controlplane.programs import KUBECTL

EMBEDDED, REAL = "embedded", "real"
NODES = 3
# The admission policy makes a real cluster do what the embedded one has built in.
_POLICY_VERSIONS = {"1.36": "v1", "1.35": "v1beta1"}


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

    @property
    def url(self) -> str:
        """Where it answers."""
        return _access(self.kubeconfig.read_text())[0]

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
    with EmbeddedFleet.start([ClusterSpec("contract", nodes=NODES)], directory) as fleet:
        yield Server(EMBEDDED, DEFAULT_MINOR, fleet.kubeconfig, KUBECTL, lambda: fleet.restart("contract"))


@contextmanager
def real() -> Iterator[Server]:
    """A real control plane: etcd, kube-apiserver, kube-controller-manager, and KWOK for the nodes."""
    with control_plane("contract", nodes=NODES, minor=selected_minor()) as plane:
        policy = opt_in.MANIFEST.read_text().replace("/v1\n", f"/{_POLICY_VERSIONS[selected_minor()]}\n")
        plane.kubectl("apply", "-f", "-", stdin=policy)
        yield Server(REAL, plane.spec.minor, plane.kubeconfig, str(plane.programs["kubectl"]), plane.forget_history)
