"""The dispatcher is dead for long, and pods tolerate a lost node for ten seconds: nothing that runs notices.

Agents are processes of their own that join a Ray head, as the charts deploy them: with the dispatcher they do not end.
It runs only where GLOBAL_DISPATCHER_TEST_DEAD_S says for how long the dispatcher is dead: 120 is enough, 600 the aim.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from agents.controlplane.plane import ControlPlane, takes_pods
from dispatcher.model.names import PROXY_NODE_PREFIX
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real.census import Census
from tests.real.conftest import Say
from tests.real.fleet import CLUSTERS, RealFleet, start
from tests.system.cluster_api import ClusterApi, deployment, eventually
from tests.system.harness import HOME, pause
from tests.system.ray_fleet import Head, JoinedAgent, Process, environment, free_ports, node_ports

REPLICAS = 60
GRACE_S, TOLERATION_S = 40, 10
DEAD = "GLOBAL_DISPATCHER_TEST_DEAD_S"
DEAD_S = float(os.environ.get(DEAD) or 0)
LOOK_S = 5.0
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Dispatcher(Process):
    """`global-dispatcher run` beside the head; of the clusters it knows the names alone."""

    def __init__(self, folder: Path, head: Head, lease: Path) -> None:
        (self.port,) = free_ports(1)
        config = folder / "dispatcher.yaml"
        clusters = [{"name": name} for name in CLUSTERS]
        election = {"kubeconfig": str(lease)}
        config.write_text(json.dumps({"clusters": clusters, "leader_election": election, "http": {"port": self.port}}))
        command = [sys.executable, "-m", "dispatcher.runtime.cli", "run", "--config", str(config)]
        super().__init__(command, folder / "dispatcher.log", environment(GLOBAL_DISPATCHER_RAY__ADDRESS=head.address))

    def all_ready(self) -> bool:
        """Whether all clusters are well, as it sees them."""
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        answer = httpx.get(f"http://127.0.0.1:{self.port}/v1/clusters", timeout=10, trust_env=False)
        return [row["ready"] for row in answer.json()["clusters"]] == [True] * len(CLUSTERS)

    def kill(self) -> None:
        """kill -9."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Few nodes, which are soon lost, and pods that do not stay on a lost one."""
    times = {"node_grace_s": GRACE_S, "toleration_s": TOLERATION_S}
    return start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": 5, **times})


@pytest.fixture(scope="module")
def head(fleet: RealFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A Ray head and the agent of each plane."""
    folder = tmp_path_factory.mktemp("ray")
    with ExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-")))
        head = stack.enter_context(Head(folder, short, free_ports(1)[0]))
        head.wait_ready()
        agents = []
        for at, member in enumerate(fleet.members()):
            place = folder / member["name"]
            place.mkdir()
            access = {"cluster": member["name"], "context": member["context"], "kubeconfig": member["kubeconfig"]}
            node = {"address": head.address, "ports": node_ports()}
            node["temp_dir"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-"))
            settings = {**access, **member["agent"], "ray": node}
            agents.append(stack.enter_context(JoinedAgent(place, settings, ip=f"127.0.0.{3 + at}")))
        for agent in agents:
            agent.wait_ready()
        yield head


@pytest.mark.skipif(not DEAD_S, reason=f"takes minutes and is not part of CI: {DEAD}=120 runs it")
def test_no_pod_ends_and_no_proxy_node_is_lost_while_the_dispatcher_is_dead(
    fleet: RealFleet, head: Head, tmp_path: Path, say: Say
) -> None:
    home = ClusterApi(fleet.kubeconfig, HOME)
    with Dispatcher(tmp_path, head, fleet.home.kubeconfig) as dispatcher:
        eventually(dispatcher.all_ready, 120, dispatcher.tail)
        home.create(DEPLOYMENTS, deployment("web", REPLICAS, requests={"cpu": "500m", "memory": "64Mi"}))
        eventually(lambda: ready(home) == REPLICAS, 60, dispatcher.tail, lambda: ready(home))
        before = running(fleet)
        dispatcher.kill()
    say(f"dead for {DEAD_S:.0f} s; a node is lost after {GRACE_S} s, its pods go after {TOLERATION_S} s more")
    died = time.monotonic()
    while time.monotonic() < died + DEAD_S:
        pause(LOOK_S)
        assert lost_proxies(fleet) == [], f"after {time.monotonic() - died:.0f} s"
    assert running(fleet) == before
    assert ready(home) == REPLICAS
    assert not Census(fleet.planes.values()).astray()
    with Dispatcher(tmp_path, head, fleet.home.kubeconfig) as dispatcher:
        eventually(dispatcher.all_ready, 120, dispatcher.tail)
        home.merge(f"{DEPLOYMENTS}/web", {"spec": {"replicas": REPLICAS + 3}})
        eventually(lambda: ready(home) == REPLICAS + 3, 60, dispatcher.tail)
        assert before <= running(fleet)
    home.close()


def ready(home: ClusterApi) -> int:
    count: int = home.get(f"{DEPLOYMENTS}/web")["status"].get("readyReplicas", 0)
    return count


def running(fleet: RealFleet) -> set[tuple[str, str]]:
    """(plane, UID) of what runs on nodes with kubelets, or is bound to proxy nodes."""
    return {(pod.plane, pod.uid) for pod in Census(fleet.planes.values()).pods if not pod.ending and pod.ours}


def lost_proxies(fleet: RealFleet) -> list[str]:
    return [f"{plane.name}: {name}" for plane in fleet.planes.values() for name in lost(plane)]


def lost(plane: ControlPlane) -> list[str]:
    nodes = plane.admin.get("/api/v1/nodes", resourceVersion="0")["items"]
    proxies = [node for node in nodes if node["metadata"]["name"].startswith(PROXY_NODE_PREFIX)]
    assert len(proxies) == len(CLUSTERS) - 1
    return [node["metadata"]["name"] for node in proxies if not takes_pods(node)]
