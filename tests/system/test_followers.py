"""A ConfigMap that only the home cluster has: pods that name it run in another one, and what they read follows it.

On embedded clusters, whose kubelets start no container without what it names.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.system.cluster_api import ClusterApi, Object, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, settings
from tests.system.ray_fleet import JoinedAgent

HOME, TARGET = CLUSTERS
WAIT_S = 60.0
MAPS = "/api/v1/namespaces/shop/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"


class World:
    """Two clusters with a namespace `shop`; the ConfigMap is in one of them."""

    def __init__(self, fleet: EmbeddedFleet, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.home, self.there = (ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS)
        for api in (self.home, self.there):
            api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        data = {"app.properties": "color=blue\n"}
        made = self.home.create(MAPS, {"metadata": {"name": "web-conf"}, "data": data})
        assert made.status_code == 201, made.text

    def copies(self) -> list[Object]:
        return [one for one in self.there.get(MAPS)["items"] if one["metadata"]["name"].startswith("web-conf")]

    def running(self, api: ClusterApi) -> list[Object]:
        return [one for one in api.pods("shop") if one["status"].get("phase") == "Running"]

    def tail(self) -> str:
        return self.dispatcher.tail()


def web(replicas: int) -> Object:
    volume = {"name": "conf", "configMap": {"name": "web-conf"}}
    container = {
        "name": "web",
        "image": "nginx:1.27",
        "resources": {"requests": {"cpu": "200m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "conf", "mountPath": "/etc/app"}],
        "envFrom": [{"configMapRef": {"name": "web-conf"}}],
    }
    pod = {"schedulerName": "global-dispatcher", "containers": [container], "volumes": [volume]}
    metadata = {"labels": {"app": "web"}, "annotations": {"global-dispatcher.io/clusters": TARGET}}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": metadata, "spec": pod},
        },
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("followers")
    certificates = folder / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    specs = [ClusterSpec(name, nodes=2) for name in CLUSTERS]
    with ExitStack() as stack:
        fleet = stack.enter_context(EmbeddedFleet.start(specs, folder / "fleet"))
        dispatcher = stack.enter_context(Dispatcher(folder, certificates))
        for name in CLUSTERS:
            (folder / name).mkdir()
            given = settings(fleet, name, certificates, dispatcher.gateway_port)
            stack.enter_context(JoinedAgent(folder / name, given, ip="127.0.0.1"))
        eventually(lambda: dispatcher.ready() == [True, True], WAIT_S, dispatcher.tail)
        world = World(fleet, dispatcher)
        yield world
        for api in (world.home, world.there):
            api.close()


def test_pods_run_where_their_config_map_has_not_been_and_see_it_change_until_the_last_has_gone(world: World) -> None:
    world.home.create(DEPLOYMENTS, web(6))
    eventually(lambda: len(world.running(world.there)) == 6 == len(world.running(world.home)), WAIT_S, world.tail)
    (copy,) = world.copies()
    assert copy["data"] == {"app.properties": "color=blue\n"}
    named = {one["spec"]["volumes"][0]["configMap"]["name"] for one in world.running(world.there)}
    assert named == {copy["metadata"]["name"]} != {"web-conf"}

    world.home.merge(f"{MAPS}/web-conf", {"data": {"app.properties": "color=red\n"}})
    eventually(lambda: world.copies()[0]["data"] == {"app.properties": "color=red\n"}, WAIT_S, world.tail)

    assert world.home.delete(f"{DEPLOYMENTS}/web", propagationPolicy="Background") == 200
    eventually(lambda: not world.there.pods("shop"), WAIT_S, world.tail)
    eventually(lambda: not world.copies(), 2 * WAIT_S, world.tail)
