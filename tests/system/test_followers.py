"""A ConfigMap, or a Secret, that only the home cluster has: pods that name it run in another one, and what they read
follows it.

On embedded clusters, whose kubelets start no container without what it names.
"""

import base64
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.system.cluster_api import ClusterApi, Object, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, settings
from tests.system.ray_fleet import JoinedAgent, environment

HOME, TARGET = CLUSTERS
WAIT_S = 60.0
MAPS = "/api/v1/namespaces/shop/configmaps"
SECRETS = "/api/v1/namespaces/shop/secrets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
FOLLOW = "global-dispatcher.io/follow"
MARKER = "s3cr3t-marker-{}"
STEP = 2**22


class World:
    """Two clusters with a namespace `shop`; the ConfigMap is in one of them."""

    def __init__(self, fleet: EmbeddedFleet, dispatcher: Dispatcher, folder: Path) -> None:
        self.dispatcher = dispatcher
        self.folder = folder
        self.home, self.there = (ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS)
        for api in (self.home, self.there):
            api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        data = {"app.properties": "color=blue\n"}
        made = self.home.create(MAPS, {"metadata": {"name": "web-conf"}, "data": data})
        assert made.status_code == 201, made.text

    def copies(self) -> list[Object]:
        return [one for one in self.there.get(MAPS)["items"] if one["metadata"]["name"].startswith("web-conf")]

    def secrets(self, name: str) -> list[Object]:
        return [one for one in self.there.get(SECRETS)["items"] if one["metadata"]["name"].startswith(f"{name}-")]

    def keep(self, name: str, data: Object, kind: str = "Opaque") -> None:
        metadata = {"name": name, "annotations": {FOLLOW: TARGET}}
        made = self.home.create(SECRETS, {"metadata": metadata, "type": kind, "data": data})
        assert made.status_code == 201, made.text

    def refusals(self, name: str) -> list[str]:
        """Why a pod of `shop` is in no other cluster, by its dispatcher."""
        url = f"http://127.0.0.1:{self.dispatcher.port}/v1/explain/shop/{name}"
        found = httpx.get(url, timeout=10, trust_env=False)
        return [found.text] if found.status_code == 200 else []

    def bundle(self) -> bytes:
        """All that a support bundle has."""
        file = self.folder / "bundle.tar.gz"
        server = f"http://127.0.0.1:{self.dispatcher.port}"
        command = [sys.executable, "-m", "dispatcher.cli.main", "support-bundle", str(file), "--server", server]
        subprocess.run(command, check=True, capture_output=True, env=environment())
        with tarfile.open(file) as archive:
            streams = [archive.extractfile(one) for one in archive]
            return b"".join(one.read() for one in streams if one is not None)

    def running(self, api: ClusterApi) -> list[Object]:
        return [one for one in api.pods("shop") if one["status"].get("phase") == "Running"]

    def tail(self) -> str:
        return self.dispatcher.tail()


def in_memory(pid: int, texts: list[bytes]) -> set[bytes]:
    """Those that are found in the memory of a process."""
    found: set[bytes] = set()
    most = max(map(len, texts))
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines if line.split()[1].startswith("rw")]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for begin, end in ((int(one, 16), int(two, 16)) for one, two in spans):
            for at in range(begin, end, STEP):
                try:
                    held = os.pread(memory.fileno(), min(STEP + most, end - at), at)
                except OSError:  # given back meanwhile
                    break
                found |= {one for one in texts if one in held}
    return found


def with_secrets(name: str) -> Object:
    """A Deployment's object whose pods name `db` in a volume and their environment, and pull by `registry`."""
    made = web(1)
    made["metadata"]["name"] = name
    made["spec"]["selector"]["matchLabels"] = made["spec"]["template"]["metadata"]["labels"] = {"app": name}
    spec = made["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "db", "secret": {"secretName": "db"}}]
    (container,) = spec["containers"]
    container["volumeMounts"] = [{"name": "db", "mountPath": "/etc/db"}]
    container["envFrom"] = [{"secretRef": {"name": "db"}}]
    spec["imagePullSecrets"] = [{"name": "registry"}]
    return made


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


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
        journal = {"journal": {"path": str(folder / "journal.db")}}
        dispatcher = stack.enter_context(Dispatcher(folder, certificates, more=journal))
        for name in CLUSTERS:
            (folder / name).mkdir()
            given = settings(fleet, name, certificates, dispatcher.gateway_port)
            given["executor"] = {"accept": [{"secrets_follow": ["db", "registry"]}]}
            given["log_level"] = "debug"
            stack.enter_context(JoinedAgent(folder / name, given, ip="127.0.0.1"))
        eventually(lambda: dispatcher.ready() == [True, True], WAIT_S, dispatcher.tail)
        world = World(fleet, dispatcher, folder)
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


def test_secrets_follow_by_consent_of_both_and_are_in_clear_with_nobody_else(world: World) -> None:
    first, second = MARKER.format(1), MARKER.format(2)
    world.keep("db", {"password": encoded(first)})
    pull = '{"auths":{"registry.example":{"auth":"' + encoded(first) + '"}}}'
    world.keep("registry", {".dockerconfigjson": encoded(pull)}, "kubernetes.io/dockerconfigjson")
    world.home.create(DEPLOYMENTS, with_secrets("store"))
    eventually(lambda: len(world.running(world.there)) == 1 == len(world.running(world.home)), WAIT_S, world.tail)
    (db,), (registry,) = world.secrets("db"), world.secrets("registry")
    assert (db["data"], db["type"]) == ({"password": encoded(first)}, "Opaque")
    assert registry["type"] == "kubernetes.io/dockerconfigjson"
    spec = world.running(world.there)[0]["spec"]
    assert spec["imagePullSecrets"] == [{"name": registry["metadata"]["name"]}]
    assert spec["containers"][0]["envFrom"] == [{"secretRef": {"name": db["metadata"]["name"]}}]

    world.home.merge(f"{SECRETS}/db", {"data": {"password": encoded(second)}})
    eventually(lambda: world.secrets("db")[0]["data"] == {"password": encoded(second)}, WAIT_S, world.tail)

    texts = [text.encode() for one in (first, second) for text in (one, encoded(one))]
    assert in_memory(os.getpid(), texts) == set(texts), "the search finds what is there"
    assert in_memory(world.dispatcher.pid, texts) == set()
    files = [one for one in world.folder.rglob("*") if one.is_file() and "fleet" not in one.parts]
    assert {"dispatcher.log", "journal.db"} <= {one.name for one in files}
    for content in (*(one.read_bytes() for one in files), world.bundle()):
        assert not [text for text in texts if text in content]

    world.home.merge(f"{SECRETS}/db", {"metadata": {"annotations": {FOLLOW: None}}})
    eventually(lambda: not world.secrets("db"), WAIT_S, world.tail)
    world.home.create(DEPLOYMENTS, with_secrets("later"))

    def told() -> bool:
        pods = [one["metadata"]["name"] for one in world.home.pods("shop")]
        later = [name for name in pods if name.startswith("later-")]
        return any(FOLLOW in text for name in later for text in world.refusals(name))

    eventually(told, WAIT_S, world.tail)
