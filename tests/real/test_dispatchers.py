"""Dispatchers die, and agents do not: nothing that runs notices, and the next dispatcher goes on.

Agents are processes of their own that dial in, as the charts deploy them. GLOBAL_DISPATCHER_TEST_DEAD_S says
for how long there is no dispatcher (600: the aim), GLOBAL_DISPATCHER_TEST_LEADERS how many leaders are killed beside a
dispatcher that stands by (50: for a p99 that means something).
"""

import itertools
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from localfleet.controlplane.plane import ControlPlane, takes_pods
from shared.model.names import PROXY_NODE_PREFIX
from tests.charts.rendering import Helm, Object
from tests.controlplane.fixtures import ControlPlanes
from tests.real.census import Census
from tests.real.dialling import Dispatcher, Site, dialling
from tests.real.fleet import CLUSTERS, RealFleet, start
from tests.saying import Say
from tests.system.cluster_api import ClusterApi, deployment, eventually
from tests.system.harness import HOME, pause
from tests.system.load import Load

# A node is lost after GRACE_S of silence, and its pods go TOLERATION_S later.
GRACE_S, TOLERATION_S = 60, 10
DEAD_S = float(os.environ.get("GLOBAL_DISPATCHER_TEST_DEAD_S") or 1.5 * (GRACE_S + TOLERATION_S))
KILLS = int(os.environ.get("GLOBAL_DISPATCHER_TEST_LEADERS") or 3)
SHORT = {"lease_s": 3, "renew_deadline_s": 2, "retry_s": 0.4}
REPLICAS = 60
LOAD_S = 0.25  # between two pods
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Few nodes, which are soon lost, and pods that do not stay on a lost one."""
    times = {"node_grace_s": GRACE_S, "toleration_s": TOLERATION_S}
    return start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda _: {"nodes": 5, **times})


@pytest.fixture(scope="module")
def site(fleet: RealFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The agent of each plane, and where they dial."""
    with dialling(fleet, tmp_path_factory.mktemp("agents")) as started:
        yield started


def test_no_pod_ends_and_no_proxy_node_is_lost_while_the_dispatcher_is_dead(
    fleet: RealFleet, site: Site, tmp_path: Path, say: Say
) -> None:
    home = ClusterApi(fleet.kubeconfig, HOME)
    with Dispatcher(tmp_path, site, fleet.home.kubeconfig) as dispatcher:
        eventually(dispatcher.all_ready, 120, dispatcher.tail)
        home.create(DEPLOYMENTS, deployment("web", REPLICAS, requests={"cpu": "500m", "memory": "64Mi"}))
        eventually(lambda: ready(home) == REPLICAS, 60, dispatcher.tail, lambda: ready(home))
        before = running(fleet)
        dispatcher.kill()
    say(f"dead for {DEAD_S:.0f} s; a node is lost after {GRACE_S} s, its pods go after {TOLERATION_S} s more")
    died = time.monotonic()
    while time.monotonic() < died + DEAD_S:
        pause(5.0)
        assert lost_proxies(fleet) == [], f"after {time.monotonic() - died:.0f} s"
    assert running(fleet) == before
    assert ready(home) == REPLICAS
    assert not Census(fleet.planes.values()).astray()
    with Dispatcher(tmp_path, site, fleet.home.kubeconfig) as dispatcher:
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


class Pair:
    """Two dispatchers, each a process; one of them leads."""

    def __init__(self, fleet: RealFleet, site: Site, folder: Path, stack: ExitStack) -> None:
        self._fleet, self._site, self._folder, self._stack = fleet, site, folder, stack
        self._numbers = itertools.count()
        self._both = [self._start(), self._start()]

    def _start(self) -> Dispatcher:
        name = f"dispatcher{next(self._numbers)}"
        one = Dispatcher(self._folder, self._site, self._fleet.home.kubeconfig, SHORT, name)
        return self._stack.enter_context(one)

    @property
    def leaders(self) -> list[Dispatcher]:
        """Those that say that they lead."""
        return [one for one in self._both if one.get("/v1/leader")["leads"]]

    def one_leads(self) -> bool:
        """And all clusters are well in its eyes, and the other stands by and names it."""
        leaders = self.leaders
        (standby,) = [one for one in self._both if one not in leaders] if len(leaders) == 1 else [None]
        if standby is None or not leaders[0].all_ready():
            return False
        known: str = standby.get("/v1/leader")["leader"]
        leads: str = leaders[0].get("/v1/leader")["identity"]
        return known == leads

    def kill_leader(self) -> None:
        """kill -9; as a Deployment does, another takes its place, and stands by."""
        (leader,) = self.leaders
        leader.kill()
        self._both.remove(leader)
        self._both.append(self._start())

    def tail(self) -> str:
        """The ends of both logs."""
        return "\n---\n".join(one.tail() for one in self._both)


def pod(name: str) -> Object:
    container = {"name": "main", "image": "example.invalid/app:1", "resources": {"requests": {"cpu": "10m"}}}
    annotations = {"global-dispatcher.io/schedule": "true"}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]}}


def seconds_until_bound(home: ClusterApi, name: str, tail: Pair) -> float:
    """From its creation until a pod has a node."""
    begun = time.monotonic()
    assert home.create(PODS, pod(name)).status_code == 201
    deadline = begun + 180
    while not home.get(f"{PODS}/{name}")["spec"].get("nodeName"):
        assert time.monotonic() < deadline, f"{name} is not bound\n{tail.tail()}"
        pause(0.05)
    return time.monotonic() - begun


def test_placements_go_on_and_each_pod_runs_once_while_leaders_are_killed(
    fleet: RealFleet, site: Site, tmp_path: Path, say: Say
) -> None:
    home, feeder = ClusterApi(fleet.kubeconfig, HOME), ClusterApi(fleet.kubeconfig, HOME)
    before, waited = len(Census(fleet.planes.values()).sources), []
    with ExitStack() as stack:
        pair = Pair(fleet, site, tmp_path, stack)
        eventually(pair.one_leads, 120, pair.tail)
        with Load(feeder, lambda number: pod(f"load-{number}"), LOAD_S) as load:
            for at in range(KILLS):
                pair.kill_leader()
                waited.append(seconds_until_bound(home, f"probe-{at}", pair))
                eventually(pair.one_leads, 60, pair.tail)
        total = before + load.made + KILLS
        eventually(lambda: settled(fleet, total), 60, lambda: f"{wrong(fleet)[:20]}\n{pair.tail()}")
    waited.sort()
    p50, p99 = statistics.median(waited), waited[min(len(waited) - 1, int(0.99 * len(waited)))]
    say(
        f"{KILLS} leaders killed under {1 / LOAD_S:g} pods/s, {load.made} pods, Lease of {SHORT['lease_s']} s:"
        f" the next pod bound after p50 {p50:.2f} s, p99 {p99:.2f} s"
    )
    for api in (home, feeder):
        api.close()


def settled(fleet: RealFleet, total: int) -> bool:
    """Whether all pods were bound, and each runs once."""
    census = Census(fleet.planes.values())
    return len(census.sources) == total and not census.astray()


def wrong(fleet: RealFleet) -> list[str]:
    try:
        return Census(fleet.planes.values()).astray()
    except httpx.HTTPError as error:
        return [str(error)]
