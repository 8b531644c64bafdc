"""The dispatcher is dead for long, and pods tolerate a lost node for ten seconds: nothing that runs notices.

Agents are processes of their own that join a Ray head, as the charts deploy them: with the dispatcher they do not end.
It runs only where GLOBAL_DISPATCHER_TEST_DEAD_S says for how long the dispatcher is dead: 120 is enough, 600 the aim.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.controlplane.plane import ControlPlane, takes_pods
from dispatcher.model.names import PROXY_NODE_PREFIX
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real.census import Census
from tests.real.conftest import Say
from tests.real.fleet import CLUSTERS, RealFleet, start
from tests.real.joined import Dispatcher, joined
from tests.system.cluster_api import ClusterApi, deployment, eventually
from tests.system.harness import HOME, pause
from tests.system.ray_fleet import Head

REPLICAS = 60
GRACE_S, TOLERATION_S = 40, 10
DEAD = "GLOBAL_DISPATCHER_TEST_DEAD_S"
DEAD_S = float(os.environ.get(DEAD) or 0)
LOOK_S = 5.0
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Few nodes, which are soon lost, and pods that do not stay on a lost one."""
    times = {"node_grace_s": GRACE_S, "toleration_s": TOLERATION_S}
    return start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": 5, **times})


@pytest.fixture(scope="module")
def head(fleet: RealFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A Ray head and the agent of each plane."""
    with joined(fleet, tmp_path_factory.mktemp("ray")) as started:
        yield started


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
