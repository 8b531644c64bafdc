"""Agents that the dispatcher starts on another node of a Ray cluster: they dial it, and go on on the next such node."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import EmbeddedFleet
from tests.controlplane.programs import KUBECTL, NO_KUBECTL
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, pod, running
from tests.system.ray_fleet import AGENT_IP, Head, Node, free_ports

RESOURCES = {f"cluster:{name}": 1 for name in CLUSTERS}
WAIT_S = 120.0


class Ray:
    """A head, which has no room for agents, and nodes that have."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-")))
        self.head = stack.enter_context(Head(folder, self._short, free_ports(1)[0]))
        self.head.wait_ready()
        self._nodes = 0

    def node(self) -> Node:
        """One more."""
        self._nodes += 1
        log = self._folder / f"node-{self._nodes}.log"
        return self._stack.enter_context(Node(log, self._short, self.head.address, AGENT_IP, RESOURCES))


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[Ray]:
    with ExitStack() as stack:
        yield Ray(tmp_path, stack)


def member(folder: Path, fleet: EmbeddedFleet, cluster: str) -> dict[str, object]:
    key = folder / f"{cluster}-key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    agent = {
        "key_file": str(key),
        "kubelet": {"interval_s": 2},
        "log_file": str(folder / f"{cluster}.log"),
        "relay": {"port": 0},  # at the address of the agent's Ray node
    }
    return {"name": cluster, "kubeconfig": str(fleet.kubeconfig), "context": cluster, "agent": agent}


def log_of(fleet: EmbeddedFleet, name: str) -> str:
    """What kubectl, asked in east, prints of a pod's log; '' while it is refused."""
    command = [KUBECTL, f"--kubeconfig={fleet.kubeconfig}", "--context=east", "logs", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else ""


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_pods_run_by_agents_on_another_node_and_on_the_next_when_that_is_gone(
    tmp_path: Path, fleet: EmbeddedFleet, ray: Ray
) -> None:
    certificates = tmp_path / "certificates"
    ensure(certificates, ["127.0.0.1"], [])
    more = {
        "clusters": [member(tmp_path, fleet, name) for name in CLUSTERS],
        "ray": {"address": ray.head.address},
    }
    east = ClusterApi(fleet.kubeconfig, "east")
    first = ray.node()
    with Dispatcher(tmp_path, certificates, more=more) as dispatcher:
        eventually(lambda: dispatcher.ready() == [True, True], WAIT_S, dispatcher.tail)
        east.create("/api/v1/namespaces/default/pods", pod("one", "west"))
        eventually(lambda: running(east, "one"), WAIT_S, dispatcher.tail)
        eventually(lambda: log_of(fleet, "one").startswith("main started on west-node-"), WAIT_S, dispatcher.tail)
        first.terminate()
        eventually(lambda: dispatcher.ready() == [False, False], WAIT_S, dispatcher.tail)
        ray.node()
        eventually(lambda: dispatcher.ready() == [True, True], WAIT_S, dispatcher.tail)
        east.create("/api/v1/namespaces/default/pods", pod("two", "west"))
        eventually(lambda: running(east, "two"), WAIT_S, dispatcher.tail)
    with Dispatcher(tmp_path, certificates, more=more) as dispatcher:  # the actors of the one before are gone
        eventually(lambda: dispatcher.ready() == [True, True], WAIT_S, dispatcher.tail)
    east.close()
